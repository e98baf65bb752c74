//! The whole system: real processes, real servers, real signals.
