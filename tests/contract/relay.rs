//! The relay's use case over the real store: aggregates that are blocked or held, many appenders, and a clock that is wrong.

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
    outbox::{FailureClass, HolderName, NewOutboxEvent, OutboxBackoffPolicy},
    ports::{
        Clock, NoObserver, OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort, OutboxStatisticsPort,
        ReapRequest, UnitOfWork,
    },
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

/// Case O8.
#[tokio::test]
async fn three_blocked_aggregates_among_ten_thousand_healthy_ones_are_listed_and_cost_no_round() {
    const HEALTHY: usize = 10_000;
    let postgres = Postgres::fresh().await;
    let publisher = RecordingPublisher::new();
    let policy = PublishPolicy::of(HolderName::new("relay-1"));
    let batch = usize::try_from(policy.max_events).expect("few");
    // Its time stands still: no overdue lane is looked for.
    let relay = relay(&postgres, &publisher, Arc::new(FakeClock::default()), policy);
    let one_each = |kind: &str, count: usize| -> Vec<NewOutboxEvent> {
        (0..count).map(|n| new_event(format!("{kind}{n}")).build()).collect()
    };
    let (heads, behind) = (one_each("blocked", 3), one_each("blocked", 3));
    for head in &heads {
        publisher.refuse_next(head.id(), FailureClass::Poison);
    }
    postgres.append_all(&heads).await;
    postgres.append_all(&behind).await;
    for events in one_each("healthy", HEALTHY).chunks(1_000) {
        postgres.append_all(events).await;
    }
    let mut rounds = 0;
    while relay.run_once(&StopSignal::new()).await.expect("a round") != PublishOutcome::Idle {
        rounds += 1;
        assert!(rounds <= HEALTHY / batch + 2, "{rounds} rounds, and more to come");
    }
    assert_eq!(publisher.sent().len(), HEALTHY + 3, "nothing behind a blocked head");

    let operations = postgres.operations();
    let blocked = operations.blocked(10).await.expect("read");
    assert_eq!(
        blocked.iter().map(|aggregate| (aggregate.head, aggregate.depth)).collect::<Vec<_>>(),
        heads.iter().map(|head| (head.id(), 2)).collect::<Vec<_>>()
    );
    assert_eq!(operations.statistics().await.expect("read").blocked_aggregates, 3);
    postgres.append_all(&one_each("later", 100)).await;
    let outcome = relay.run_once(&StopSignal::new()).await.expect("a round");
    assert_eq!(outcome, PublishOutcome::Worked { claimed: 100, confirmed: 100, postponed: 0 });
}

/// Case L32, for as many rounds of the relay as take a while.
#[tokio::test]
async fn a_transaction_that_stays_open_after_its_append_waits_for_no_relay_and_holds_up_no_other_aggregate() {
    const ROUNDS: usize = 10;
    let postgres = Postgres::fresh().await;
    let publisher = RecordingPublisher::new();
    let policy = PublishPolicy::of(HolderName::new("relay-1"));
    let relay = Arc::new(relay(&postgres, &publisher, OutboxConfig::clock(), policy));
    let round = || {
        let relay = Arc::clone(&relay);
        async move { relay.run_once(&StopSignal::new()).await.expect("a round") }
    };
    let worked = |postponed| PublishOutcome::Worked { claimed: 1, confirmed: 1, postponed };

    let confirms = publisher.hold_confirms();
    postgres.append_all(&[new_event("held").build()]).await;
    let first = tokio::spawn(round());
    publisher.wait_until_sent(1).await;
    // The aggregate is leased, and its event is on its way.
    let (work, events) = (postgres.unit_of_work(), postgres.append());
    let mut open = work.begin().await.expect("begun");
    events.append(&mut open, &[new_event("held").build()]).await.expect("appended");
    confirms.release_all();
    assert_eq!(first.await.expect("ended"), worked(1), "settled at once, and freed later");
    for n in 0..ROUNDS {
        postgres.append_all(&[new_event(format!("free{n}")).build()]).await;
        assert_eq!(round().await, worked(1), "round {n}");
    }
    work.commit(open).await.expect("committed");
    assert_eq!(round().await, worked(0), "what was appended is sent");
    assert_eq!(publisher.confirmed_ids().len(), ROUNDS + 2);
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
