//! Port: whether a part of the system can do its work.

use async_trait::async_trait;

/// One part that readiness depends on: the database, the broker, the schema (rule R26).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ReadinessCheck: Send + Sync {
    /// The part's name, lower case.
    fn name(&self) -> &'static str;

    /// `Err` carries the reason in words for an operator, without secrets. MUST answer within 2 s.
    async fn check(&self) -> Result<(), String>;
}
