//! Relays need no leader: they pass each other's locks. Maintenance has one.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use adapter_persistence_postgres::Database;
use app_bootstrap::{outbox_config::OutboxConfig, settings::Settings, wakeup::RelayWakeup};
use application_core::{
    outbox::{EventId, HolderName, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort, NoObserver},
    usecases::{PublishOutcome, PublishPendingOutboxEventsUseCase, PublishPolicy, StopSignal},
};
use async_trait::async_trait;
use system_tests::eventually;
use test_support::fixtures::Events;
use tokio::task::{JoinHandle, yield_now};
use tokio_util::sync::CancellationToken;

use super::postgres::{Postgres, settings};

const PATIENCE: Duration = Duration::from_mins(1);

/// A broker that remembers what is being sent and what was confirmed, for all relays.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    being_sent: HashSet<EventId>,
    twice_at_once: Vec<EventId>,
    confirmed: Vec<(String, i64)>,
}

impl Witness {
    fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl MessagePublishPort for Witness {
    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn destination(&self, _: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new("witness"))
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        self.see(|seen| {
            if !seen.being_sent.insert(event.id) {
                seen.twice_at_once.push(event.id);
            }
        });
        // Others get their turns while this one is on its way.
        for _ in 0..20 {
            yield_now().await;
        }
        self.see(|seen| {
            seen.being_sent.remove(&event.id);
            seen.confirmed.push((event.aggregate_id.as_str().to_owned(), event.sequence.0));
        });
        Ok(())
    }
}

fn relay(postgres: &Postgres, witness: &Witness, name: &str) -> PublishPendingOutboxEventsUseCase {
    let policy = PublishPolicy { max_events: 15, min_lanes: 3, max_run: 4, ..PublishPolicy::of(HolderName::new(name)) };
    PublishPendingOutboxEventsUseCase::new(
        postgres.store(),
        Arc::new(witness.clone()),
        OutboxConfig::clock(),
        OutboxConfig::random(),
        Arc::new(NoObserver),
        policy,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn relays_side_by_side_never_hold_one_event_at_once_and_publish_each_aggregate_in_order() {
    let postgres = Postgres::fresh().await;
    let witness = Witness::default();
    let relays: Vec<_> = (0..4)
        .map(|n| {
            let relay = relay(&postgres, &witness, &format!("relay-{n}"));
            let witness = witness.clone();
            tokio::spawn(async move {
                while witness.see(|seen| seen.confirmed.len()) < 300 {
                    relay.run_once(&StopSignal::new()).await.expect("a round");
                }
                // What was confirmed last is settled by whoever claimed it; lanes it had to leave are freed.
                while relay.run_once(&StopSignal::new()).await.expect("a round") != PublishOutcome::Idle {}
            })
        })
        .collect();
    // Appends go on while the relays work.
    let series = Events::new();
    for round in 0..30 {
        let events: Vec<_> = (0..10).map(|n| series.of(format!("a{}", (round + n) % 12)).build()).collect();
        postgres.append_all(&events).await;
    }
    for relay in relays {
        tokio::time::timeout(Duration::from_mins(1), relay).await.expect("in time").expect("the relay ends");
    }
    let (twice, confirmed) = witness.see(|seen| (seen.twice_at_once.clone(), seen.confirmed.clone()));
    assert_eq!(twice, []);
    let mut orders: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (aggregate, sequence) in confirmed {
        orders.entry(aggregate).or_default().push(sequence);
    }
    assert_eq!(orders.values().map(Vec::len).sum::<usize>(), 300, "no lease ran out, so nothing was sent again");
    for (aggregate, order) in orders {
        assert!(order.is_sorted(), "{aggregate}: {order:?}");
    }
}

/// Instance and term of whoever leads.
async fn leaders(postgres: &Postgres) -> Vec<String> {
    let query = "SELECT split_part(holder, '#', 1) || ' ' || term FROM outbox_leader \
                  WHERE expires_at > statement_timestamp()";
    postgres.sql().await.column(query).await
}

/// A process that stands for election until it is told to stop.
async fn stand(name: &str, url: &str) -> (CancellationToken, JoinHandle<()>) {
    let mut set = Settings { database: settings(url), ..Settings::default() };
    name.clone_into(&mut set.service.instance);
    set.outbox.leader.lease = Duration::from_secs(3);
    let database = Database::connect(&set.database).await.expect("a pool");
    let leader = OutboxConfig::new(&set, database, RelayWakeup::local()).maintenance_leader();
    let cancel = CancellationToken::new();
    (cancel.clone(), tokio::spawn(leader.run(cancel)))
}

async fn until_led_by(postgres: &Postgres, leader: &str) {
    let led = eventually(leader, PATIENCE, async || (leaders(postgres).await == [leader]).then_some(()));
    led.await.expect("it leads");
}

/// Holder, term and end of the lease, as they were seen until the third renewal. Renewals come as often as the other
/// process asks: by the third it has asked.
async fn seen_over_three_renewals(postgres: &Postgres) -> BTreeSet<String> {
    let terms = Mutex::new(BTreeSet::new());
    let query = "SELECT holder || ' ' || term || ' ' || expires_at FROM outbox_leader";
    let renewed = eventually("three renewals", PATIENCE, async || {
        let seen = postgres.sql().await.column::<String>(query).await;
        let mut terms = terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.extend(seen);
        (terms.len() > 3).then_some(())
    });
    renewed.await.expect("it renews its term");
    terms.into_inner().unwrap_or_else(PoisonError::into_inner)
}

async fn stop((cancel, process): (CancellationToken, JoinHandle<()>)) {
    cancel.cancel();
    tokio::time::timeout(PATIENCE, process).await.expect("in time").expect("it ends");
}

#[tokio::test]
async fn one_process_leads_maintenance_and_another_takes_over_when_it_stops() {
    let postgres = Postgres::fresh().await;
    let first = stand("one", postgres.url()).await;
    until_led_by(&postgres, "one 1").await;
    let second = stand("two", postgres.url()).await;
    let terms = seen_over_three_renewals(&postgres).await;
    assert!(terms.iter().all(|term| term.starts_with("one#")), "the second process lets it: {terms:?}");
    stop(first).await;
    until_led_by(&postgres, "two 2").await;
    stop(second).await;
    assert!(leaders(&postgres).await.is_empty(), "a process that stops resigns");
}

/// A copied setting, or a predecessor that has not ended yet.
#[tokio::test]
async fn of_two_live_processes_of_one_instance_one_leads_and_the_other_takes_over_when_it_stops() {
    let postgres = Postgres::fresh().await;
    let holder = async || postgres.sql().await.one::<String>("SELECT holder FROM outbox_leader").await;
    let first = stand("one", postgres.url()).await;
    until_led_by(&postgres, "one 1").await;
    let leads = holder().await;
    let second = stand("one", postgres.url()).await;
    let terms = seen_over_three_renewals(&postgres).await;
    assert!(terms.iter().all(|term| term.starts_with(&format!("{leads} 1 "))), "{leads} alone: {terms:?}");
    stop(first).await;
    until_led_by(&postgres, "one 2").await;
    assert_ne!(holder().await, leads, "it was the other one that waited");
    stop(second).await;
    assert!(leaders(&postgres).await.is_empty(), "a process that stops resigns");
}

// sample-only: begin
/// Case L18: no FIN and no RST, so that the server keeps the session of the process that is cut off, and all that it holds.
#[tokio::test]
async fn a_leader_that_is_cut_off_without_a_word_is_succeeded_when_its_term_runs_out() {
    use system_tests::chaos::proxy::{Proxy, Weather};

    const ADVISORY: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let postgres = Postgres::fresh().await;
    let proxy = Proxy::before(postgres.url(), 5432).await.expect("a proxy");
    let first = stand("one", &proxy.url().expect("a URL")).await;
    until_led_by(&postgres, "one 1").await;
    let second = stand("two", postgres.url()).await;
    let mut sql = postgres.sql().await;
    proxy.set(Weather::BlackHole);
    until_led_by(&postgres, "two 2").await;
    assert_eq!(sql.one::<i64>(ADVISORY).await, 0, "nothing is held by a session");
    // What the first has said meanwhile arrives now, after its term.
    proxy.set(Weather::Fair);
    stop(first).await;
    assert!(leaders(&postgres).await.iter().all(|leader| leader.starts_with("two ")));
    stop(second).await;
}
// sample-only: end
