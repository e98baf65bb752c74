//! Whether the consumer is connected to its queue.

use std::sync::{Arc, Mutex, PoisonError};

use application_core::ports::ReadinessCheck;
use async_trait::async_trait;

/// What the consumer is doing; shared between it and its readiness check.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It consumes, or waits as a passive one for its turn.
    Consuming,
    /// It does not, and why.
    Not(String),
}

/// Ready as long as the consumer is subscribed to its queue. Holds the last reason otherwise.
#[derive(Debug, Clone)]
pub struct ConsumerReadiness(Arc<Mutex<State>>);

impl ConsumerReadiness {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State::Not("not started".to_owned()))))
    }

    pub(super) fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[async_trait]
impl ReadinessCheck for ConsumerReadiness {
    fn name(&self) -> &'static str {
        "consumer"
    }

    async fn check(&self) -> Result<(), String> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Consuming => Ok(()),
            State::Not(reason) => Err(reason.clone()),
        }
    }
}
