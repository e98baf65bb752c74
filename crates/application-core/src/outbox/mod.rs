//! The outbox: events, their states and the rules between them. Pure, without async.

mod backoff;
pub mod bounds;
mod breaker;
mod ciphertext;
mod event;
mod failure;
pub mod headers;
mod history;
mod identity;
mod invalid;
mod lease;
mod new_event;
mod operator;
mod payload;
mod status;

pub use backoff::{InvalidBackoff, OutboxBackoffPolicy};
pub use breaker::{BatchOutcome, Breaker, BreakerPolicy, BreakerState, Verdict};
pub use ciphertext::{Ciphertext, EncryptionContext};
pub use event::OutboxEvent;
pub use failure::{FailureClass, PublishFailure, UnknownClass, storable};
pub use headers::EventHeaders;
pub use history::{OnPublish, SettledHistory, UnknownHistory};
pub use identity::{AggregateId, AggregateType, EventId, EventType, HolderName, InvalidEventId, LaneId, Sequence};
pub use invalid::{EventField, InvalidEvent};
pub use lease::{
    ClaimRequest, ClaimScope, ConfirmedRun, DeadHeadPolicy, FailedOutcome, FailedRun, LeaseToken, Run, Settlement,
};
pub use new_event::{EventDraft, NewOutboxEvent};
pub use operator::{Attribution, EventAction, InvalidAttribution, OperatorName, Reason, UnknownAction};
pub use payload::Payload;
pub use status::{IllegalTransition, OutboxEventStatus, OutboxTransition, TRANSITIONS, UnknownStatus};
