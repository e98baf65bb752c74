//! `latency`: from the answer of the commit to the confirm and to the consumer, at 200 events a second.
//!
//! Appender, relay and consumer run in this process, so that one clock sees them all. The three ways to wake the relay
//! differ in what goes between: nothing, NOTIFY and LISTEN, or nobody at all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use adapter_outbound::OutboxMessagePublishAdapter;
use adapter_persistence_postgres::{Database, ListenWakeup, NotifyWakeup, WakeupSettings};
use app_bootstrap::{outbox_config::OutboxConfig, wakeup::RelayWakeup};
use application_core::{
    outbox::{EventId, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort, WakeupPort},
};
use async_trait::async_trait;
use system_tests::eventually;
use tokio::{task::JoinSet, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    appender::{Appender, Committed, Nobody},
    error::BenchError,
    figures::{millis, percentile},
    queue::Queue,
    runner::Bench,
    stage::{PATIENCE, connect, publisher, relay_settings},
    verdict::check,
};

const PER_SECOND: usize = 200;
/// Connections of the appender that are there from the start; a hiccup of the disk makes commits overlap.
const CONNECTIONS: usize = 20;

/// Who wakes the relay after a commit.
#[derive(Debug, Clone, Copy)]
enum Wake {
    InProcess,
    CrossProcess,
    Polling,
}

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(20, 1) * PER_SECOND;
    for _ in 0..bench.rounds() {
        for (name, wake) in
            [("in_process", Wake::InProcess), ("cross_process", Wake::CrossProcess), ("polling", Wake::Polling)]
        {
            measure(bench, name, wake, events).await?;
        }
    }
    Ok(())
}

async fn measure(bench: &mut Bench<'_>, name: &str, wake: Wake, events: usize) -> Result<(), BenchError> {
    let (database, vhost) = (bench.stage.database("latency").await?, bench.stage.broker().await?);
    let follower = Queue::open(vhost.url()).await?.follow().await?;
    let pool = connect(database.url()).await?;
    let relay_pool = connect(database.url()).await?;
    let settings = relay_settings(database.url(), Some(vhost.url()));
    let timing = Arc::new(TimingPublisher::around(publisher(vhost.url()).await?));
    let relay_wakeup = RelayWakeup::local();
    let (wakeup, _listener) = waker(wake, &pool, &relay_pool, &relay_wakeup);
    let outbox = OutboxConfig::new(&settings, relay_pool.clone(), relay_wakeup);
    let relay =
        outbox.relay(Arc::<TimingPublisher>::clone(&timing)).map_err(|error| BenchError::Unsound(error.to_string()))?;
    let cancel = CancellationToken::new();
    let relay = tokio::spawn(relay.run(cancel.clone()));

    let appender = Appender::new(&pool, wakeup);
    appender.warm_up(CONNECTIONS).await?;
    let committed = append(&appender, events).await?;
    let all = || async { (moments(&timing.confirmed).len() >= events && follower.count() >= events).then_some(()) };
    eventually("every event confirmed and delivered", PATIENCE, all).await?;
    cancel.cancel();
    relay.await.map_err(std::io::Error::other)?;
    let arrivals = follower.end().await;
    check(name, database.url(), arrivals.iter().map(|arrival| arrival.event)).await?;

    let received: HashMap<_, _> = arrivals.iter().map(|arrival| (arrival.event, arrival.at)).collect();
    let (sent, confirmed) = (moments(&timing.sent).clone(), moments(&timing.confirmed).clone());
    record(bench, &format!("latency.{name}.sent"), &committed, &sent);
    record(bench, &format!("latency.{name}.confirmed"), &committed, &confirmed);
    record(bench, &format!("latency.{name}.received"), &committed, &received);
    pool.close().await;
    relay_pool.close().await;
    timing.inner.close(Duration::from_secs(5)).await;
    Ok(())
}

fn waker(
    wake: Wake,
    pool: &Database,
    relay_pool: &Database,
    relay: &RelayWakeup,
) -> (Arc<dyn WakeupPort>, Option<ListenWakeup>) {
    match wake {
        Wake::InProcess => (Arc::new(relay.clone()), None),
        Wake::CrossProcess => {
            let woken = relay.clone();
            let listener = ListenWakeup::start(relay_pool, WakeupSettings::default(), move || woken.wake_local());
            (Arc::new(NotifyWakeup::start(pool, WakeupSettings::default())), Some(listener))
        }
        Wake::Polling => (Arc::new(Nobody), None),
    }
}

/// One transaction an event, begun at an even pace whatever became of the one before.
async fn append(appender: &Appender, events: usize) -> Result<Vec<Committed>, BenchError> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / u32::try_from(PER_SECOND).unwrap_or(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    for n in 0..events {
        pace.tick().await;
        let appender = appender.clone();
        tasks.spawn(async move { appender.append(&[format!("l-{}", n % 1_000)]).await });
    }
    let mut committed = Vec::with_capacity(events);
    while let Some(task) = tasks.join_next().await {
        committed.extend(task.map_err(std::io::Error::other)??);
    }
    Ok(committed)
}

fn record(bench: &mut Bench<'_>, figure: &str, committed: &[Committed], seen: &Moments) {
    let took =
        |committed: &Committed| Some(millis(seen.get(&committed.event)?.saturating_duration_since(committed.at)));
    let mut waits: Vec<f64> = committed.iter().filter_map(took).collect();
    waits.sort_by(f64::total_cmp);
    for (name, part) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
        bench.record_known(&format!("{figure}.{name}"), "ms", percentile(&waits, part));
    }
}

/// When something happened to each event first.
type Moments = HashMap<EventId, Instant>;

/// The relay's publisher, and when each event was handed to it and was confirmed.
struct TimingPublisher {
    inner: Arc<OutboxMessagePublishAdapter>,
    sent: Mutex<Moments>,
    confirmed: Mutex<Moments>,
}

impl TimingPublisher {
    fn around(inner: Arc<OutboxMessagePublishAdapter>) -> Self {
        Self { inner, sent: Mutex::default(), confirmed: Mutex::default() }
    }
}

fn moments(noted: &Mutex<Moments>) -> MutexGuard<'_, Moments> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl MessagePublishPort for TimingPublisher {
    fn availability(&self) -> Availability {
        self.inner.availability()
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        self.inner.destination(event)
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        moments(&self.sent).entry(event.id).or_insert_with(Instant::now);
        self.inner.publish(event).await?;
        let at = Instant::now();
        moments(&self.confirmed).entry(event.id).or_insert(at);
        Ok(())
    }
}
