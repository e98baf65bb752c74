//! Errors in full.

pub(crate) use application_core::ports::with_causes;
