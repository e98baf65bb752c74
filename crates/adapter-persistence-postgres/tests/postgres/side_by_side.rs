//! Appenders, relays, a cleaner and a frozen process side by side, and a table that refuses.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{OutboxReaper, PostgresLeadership};
use application_core::{
    outbox::{ClaimRequest, EventId, HolderName},
    ports::{LeadershipPort, OutboxMaintenancePort, OutboxStorePort, ReapRequest, StoreError},
};

use super::{
    connection::control,
    support::{Claim, Fixture, PATIENCE, confirmed, event, events, ids, request},
};

/// Cases L20 and L27.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cleaning_beside_relays_and_appenders_deadlocks_with_nobody_and_takes_nothing_that_is_open() {
    const EACH: usize = 4;
    const ROUNDS: usize = 40;
    const BATCH: u32 = 20;
    const ALL: usize = EACH * ROUNDS * 5;
    let fixture = Arc::new(Fixture::with("busy", |settings| settings.pool.max_connections = 20).await);
    let leadership = PostgresLeadership::new(fixture.database.clone());
    let holder = HolderName::new("cleaner");
    let term = leadership.acquire("m", &holder, Duration::from_mins(10)).await.expect("asked").expect("vacant");
    let (published, removed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..EACH {
        let own = Arc::clone(&fixture);
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                own.append(&["a", "b", "c", "d", "e"].map(event)).await;
            }
            BTreeSet::new()
        }));
        let (own, count) = (Arc::clone(&fixture), Arc::clone(&published));
        tasks.push(tokio::spawn(async move {
            let mut sent: BTreeSet<EventId> = BTreeSet::new();
            while count.load(Ordering::Relaxed) < ALL {
                let claim = own.claim().await;
                let settled = own.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
                let mut postponed = settled.postponed;
                while !postponed.is_empty() {
                    let freed: Vec<_> = claim
                        .runs
                        .iter()
                        .filter(|run| postponed.contains(&run.lane))
                        .map(|run| confirmed(run, 0))
                        .collect();
                    postponed = own.store.acknowledge(claim.token, &freed).await.expect("freed").postponed;
                }
                count.fetch_add(claim.ids().len(), Ordering::Relaxed);
                sent.extend(claim.ids());
            }
            sent
        }));
        let (database, term, count) = (fixture.database.clone(), term.clone(), Arc::clone(&removed));
        tasks.push(tokio::spawn(async move {
            let cleaner = OutboxReaper::new(database);
            while count.load(Ordering::Relaxed) < ALL {
                let batch = cleaner.clean_up(&term, Duration::ZERO, BATCH).await.expect("cleaned").expect("leads");
                assert!(batch <= BATCH);
                count.fetch_add(usize::try_from(batch).expect("small"), Ordering::Relaxed);
            }
            BTreeSet::new()
        }));
    }
    let mut sent = BTreeSet::new();
    for task in tasks {
        let of_one = tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("ended");
        sent.extend(of_one);
    }
    assert_eq!((sent.len(), published.load(Ordering::Relaxed), removed.load(Ordering::Relaxed)), (ALL, ALL, ALL));
    assert_eq!(fixture.sql().await.one::<i64>("SELECT count(*) FROM outbox_lane").await, 0);
}

/// Case L28.
#[tokio::test]
async fn others_keep_claiming_while_a_relays_server_process_is_frozen_in_the_middle_of_its_claim() {
    let fixture = Fixture::with("midclaim", |settings| {
        settings.statement_timeout = PATIENCE;
        settings.lock_timeout = PATIENCE;
    })
    .await;
    let control = control().await.expect("a server that may be paused: leave DATABASE_URL unset");
    let mut sql = fixture.sql().await;
    // The lanes are locked when the claim's row is written: there the claim of the one relay waits for us.
    sql.execute(
        "CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS \
           'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END'; \
         CREATE TRIGGER wait_here BEFORE INSERT ON outbox_claim \
           FOR EACH ROW WHEN (NEW.holder = 'frozen') EXECUTE FUNCTION wait_here()",
    )
    .await;
    sql.rows("SELECT pg_advisory_lock(1)").await;
    let caught = events("caught", 1);
    fixture.append(&caught).await;
    let store = fixture.store.clone();
    let claiming = ClaimRequest { holder: HolderName::new("frozen"), ..request() };
    let frozen = tokio::spawn(async move { store.claim(&claiming).await });
    let inside = "FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event = 'advisory' AND query LIKE '%outbox_claim%'";
    sql.wait_for("the claim holds its lane", &format!("SELECT EXISTS (SELECT {inside})")).await;
    let pid = sql.one::<i32>(&format!("SELECT pid {inside}")).await;
    control.stop_backend(pid).await.expect("stopped");

    for _ in 0..3 {
        let free = events("free", 2);
        fixture.append(&free).await;
        let claim = fixture.claim().await;
        assert_eq!(claim.ids(), ids(&free));
        fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    }
    control.resume_backend(pid).await.expect("resumed");
    sql.rows("SELECT pg_advisory_unlock(1)").await;
    let had = frozen.await.expect("ended").expect("claimed");
    assert_eq!(had[0].events[0].id, caught[0].id(), "it goes on where it stood");
}

/// Case L16.
#[tokio::test]
async fn an_event_that_the_table_refuses_to_mark_published_ends_dead_and_holds_up_nobody_else() {
    let fixture = Fixture::new("refuses").await;
    let (bad, good) = (event("bad"), event("good"));
    let constraint = format!(
        "ALTER TABLE outbox_event ADD CONSTRAINT never_published CHECK (id <> '{}' OR status <> 'PUBLISHED')",
        bad.id()
    );
    fixture.sql().await.execute(&constraint).await;
    fixture.append(&[bad.clone(), good.clone()]).await;
    let reap = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: vec![] };
    for expiry in 1..=10 {
        let claim: Claim = fixture.claim().await;
        for run in claim.confirmed() {
            let is_bad = run.confirmed == [bad.id()];
            let settled = fixture.store.acknowledge(claim.token, &[run]).await;
            assert_eq!(matches!(settled, Err(StoreError::Refused { .. })), is_bad, "{settled:?}");
        }
        assert_eq!(fixture.status(bad.id()).await, "IN_FLIGHT");
        fixture.expire(claim.token).await;
        assert_eq!(fixture.reaper.reap(&reap).await.expect("reaped").dead, u32::from(expiry == 10));
    }
    assert_eq!(fixture.status(bad.id()).await, "DEAD");
    assert_eq!(fixture.status(good.id()).await, "PUBLISHED");
    fixture.assert_lanes_are_sound().await;
}
