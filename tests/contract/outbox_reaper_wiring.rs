//! The reaper as the bootstrap puts it together, over a real database.

use std::time::Duration;

use app_bootstrap::{outbox_config::OutboxConfig, settings::Settings, wakeup::RelayWakeup};
use application_core::{
    outbox::OutboxEventStatus,
    ports::{OutboxOperationsPort, ReapReport},
};
use test_support::fixtures::Events;

use super::postgres::Postgres;

#[tokio::test]
async fn the_reaper_of_the_bootstrap_returns_an_expired_lease() {
    let postgres = Postgres::fresh().await;
    let events = Events::new().many_of("a", 2);
    postgres.append_all(&events).await;
    let set = Settings::default();
    let reaper = OutboxConfig::new(&set, postgres.database.clone(), RelayWakeup::local()).reaper();
    postgres.claim().await;
    assert_eq!(reaper.run_once().await.expect("reaped"), ReapReport::default(), "a lease that runs is left alone");
    postgres.advance(Duration::from_mins(2)).await;
    let report = reaper.run_once().await.expect("reaped");
    assert_eq!(report, ReapReport { claims: 1, lanes: 1, postponed: 0, dead: 0 });
    for event in &events {
        let state = postgres.operations().find(event.id()).await.expect("looked for").expect("found");
        assert_eq!((state.status, state.attempts), (OutboxEventStatus::Pending, 0));
    }
    let (_, runs) = postgres.claim().await;
    assert_eq!(runs.iter().map(|run| run.events.len()).sum::<usize>(), 2, "another relay gets them");
}

#[tokio::test]
async fn the_settings_decide_when_a_head_that_outlives_its_leases_goes_dead() {
    let postgres = Postgres::fresh().await;
    let events = Events::new().many_of("a", 1);
    postgres.append_all(&events).await;
    let mut set = Settings::default();
    set.outbox.reaper.dead_after_expiries = 2;
    let reaper = OutboxConfig::new(&set, postgres.database.clone(), RelayWakeup::local()).reaper();
    let mut dead = Vec::new();
    for _ in 0..2 {
        let (_, runs) = postgres.claim().await;
        assert_eq!(runs.len(), 1);
        postgres.advance(Duration::from_mins(2)).await;
        dead.push(reaper.run_once().await.expect("reaped").dead);
    }
    assert_eq!(dead, [0, 1]);
    let state = postgres.operations().find(events[0].id()).await.expect("looked for").expect("found");
    assert_eq!(state.status, OutboxEventStatus::Dead);
}
