//! Signals to our own processes.

use std::{
    fmt,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    chaos::{
        dice::Dice,
        error::ChaosError,
        fault::Target,
        fleet::{self, LEASE},
        stage::{Moment, Stage},
        timer::lasting,
    },
    pause,
};

/// How long a kill waits for the moment at which the process holds a lease.
const MID_FLIGHT: Duration = Duration::from_secs(2);
/// How long the leader may take to begin with the cleaning.
const CLEANING: Duration = Duration::from_secs(10);
/// More than the grace period of the processes.
const DRAIN: Duration = Duration::from_secs(30);
/// The exit code of a process that did not drain in time.
const NOT_DRAINED: i32 = 70;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessFault {
    /// SIGKILL, in mid-flight if it holds a lease soon, and a new start at once.
    Kill { name: &'static str },
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Stop { name: &'static str, lasts: Duration },
    /// SIGTERM, and a new start after its end.
    Terminate { name: &'static str },
    /// SIGKILL for whichever process cleans, while it does.
    KillLeader,
}

impl ProcessFault {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let [first, others @ ..] = fleet::NAMES;
        let name = dice.pick(first, &others);
        match dice.within(0..100) {
            0..70 => Self::Kill { name },
            70..80 => Self::Stop { name, lasts: LEASE + dice.millis(500..3_000) },
            80..92 => Self::Terminate { name },
            _ => Self::KillLeader,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "SIGKILL",
            Self::Stop { .. } => "SIGSTOP longer than the lease",
            Self::Terminate { .. } => "SIGTERM",
            Self::KillLeader => "SIGKILL of the leader while it cleans",
        }
    }

    pub(crate) const fn target(&self) -> Target {
        match self {
            Self::Kill { name } | Self::Stop { name, .. } | Self::Terminate { name } => Target::Process(name),
            Self::KillLeader => Target::Leader,
        }
    }

    pub(crate) const fn kills(&self) -> bool {
        matches!(self, Self::Kill { .. } | Self::KillLeader)
    }

    pub(crate) async fn happen(&self, stage: &Stage) -> Result<(), ChaosError> {
        match *self {
            Self::Kill { name } => {
                let moment = until_it_holds_a_lease(stage, name).await;
                kill(stage, name, moment).await
            }
            Self::Stop { name, lasts } => {
                let member = stage.fleet.member(name)?;
                member.signal(Signal::STOP).await?;
                lasting(lasts).await;
                member.signal(Signal::CONT).await
            }
            Self::Terminate { name } => {
                let Some(status) = stage.fleet.member(name)?.terminate(DRAIN).await? else { return Ok(()) };
                if !status.success() && status.code() != Some(NOT_DRAINED) {
                    return Err(ChaosError::BadEnd { name, status });
                }
                stage.fleet.start(name).await
            }
            Self::KillLeader => match cleaning_leader(stage).await? {
                Some(name) => kill(stage, name, Moment::Cleaning).await,
                // Nobody led within the time, because of another fault: the next one who does cleans.
                None => Ok(()),
            },
        }
    }
}

/// Leaves a process alone that is down already: whoever took it down starts it.
async fn kill(stage: &Stage, name: &'static str, moment: Moment) -> Result<(), ChaosError> {
    if stage.fleet.member(name)?.kill().await? {
        stage.kills.note(moment);
        stage.fleet.start(name).await?;
    }
    Ok(())
}

/// Returns at once with the first lease; after a while without one, since another fault may keep the process from it.
async fn until_it_holds_a_lease(stage: &Stage, name: &str) -> Moment {
    let begun = Instant::now();
    while begun.elapsed() < MID_FLIGHT {
        let Ok(mut tally) = stage.tally().await else {
            pause().await;
            continue;
        };
        while begun.elapsed() < MID_FLIGHT {
            match tally.held_by(name).await {
                Ok(0) => {}
                Ok(_) => return Moment::MidFlight,
                Err(_) => break,
            }
        }
    }
    Moment::Any
}

/// Gives the leader history to clean, and its name once some of it is gone.
///
/// # Errors
/// If the database refuses the history: without it, this fault would never happen, and nobody would know.
async fn cleaning_leader(stage: &Stage) -> Result<Option<&'static str>, ChaosError> {
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < CLEANING {
        let look = async {
            let mut history = stage.history().await?;
            if before.is_none() {
                history.add().await?;
                before = Some(history.left().await?);
            }
            while begun.elapsed() < CLEANING {
                let left = history.left().await?;
                if left > 0 && Some(left) < before {
                    return history.leader().await;
                }
            }
            Ok(None)
        };
        match look.await {
            Ok(leader) => return Ok(leader.and_then(|leader| fleet::NAMES.into_iter().find(|name| *name == leader))),
            Err(error) if is_refusal(&error) => return Err(error.into()),
            Err(_unreachable) => pause().await,
        }
    }
    Ok(None)
}

/// Whether the database has looked at a statement and will not have it, now or later: it is not away, nor full.
fn is_refusal(error: &sqlx::Error) -> bool {
    /// Insufficient resources, and intervention by an operator: shutdown and start among them.
    const PASSING: [&str; 2] = ["53", "57"];
    if let sqlx::Error::Database(error) = error
        && let Some(code) = error.code()
    {
        return !PASSING.iter().any(|class| code.starts_with(class));
    }
    false
}

impl fmt::Display for ProcessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { name } => write!(f, "SIGKILL {name}"),
            Self::Stop { name, lasts } => write!(f, "SIGSTOP {name} for {lasts:?}"),
            Self::Terminate { name } => write!(f, "SIGTERM {name}"),
            Self::KillLeader => write!(f, "SIGKILL the leader while it cleans"),
        }
    }
}
