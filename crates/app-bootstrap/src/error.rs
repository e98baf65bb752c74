//! Why the process could not do what it was told, with the way out where there is one.

use adapter_inbound::{
    amqp::InvalidConsumerSettings,
    http::{HttpServerError, InvalidOperationsSettings},
};
use adapter_outbound::OutboundSetupError;
use adapter_persistence_postgres::{History, MigrateError, SequenceError};
use application_core::{
    outbox::InvalidBackoff,
    ports::StoreError,
    usecases::{OperateError, OperateInboxError},
};

use crate::{
    settings::SettingsError,
    shutdown::SignalError,
    telemetry::{MetricsError, TracesError},
};

/// Everything that ends the process early; the chain of causes is for the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The settings cannot be used.
    #[error("the settings cannot be used")]
    Settings(#[from] SettingsError),
    /// The settings cannot be printed.
    #[error("the settings cannot be printed")]
    Print(#[from] toml::ser::Error),
    /// The settings cannot be shown to operators.
    #[error("the settings cannot be shown")]
    Show(#[from] serde_json::Error),
    /// A backoff that the settings' check should have refused.
    #[error("the backoff cannot be used")]
    Backoff(#[from] InvalidBackoff),
    /// The database cannot be used.
    #[error("the database cannot be used; look at `database.url` (DATABASE_URL) and whether the server runs")]
    Database(#[source] StoreError),
    /// The schema is older than this binary needs, or absent.
    #[error("the schema `{history}` is at version {actual}, this binary needs {expected} or newer; run `app migrate`")]
    SchemaBehind {
        /// Which history.
        history: History,
        /// The version found; 0: none.
        actual: i32,
        /// The version needed.
        expected: i32,
    },
    /// The sequence cannot keep an order.
    #[error("the sequence of events cannot keep their order")]
    Sequence(#[from] SequenceError),
    /// The database cannot be reached for migrations.
    #[error("the database cannot be reached for migrations; look at {settings} and whether the server runs")]
    Unreachable {
        /// The settings that lead to it.
        settings: &'static str,
        /// Why.
        #[source]
        source: MigrateError,
    },
    /// The migration failed.
    #[error("the database cannot be migrated")]
    Migrate(#[from] MigrateError),
    /// The publisher cannot be set up.
    #[error("the publisher cannot be set up")]
    Publisher(#[from] OutboundSetupError),
    /// The broker is needed now and cannot be had.
    #[error("the broker cannot be used ({reason}); look at `outbound.amqp.url` (AMQP_URL) and whether the server runs")]
    Broker {
        /// Why.
        reason: String,
    },
    /// The consumer cannot be set up.
    #[error("the consumer cannot be set up")]
    Consumer(#[from] InvalidConsumerSettings),
    /// Two contexts' handlers cannot be told apart.
    #[error(
        "two handlers are called `{name}`: what one has handled counts as handled for the other; rename the new one"
    )]
    SameHandlerName {
        /// The name of both.
        name: String,
    },
    /// A listener cannot be set up.
    #[error("HTTP cannot be served at the address of `{setting}`; choose another one, or stop what listens there")]
    Http {
        /// The setting that holds the address.
        setting: &'static str,
        /// Why.
        #[source]
        source: HttpServerError,
    },
    /// The operations HTTP is not allowed as it is set.
    #[error("the operations HTTP cannot be served")]
    Operations(#[from] InvalidOperationsSettings),
    /// Metrics cannot be recorded.
    #[error("metrics cannot be recorded")]
    Metrics(#[from] MetricsError),
    /// Traces cannot be exported.
    #[error("traces cannot be exported")]
    Traces(#[from] TracesError),
    /// Signals cannot be listened to.
    #[error("the process cannot be stopped in order")]
    Signals(#[from] SignalError),
    /// The inbox could not be read or changed, or the consumer not be asked.
    #[error(transparent)]
    Inbox(#[from] OperateInboxError),
    /// The lanes could not be rebuilt.
    #[error("the lanes cannot be rebuilt; stop the relays and wait until their leases have run out")]
    Repair(#[source] StoreError),
    /// History that could be removed could not be counted.
    #[error("the history could not be counted; nothing was removed")]
    Count(#[source] StoreError),
    /// An action on many events failed midway.
    #[error("{done}")]
    Midway {
        /// What was done before, and how to go on.
        done: String,
        /// Why.
        #[source]
        source: OperateError,
    },
    /// The manual could not be written.
    #[error("the manual cannot be written to {what}")]
    Describe {
        /// Where to.
        what: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// An operator's action could not be done.
    #[error("the outbox could not be read or changed")]
    Operate(#[from] OperateError),
}
