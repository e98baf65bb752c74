//! `app inbox …`: what a consumer has handled, and what it has parked.

use std::process::ExitCode;

use application_core::{
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, GiveUp},
    usecases::OfConsumer,
};
use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    attribution::AttributionArgs,
    outbox::{print, rows_table},
    output, setup,
    values::{aggregate_id, aggregate_type, consumer_name},
};
use crate::{error::BootstrapError, settings::Settings, words::counted};

#[derive(Debug, Subcommand)]
pub(super) enum InboxCommand {
    /// Let a consumer forget events, so that a replay of them has its effect again.
    #[command(after_help = FORGET_EXAMPLES)]
    Forget {
        /// The consumer's name, for example `portfolio-minutes`.
        #[arg(long, value_parser = consumer_name)]
        consumer: ConsumerName,
        /// The events.
        #[arg(long, required = true, num_args = 1..)]
        events: Vec<EventId>,
        #[command(flatten)]
        by: AttributionArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Aggregates whose messages a consumer has parked.
    #[command(after_help = PARKED_EXAMPLES)]
    Parked {
        /// The consumer's name.
        #[arg(long, value_parser = consumer_name)]
        consumer: ConsumerName,
        /// How many aggregates.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Ask the running consumer to handle an aggregate's parked messages again, in order.
    #[command(after_help = UNPARK_EXAMPLES)]
    Unpark {
        /// The aggregate's type.
        #[arg(long, value_parser = aggregate_type)]
        aggregate_type: AggregateType,
        /// The aggregate's identifier.
        #[arg(long, value_parser = aggregate_id)]
        aggregate_id: AggregateId,
        /// Give this event's message up instead of handling it: the copies of all consumers, unless --consumer names one.
        #[arg(long)]
        discard: Option<EventId>,
        /// Whose copy of the discarded event alone is given up.
        #[arg(long, requires = "discard", value_parser = consumer_name)]
        consumer: Option<ConsumerName>,
        /// Ask even if no consumer has parked the aggregate: what lies in the parking queue may have lost its mark.
        #[arg(long)]
        unmarked: bool,
        #[command(flatten)]
        by: AttributionArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

const FORGET_EXAMPLES: &str = "\
Examples:
  app inbox forget --consumer portfolio-minutes --events 0198c5a0-0000-7000-8000-000000000001 --reason 'counted twice'

`app outbox replay` comes next: it sends the event again, and the consumer handles it as if it were new.";

const PARKED_EXAMPLES: &str = "\
Examples:
  app inbox parked --consumer portfolio-minutes
  app inbox parked --consumer portfolio-minutes --limit 1000 --json";

const UNPARK_EXAMPLES: &str = "\
Examples:
  app inbox unpark --aggregate-type order --aggregate-id 42
  app inbox unpark --aggregate-type order --aggregate-id 42 --discard 0198c5a0-0000-7000-8000-000000000001
  app inbox unpark --aggregate-type order --aggregate-id 42 --discard 0198c5a0-0000-7000-8000-000000000001 \
    --consumer portfolio-minutes
  app inbox unpark --aggregate-type order --aggregate-id 42 --unmarked

An aggregate that no consumer has parked is not asked for, and leaves no record, unless --unmarked is said: after a restore
of the database, messages may lie in the parking queue without their mark. They are handled behind what was handled
meanwhile. With consumer.unordered, consumers park messages and no aggregates: then it is always asked for.";

impl InboxCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode, BootstrapError> {
        match self {
            Self::Forget { consumer, events, by, json } => {
                let inbox = setup::outbox(settings).await?.operate_inbox();
                let OfConsumer { found: forgotten, known_instead } =
                    inbox.forget(&consumer, &events, &by.attribution()).await?;
                hint_at_consumers(&consumer, known_instead.as_deref());
                if json {
                    output::line(json!({ "consumer": consumer.as_str(), "forgotten": forgotten }).to_string());
                } else {
                    output::line(format!("{} forgotten by {consumer}", counted(forgotten, "event")));
                }
            }
            Self::Parked { consumer, limit, json } => {
                let inbox = setup::outbox(settings).await?.operate_inbox();
                let OfConsumer { found: parked, known_instead } = inbox.parked(&consumer, limit).await?;
                hint_at_consumers(&consumer, known_instead.as_deref());
                let rows = parked.iter().map(|parked| {
                    json!({
                        "aggregateType": parked.aggregate_type.as_str(),
                        "aggregateId": parked.aggregate_id.as_str(),
                        "event": parked.event.to_string(),
                        "reason": parked.reason,
                    })
                });
                print(&Value::Array(rows.collect()), json, rows_table);
            }
            Self::Unpark { aggregate_type, aggregate_id, discard, consumer, unmarked, by, json } => {
                let inbox = setup::outbox(settings).await?.operate_inbox();
                let discard = discard.map(|event| GiveUp { event, consumer });
                let by = by.attribution();
                let aggregates = inbox.unpark(&aggregate_type, &aggregate_id, discard, unmarked, &by).await?;
                let asked = aggregates > 0;
                let what = if asked {
                    "asked for; the running consumer acts on it, and `app inbox parked --consumer NAME` shows when it is done"
                } else {
                    "found, so nothing was asked for"
                };
                let said = format!("{} {what}", counted(aggregates, "parked aggregate"));
                print(&json!({ "asked": asked, "aggregates": aggregates }), json, |_| said);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Says if nothing is recorded under the name at all, which may be mistyped.
fn hint_at_consumers(consumer: &ConsumerName, known_instead: Option<&[String]>) {
    if let Some(known) = known_instead {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        output::hint(format!("nothing is recorded of a consumer {consumer}; consumers with records: {known}"));
    }
}
