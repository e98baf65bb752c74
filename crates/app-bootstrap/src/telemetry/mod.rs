//! What the process tells about itself: logs and metrics.

mod logs;
mod metrics;

pub use logs::{LogFormat, LogSettings, start_logs};
pub use metrics::{
    ConsumerMetrics, MetricsError, OutboxMetrics, idempotency_keys_removed, install_metrics, record_availability,
    record_pool,
};
