//! Use case: page through the work logs of a portfolio.

use std::{fmt, sync::Arc};

use application_core::ports::StoreError;
use async_trait::async_trait;

use crate::{
    domain::{PortfolioId, WorkLogId, WorkLogSnapshot},
    ports::WorkLogReader,
};

/// How many work logs a page holds: 1 to 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(u32);

/// A page size outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("limit is {actual}, 1 to {bound} is allowed", bound = PageSize::MAX)]
pub struct InvalidPageSize {
    /// The number met.
    pub actual: i64,
}

impl PageSize {
    /// The most allowed.
    pub const MAX: u32 = 200;

    /// Checks the range.
    ///
    /// # Errors
    /// [`InvalidPageSize`] names the range and the number met.
    pub fn try_new(size: i64) -> Result<Self, InvalidPageSize> {
        match u32::try_from(size) {
            Ok(inside @ 1..=Self::MAX) => Ok(Self(inside)),
            _ => Err(InvalidPageSize { actual: size }),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for PageSize {
    /// 50.
    fn default() -> Self {
        Self(50)
    }
}

/// A page, and where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkLogPage {
    /// The work logs in the order of their ids.
    pub items: Vec<WorkLogSnapshot>,
    /// The last one here, if more follow: the next page begins after it.
    pub next_after: Option<WorkLogId>,
}

/// Driving port: page through the work logs of a portfolio.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait ListWorkLogsUseCase: Send + Sync {
    /// The page that begins after the given work log, or the first page.
    ///
    /// Pages by key: work logs that are added meanwhile move no other from one page to the next.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn execute(
        &self,
        portfolio: PortfolioId,
        after: Option<WorkLogId>,
        size: PageSize,
    ) -> Result<WorkLogPage, StoreError>;
}

/// Reads pages of work logs.
pub struct ListWorkLogs {
    work_logs: Arc<dyn WorkLogReader>,
}

impl ListWorkLogs {
    /// Puts the parts together.
    #[must_use]
    pub fn new(work_logs: Arc<dyn WorkLogReader>) -> Self {
        Self { work_logs }
    }
}

#[async_trait]
impl ListWorkLogsUseCase for ListWorkLogs {
    async fn execute(
        &self,
        portfolio: PortfolioId,
        after: Option<WorkLogId>,
        size: PageSize,
    ) -> Result<WorkLogPage, StoreError> {
        let size = size.get();
        // One more than asked for tells whether a next page exists.
        let mut items = self.work_logs.list(portfolio, after, size + 1).await?;
        let more = items.len() > size as usize;
        items.truncate(size as usize);
        let next_after = items.last().filter(|_| more).map(|last| last.id);
        Ok(WorkLogPage { items, next_after })
    }
}

impl fmt::Debug for ListWorkLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWorkLogs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{application::testing::snapshot, ports::MockWorkLogReader};

    async fn page(stored: u128, size: i64) -> WorkLogPage {
        let mut reader = MockWorkLogReader::new();
        reader.expect_list().times(1).return_once(move |_, _, max| {
            Ok((1..=stored.min(u128::from(max))).map(|n| snapshot(WorkLogId::new(Uuid::from_u128(n)))).collect())
        });
        let size = PageSize::try_new(size).expect("valid");
        ListWorkLogs::new(Arc::new(reader)).execute(PortfolioId::new(Uuid::nil()), None, size).await.expect("read")
    }

    #[tokio::test]
    async fn a_page_names_its_last_work_log_when_more_follow() {
        let page = page(4, 3).await;
        assert_eq!(page.items.len(), 3);
        assert_eq!(page.next_after, Some(WorkLogId::new(Uuid::from_u128(3))));
    }

    #[tokio::test]
    async fn the_last_page_names_no_next_also_when_it_is_full_or_empty() {
        for stored in [3, 2, 0] {
            let page = page(stored, 3).await;
            assert_eq!((page.items.len() as u128, page.next_after), (stored, None));
        }
    }

    #[test]
    fn a_page_size_outside_1_to_200_is_refused() {
        assert_eq!(PageSize::try_new(200).map(PageSize::get), Ok(200));
        for actual in [i64::MIN, 0, 201, i64::MAX] {
            assert_eq!(PageSize::try_new(actual), Err(InvalidPageSize { actual }));
        }
    }
}
