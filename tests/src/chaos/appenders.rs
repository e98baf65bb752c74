//! Clients that create work logs and walk each to its end, so that events are appended all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use uuid::Uuid;

use super::{error::ChaosError, timer::lasting};
use crate::work_load::{LoadError, WorkLoad};

/// Events of one work log that is walked to its end.
pub(crate) const EVENTS: u16 = 3;
/// The portfolios that work logs are spread over.
const PORTFOLIOS: u64 = 8;

/// Clients at work; dropping it stops them where they are.
#[derive(Debug)]
pub(crate) struct Appenders {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<i64, LoadError>>,
}

impl Appenders {
    /// `count` clients that each begin a work log `every` so often, or at once if the one before took longer. `label`
    /// tells their keys from others.
    pub(crate) fn start(clients: &WorkLoad, label: &str, count: u32, every: Duration) -> Self {
        let (stop, created) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (clients, label) = (clients.clone(), label.to_owned());
            let (stop, created) = (Arc::clone(&stop), Arc::clone(&created));
            tasks.spawn(async move {
                let mut completed = 0;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let number = created.fetch_add(1, Ordering::Relaxed);
                    let portfolio =
                        Uuid::from_u128(0x6f2a_0c1d_5b7e_4d3f_9a8b_0000_0000_0000 + u128::from(number % PORTFOLIOS));
                    clients.complete_one(portfolio, &format!("{label}-{number}"), 15).await?;
                    completed += 1;
                    lasting(every.saturating_sub(begun.elapsed())).await;
                }
                Ok(completed)
            });
        }
        Self { stop, tasks }
    }

    /// Lets every client finish what it is at; returns how many work logs were answered.
    pub(crate) async fn finish(mut self) -> Result<i64, ChaosError> {
        self.stop.store(true, Ordering::Relaxed);
        let mut completed = 0;
        while let Some(task) = self.tasks.join_next().await {
            completed += task.map_err(std::io::Error::other)??;
        }
        Ok(completed)
    }
}
