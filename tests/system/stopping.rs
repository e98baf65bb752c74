//! How processes end: by a signal, by a second one, or because their work is done (rule R25).

use std::time::Duration;

use rustix::process::Signal;
use system_tests::{AppEnvironment, AppProcess, eventually};
use test_support::checker::DuplicateReason;
use tokio::net::TcpListener;

use crate::world::{Outcome, PATIENCE, World, complete_one, load, run};

const LEASES: &str = "SELECT count(*) FROM outbox_claim WHERE holder LIKE 'relay-%'";
const END_LEASES: &str =
    "UPDATE outbox_claim SET lease_expires_at = statement_timestamp() - interval '1 s' WHERE holder LIKE 'relay-%'";

/// The exit code of a process that did not drain.
const NOT_DRAINED: Option<i32> = Some(70);

/// Case S61.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_and_exits_zero_under_load() -> Outcome {
    let world = World::shared("sigterm").await?;
    // Neither a lease nor a confirm runs out on a slow machine: what is published twice was published twice by the stop.
    let patient = world.environment.clone().with("APP__OUTBOX__RELAY__LEASE", "1m");
    let patient = patient.with("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "20s");
    let (mut first, second) = (patient.serve("relay-1").await?, patient.serve("relay-2").await?);
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;

    first.signal(Signal::TERM)?;
    let status = first.ended(PATIENCE).await?;
    assert!(status.success(), "{status}\n{}", first.log());
    assert_eq!(world.tally().await?.held_by("relay-1").await?, 0, "a lease was left behind");
    load.turn_to(&[&second]);

    world.until_published_more(30).await?;
    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!(counts.events, work_logs * 3);
    world.report(None).await?.assert_clean();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_or_a_frozen_database_does_not_hold_the_process() -> Outcome {
    let world = World::alone("frozen").await?;
    let patient = world.environment.clone().with("APP__DATABASE__STATEMENT_TIMEOUT", "10m");
    let mut short_grace = patient.clone().with("APP__SERVICE__GRACE", "5s").serve("short-grace").await?;
    let mut long_grace = patient.with("APP__SERVICE__GRACE", "10m").serve("long-grace").await?;
    let load = load(&[&short_grace, &long_grace]);
    world.until_published_more(30).await?;
    let postgres = world.postgres().await?;
    postgres.pause().await?;

    // Without its grace period, a statement would hold this one for ten minutes.
    short_grace.signal(Signal::TERM)?;
    assert_eq!(short_grace.ended(PATIENCE).await?.code(), NOT_DRAINED, "{}", short_grace.log());

    // Grace and statement would hold this one for ten minutes.
    long_grace.signal(Signal::TERM)?;
    until_logged(&long_grace, "a second signal exits at once").await?;
    long_grace.signal(Signal::TERM)?;
    assert_eq!(long_grace.ended(PATIENCE).await?.code(), NOT_DRAINED, "{}", long_grace.log());

    drop(load);
    postgres.resume().await?;
    let _next = world.serve("next").await?;
    world.until_settled().await?;
    world.report(Some(DuplicateReason::RelayKilled)).await?.assert_clean();
    Ok(())
}

/// Case S62, with the broker frozen, and then with the database frozen too.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_broker_alone_or_with_the_database_does_not_hold_the_process_beyond_its_grace() -> Outcome {
    /// Far longer than the grace period, and shorter than a confirm, a silent connection and a statement may last.
    const SOON: Duration = Duration::from_mins(1);
    let world = World::alone("both_frozen").await?;
    let settings = [
        ("SERVICE__GRACE", "5s"),
        ("OUTBOX__RELAY__LEASE", "30m"),
        ("OUTBOUND__AMQP__CONFIRM_TIMEOUT", "10m"),
        ("OUTBOUND__AMQP__HEARTBEAT", "10m"),
        ("DATABASE__STATEMENT_TIMEOUT", "10m"),
    ];
    let environment = settings
        .iter()
        .fold(world.environment.clone(), |environment, (name, value)| environment.with(&format!("APP__{name}"), value));
    let (mut first, mut second) = (environment.serve("relay-1").await?, environment.serve("relay-2").await?);
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;
    let (rabbitmq, postgres) = (world.rabbitmq().await?, world.postgres().await?);

    rabbitmq.pause().await?;
    first.signal(Signal::TERM)?;
    let code = first.ended(SOON).await?.code();
    assert!(code == Some(0) || code == NOT_DRAINED, "{code:?}\n{}", first.log());
    postgres.pause().await?;
    second.signal(Signal::TERM)?;
    assert_eq!(second.ended(SOON).await?.code(), NOT_DRAINED, "{}", second.log());

    drop(load);
    postgres.resume().await?;
    rabbitmq.resume().await?;
    let _next = world.serve("next").await?;
    // Their leases would last for half an hour.
    let returned = || async {
        world.execute(END_LEASES).await.ok()?;
        (world.number(LEASES).await.ok()? == 0).then_some(())
    };
    eventually("the leases of the processes that ended returned", PATIENCE, returned).await?;
    world.until_settled().await?;
    world.report(Some(DuplicateReason::RelayKilled)).await?.assert_clean();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_until_drained_exits_zero_once_nothing_is_due() -> Outcome {
    let world = World::shared("drained").await?;
    let mut disabled = world.environment_without_publisher().serve("disabled").await?;
    for key in ["one", "two", "three"] {
        complete_one(&disabled, key).await?;
    }
    disabled.signal(Signal::TERM)?;
    assert!(disabled.ended(PATIENCE).await?.success());
    assert_eq!(world.counts().await?.published, 0);

    let (status, output) = run(&world.environment, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{status}\n{output}");
    let counts = world.counts().await?;
    assert_eq!((counts.events, counts.published), (9, 9));
    assert_eq!(world.tally().await?.leftovers().await?, (0, 0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_until_drained_names_a_broker_that_cannot_be_reached() -> Outcome {
    let world = World::shared("no_broker").await?;
    let nowhere = world.environment.clone().with("AMQP_URL", "amqp://somebody:hidden@127.0.0.1:9/nowhere");
    let (status, output) = run(&nowhere, &["relay", "--until-drained"]).await?;
    assert!(!status.success(), "{output}");
    assert!(output.contains("the broker cannot be used"), "{output}");
    assert!(output.contains("AMQP_URL"), "{output}");
    assert!(!output.contains("hidden"), "{output}");
    Ok(())
}

/// How each long command ends at SIGTERM once it has connected to a server that takes connections and says nothing; the
/// server's address goes into the environment.
async fn codes_after_sigterm(environment: impl Fn(&str) -> AppEnvironment) -> Outcome<[Option<i32>; 3]> {
    let commands: [&[&str]; 3] = [&["serve"], &["relay"], &["relay", "--until-drained"]];
    let (free, mut codes) = ("127.0.0.1:0", [None; 3]);
    for (arguments, code) in commands.into_iter().zip(&mut codes) {
        // One for each: what a process before has begun is not taken for the start of the next.
        let silent = TcpListener::bind(free).await?;
        let environment = environment(&silent.local_addr()?.to_string())
            .with("APP__HTTP__LISTEN", free)
            .with("APP__OPERATIONS__HEALTH_LISTEN", free)
            .with("APP__OPERATIONS__OPS_LISTEN", free);
        let mut process = environment.spawn(&arguments.concat(), arguments, free.parse()?, free.parse()?)?;
        let (_held, _) = tokio::time::timeout(PATIENCE, silent.accept()).await??;
        process.signal(Signal::TERM)?;
        *code = process.ended(PATIENCE).await?.code();
    }
    Ok(codes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_a_connection_and_stays_silent_does_not_hold_a_start_that_is_stopped() -> Outcome {
    let directory = tempfile::tempdir()?;
    // Without the signal, the start would end as well, but later and with another code.
    let environment = |address: &str| {
        AppEnvironment::new(directory.path(), &format!("postgres://somebody@{address}/nowhere"), None)
            .with("APP__DATABASE__POOL__ACQUIRE_TIMEOUT", "1m")
    };
    assert_eq!(codes_after_sigterm(environment).await?, [Some(0), Some(0), NOT_DRAINED]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_takes_a_connection_and_stays_silent_does_not_hold_a_process_that_is_stopped() -> Outcome {
    let world = World::shared("silent_broker").await?;
    let environment = |address: &str| {
        let environment = world.environment.clone();
        environment
            .with("AMQP_URL", &format!("amqp://somebody:hidden@{address}/nowhere"))
            .with("APP__OUTBOUND__AMQP__CONNECT_TIMEOUT", "10m")
            .with("APP__CONSUMER__CONNECT_TIMEOUT", "5m")
            .with("APP__SERVICE__GRACE", "10m")
    };
    assert_eq!(codes_after_sigterm(environment).await?, [Some(0), Some(0), NOT_DRAINED]);
    Ok(())
}

async fn until_logged(process: &AppProcess, text: &str) -> Outcome {
    let logged = || async { process.log().contains(text).then_some(()) };
    Ok(eventually("a line in the log", PATIENCE, logged).await?)
}
