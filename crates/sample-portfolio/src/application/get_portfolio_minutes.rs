//! Use case: look at the sums of a portfolio.

use std::{fmt, sync::Arc};

use application_core::ports::StoreError;
use async_trait::async_trait;

use crate::{
    domain::PortfolioId,
    ports::{PortfolioMinutes, PortfolioMinutesReader},
};

/// Driving port: look at the sums of a portfolio.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait GetPortfolioMinutesUseCase: Send + Sync {
    /// The sums over the events consumed so far, all zero before the first: they follow the work logs with a delay.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn execute(&self, portfolio: PortfolioId) -> Result<PortfolioMinutes, StoreError>;
}

/// Reads the sums of a portfolio.
pub struct GetPortfolioMinutes {
    minutes: Arc<dyn PortfolioMinutesReader>,
}

impl GetPortfolioMinutes {
    /// Puts the parts together.
    #[must_use]
    pub fn new(minutes: Arc<dyn PortfolioMinutesReader>) -> Self {
        Self { minutes }
    }
}

#[async_trait]
impl GetPortfolioMinutesUseCase for GetPortfolioMinutes {
    async fn execute(&self, portfolio: PortfolioId) -> Result<PortfolioMinutes, StoreError> {
        Ok(self.minutes.find(portfolio).await?.unwrap_or_default())
    }
}

impl fmt::Debug for GetPortfolioMinutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetPortfolioMinutes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ports::MockPortfolioMinutesReader;

    #[tokio::test]
    async fn a_portfolio_without_consumed_events_has_sums_of_zero() {
        let mut reader = MockPortfolioMinutesReader::new();
        reader.expect_find().times(1).return_once(|_| Ok(None));
        let sums = GetPortfolioMinutes::new(Arc::new(reader)).execute(PortfolioId::new(Uuid::from_u128(1))).await;
        assert_eq!(sums.expect("read"), PortfolioMinutes::default());
    }
}
