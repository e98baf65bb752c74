//! One subscription to the queue, from connecting to its end.
//!
//! The consumer is never cancelled at the broker while messages are running: the broker would make the next consumer the
//! active one and hand it later messages of the aggregates that still run here. Closing the channel gives back all
//! messages without an acknowledgement and the turn in one step.

use std::sync::Arc;

use application_core::ports::with_causes;
use futures_util::StreamExt;
use lapin::{
    Channel, Connection, Consumer,
    message::Delivery,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    connection::{AmqpError, Purpose, channel, connect, within},
    decode::{Identity, decode},
    lanes::{LaneKey, Lanes},
    park::{close, short},
    settings::ConsumerSettings,
    unpark::UnparkRequest,
    work::{Incoming, Worker},
};

/// Why a session ended.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// The stop was asked for.
    Stopped,
    /// The subscription is gone, and why.
    Lost(String),
}

/// A subscription.
pub(super) struct Session {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// Work on deliveries: the lane, and whether the delivery was acknowledged.
    tasks: JoinSet<(LaneKey, bool)>,
    /// Set once nothing may begin any more.
    closing: CancellationToken,
}

type Item = (Delivery, Incoming);

impl Session {
    /// Connects and subscribes.
    pub(super) async fn open(settings: &ConsumerSettings) -> Result<Self, AmqpError> {
        let limit = settings.connect_timeout;
        let connection = connect(settings, Purpose::Consume).await?;
        let channel = channel(&connection, limit).await?;
        let qos = channel.basic_qos(settings.prefetch, BasicQosOptions::default());
        within(limit, "bounding the prefetch", qos).await?;
        let (queue, tag) = (short(&settings.queue), short(&settings.name));
        let subscribing = channel.basic_consume(queue, tag, BasicConsumeOptions::default(), FieldTable::default());
        let consumer = within(limit, "subscribing to the queue", subscribing).await?;
        Ok(Self { connection, channel, consumer, tasks: JoinSet::new(), closing: CancellationToken::new() })
    }

    /// Consumes until the stop or the loss of the subscription; starts nothing afterwards.
    pub(super) async fn consume(&mut self, worker: &Arc<Worker>, stop: &CancellationToken) -> SessionEnd {
        let mut lanes: Lanes<Item> = Lanes::default();
        let end = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break SessionEnd::Stopped,
                Some(done) = self.tasks.join_next() => match done {
                    Ok((key, true)) => {
                        if let Some(next) = lanes.finish(&key) {
                            self.start(worker, key, next);
                        }
                    }
                    Ok((_, false)) => break SessionEnd::Lost("a message could not be acknowledged".to_owned()),
                    Err(error) => break SessionEnd::Lost(format!("the work on a message broke: {error}")),
                },
                delivery = self.consumer.next() => match delivery {
                    Some(Ok(delivery)) => {
                        let incoming = read(&worker.settings, &delivery);
                        let key = lane(&worker.settings, &delivery, &incoming);
                        if let Some(item) = lanes.admit(&key, (delivery, incoming)) {
                            self.start(worker, key, item);
                        }
                    }
                    Some(Err(error)) => break SessionEnd::Lost(with_causes(&error)),
                    None => break SessionEnd::Lost("the broker ended the subscription; was the queue deleted?".to_owned()),
                },
            }
        };
        self.closing.cancel();
        end
    }

    /// Lets running tries end, for a while, then gives back everything that has no acknowledgement.
    pub(super) async fn finish(mut self, worker: &Worker) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(worker.settings.grace, all).await.is_err() {
            let running = self.tasks.len();
            tracing::warn!(consumer = %worker.consumer, running, "handlers outlasted the grace and are dropped");
            self.tasks.shutdown().await;
        }
        let limit = worker.settings.connect_timeout;
        if let Err(error) = within(limit, "closing the channel", self.channel.close(200, "OK".into())).await {
            tracing::debug!(error = with_causes(&error), "the channel was gone already");
        }
        close(&self.connection, limit).await;
    }

    fn start(&mut self, worker: &Arc<Worker>, key: LaneKey, (delivery, incoming): Item) {
        let (worker, closing) = (Arc::clone(worker), self.closing.clone());
        self.tasks.spawn(async move {
            let settled = worker.settle(delivery, incoming, &closing).await;
            (key, settled)
        });
    }
}

fn read(settings: &ConsumerSettings, delivery: &Delivery) -> Incoming {
    if let Some(request) = UnparkRequest::from_headers(&delivery.properties) {
        return Incoming::Unpark(request);
    }
    match decode(settings.format, settings.max_body_bytes, &delivery.properties, &delivery.data) {
        Ok(message) => Incoming::Message(Box::new(message)),
        Err(error) => {
            let identity = Identity::of(settings.max_body_bytes, &delivery.properties, &delivery.data);
            Incoming::Undecodable { error, identity }
        }
    }
}

fn lane(settings: &ConsumerSettings, delivery: &Delivery, incoming: &Incoming) -> LaneKey {
    let aggregate = match incoming {
        Incoming::Message(message) => Some((&message.aggregate_type, &message.aggregate_id)),
        Incoming::Unpark(request) => Some((&request.aggregate_type, &request.aggregate_id)),
        Incoming::Undecodable { identity, .. } => {
            identity.as_ref().map(|identity| (&identity.aggregate_type, &identity.aggregate_id))
        }
    };
    match aggregate {
        Some((aggregate_type, aggregate_id)) if !settings.unordered => {
            LaneKey::Aggregate(aggregate_type.clone(), aggregate_id.clone())
        }
        _ => LaneKey::Alone(delivery.delivery_tag),
    }
}
