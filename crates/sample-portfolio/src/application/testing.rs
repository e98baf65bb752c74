//! Fixtures for the use cases' tests: mocks that record the order of calls, a fixed clock, a counting random source.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use application_core::{
    ports::{Clock, MockOutboxAppendPort, MockWakeupPort, Random, StoreError, UnitOfWork},
    usecases::Transactional,
};
use async_trait::async_trait;
use time::{OffsetDateTime, macros::datetime};
use uuid::Uuid;

use super::work_log_writer::{WorkLogTarget, WorkLogWriter};
use crate::{
    domain::{Minutes, PortfolioId, Title, Version, WorkLog, WorkLogId, WorkLogSnapshot, WorkLogStatus},
    ports::MockWorkLogRepository,
};

pub(crate) const NOON: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);
pub(crate) const PORTFOLIO: PortfolioId = PortfolioId::new(Uuid::from_u128(0xaa));
pub(crate) const WORK_LOG: WorkLogId = WorkLogId::new(Uuid::from_u128(1));

mockall::mock! {
    pub(crate) UnitOfWork {}

    #[async_trait]
    impl UnitOfWork for UnitOfWork {
        type Tx = ();
        async fn begin(&self) -> Result<(), StoreError>;
        async fn commit(&self, tx: ()) -> Result<(), StoreError>;
    }
}

/// Stands a nanosecond after noon, which no store keeps.
struct FixedClock;

#[async_trait]
impl Clock for FixedClock {
    fn now(&self) -> OffsetDateTime {
        NOON + Duration::from_nanos(1)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The mocks of one transaction; what a test does not expect fails it.
#[derive(Default)]
pub(crate) struct Mocks {
    pub(crate) unit_of_work: MockUnitOfWork,
    pub(crate) outbox: MockOutboxAppendPort<()>,
    pub(crate) wakeup: MockWakeupPort,
    pub(crate) work_logs: MockWorkLogRepository<()>,
}

impl Mocks {
    pub(crate) fn writer(self) -> Arc<WorkLogWriter<()>> {
        let Self { unit_of_work, outbox, wakeup, work_logs } = self;
        let transactional = Transactional::new(Arc::new(unit_of_work), Arc::new(outbox), Arc::new(wakeup));
        Arc::new(WorkLogWriter::new(
            Arc::new(transactional),
            Arc::new(work_logs),
            Arc::new(FixedClock),
            Arc::new(Counting::default()),
        ))
    }
}

pub(crate) fn minutes(n: i64) -> Minutes {
    Minutes::try_new(n).expect("valid")
}

pub(crate) fn title() -> Title {
    Title::try_new("Paint the fence").expect("valid")
}

pub(crate) fn snapshot(id: WorkLogId) -> WorkLogSnapshot {
    WorkLog::reserve(id, PORTFOLIO, title(), minutes(90), NOON).state().clone()
}

pub(crate) fn stored(status: WorkLogStatus, version: u32) -> WorkLog {
    WorkLog::restore(WorkLogSnapshot { status, version: Version::new(version), ..snapshot(WORK_LOG) })
}

pub(crate) fn target() -> WorkLogTarget {
    WorkLogTarget { portfolio: PORTFOLIO, id: WORK_LOG, expected_version: None, traceparent: None }
}
