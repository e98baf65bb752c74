//! `app inbox …`: what a consumer has handled, and what it has parked.

use std::process::ExitCode;

use adapter_inbound::amqp::{UnparkRequest, request_unpark};
use adapter_persistence_postgres::PostgresInbox;
use application_core::{
    outbox::{AggregateId, AggregateType, EventId},
    ports::ConsumerName,
};
use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    output, setup,
    values::{aggregate_id, aggregate_type, consumer_name},
};
use crate::{error::BootstrapError, settings::Settings, words::counted};

#[derive(Debug, Subcommand)]
pub(super) enum InboxCommand {
    /// Let a consumer forget events, so that a replay of them has its effect again.
    Forget {
        /// The consumer's name, for example `portfolio-minutes`.
        #[arg(long, value_parser = consumer_name)]
        consumer: ConsumerName,
        /// The events.
        #[arg(long, required = true, num_args = 1..)]
        events: Vec<EventId>,
    },
    /// Aggregates whose messages a consumer has parked, as JSON.
    Parked {
        /// The consumer's name.
        #[arg(long, value_parser = consumer_name)]
        consumer: ConsumerName,
        /// How many aggregates.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Ask the running consumer to handle an aggregate's parked messages again, in order.
    Unpark {
        /// The aggregate's type.
        #[arg(long, value_parser = aggregate_type)]
        aggregate_type: AggregateType,
        /// The aggregate's identifier.
        #[arg(long, value_parser = aggregate_id)]
        aggregate_id: AggregateId,
        /// Give this event's message up instead of handling it.
        #[arg(long)]
        discard: Option<EventId>,
    },
}

impl InboxCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode, BootstrapError> {
        match self {
            Self::Forget { consumer, events } => {
                let inbox = inbox(settings).await?;
                let mut forgotten = 0;
                for event in events {
                    let known = inbox.forget(&consumer, event).await.map_err(BootstrapError::Inbox)?;
                    forgotten += u64::from(known);
                }
                if forgotten == 0 {
                    hint_at_consumers(&inbox, &consumer).await?;
                }
                output::line(format!("{} forgotten by {consumer}", counted(forgotten, "event")));
            }
            Self::Parked { consumer, limit } => {
                let inbox = inbox(settings).await?;
                let parked = inbox.list_parked(&consumer, limit).await.map_err(BootstrapError::Inbox)?;
                if parked.is_empty() {
                    hint_at_consumers(&inbox, &consumer).await?;
                }
                let rows = parked.iter().map(|parked| {
                    json!({
                        "aggregateType": parked.aggregate_type.as_str(),
                        "aggregateId": parked.aggregate_id.as_str(),
                        "event": parked.event.to_string(),
                        "reason": parked.reason,
                    })
                });
                output::line(Value::Array(rows.collect()).to_string());
            }
            Self::Unpark { aggregate_type, aggregate_id, discard } => {
                let request = UnparkRequest { aggregate_type, aggregate_id, discard };
                request_unpark(&settings.consumer, &request).await?;
                output::line(
                    "asked; the running consumer acts on it, and `app inbox parked --consumer NAME` shows when it is done",
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Nothing was found: says so if nothing is recorded under the name at all, which may be mistyped.
async fn hint_at_consumers(inbox: &PostgresInbox, consumer: &ConsumerName) -> Result<(), BootstrapError> {
    let known = inbox.consumers().await.map_err(BootstrapError::Inbox)?;
    if !known.iter().any(|name| name == consumer.as_str()) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        output::hint(format!("nothing is recorded of a consumer {consumer}; consumers with records: {known}"));
    }
    Ok(())
}

async fn inbox(settings: &Settings) -> Result<PostgresInbox, BootstrapError> {
    Ok(PostgresInbox::new(setup::database(settings).await?))
}
