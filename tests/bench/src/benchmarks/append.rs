//! `append`: what an event adds to a business transaction, and what waking relays adds to that.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use adapter_persistence_postgres::{ListenWakeup, NotifyWakeup, WakeupSettings};
use tokio::task::JoinSet;

use crate::{
    appender::{Appender, Nobody, fresh_aggregate},
    error::BenchError,
    figures::rate,
    runner::Bench,
    stage::connect_with,
};

const CLIENTS: [usize; 4] = [1, 4, 16, 64];
/// From so many clients on it is measured what waking takes (case P43).
const CROWD: usize = 16;
/// One for each client, and some for those that wake and listen.
const CONNECTIONS: u32 = 70;

/// What a client commits again and again.
#[derive(Debug, Clone, Copy)]
enum Work {
    BusinessRow,
    BusinessRowAndEvent,
    TenEventsSingly,
    TenEventsTogether,
}

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let span = bench.time(Duration::from_secs(4), Duration::from_millis(500));
    for _ in 0..bench.rounds() {
        let database = bench.stage.database("append").await?;
        let pool = connect_with(database.url(), CONNECTIONS).await?;
        // Somebody listens, as a relay in another process would.
        let _listener = ListenWakeup::start(&pool, WakeupSettings::default(), || {});
        let silent = Appender::new(&pool, Arc::new(Nobody));
        let waking = Appender::new(&pool, Arc::new(NotifyWakeup::start(&pool, WakeupSettings::default())));
        for clients in CLIENTS {
            let business = commits(&silent, Work::BusinessRow, clients, span).await?;
            let event = commits(&silent, Work::BusinessRowAndEvent, clients, span).await?;
            let woken = commits(&waking, Work::BusinessRowAndEvent, clients, span).await?;
            bench.record(&format!("append.business.{clients}"), "commits/s", business);
            bench.record(&format!("append.event.{clients}"), "commits/s", event);
            bench.record(&format!("append.event_woken.{clients}"), "commits/s", woken);
            bench.record(&format!("append.event_cost.{clients}"), "part", 1.0 - event / business);
            if clients >= CROWD {
                // Once more the other way round: what came first must not be what is faster.
                let woken_first = commits(&waking, Work::BusinessRowAndEvent, clients, span).await?;
                let then = commits(&silent, Work::BusinessRowAndEvent, clients, span).await?;
                let cost = 1.0 - (woken + woken_first) / (event + then);
                bench.record(&format!("append.wakeup.cost.{clients}"), "part", cost);
            }
        }
        let singly = commits(&silent, Work::TenEventsSingly, 4, span).await? * 10.0;
        let together = commits(&silent, Work::TenEventsTogether, 4, span).await? * 10.0;
        bench.record("append.ten.singly", "events/s", singly);
        bench.record("append.ten.together", "events/s", together);
        bench.record("append.ten.ratio", "ratio", together / singly);
        pool.close().await;
    }
    Ok(())
}

/// Commits a second by clients side by side, each with the next as soon as the last is answered. Connections are there
/// before the time begins.
async fn commits(appender: &Appender, work: Work, clients: usize, span: Duration) -> Result<f64, BenchError> {
    appender.warm_up(clients).await?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let appender = appender.clone();
        tasks.spawn(async move {
            let mut commits = 0;
            while begun.elapsed() < span {
                match work {
                    Work::BusinessRow => appender.business_row_alone().await?,
                    Work::BusinessRowAndEvent => appender.append(&[fresh_aggregate()]).await.map(drop)?,
                    Work::TenEventsSingly => appender.events_alone(10, false).await?,
                    Work::TenEventsTogether => appender.events_alone(10, true).await?,
                }
                commits += 1;
            }
            Ok::<usize, BenchError>(commits)
        });
    }
    let mut all = 0;
    while let Some(task) = tasks.join_next().await {
        all += task.map_err(std::io::Error::other)??;
    }
    Ok(rate(all, begun.elapsed()))
}
