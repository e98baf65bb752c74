//! The operations HTTP: health and metrics for the cluster, and an operator's actions for this machine; and the server
//! that any router runs behind.
//!
//! Every error of a server is a problem document (RFC 9457), but for a head that is no HTTP or too large: the protocol's
//! own layer answers that with a bare 400 or 431.

mod guard;
mod health;
mod metrics;
mod ops;
mod problem_details;
mod readable;
mod server;
mod settings;

pub use health::{HealthPolicy, health_router};
pub use metrics::{METRICS_CONTENT_TYPE, metrics_router};
pub use ops::{OpsAccess, OpsParts, ops_router};
pub use problem_details::ProblemDetails;
pub use server::{BoundServer, HttpServerError, ServerLimits, bind};
pub use settings::{InvalidOperationsSettings, OperationsSettings};
