//! The outbox's table and view as entities.
//!
//! Rows are read through these; they are written by the append statement and by the functions alone, which keep the
//! lanes right.

/// The table `outbox_event`.
pub mod outbox_event {
    use sea_orm::entity::prelude::*;

    /// A row of `outbox_event`. `IN_FLIGHT` is not stored: see [`super::outbox_event_state`].
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "outbox_event")]
    pub struct Model {
        /// The identity by which consumers recognise a redelivery.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        /// The place in the order of the aggregate.
        pub sequence: i64,
        /// The lane of the aggregate.
        pub lane: i64,
        /// The aggregate's type.
        pub aggregate_type: String,
        /// The aggregate's identifier.
        pub aggregate_id: String,
        /// The event's type.
        pub event_type: String,
        /// The payload, byte for byte as appended.
        #[sea_orm(column_type = "Json", select_as = "text", save_as = "json")]
        pub payload: String,
        /// Its size.
        pub payload_bytes: i32,
        /// Names and values, all text.
        #[sea_orm(column_type = "JsonBinary")]
        pub headers: Json,
        /// PENDING, FAILED, PUBLISHED or DEAD.
        pub status: String,
        /// Deliveries that failed through the message itself.
        pub attempts: i32,
        /// When it is tried again.
        pub next_attempt_at: Option<TimeDateTimeWithTimeZone>,
        /// When it was stored.
        pub created_at: TimeDateTimeWithTimeZone,
        /// When the broker confirmed it.
        pub published_at: Option<TimeDateTimeWithTimeZone>,
        /// Class and reason of the last failure.
        pub last_error: Option<String>,
        /// When it was skipped or discarded.
        pub resolved_at: Option<TimeDateTimeWithTimeZone>,
        /// `skipped` or `discarded`.
        pub resolution: Option<String>,
        /// How often it was sent again on purpose.
        pub replays: i32,
    }

    /// Relations: none.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// The view `outbox_event_state`: all five statuses, and why an event is not sent yet.
pub mod outbox_event_state {
    use sea_orm::entity::prelude::*;

    /// A row of `outbox_event_state`, without its content.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "outbox_event_state")]
    pub struct Model {
        /// The identity by which consumers recognise a redelivery.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        /// The place in the order of the aggregate.
        pub sequence: i64,
        /// The lane of the aggregate.
        pub lane: i64,
        /// The aggregate's type.
        pub aggregate_type: String,
        /// The aggregate's identifier.
        pub aggregate_id: String,
        /// The event's type.
        pub event_type: String,
        /// One of the five.
        pub status: String,
        /// Deliveries that failed through the message itself.
        pub attempts: i32,
        /// When it was stored.
        pub created_at: TimeDateTimeWithTimeZone,
        /// When the broker confirmed it.
        pub published_at: Option<TimeDateTimeWithTimeZone>,
        /// Class and reason of the last failure.
        pub last_error: Option<String>,
        /// When it was skipped or discarded.
        pub resolved_at: Option<TimeDateTimeWithTimeZone>,
        /// `skipped` or `discarded`.
        pub resolution: Option<String>,
        /// How often it was sent again on purpose.
        pub replays: i32,
        /// Who holds the lease.
        pub holder: Option<String>,
        /// When the claim was made.
        pub claimed_at: Option<TimeDateTimeWithTimeZone>,
        /// When the lease ends.
        pub lease_expires_at: Option<TimeDateTimeWithTimeZone>,
        /// Leases that ran out on the lane's head.
        pub expiries: Option<i16>,
        /// When it is due.
        pub due_at: Option<TimeDateTimeWithTimeZone>,
        /// The open event at the head of its lane, when that is another one.
        pub blocked_behind: Option<Uuid>,
    }

    /// Relations: none.
    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub use outbox_event::Entity as OutboxEventEntity;
pub use outbox_event_state::Entity as OutboxEventStateEntity;
