//! Both servers over TLS, verified by an authority of the test's own, from the append to the effect.

use test_support::tls::Authority;

use crate::world::{Outcome, World, complete_one, run};

/// Connections of `app` to this database, and those of them that are encrypted.
const CONNECTIONS: &str = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
     WHERE datname = current_database() AND application_name LIKE 'app%'";
const ENCRYPTED: &str = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
     WHERE datname = current_database() AND application_name LIKE 'app%' AND ssl";

#[tokio::test(flavor = "multi_thread")]
async fn an_event_goes_from_the_append_to_its_effect_over_tls_at_both_servers() -> Outcome {
    let identity = Authority::new()?.certify("localhost")?;
    let file = identity.authority_file()?;
    let world = World::encrypted("tls", &identity).await?;
    let process = world.verifying(file.path()).await?.serve("encrypted").await?;
    complete_one(&process, "tls").await?;
    let counts = world.until_settled().await?;
    assert_eq!((counts.events, counts.published, counts.applied), (3, 3, 3));
    world.report(None).await?.assert_clean();

    let (all, encrypted) = (world.number(CONNECTIONS).await?, world.number(ENCRYPTED).await?);
    assert!(all > 0 && all == encrypted, "{encrypted} of {all} connections to the database are encrypted");
    // The tap of the test has no name.
    let listed = world.rabbitmq().await?.ctl(&["--quiet", "list_connections", "ssl", "client_properties"]).await?;
    let named: Vec<_> = listed.lines().filter(|line| line.contains("relay") || line.contains("(consume)")).collect();
    assert!(named.len() > 1 && named.iter().all(|line| line.starts_with("true")), "{listed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_refuses_a_database_that_it_cannot_verify_and_says_what_to_set_without_the_password() -> Outcome {
    let identity = Authority::new()?.certify("localhost")?;
    let other = Authority::new()?.file()?;
    let world = World::encrypted("tls_refused", &identity).await?;
    let password = url::Url::parse(world.database_url())?.password().ok_or("a password")?.to_owned();
    let distrusting = world.verifying(other.path()).await?;
    // Without the file, which is refused where nothing is verified.
    let plain = world.environment.clone().with("APP__DATABASE__TLS__MODE", "disable");
    for (environment, words) in [
        (distrusting, ["invalid peer certificate", "database.tls.ca_file"]),
        (plain, ["no encryption", "database.tls.mode"]),
    ] {
        for command in [&["serve"][..], &["migrate"], &["outbox", "status"]] {
            let (status, output) = run(&environment, command).await?;
            assert_eq!(status.code(), Some(1), "{command:?}: {output}");
            for word in words {
                assert!(output.contains(word), "{command:?}: {word} is missing in\n{output}");
            }
            assert!(!output.contains(&password), "{command:?}: {output}");
        }
    }
    Ok(())
}
