//! What operators do to many events, and what they see of it afterwards.

use rustix::process::Signal;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use system_tests::{AppEnvironment, eventually};

use crate::{
    operations::{DEAD, DIE},
    world::{Outcome, PATIENCE, World, run},
};

const ONE: &str = "0198c5a0-0000-7000-8000-000000000001";
const TWO: &str = "0198c5a0-0000-7000-8000-000000000002";
const FOUR: &str = "0198c5a0-0000-7000-8000-000000000004";

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_which_history_is_gone_is_refused_and_one_without_a_beginning_tells_of_it() -> Outcome {
    const LONG_AGO: &str = "UPDATE outbox_event SET published_at = published_at - interval '40 days' \
         WHERE aggregate_id < 'o-4'";
    const BEFORE_THEM: &str = "SELECT to_char((statement_timestamp() - interval '50 days') AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    const BEHIND_THEM: &str = "SELECT to_char((statement_timestamp() - interval '30 days') AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    let world = World::shared("gone").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let publishing = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    assert_eq!(world.number(DEAD).await?, 5);
    assert!(run(&publishing, &["relay", "--until-drained"]).await?.0.success());
    world.execute(LONG_AGO).await?;
    let (before, after) = (world.text(BEFORE_THEM).await?, world.text(BEHIND_THEM).await?);
    let replay = async |arguments: &[&str]| run(&quiet, &[&["outbox", "replay"], arguments].concat()).await;

    let (status, whole) = replay(&["--published-from", &before, "--dry-run"]).await?;
    assert!(status.success() && whole.trim() == "5 events would be replayed", "{whole}");
    let (status, purged) = run(&quiet, &["outbox", "purge", "--older-than", "30days"]).await?;
    assert!(status.success() && purged.trim() == "3 events purged", "{purged}");
    for range in [&["--published-from", before.as_str()][..], &["--published-until", &before]] {
        for dry_run in [&["--dry-run"][..], &[]] {
            let (status, refused) = replay(&[range, dry_run].concat()).await?;
            assert_eq!(status.code(), Some(1), "{range:?} {dry_run:?}: {refused}");
            assert!(refused.contains("published events are gone until 2"), "{range:?} {dry_run:?}: {refused}");
        }
    }
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE replays > 0").await?, 0);

    let (status, rest) = replay(&["--aggregate-type", "order", "--dry-run"]).await?;
    assert!(
        status.success() && rest.starts_with("2 events would be replayed\npublished events are gone until"),
        "{rest}"
    );
    let (_, json) = replay(&["--aggregate-type", "order", "--dry-run", "--json"]).await?;
    assert!(json.contains(r#""events":2,"historyGoneUntil":"2"#), "{json}");
    let (status, done) = replay(&["--published-from", &after]).await?;
    assert!(status.success() && done.trim() == "2 events replayed", "{done}");

    let deleting = quiet.with("APP__OUTBOX__RETENTION__ON_PUBLISH", "delete");
    let (status, refused) = run(&deleting, &["outbox", "replay", "--aggregate-type", "order"]).await?;
    assert_eq!(status.code(), Some(1), "{refused}");
    assert!(refused.contains("deletes events when they are published"), "{refused}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_operators_have_done_to_an_event_is_shown_with_it_and_to_no_reader() -> Outcome {
    let world = World::shared("life").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    let says = async |environment: &AppEnvironment, arguments: &[&str]| -> Outcome<String> {
        let (status, output) = run(environment, &[&["outbox"], arguments].concat()).await?;
        assert!(status.success(), "{arguments:?}: {output}");
        Ok(output)
    };
    let untouched = says(&quiet, &["show", ONE]).await?;
    assert!(untouched.trim_end().ends_with("audit, newest first\nnone"), "{untouched}");
    says(&quiet, &["requeue", "--aggregate-type", "order", "--by", "ada", "--reason", "once more"]).await?;
    assert_eq!(world.number(DIE).await?, 5);
    says(&quiet, &["discard", ONE, "--by", "zoe", "--reason", "given up"]).await?;

    let shown = says(&quiet, &["show", ONE]).await?;
    let (_, record) = shown.split_once("audit, newest first\n").ok_or("the record")?;
    let record: Vec<&str> = record.lines().collect();
    assert!(matches!(record[..], [_, last, first] if last.contains("given up") && first.contains("ada")), "{shown}");
    let json: Value = serde_json::from_str(&says(&quiet, &["show", ONE, "--json"]).await?)?;
    let entry = |n: usize, field: &str| json["audit"][n][field].clone();
    assert_eq!(
        (entry(0, "action"), entry(0, "reason"), entry(0, "affected")),
        ("discard".into(), "given up".into(), Value::from(1))
    );
    assert_eq!(
        (entry(1, "action"), entry(1, "operator"), entry(1, "affected")),
        ("requeue".into(), "ada".into(), Value::from(5))
    );
    assert_eq!(json["audit"].as_array().map(Vec::len), Some(2), "{json}");

    let of_one: Value = serde_json::from_str(&says(&quiet, &["audit", "--event", ONE, "--json"]).await?)?;
    let of_two: Value = serde_json::from_str(&says(&quiet, &["audit", "--event", TWO, "--json"]).await?)?;
    let count = |entries: &Value| entries.as_array().map(Vec::len);
    assert_eq!((count(&of_one), count(&of_two)), (Some(2), Some(1)), "{of_one} {of_two}");
    let both = ["outbox", "audit", "--event", ONE, "--before", "7"];
    assert_eq!(run(&quiet, &both).await?.0.code(), Some(2));

    let reader = quiet.with("DATABASE_URL", &world.url_of_a_member("reader", &["reader"]).await?);
    let shown = says(&reader, &["show", ONE]).await?;
    assert!(shown.contains("DEAD") && shown.contains("for operators to see") && !shown.contains("zoe"), "{shown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_events_of_a_class_are_discarded_after_a_dry_run_and_lists_and_audit_go_on_page_by_page() -> Outcome {
    let world = World::shared("pages").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    let says = async |arguments: &[&str]| -> Outcome<String> {
        let (status, output) = run(&quiet, &[&["outbox"], arguments].concat()).await?;
        assert!(status.success(), "{arguments:?}: {output}");
        Ok(output.trim().to_owned())
    };
    let field = async |arguments: &[&str], field: &str| -> Outcome<Vec<Value>> {
        let rows: Vec<Value> = serde_json::from_str(&says(arguments).await?)?;
        Ok(rows.iter().map(|row| row[field].clone()).collect())
    };
    let discard = ["discard", "--class", "poison", "--batch", "2"];
    let left = "SELECT count(*) FROM outbox_event WHERE status = 'DEAD' AND resolved_at IS NULL";
    assert_eq!(says(&[&discard[..], &["--dry-run"]].concat()).await?, "3 events would be discarded");
    assert_eq!(world.number(left).await?, 5, "a dry run changes nothing");
    assert_eq!(says(&discard).await?, "3 events discarded");
    assert_eq!(says(&discard).await?, "0 events discarded");
    assert_eq!(world.number(left).await?, 2, "those that were rejected");

    let (mut pages, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut page = vec!["list", "--status", "dead", "--limit", "2", "--json"];
        if let Some(last) = &after {
            page.extend(["--after", last.as_str()]);
        }
        let ids = field(&page, "id").await?;
        let Some(last) = ids.last().and_then(Value::as_str) else { break };
        after = Some(last.to_owned());
        pages.push(ids.len());
    }
    assert_eq!(pages, [2, 2, 1]);
    assert_eq!(after.as_deref(), Some("0198c5a0-0000-7000-8000-000000000005"));

    let numbers = field(&["audit", "--limit", "1", "--json"], "number").await?;
    let newest = numbers.first().map(Value::to_string).ok_or("an entry")?;
    let before = ["audit", "--before", newest.as_str(), "--json"];
    assert_eq!(field(&before, "affected").await?, [Value::from(2)], "the batch before");
    let first = field(&before, "number").await?.first().map(Value::to_string).ok_or("an entry")?;
    assert_eq!(says(&["audit", "--before", &first]).await?, "none");
    Ok(())
}

/// Runs a command that makes batches, and interrupts it while a batch is under way: every change leaves a record, and the
/// table of these is locked until the signal has been heard. Returns how the command ended and what it said.
async fn interrupted(world: &World, name: &str, arguments: &[&str]) -> Outcome<(Option<i32>, String)> {
    const WAITING: &str = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE d.datname = current_database() AND l.relation = 'outbox_audit'::regclass AND NOT l.granted";
    let said = tempfile::NamedTempFile::new()?;
    let patient = world.environment.clone().with_stdout_to(said.path());
    let patient = patient.with("APP__DATABASE__STATEMENT_TIMEOUT", "10m").with("APP__DATABASE__LOCK_TIMEOUT", "10m");
    let mut lock = PgConnection::connect(world.database_url()).await?;
    sqlx::raw_sql("BEGIN; LOCK TABLE outbox_audit IN EXCLUSIVE MODE").execute(&mut lock).await?;
    let nowhere = "127.0.0.1:9".parse()?;
    let mut command = patient.spawn(name, arguments, nowhere, nowhere)?;
    let under_way = || async { (world.number(WAITING).await.ok()? == 1).then_some(()) };
    eventually("a batch under way", PATIENCE, under_way).await?;
    command.signal(Signal::INT)?;
    let heard = || async { command.log().contains("what is in flight is finished").then_some(()) };
    eventually("the signal heard", PATIENCE, heard).await?;
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await?;
    let code = command.ended(PATIENCE).await?.code();
    Ok((code, std::fs::read_to_string(said.path())?.trim().to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_many_events_that_is_interrupted_ends_after_its_batch_with_130_and_goes_on_when_repeated()
-> Outcome {
    const SAFE: &str = "interrupted, it is safe to run the same command again: it goes on";
    const REPLAYED: &str = "SELECT count(*) FROM outbox_event WHERE replays = 1";
    let world = World::shared("interrupted").await?;
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");
    let publishing = quiet.clone().with("APP__OUTBOUND__PUBLISHER", "stdout");
    assert_eq!((world.number(DEAD).await?, world.number(DIE).await?), (5, 5));
    let again = async |arguments: &[&str], said: &str| -> Outcome {
        let (status, output) = run(&quiet, arguments).await?;
        assert!(status.success() && output.trim() == said, "{arguments:?}: {output}");
        Ok(())
    };

    let requeue = ["outbox", "requeue", "--all", "--batch", "2"];
    assert_eq!(interrupted(&world, "requeue", &requeue).await?, (Some(130), format!("2 events requeued; {SAFE}")));
    again(&requeue, "3 events requeued").await?;

    assert!(run(&publishing, &["relay", "--until-drained"]).await?.0.success());
    let replay = ["outbox", "replay", "--aggregate-type", "order", "--batch", "2"];
    let json = [&replay[..], &["--json"]].concat();
    let said = format!(r#"{{"action":"replay","dryRun":false,"events":2,"interrupted":true,"next":"{TWO}"}}"#);
    assert_eq!(interrupted(&world, "replay-json", &json).await?, (Some(130), said));
    let behind = [&replay[..], &["--after", TWO]].concat();
    let said = format!("2 events replayed; interrupted, the same command goes on with --after {FOUR}");
    assert_eq!(interrupted(&world, "replay", &behind).await?, (Some(130), said));
    again(&[&replay[..], &["--after", FOUR]].concat(), "1 event replayed").await?;
    assert_eq!(world.number(REPLAYED).await?, 5, "each was sent again once");

    assert!(run(&publishing, &["relay", "--until-drained"]).await?.0.success());
    let purge = ["outbox", "purge", "--older-than", "0s", "--batch", "2"];
    assert_eq!(interrupted(&world, "purge", &purge).await?, (Some(130), format!("2 events purged; {SAFE}")));
    again(&[&purge[..], &["--json"]].concat(), r#"{"action":"purge","dryRun":false,"events":3,"interrupted":false}"#)
        .await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event").await?, 0);
    Ok(())
}
