//! The bootstrap: settings, wiring, scheduler and telemetry of the service, and its command line.
//!
//! # Invariants
//! - This crate alone knows every adapter; it holds no rule of its own (`cargo xtask arch`).
//! - A bounded context is known to one file and one line: [`contexts`] registers it.
//! - Nothing else knows OpenTelemetry: ports and routes are wrapped in spans here (feature `otlp`, ADR 14).
//!
//! # Adding a setting
//! 1. Add the field with its bounds to the struct of its section: an adapter's own, or one in `settings/`.
//! 2. Check the bounds in the section's `problems()`.
//! 3. Use it in `outbox_config.rs` or `wiring.rs`.

pub mod cli;
pub mod clock;
pub mod contexts;
pub mod error;
mod outage;
pub mod outbox_config;
pub mod scheduler;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod wakeup;
pub mod wiring;
mod words;

/// How durations of settings are read and written.
mod setting_duration {
    pub(crate) use application_core::setting_duration::serialize;
    pub(crate) use humantime_serde::deserialize;
}

/// The application's migrations.
pub mod migrations {
    #![expect(missing_docs, reason = "the macro's module has none")]
    refinery::embed_migrations!("../../migrations/app");
}
