//! The commands of the runbooks, run as they stand there against the fault that each is for.

use std::path::Path;

use system_tests::AppEnvironment;

use crate::world::{Outcome, World, run};

const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";

/// An aggregate of three events, and one that is well.
const EVENTS: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT ('0198c5a0-0000-7000-8000-00000000000' || n)::uuid, 'order', CASE n WHEN 4 THEN 'o-2' ELSE 'o-1' END, \
            'OrderPlaced', '1' FROM generate_series(1, 4) n";

/// The lines of the blocks of shell commands.
fn commands(runbook: &str) -> Outcome<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks").join(runbook);
    let text = std::fs::read_to_string(path)?;
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    Ok(blocks.flat_map(str::lines).map(|line| line.replace("$EVENT", EVENT)).collect())
}

/// Words as a shell splits them, as far as runbooks go: blanks, and single quotes around them.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts.flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect()
}

/// Runs every command; all must succeed. Returns what each wrote.
async fn follow(environment: &AppEnvironment, runbook: &str) -> Outcome<Vec<(String, String)>> {
    let mut outputs = Vec::new();
    for line in commands(runbook)? {
        let words = words(&line);
        let Some((&"app", arguments)) = words.split_first() else {
            return Err(format!("no command of app: {line}").into());
        };
        let (status, output) = run(environment, arguments).await?;
        assert!(status.success(), "{line}: {output}");
        outputs.push((line, output));
    }
    assert!(outputs.len() > 5, "the commands of the runbook are found");
    Ok(outputs)
}

/// What the first, or last, command that begins so wrote.
fn wrote<'a>(outputs: &'a [(String, String)], command: &str, last: bool) -> &'a str {
    let mut found = outputs.iter().filter(|(line, _)| line.starts_with(command));
    let found = if last { found.next_back() } else { found.next() };
    found.map_or("", |(_, output)| output)
}

/// Publishes what is due, and returns it.
async fn drain(environment: &AppEnvironment) -> Outcome<String> {
    let publishing = environment.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    let (status, output) = run(&publishing, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{output}");
    Ok(output)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_blocked_aggregate_releases_it() -> Outcome {
    let world = World::shared("blocked").await?;
    world.execute(EVENTS).await?;
    world
        .execute(
            "UPDATE outbox_event SET status = 'DEAD', attempts = 3, last_error = 'unroutable: NO_ROUTE' \
             WHERE id = '0198c5a0-0000-7000-8000-000000000001'",
        )
        .await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!(drain(&quiet).await?.matches("OrderPlaced").count(), 1, "the aggregate that is well");

    let outputs = follow(&quiet, "blocked-aggregate.md").await?;
    let blocked = wrote(&outputs, "app outbox blocked", false);
    assert!(blocked.contains(EVENT) && blocked.contains("unroutable: NO_ROUTE"), "{blocked}");
    assert!(wrote(&outputs, "app outbox show", false).contains("DEAD"));
    assert_eq!(wrote(&outputs, "app outbox requeue", false).trim(), "1 event would be requeued");
    assert_eq!(wrote(&outputs, "app outbox requeue", true).trim(), "1 event requeued");
    assert_eq!(wrote(&outputs, "app outbox blocked", true).trim(), "none");
    assert!(wrote(&outputs, "app outbox audit", true).contains("the queue is bound again"));
    let published = drain(&quiet).await?;
    assert_eq!(published.matches("OrderPlaced").count(), 3, "{published}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_poison_event_gives_it_up_and_lets_the_rest_flow() -> Outcome {
    let world = World::shared("poison").await?;
    world.execute(EVENTS).await?;
    world
        .execute(
            "UPDATE outbox_event SET status = 'DEAD', attempts = 1, last_error = 'poison: too large' \
             WHERE id = '0198c5a0-0000-7000-8000-000000000001'",
        )
        .await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");

    let outputs = follow(&quiet, "poison-event.md").await?;
    let listed = wrote(&outputs, "app outbox list", false);
    assert!(listed.contains(EVENT) && listed.contains("poison: too large"), "{listed}");
    let status = wrote(&outputs, "app outbox status", false);
    assert!(status.lines().any(|line| line.starts_with("paused") && line.contains("order, by ")), "{status}");
    assert_eq!(wrote(&outputs, "app outbox discard", false).trim(), "1 event discarded");
    assert_eq!(wrote(&outputs, "app outbox doctor", false).trim(), "none");
    let audit = wrote(&outputs, "app outbox audit", false);
    assert!(["pause", "discard", "resume"].iter().all(|action| audit.contains(action)), "{audit}");
    let published = drain(&quiet).await?;
    assert_eq!(published.matches("OrderPlaced").count(), 3, "{published}");
    assert!(!published.contains(EVENT), "{published}");
    Ok(())
}
