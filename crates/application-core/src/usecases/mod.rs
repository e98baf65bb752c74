//! Use cases: what the system does, in terms of its ports.

mod clean_up_outbox;
mod examine_outbox;
mod handle_message_once;
mod observe_outbox;
mod operate_inbox;
mod operate_outbox;
mod personal_fields;
mod publish_pending_outbox_events;
mod purge_outbox;
mod reap_outbox;
mod stop;
mod transactional;

pub use clean_up_outbox::{CleanUpOutboxUseCase, CleanUpPolicy, CleanUpReport};
pub use examine_outbox::{Diagnosis, ExamineOutboxUseCase};
pub use handle_message_once::{HandleMessageOnce, Handled, HandlerError, MessageHandler};
pub use observe_outbox::ObserveOutboxUseCase;
pub use operate_inbox::{OfConsumer, OperateInboxError, OperateInboxUseCase};
pub use operate_outbox::{
    LeftAlone, MOST_IN_A_BATCH, ManyFailed, ManyReport, OperateError, OperateOutboxUseCase, OperatePorts, RelayState,
    Selection,
};
pub use personal_fields::{PersonalFieldError, PersonalFields};
pub use publish_pending_outbox_events::{PublishOutcome, PublishPendingOutboxEventsUseCase, PublishPolicy};
pub use purge_outbox::{PurgeCount, PurgeOutboxUseCase};
pub use reap_outbox::ReapOutboxUseCase;
pub use stop::StopSignal;
pub use transactional::{Transaction, Transactional};
