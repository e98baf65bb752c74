//! Use cases: what can be asked of this module. Each file holds a driving port and the use case behind it.
//!
//! Commands change one work log in one transaction and record its events there. Queries read what is committed.
//! `Tx` is the adapter's transaction: the use cases carry it and never look inside.

mod cancel_work_log;
mod clean_up_idempotency_keys;
mod complete_work_log;
mod create_work_log;
mod error;
mod get_portfolio_minutes;
mod get_work_log;
mod list_work_logs;
mod start_work_log;
mod work_log_writer;

#[cfg(test)]
pub(crate) mod testing;

pub use cancel_work_log::{CancelWorkLog, CancelWorkLogUseCase};
pub use clean_up_idempotency_keys::{CleanUpIdempotencyKeys, CleanUpIdempotencyKeysUseCase, IdempotencyKeyPolicy};
pub use complete_work_log::{CompleteWorkLog, CompleteWorkLogUseCase};
pub use create_work_log::{CreateWorkLog, CreateWorkLogCommand, CreateWorkLogUseCase, CreatedWorkLog};
pub use error::CommandError;
pub use get_portfolio_minutes::{GetPortfolioMinutes, GetPortfolioMinutesUseCase};
pub use get_work_log::{GetWorkLog, GetWorkLogUseCase};
pub use list_work_logs::{InvalidPageSize, ListWorkLogs, ListWorkLogsUseCase, PageSize, WorkLogPage};
pub use start_work_log::{StartWorkLog, StartWorkLogUseCase};
pub use work_log_writer::{WorkLogTarget, WorkLogWriter};

#[cfg(test)]
pub use mocks::*;

#[cfg(test)]
mod mocks {
    pub use super::{
        cancel_work_log::MockCancelWorkLogUseCase, clean_up_idempotency_keys::MockCleanUpIdempotencyKeysUseCase,
        complete_work_log::MockCompleteWorkLogUseCase, create_work_log::MockCreateWorkLogUseCase,
        get_portfolio_minutes::MockGetPortfolioMinutesUseCase, get_work_log::MockGetWorkLogUseCase,
        list_work_logs::MockListWorkLogsUseCase, start_work_log::MockStartWorkLogUseCase,
    };
}
