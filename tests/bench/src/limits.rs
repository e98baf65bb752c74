//! The limits that figures are held against: each is a part of the relay's work done alone, by the relay's own adapters.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use adapter_outbound::{
    OutboxMessagePublishAdapter,
    amqp::{X_AGGREGATE_ID, X_AGGREGATE_TYPE, X_EVENT_ID, X_EVENT_TYPE, X_SEQUENCE},
    envelope::{Envelope, EnvelopeSettings},
};
use adapter_persistence_postgres::{Database, OutboxStoreAdapter, PostgresOutboxClaimRepository};
use app_bootstrap::{clock::SystemClock, clock::SystemRandom};
use application_core::{
    outbox::{ClaimRequest, ClaimScope, ConfirmedRun, HolderName, LeaseToken, OutboxEvent, PublishFailure, Run},
    ports::{Clock, MessagePublishPort, OutboxStorePort, Random},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use lapin::{
    BasicProperties, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use sqlx::{Connection as _, PgConnection, Row};
use system_tests::tap::Tap;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{error::BenchError, figures::number};

/// Workers of limits P0 and P: as many as the relay has by default. With fewer a limit would wait for its own round trips,
/// and could be passed by the relay that it limits.
pub(crate) const WORKERS: usize = 8;
/// Events of a claim by default.
pub(crate) const BATCH: usize = 500;
/// Messages in flight of limits B and B0: with more the broker confirmed fewer a second (`scale.window`).
pub(crate) const WINDOW: usize = 256;
/// How long a loop goes on without finding anything before it is an error.
const STUCK: Duration = Duration::from_secs(30);

/// What a loop did.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    pub(crate) took: Duration,
    pub(crate) events: Vec<OutboxEvent>,
    /// How long each claim took, in milliseconds.
    pub(crate) claims: Vec<f64>,
}

/// Limit P0: marks all events published by primary key in batches, and nothing else. A connection a worker; they share the batches.
pub(crate) async fn mark_by_key(database_url: &str, workers: usize) -> Result<(usize, Duration), BenchError> {
    let mut connections = Vec::new();
    for _ in 0..workers {
        connections.push(PgConnection::connect(database_url).await?);
    }
    let mut reader = PgConnection::connect(database_url).await?;
    let rows = sqlx::query("SELECT id FROM outbox_event ORDER BY sequence").fetch_all(&mut reader).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let (ids, next) = (Arc::new(ids), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for mut connection in connections {
        let (ids, next) = (Arc::clone(&ids), Arc::clone(&next));
        workers.spawn(async move {
            let mark = "UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp() \
                         WHERE id = ANY ($1)";
            while let Some(batch) = ids.chunks(BATCH).nth(next.fetch_add(1, Ordering::Relaxed)) {
                let marked = sqlx::query(mark).bind(batch).execute(&mut connection).await?.rows_affected();
                if usize::try_from(marked).ok() != Some(batch.len()) {
                    return Err(BenchError::Unsound(format!("{marked} of {} rows were marked", batch.len())));
                }
            }
            Ok(())
        });
    }
    join(workers).await?;
    Ok((ids.len(), begun.elapsed()))
}

/// Limit P: claims and acknowledges this many events, and nothing else: the relay's statements without the publishing.
pub(crate) async fn claim_and_acknowledge(
    repository: PostgresOutboxClaimRepository,
    workers: usize,
    events: usize,
) -> Result<Loop, BenchError> {
    let store: Arc<dyn OutboxStorePort> =
        Arc::new(OutboxStoreAdapter::new(Arc::new(repository), Duration::from_mins(1)));
    let done = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let claimer = Claimer::new(Arc::clone(&store), Arc::clone(&done), events);
        tasks.spawn(claimer.run());
    }
    let mut result = Loop { took: Duration::ZERO, events: Vec::with_capacity(events), claims: Vec::new() };
    for part in join(tasks).await? {
        result.events.extend(part.events);
        result.claims.extend(part.claims);
    }
    result.took = begun.elapsed();
    // The store has compared what each acknowledgement changed with what was asked of it.
    let distinct: HashSet<_> = result.events.iter().map(|event| event.id).collect();
    if (distinct.len(), result.events.len()) != (events, events) {
        let (claimed, distinct) = (result.events.len(), distinct.len());
        return Err(BenchError::Unsound(format!("limit P claimed {claimed} times {distinct} of {events} events")));
    }
    Ok(result)
}

/// The store of a database, with settlement as the relay does it.
pub(crate) fn claims(database: &Database) -> PostgresOutboxClaimRepository {
    PostgresOutboxClaimRepository::new(database.clone())
}

/// One worker of limit P. It sizes its claims as the relay does.
struct Claimer {
    store: Arc<dyn OutboxStorePort>,
    done: Arc<AtomicUsize>,
    events: usize,
    run_length: f64,
}

impl Claimer {
    fn new(store: Arc<dyn OutboxStorePort>, done: Arc<AtomicUsize>, events: usize) -> Self {
        Self { store, done, events, run_length: 1.0 }
    }

    async fn run(mut self) -> Result<Loop, BenchError> {
        let clock = SystemClock::new();
        let mut result = Loop { took: Duration::ZERO, events: Vec::new(), claims: Vec::new() };
        let mut found = Instant::now();
        while self.done.load(Ordering::Relaxed) < self.events {
            let (token, runs, took) = self.claim().await?;
            if runs.is_empty() {
                if found.elapsed() > STUCK {
                    return Err(BenchError::Unsound("events are left and none can be claimed".to_owned()));
                }
                clock.sleep(Duration::from_millis(1)).await;
                continue;
            }
            found = Instant::now();
            result.claims.push(took.as_secs_f64() * 1e3);
            let confirmed: Vec<_> = runs.iter().map(confirmed).collect();
            settle(&*self.store, token, &confirmed).await?;
            let events: Vec<_> = runs.into_iter().flat_map(|run| run.events).collect();
            self.done.fetch_add(events.len(), Ordering::Relaxed);
            result.events.extend(events);
        }
        Ok(result)
    }

    async fn claim(&mut self) -> Result<(LeaseToken, Vec<Run>, Duration), BenchError> {
        let request = request(self.run_length);
        let begun = Instant::now();
        let runs = self.store.claim(&request).await?;
        let took = begun.elapsed();
        if !runs.is_empty() {
            let events: usize = runs.iter().map(|run| run.events.len()).sum();
            self.run_length = 0.8 * self.run_length + 0.2 * number(events) / number(runs.len());
        }
        Ok((request.token, runs, took))
    }
}

/// Acknowledges, and frees what appenders held.
pub(crate) async fn settle(
    store: &dyn OutboxStorePort,
    token: LeaseToken,
    runs: &[ConfirmedRun],
) -> Result<(), BenchError> {
    let mut settlement = store.acknowledge(token, runs).await?;
    loop {
        if settlement.stale {
            return Err(BenchError::Unsound("a lease ran out under a limit".to_owned()));
        }
        if settlement.postponed.is_empty() {
            return Ok(());
        }
        let waiting: Vec<_> =
            settlement.postponed.into_iter().map(|lane| ConfirmedRun { lane, confirmed: Vec::new() }).collect();
        settlement = store.acknowledge(token, &waiting).await?;
    }
}

/// A run as confirmed to its end.
pub(crate) fn confirmed(run: &Run) -> ConfirmedRun {
    ConfirmedRun { lane: run.lane, confirmed: run.events.iter().map(|event| event.id).collect() }
}

/// A claim as the relay makes it by default, for lanes with about so many events.
pub(crate) fn request(run_length: f64) -> ClaimRequest {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a quotient of 500 by at least 1")]
    let lanes = (number(BATCH) / run_length.max(1.0)).ceil() as u32;
    let (high, low) = (SystemRandom.next_u64(), SystemRandom.next_u64());
    ClaimRequest {
        token: LeaseToken::new(Uuid::from_u64_pair(high, low)),
        scope: ClaimScope::Due,
        holder: HolderName::new("bench"),
        lease: Duration::from_secs(30),
        max_lanes: lanes.clamp(20, 500),
        max_run: 100,
        max_events: 500,
        max_bytes: 8 * 1024 * 1024,
    }
}

/// Limits B (window 256) and B1 (window 1): publishes these events and waits for their confirms, without a database.
pub(crate) async fn confirms(
    publisher: &OutboxMessagePublishAdapter,
    events: &[OutboxEvent],
    window: usize,
) -> Result<Duration, BenchError> {
    let begun = Instant::now();
    stream::iter(events)
        .map(|event| publisher.publish(event))
        .buffer_unordered(window)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    Ok(begun.elapsed())
}

/// Limit B0: the same messages through the AMQP client alone, encoded beforehand: a slow publisher cannot hide behind B.
pub(crate) async fn bare_confirms(amqp_url: &str, events: &[OutboxEvent]) -> Result<Duration, BenchError> {
    let connection = Connection::connect(amqp_url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let messages: Vec<_> = events.iter().map(message).collect::<Result<_, _>>()?;
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let begun = Instant::now();
    stream::iter(messages)
        .map(async |(body, properties)| {
            let (exchange, key) = (Tap::EXCHANGE.into(), "bench.Benched".into());
            match channel.basic_publish(exchange, key, options, &body, properties).await?.await? {
                Confirmation::Ack(None) => Ok(()),
                other => Err(BenchError::Publisher(format!("a bare message was not taken: {other:?}"))),
            }
        })
        .buffer_unordered(WINDOW)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let took = begun.elapsed();
    connection.close(200, "done".into()).await?;
    Ok(took)
}

/// Body and properties about as large as the publisher's.
fn message(event: &OutboxEvent) -> Result<(Vec<u8>, BasicProperties), BenchError> {
    let encoded = Envelope::new(&EnvelopeSettings::default()).encode(event).map_err(PublishFailure::from)?;
    let id = event.id.to_string();
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut headers = FieldTable::default();
    headers.insert(X_EVENT_ID.into(), text(&id));
    headers.insert(X_EVENT_TYPE.into(), text(event.event_type.as_str()));
    headers.insert(X_AGGREGATE_TYPE.into(), text(event.aggregate_type.as_str()));
    headers.insert(X_AGGREGATE_ID.into(), text(event.aggregate_id.as_str()));
    headers.insert(X_SEQUENCE.into(), AMQPValue::LongLongInt(event.sequence.0));
    let properties = BasicProperties::default()
        .with_content_type(encoded.content_type.into())
        .with_delivery_mode(2)
        .with_message_id(id.into())
        .with_headers(headers);
    Ok((encoded.body, properties))
}

async fn join<T: 'static>(mut tasks: JoinSet<Result<T, BenchError>>) -> Result<Vec<T>, BenchError> {
    let mut results = Vec::new();
    while let Some(task) = tasks.join_next().await {
        results.push(task.map_err(std::io::Error::other)??);
    }
    Ok(results)
}
