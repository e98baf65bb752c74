//! The payload as the body; what else there is travels in the publisher's headers.

use application_core::outbox::OutboxEvent;

use super::{EncodeError, Encoded, checked_payload};

pub(super) fn encode(event: &OutboxEvent) -> Result<Encoded, EncodeError> {
    let payload = checked_payload(event)?;
    Ok(Encoded { content_type: "application/json", body: payload.as_bytes().to_vec(), headers: Vec::new() })
}
