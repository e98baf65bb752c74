//! What happens to RabbitMQ, its connections and what is declared in it.

use std::{fmt, sync::atomic::Ordering, time::Duration};

use crate::chaos::{dice::Dice, error::ChaosError, stage::Stage, timer::lasting};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RabbitMqFault {
    /// A stop of the node in order, and a start.
    Restart,
    /// SIGKILL for the node, and a start.
    Crash,
    /// `stop_app`, which closes all connections and leaves the node up, and `start_app`.
    StopApp { lasts: Duration },
    /// A memory alarm, which blocks publishers.
    MemoryAlarm { lasts: Duration },
    /// Every connection is closed by the broker.
    CloseConnections,
    /// The exchange is deleted and later declared again.
    DeleteExchange { lasts: Duration },
    /// A queue that is bound beside those that count is deleted, with all that is in it, and later declared again.
    DeleteQueue { lasts: Duration },
    /// The node is stopped in order, and started after minutes; the long form has one, alone in its round.
    Outage,
    /// A further queue is bound that is full and rejects what is published.
    FullQueue { lasts: Duration },
}

/// Longer than every pause, lease and time-out of the processes, many times over.
const OUTAGE: Duration = Duration::from_mins(2);

impl RabbitMqFault {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let lasts = dice.millis(500..5_000);
        match dice.within(0..100) {
            0..8 => Self::Restart,
            8..16 => Self::Crash,
            16..26 => Self::StopApp { lasts },
            26..40 => Self::MemoryAlarm { lasts },
            40..55 => Self::CloseConnections,
            55..70 => Self::DeleteExchange { lasts },
            70..80 => Self::DeleteQueue { lasts },
            _ => Self::FullQueue { lasts },
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Restart => "RabbitMQ restart",
            Self::Crash => "RabbitMQ SIGKILL",
            Self::StopApp { .. } => "RabbitMQ stop_app, start_app",
            Self::MemoryAlarm { .. } => "RabbitMQ memory alarm",
            Self::CloseConnections => "RabbitMQ closes all connections",
            Self::DeleteExchange { .. } => "exchange deleted",
            Self::DeleteQueue { .. } => "queue deleted",
            Self::Outage => "RabbitMQ down for two minutes",
            Self::FullQueue { .. } => "full queue, reject-publish",
        }
    }

    pub(crate) async fn happen(&self, stage: &Stage) -> Result<(), ChaosError> {
        let (node, topology) = (&stage.rabbitmq, &stage.topology);
        match *self {
            Self::Restart => node.restart().await?,
            Self::Crash => {
                node.kill().await?;
                node.start().await?;
            }
            Self::StopApp { lasts } => {
                node.ctl(&["stop_app"]).await?;
                lasting(lasts).await;
                node.ctl(&["start_app"]).await?;
                node.wait_until_ready().await?;
            }
            Self::MemoryAlarm { lasts } => {
                node.ctl(&["set_vm_memory_high_watermark", "0"]).await?;
                lasting(lasts).await;
                node.ctl(&["set_vm_memory_high_watermark", "0.4"]).await?;
            }
            Self::CloseConnections => drop(node.ctl(&["close_all_connections", "chaos"]).await?),
            Self::DeleteExchange { lasts } => {
                topology.delete_exchange().await?;
                lasting(lasts).await;
                topology.declare_exchange().await?;
            }
            Self::DeleteQueue { lasts } => {
                topology.delete_aside().await?;
                lasting(lasts).await;
                topology.declare_aside().await?;
            }
            Self::Outage => {
                node.stop().await?;
                lasting(OUTAGE).await;
                // The node comes back also if the database does not answer.
                let waiting = stage.number(WAITING).await;
                node.start().await?;
                stage.waited.fetch_add(waiting?.unsigned_abs(), Ordering::Relaxed);
            }
            Self::FullQueue { lasts } => {
                topology.bind_full().await?;
                lasting(lasts).await;
                topology.delete_full().await?;
            }
        }
        Ok(())
    }
}

const WAITING: &str = "SELECT count(*) FROM outbox_event WHERE published_at IS NULL AND resolved_at IS NULL";

impl fmt::Display for RabbitMqFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restart => write!(f, "restart RabbitMQ"),
            Self::Crash => write!(f, "SIGKILL RabbitMQ and start it"),
            Self::StopApp { lasts } => write!(f, "rabbitmqctl stop_app for {lasts:?}"),
            Self::MemoryAlarm { lasts } => write!(f, "a memory alarm for {lasts:?}"),
            Self::CloseConnections => write!(f, "rabbitmqctl close_all_connections"),
            Self::DeleteExchange { lasts } => write!(f, "delete the exchange for {lasts:?}"),
            Self::DeleteQueue { lasts } => write!(f, "delete a queue beside for {lasts:?}"),
            Self::Outage => write!(f, "stop RabbitMQ for {OUTAGE:?}"),
            Self::FullQueue { lasts } => write!(f, "a full queue that rejects for {lasts:?}"),
        }
    }
}
