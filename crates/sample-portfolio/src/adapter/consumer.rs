//! Consumer: the minutes of each portfolio, added up from the events of its work logs.

use std::{fmt, sync::Arc};

use application_core::{
    inbox::InboundMessage,
    usecases::{HandlerError, MessageHandler, Transaction},
};
use async_trait::async_trait;
use event_contracts::IntegrationEvent;
use uuid::Uuid;

use crate::{
    domain::PortfolioId,
    integration_events::{
        AGGREGATE_TYPE, WorkLogCancelledIntegrationEvent, WorkLogCompletedIntegrationEvent,
        WorkLogReservedIntegrationEvent, WorkLogStartedIntegrationEvent,
    },
    ports::{PortfolioMinutes, PortfolioMinutesRepository},
};

#[cfg(test)]
mod tests;

/// Adds each event to the sums of its portfolio.
///
/// # Delivery
/// Adding is not idempotent: what keeps a redelivery from being added again is the inbox, which records the message in
/// the same transaction ([`HandleMessageOnce`](application_core::usecases::HandleMessageOnce)).
pub struct PortfolioMinutesProjection<Tx: Send + Sync + 'static> {
    minutes: Arc<dyn PortfolioMinutesRepository<Tx>>,
}

impl<Tx: Send + Sync + 'static> PortfolioMinutesProjection<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(minutes: Arc<dyn PortfolioMinutesRepository<Tx>>) -> Self {
        Self { minutes }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> MessageHandler<Tx> for PortfolioMinutesProjection<Tx> {
    async fn handle(&self, transaction: &mut Transaction<Tx>, message: &InboundMessage) -> Result<(), HandlerError> {
        let Some((portfolio, more)) = interpret(message)? else {
            tracing::debug!(event.id = %message.id, event.r#type = %message.event_type, "not for this projection");
            return Ok(());
        };
        self.minutes.add(transaction.tx(), portfolio, &more).await?;
        Ok(())
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for PortfolioMinutesProjection<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortfolioMinutesProjection").finish_non_exhaustive()
    }
}

/// What a message adds to which portfolio; `None` for events that this projection does not know.
fn interpret(message: &InboundMessage) -> Result<Option<(PortfolioId, PortfolioMinutes)>, HandlerError> {
    if message.aggregate_type.as_str() != AGGREGATE_TYPE {
        return Ok(None);
    }
    let nothing = PortfolioMinutes::default();
    let (portfolio, more): (Uuid, _) = match message.event_type.as_str() {
        WorkLogReservedIntegrationEvent::EVENT_TYPE => {
            let event: WorkLogReservedIntegrationEvent = decode(message)?;
            (event.portfolio_id, PortfolioMinutes { reserved: 1, ..nothing })
        }
        WorkLogStartedIntegrationEvent::EVENT_TYPE => {
            let event: WorkLogStartedIntegrationEvent = decode(message)?;
            (event.portfolio_id, PortfolioMinutes { started: 1, ..nothing })
        }
        WorkLogCompletedIntegrationEvent::EVENT_TYPE => {
            let event: WorkLogCompletedIntegrationEvent = decode(message)?;
            let completed_minutes = u64::from(event.spent_minutes);
            (event.portfolio_id, PortfolioMinutes { completed: 1, completed_minutes, ..nothing })
        }
        WorkLogCancelledIntegrationEvent::EVENT_TYPE => {
            let event: WorkLogCancelledIntegrationEvent = decode(message)?;
            (event.portfolio_id, PortfolioMinutes { cancelled: 1, ..nothing })
        }
        _ => return Ok(None),
    };
    Ok(Some((PortfolioId::new(portfolio), more)))
}

/// Reads the payload. A newer schema is refused rather than guessed at: it waits, parked, for a newer consumer.
fn decode<E: IntegrationEvent>(message: &InboundMessage) -> Result<E, HandlerError> {
    let (event_type, known, met) = (E::EVENT_TYPE, E::SCHEMA_VERSION, message.schema_version);
    if met > known {
        let reason = format!("schema version {met} of {event_type} is newer than {known}");
        return Err(HandlerError::Reject { reason });
    }
    // Derived code also takes an array, whose items it would assign by their place.
    if !message.payload.as_str().trim_ascii_start().starts_with('{') {
        return Err(HandlerError::Reject {
            reason: format!("the payload is no {event_type} of version {met}: no object"),
        });
    }
    serde_json::from_str(message.payload.as_str()).map_err(|error| {
        // The decoder's own words may quote the payload, which must not get into logs.
        let (what, line, column) = (error.classify(), error.line(), error.column());
        let reason = format!("the payload is no {event_type} of version {met}: {what:?} at {line}:{column}");
        HandlerError::Reject { reason }
    })
}
