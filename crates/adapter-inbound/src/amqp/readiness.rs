//! Whether the consumer is connected to its queue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Ready as long as the consumer is subscribed to its queue and messages that cannot be handled can be parked. Holds the
/// last reason otherwise.
#[derive(Debug, Clone)]
pub struct ConsumerReadiness(Arc<Mutex<Condition>>);

#[derive(Debug)]
struct Condition {
    state: State,
    /// Why the last message that had to be parked was not, until one is.
    parking: Option<String>,
}

impl ConsumerReadiness {
    pub(super) fn new() -> Self {
        let state = State::Not("not started".to_owned());
        Self(Arc::new(Mutex::new(Condition { state, parking: None })))
    }

    pub(super) fn set(&self, state: State) {
        self.condition().state = state;
    }

    /// Notes why a message cannot be parked; `true`: until now they could.
    pub(super) fn parking_fails(&self, reason: String) -> bool {
        self.condition().parking.replace(reason).is_none()
    }

    pub(super) fn parking_works(&self) {
        self.condition().parking = None;
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ReadinessCheck for ConsumerReadiness {
    fn name(&self) -> &'static str {
        "consumer"
    }

    async fn check(&self) -> Result<(), String> {
        match &*self.condition() {
            Condition { state: State::Not(reason), .. } => Err(reason.clone()),
            Condition { parking: Some(reason), .. } => Err(format!("a message cannot be parked: {reason}")),
            Condition { state: State::Consuming, parking: None } => Ok(()),
        }
    }
}
