//! The relay's use case over the real store: an aggregate with many appenders, and a clock that is wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{Database, OutboxEventRepository, PostgresUnitOfWork};
use app_bootstrap::outbox_config::OutboxConfig;
use application_core::{
    outbox::{FailureClass, HolderName, OutboxBackoffPolicy},
    ports::{Clock, NoObserver, OutboxAppendPort, OutboxMaintenancePort, ReapRequest, UnitOfWork},
    usecases::{PublishOutcome, PublishPendingOutboxEventsUseCase, PublishPolicy, StopSignal},
};
use system_tests::eventually;
use test_support::{clock::FakeClock, fixtures::new_event, in_memory::RecordingPublisher};

use super::postgres::{Postgres, settings};

const PATIENCE: Duration = Duration::from_mins(1);

fn relay(
    postgres: &Postgres,
    publisher: &RecordingPublisher,
    clock: Arc<dyn Clock>,
    policy: PublishPolicy,
) -> PublishPendingOutboxEventsUseCase {
    let publisher = Arc::new(publisher.clone());
    PublishPendingOutboxEventsUseCase::new(
        postgres.store(),
        publisher,
        clock,
        OutboxConfig::random(),
        Arc::new(NoObserver),
        policy,
    )
}

/// Case L31.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_aggregate_with_fifty_appenders_keeps_flowing_in_order_and_stops_no_other() {
    const APPENDERS: usize = 50;
    let postgres = Postgres::fresh().await;
    let publisher = RecordingPublisher::new();
    let over = Arc::new(AtomicBool::new(false));
    let mut wide = settings(postgres.url());
    wide.pool.max_connections = 60;
    wide.lock_timeout = PATIENCE;
    wide.transaction_statement_timeout = PATIENCE;
    let database = Database::connect(&wide).await.expect("a pool");
    let (work, events) = (PostgresUnitOfWork::new(database.clone()), OutboxEventRepository::new(database));
    let append = move |aggregate: &'static str| {
        let (work, events) = (work.clone(), events.clone());
        async move {
            let mut tx = work.begin().await.expect("begun");
            events.append(&mut tx, &[new_event(aggregate).build()]).await.expect("appended");
            work.commit(tx).await.expect("committed");
        }
    };
    let mut tasks = Vec::new();
    for _ in 0..APPENDERS {
        let (append, over) = (append.clone(), Arc::clone(&over));
        tasks.push(tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                append("hot").await;
            }
        }));
    }
    let relay = relay(&postgres, &publisher, OutboxConfig::clock(), PublishPolicy::of(HolderName::new("relay-1")));
    tasks.push(tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            while !over.load(Ordering::Relaxed) {
                relay.run_once(&StopSignal::new()).await.expect("a round");
                tokio::task::yield_now().await;
            }
        }
    }));
    let sent_of = |aggregate: &str| publisher.sent().iter().filter(|e| e.aggregate_id.as_str() == aggregate).count();
    for n in 1..=10 {
        append("cold").await;
        let flows = || async { (sent_of("cold") >= n && sent_of("hot") >= 20 * n).then_some(()) };
        eventually("events of both aggregates are sent while the appenders go on", PATIENCE, flows)
            .await
            .expect("they flow");
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("ended");
    }
    let hot: Vec<i64> =
        publisher.sent().iter().filter(|e| e.aggregate_id.as_str() == "hot").map(|e| e.sequence.0).collect();
    assert!(hot.is_sorted_by(|a, b| a < b), "{hot:?}");
}

/// Case Y56: a process's time of day decides nothing.
#[tokio::test]
async fn a_relay_whose_time_of_day_is_five_minutes_off_claims_retries_and_keeps_its_leases_as_any_other() {
    for minutes in [-5, 5] {
        let postgres = Postgres::fresh().await;
        let publisher = RecordingPublisher::new();
        let now = OutboxConfig::clock().now() + time::Duration::minutes(minutes);
        let minute = Duration::from_mins(1);
        let policy = PublishPolicy {
            lease: Duration::from_mins(2),
            backoff: OutboxBackoffPolicy::try_new(minute, minute, minute, 3).expect("valid"),
            ..PublishPolicy::of(HolderName::new("relay-1"))
        };
        let relay = relay(&postgres, &publisher, Arc::new(FakeClock::at(now)), policy);
        let event = new_event("a").build();
        publisher.refuse_next(event.id(), FailureClass::Rejected);
        postgres.append_all(&[event]).await;
        let worked = |claimed, confirmed| PublishOutcome::Worked { claimed, confirmed, postponed: 0 };
        assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), worked(1, 0));
        assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), PublishOutcome::Idle, "not due yet");
        // The minute of its wait, by the database's clock.
        postgres.advance(minute).await;
        assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), worked(1, 1));

        // A lease of another process, which has not run out, and then has.
        postgres.append_all(&[new_event("b").build()]).await;
        assert_eq!(postgres.claim().await.1.len(), 1);
        let reap = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: vec![] };
        assert_eq!(postgres.maintenance().reap(&reap).await.expect("reaped").claims, 0);
        assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), PublishOutcome::Idle, "leased");
        postgres.advance(minute * 2).await;
        assert_eq!(postgres.maintenance().reap(&reap).await.expect("reaped").claims, 1);
        assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), worked(1, 1));
    }
}
