//! `database-slow.md`.

use sqlx::{Connection, Executor, PgConnection, Row};

use super::{EVENTS, Reader, drain};
use crate::world::{Outcome, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_slow_database_finds_what_holds_it_up_and_ends_it() -> Outcome {
    let world = World::shared("slow").await?;
    world.execute(EVENTS).await?;
    world.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_lane_due'::regclass").await?;
    world.execute("ALTER TABLE outbox_lane SET (autovacuum_enabled = off)").await?;
    let mut forgotten = PgConnection::connect(world.database_url()).await?;
    forgotten.execute("SET application_name = 'a-forgotten-report'").await?;
    forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    let pid: i32 = forgotten.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)?;

    let mut reader = Reader::opens("database-slow.md", &world)?.knows("PID", pid.to_string());
    reader.follow("1").await?;
    let found = reader.wrote("app outbox doctor");
    for cure in ["REINDEX INDEX CONCURRENTLY outbox_lane_due", "ALTER TABLE outbox_lane RESET (autovacuum_enabled)"] {
        assert!(found.contains(cure), "{cure} in {found}");
    }
    let sessions = reader.wrote("SELECT pid");
    assert!(
        sessions.lines().any(|line| line.starts_with(&pid.to_string()) && line.contains("a-forgotten-report")),
        "{sessions}"
    );
    reader.follow("2").await?;
    assert!(forgotten.fetch_one("SELECT 1").await.is_err(), "its session was ended");
    reader.follow("3").await?;
    reader.closes();
    assert_eq!(drain(&world).await?.matches("OrderPlaced").count(), 4);
    Ok(())
}
