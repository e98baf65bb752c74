//! What the process tells about itself: logs, metrics and, with the feature `otlp`, traces.

mod logs;
mod metrics;
mod settings;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
#[cfg(not(feature = "otlp"))]
pub(crate) mod untraced;

use application_core::ports::BoxError;

pub use logs::{LogFormat, LogSettings, start_logs};
pub(crate) use logs::{SpanLayer, start_logs_beside};
pub use metrics::{
    ConsumerMetrics, MetricsError, OutboxMetrics, idempotency_keys_removed, install_metrics, record_availability,
    record_pool,
};
pub use settings::{OtlpSettings, TelemetrySettings};
#[cfg(not(feature = "otlp"))]
pub(crate) use untraced as traces;

/// Traces cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be exported")]
pub struct TracesError(#[source] BoxError);
