//! A signal that asks running work to come to its end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Set once, seen by every clone; work looks at it before each step that it could leave out.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// A signal that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
