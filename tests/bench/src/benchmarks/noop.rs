//! `noop`: the relay with a publisher that answers at once, which shows the database's side alone.

use std::sync::{Arc, Mutex, PoisonError};

use app_bootstrap::{outbox_config::OutboxConfig, wakeup::RelayWakeup};
use application_core::{
    outbox::{EventId, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort},
};
use async_trait::async_trait;
use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use crate::{
    error::BenchError,
    figures::number,
    runner::{Bench, Plant},
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape, figure},
    stage::{connect, relay_settings},
    verdict::check,
};

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(100_000, 2_000);
    for _ in 0..bench.rounds() {
        let rate = drain(bench, events).await?;
        bench.record("noop.relay", "events/s", rate);
    }
    Ok(())
}

async fn drain(bench: &Bench<'_>, events: usize) -> Result<f64, BenchError> {
    let database = bench.stage.database("noop").await?;
    let backlog = Backlog::insert(database.url(), Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let settings = relay_settings(database.url(), None);
    let pool = connect(database.url()).await?;
    let publisher = Arc::new(AcknowledgingPublisher::new(bench.plant));
    let outbox = OutboxConfig::new(&settings, pool.clone(), RelayWakeup::local());
    let relay = outbox
        .relay(Arc::<AcknowledgingPublisher>::clone(&publisher))
        .map_err(|error| BenchError::Unsound(error.to_string()))?;
    let committed = backlog.commit().await?;
    relay.run_until_drained(CancellationToken::new()).await;
    pool.close().await;
    check("noop.relay", database.url(), publisher.delivered()).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    let last =
        figure(&mut connection, "SELECT extract(epoch FROM max(published_at))::float8 FROM outbox_event").await?;
    Ok(number(events) / (last - committed).max(1e-9))
}

/// Takes every event and answers at once; remembers what it took, in order.
struct AcknowledgingPublisher {
    plant: Option<Plant>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    events: Vec<EventId>,
    /// The first event of all with its aggregate, kept back until the next one of its aggregate is there.
    kept_back: Option<(EventId, String)>,
}

impl AcknowledgingPublisher {
    fn new(plant: Option<Plant>) -> Self {
        Self { plant, taken: Mutex::default() }
    }

    fn delivered(&self) -> Vec<EventId> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).events.clone()
    }
}

#[async_trait]
impl MessagePublishPort for AcknowledgingPublisher {
    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn destination(&self, _event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new("noop"))
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = taken.events.is_empty() && taken.kept_back.is_none();
        match self.plant {
            Some(Plant::Loss) if is_first => taken.kept_back = Some((event.id, String::new())),
            Some(Plant::WrongOrder) if is_first => {
                taken.kept_back = Some((event.id, event.aggregate_id.as_str().to_owned()));
            }
            _ => {
                taken.events.push(event.id);
                let next = |(_, aggregate): &mut (EventId, String)| aggregate == event.aggregate_id.as_str();
                if let Some((first, _)) = taken.kept_back.take_if(next) {
                    taken.events.push(first);
                }
            }
        }
        Ok(())
    }
}
