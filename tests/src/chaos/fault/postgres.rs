//! What happens to PostgreSQL and its server processes.

use std::{fmt, time::Duration};

use sqlx::Row;
use test_support::servers::{ServersError, Stop};

use crate::chaos::{dice::Dice, error::ChaosError, stage::Stage, timer::lasting};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PostgresFault {
    /// A stop in order, and a start.
    Restart,
    /// A stop without a checkpoint, and a start that recovers from the log.
    Crash,
    /// SIGSTOP for one of the server processes of our connections. `nth` of them, counted around.
    Freeze { nth: u64, lasts: Duration },
    /// `pg_terminate_backend` for `count` of them, from the `nth` on.
    Terminate { nth: u64, count: u64 },
}

impl PostgresFault {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let nth = dice.within(0..1_000);
        match dice.within(0..100) {
            0..15 => Self::Restart,
            15..35 => Self::Crash,
            35..65 => Self::Freeze { nth, lasts: dice.millis(1_000..6_000) },
            _ => Self::Terminate { nth, count: dice.within(1..12) },
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Restart => "PostgreSQL restart",
            Self::Crash => "PostgreSQL immediate stop",
            Self::Freeze { .. } => "SIGSTOP of a backend",
            Self::Terminate { .. } => "pg_terminate_backend",
        }
    }

    pub(crate) async fn happen(&self, stage: &Stage) -> Result<(), ChaosError> {
        match *self {
            Self::Restart => Ok(stage.postgres.restart(Stop::Graceful).await?),
            Self::Crash => Ok(stage.postgres.restart(Stop::Immediate).await?),
            Self::Freeze { nth, lasts } => {
                let backends = backends(stage).await?;
                let Some(pid) = around(&backends, nth) else { return Ok(()) };
                gone_is_fine(stage.postgres.stop_backend(pid).await)?;
                lasting(lasts).await;
                gone_is_fine(stage.postgres.resume_backend(pid).await)
            }
            Self::Terminate { nth, count } => {
                let backends = backends(stage).await?;
                let mut connection = stage.connect().await?;
                for pid in (nth..nth + count).filter_map(|nth| around(&backends, nth)) {
                    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut connection).await?;
                }
                Ok(())
            }
        }
    }
}

/// The server processes of our processes' connections, the oldest first.
async fn backends(stage: &Stage) -> Result<Vec<i32>, ChaosError> {
    let ours = "SELECT pid FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name LIKE 'app%' ORDER BY backend_start, pid";
    let rows = sqlx::query(ours).fetch_all(&mut stage.connect().await?).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

fn around(backends: &[i32], nth: u64) -> Option<i32> {
    let count = u64::try_from(backends.len()).ok().filter(|count| *count > 0)?;
    backends.get(usize::try_from(nth % count).ok()?).copied()
}

/// Its client may have left it meanwhile.
fn gone_is_fine(outcome: Result<(), ServersError>) -> Result<(), ChaosError> {
    match outcome {
        Ok(()) | Err(ServersError::ForeignProcess { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl fmt::Display for PostgresFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart => write!(f, "restart PostgreSQL"),
            Self::Crash => write!(f, "stop PostgreSQL at once and start it"),
            Self::Freeze { nth, lasts } => write!(f, "SIGSTOP backend {nth} for {lasts:?}"),
            Self::Terminate { nth, count } => write!(f, "pg_terminate_backend for {count} from {nth} on"),
        }
    }
}
