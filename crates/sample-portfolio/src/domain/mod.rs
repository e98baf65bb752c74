//! The domain: what a work log is and may become. It knows no port, no transport and no storage.

mod events;
mod invalid;
mod values;
mod work_log;

pub use events::WorkLogEvent;
pub use invalid::{InvalidWorkLog, WorkLogField};
pub use values::{Minutes, PortfolioId, Title, Version, WorkLogId};
pub use work_log::{IllegalTransition, WorkLog, WorkLogSnapshot, WorkLogStatus, WorkLogTransition};
