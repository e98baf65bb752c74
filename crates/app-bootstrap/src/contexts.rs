//! The bounded contexts of the service: each has a file below that puts it together, and an entry in `CONTEXTS`.
//!
//! Taking one out is deleting its crate, its migrations and its file here, and striking out its two lines:
//! `cargo xtask remove-sample` does so for the sample.

mod portfolio;

use std::{fmt, sync::Arc, time::Duration};

use adapter_persistence_postgres::PgTransaction;
use application_core::{
    ports::{ConsumerName, StoreError},
    usecases::MessageHandler,
};
use axum::Router;
use event_contracts::EventContract;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, outbox_config::OutboxConfig, settings::Settings};

/// What is known of a context before it is put together.
#[derive(Clone, Copy)]
pub struct Context {
    /// Puts it together.
    pub register: fn(&Settings, &OutboxConfig<'_>) -> BoundedContext,
    /// The integration events that it sends, in every version that it ever sent.
    pub events: &'static [EventContract],
}

/// Every context of the service.
const CONTEXTS: &[Context] = &[portfolio::CONTEXT];

/// What a bounded context brings to the process.
pub struct BoundedContext {
    /// Its name, for readiness and logs.
    pub name: &'static str,
    /// Its routes. Two contexts may not share a path, and none may set a fallback outside of its own paths.
    pub routes: Router,
    /// The tables that it needs, for readiness.
    pub tables: &'static [&'static str],
    /// What it does with messages, if it consumes any. Every context's handler hears the messages of the service's queue,
    /// under a name, with an inbox and with parked aggregates of its own.
    pub handler: Option<Handler>,
    /// What is to be done now and then.
    pub chores: Vec<Chore>,
}

/// What is called with the messages that the service consumes, beside the handlers of other contexts.
pub struct Handler {
    /// The name under which messages are remembered; stored, so that renaming it makes it handle all anew.
    pub name: ConsumerName,
    /// The handler.
    pub handler: Arc<dyn MessageHandler<PgTransaction>>,
}

/// Work of a context that every serving process does at intervals.
pub struct Chore {
    /// Its name, for logs.
    pub name: &'static str,
    /// How long to wait between two runs.
    pub every: Duration,
    /// Does it, and comes to an end soon once the token is cancelled.
    pub work: Work,
}

/// What does a chore once.
pub type Work = Box<dyn Fn(CancellationToken) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// Puts every context together.
#[must_use]
pub fn all(settings: &Settings, outbox: &OutboxConfig<'_>) -> Vec<BoundedContext> {
    CONTEXTS.iter().map(|context| (context.register)(settings, outbox)).collect()
}

/// The integration events of every context.
#[must_use]
pub fn event_contracts() -> Vec<EventContract> {
    CONTEXTS.iter().flat_map(|context| context.events).copied().collect()
}

/// Makes sure that the handlers of the service's queue have names of their own.
///
/// # Errors
/// [`BootstrapError::SameHandlerName`]: what one of two had handled, the other would take for handled and pass over.
pub fn with_names_of_their_own(handlers: Vec<Handler>) -> Result<Vec<Handler>, BootstrapError> {
    let mut names = handlers.iter().map(|handler| &handler.name).enumerate();
    let twice = names.find(|(before, name)| handlers.iter().take(*before).any(|other| other.name == **name));
    match twice.map(|(_, name)| name.as_str().to_owned()) {
        Some(name) => Err(BootstrapError::SameHandlerName { name }),
        None => Ok(handlers),
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("events", &self.events).finish_non_exhaustive()
    }
}

impl fmt::Debug for BoundedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedContext").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chore").field("name", &self.name).field("every", &self.every).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use application_core::{
        inbox::InboundMessage,
        usecases::{HandlerError, Transaction},
    };

    use super::*;

    struct Nothing;

    #[async_trait::async_trait]
    impl MessageHandler<PgTransaction> for Nothing {
        async fn handle(
            &self,
            _transaction: &mut Transaction<PgTransaction>,
            _message: &InboundMessage,
        ) -> Result<(), HandlerError> {
            Ok(())
        }
    }

    fn handler(name: &'static str) -> Handler {
        Handler { name: ConsumerName::new(name), handler: Arc::new(Nothing) }
    }

    #[test]
    fn two_contexts_may_consume_but_not_under_one_name() {
        assert!(with_names_of_their_own(Vec::new()).expect("none").is_empty());
        let two = with_names_of_their_own(vec![handler("one"), handler("two")]).expect("two");
        assert_eq!(two.iter().map(|handler| handler.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        let error = with_names_of_their_own(vec![handler("one"), handler("two"), handler("one")]).expect_err("twice");
        assert!(error.to_string().contains("`one`"), "{error}");
    }
}
