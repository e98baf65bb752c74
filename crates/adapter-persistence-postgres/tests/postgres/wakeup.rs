//! NOTIFY and LISTEN: few messages, and a listener that comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{ListenWakeup, NotifyWakeup, WakeupSettings};
use application_core::ports::{OutboxAppendPort, UnitOfWork, WakeupPort};
use sqlx::postgres::PgListener;

use super::support::{Fixture, PATIENCE, event, wait_until};

fn settings() -> WakeupSettings {
    WakeupSettings {
        keepalive: Duration::from_millis(200),
        first_pause: Duration::from_millis(10),
        longest_pause: Duration::from_millis(50),
        ..WakeupSettings::default()
    }
}

fn counting(fixture: &Fixture) -> (ListenWakeup, Arc<AtomicU64>) {
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let listener = ListenWakeup::start(&fixture.database, settings(), move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    (listener, heard)
}

const LISTENER: &str = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%(listen)'";

#[tokio::test]
async fn many_calls_become_few_messages_and_the_last_call_is_heard() {
    let fixture = Fixture::new("debounce").await;
    let (listener, heard) = counting(&fixture);
    wait_until("it listens", || listener.is_connected()).await;
    let interval = Duration::from_hours(1);
    let slow = NotifyWakeup::start(&fixture.database, WakeupSettings { notify_interval: interval, ..settings() });
    for _ in 0..1_000 {
        slow.wake();
    }
    wait_until("the first is sent", || slow.sent() == 1).await;
    for _ in 0..1_000 {
        slow.wake();
    }
    let quick = NotifyWakeup::start(&fixture.database, settings());
    let before = heard.load(Ordering::Relaxed);
    quick.wake();
    wait_until("the message is heard", || heard.load(Ordering::Relaxed) > before).await;
    for _ in 0..1_000 {
        quick.wake();
    }
    wait_until("what was asked for meanwhile is sent as well", || quick.sent() >= 2).await;
    assert!(quick.sent() <= 3, "{} messages for 1,001 calls", quick.sent());
    assert_eq!(slow.sent(), 1, "no second one within the interval");
}

/// Case P43: a NOTIFY in an appending transaction would hold a lock of the whole cluster until that transaction has ended.
#[tokio::test]
async fn sixteen_and_sixty_four_appenders_at_once_send_no_notify_themselves() {
    const EACH: usize = 4;
    let fixture = Fixture::with("appenders", |settings| settings.pool.max_connections = 64).await;
    let mut sql = fixture.sql().await;
    for appenders in [16, 64] {
        let mut heard = PgListener::connect(fixture.url()).await.expect("connected");
        heard.listen(&settings().channel).await.expect("listens");
        let interval = Duration::from_hours(1);
        let wakeup = NotifyWakeup::start(&fixture.database, WakeupSettings { notify_interval: interval, ..settings() });
        let tasks = (0..appenders).map(|n| {
            let (work, events, wakeup) = (fixture.work.clone(), fixture.events.clone(), wakeup.clone());
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let mut tx = work.begin().await.expect("begun");
                    events.append(&mut tx, &[event(&format!("a{n}"))]).await.expect("appended");
                    work.commit(tx).await.expect("committed");
                    wakeup.wake();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("ended");
        }
        wait_until("the first call is sent", || wakeup.sent() == 1).await;
        let sender = "SELECT pid FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name LIKE '%(notify)'";
        let sender = sql.one::<i32>(sender).await;
        sql.execute(&format!("NOTIFY {}, 'all'", settings().channel)).await;
        let mut senders = Vec::new();
        loop {
            let message = tokio::time::timeout(PATIENCE, heard.recv()).await.expect("in time").expect("heard");
            if message.payload() == "all" {
                break;
            }
            senders.push(message.process_id());
        }
        assert_eq!(senders, [u32::try_from(sender).expect("a process")], "one for {} commits", appenders * EACH);
        let appended = sql.one::<i64>("WITH gone AS (DELETE FROM outbox_event RETURNING 1) SELECT count(*) FROM gone");
        assert_eq!(usize::try_from(appended.await).expect("counted"), appenders * EACH);
        drop(wakeup);
        let gone = "SELECT count(*) = 0 FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name LIKE '%(notify)'";
        sql.wait_for("the sender's session has ended", gone).await;
    }
}

#[tokio::test]
async fn a_listener_that_is_cut_off_comes_back_counts_it_and_hears_again() {
    let fixture = Fixture::new("cut").await;
    let (listener, heard) = counting(&fixture);
    wait_until("it listens", || listener.is_connected()).await;
    assert_eq!(listener.reconnects(), 0);
    let mut sql = fixture.sql().await;
    for round in 1..=3 {
        sql.wait_for("the server knows it", &format!("SELECT EXISTS (SELECT {LISTENER})")).await;
        let before = heard.load(Ordering::Relaxed);
        sql.rows(&format!("SELECT pg_terminate_backend(pid) {LISTENER}")).await;
        wait_until("it came back", || listener.reconnects() == round && listener.is_connected()).await;
        wait_until("it calls for what was missed", || heard.load(Ordering::Relaxed) > before).await;
    }
    let before = heard.load(Ordering::Relaxed);
    let sender = NotifyWakeup::start(&fixture.database, settings());
    sender.wake();
    wait_until("the message is heard", || heard.load(Ordering::Relaxed) > before).await;
}

#[tokio::test]
async fn a_listener_whose_server_process_is_frozen_connects_again() {
    let fixture = Fixture::new("frozen").await;
    let control = super::connection::control().await.expect("a server that may be paused: leave DATABASE_URL unset");
    let (listener, heard) = counting(&fixture);
    wait_until("it listens", || listener.is_connected()).await;
    let mut sql = fixture.sql().await;
    sql.wait_for("the server knows it", &format!("SELECT EXISTS (SELECT {LISTENER})")).await;
    let pid: i32 = sql.one(&format!("SELECT pid {LISTENER}")).await;
    control.stop_backend(pid).await.expect("stopped");
    wait_until("it came back", || listener.reconnects() >= 1 && listener.is_connected()).await;
    let before = heard.load(Ordering::Relaxed);
    let sender = NotifyWakeup::start(&fixture.database, settings());
    sender.wake();
    wait_until("the message is heard", || heard.load(Ordering::Relaxed) > before).await;
    control.resume_backend(pid).await.expect("resumed");
}

#[tokio::test]
async fn a_sender_that_cannot_connect_owes_its_message_and_sends_it_later() {
    let fixture = Fixture::new("owes").await;
    let (listener, heard) = counting(&fixture);
    wait_until("it listens", || listener.is_connected()).await;
    let sender = NotifyWakeup::start(&fixture.database, settings());
    sender.wake();
    wait_until("it is connected", || sender.sent() == 1).await;
    let mut sql = fixture.sql().await;
    sql.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name LIKE '%(notify)'",
    )
    .await;
    let before = heard.load(Ordering::Relaxed);
    sender.wake();
    wait_until("the message is heard", || heard.load(Ordering::Relaxed) > before).await;
}
