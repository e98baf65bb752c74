//! What operators do to many events, and what they see of it afterwards.

use crate::{
    operations::DEAD,
    world::{Outcome, World, run},
};

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
