//! Claim: who gets which events, and how many.

use std::time::Duration;

use application_core::{
    outbox::{ClaimRequest, ClaimScope, NewOutboxEvent},
    ports::{OutboxAppendPort, OutboxStorePort, UnitOfWork},
};

use super::support::{Fixture, event, events, ids, request};

/// Case O2: the first relay stalls with half of an aggregate, and the second looks in both ways that there are.
#[tokio::test]
async fn a_claimed_event_is_invisible_to_a_second_relay() {
    let fixture = Fixture::new("claim").await;
    let appended = events("a", 10);
    let (first_half, second_half) = appended.split_at(5);
    fixture.append(&appended).await;
    let batch = || ClaimRequest { max_events: 5, ..request() };
    let first = fixture.claim_as(batch()).await;
    assert_eq!(first.ids(), ids(first_half));
    assert_eq!(fixture.status(first_half[0].id()).await, "IN_FLIGHT");
    for scope in [ClaimScope::Due, ClaimScope::Overdue] {
        assert_eq!(fixture.claim_as(ClaimRequest { scope, ..batch() }).await.runs, [], "{scope:?}");
    }
    fixture.store.acknowledge(first.token, &first.confirmed()).await.expect("settled");
    let second = fixture.claim_as(batch()).await;
    assert_eq!(second.ids(), ids(second_half));
    fixture.store.acknowledge(second.token, &second.confirmed()).await.expect("settled");
    assert_eq!(fixture.claim().await.runs, [], "everything is published");
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn relays_that_claim_at_the_same_time_share_no_event() {
    let fixture = Fixture::new("share").await;
    let appended: Vec<NewOutboxEvent> = (0..200).map(|n| event(&format!("a{}", n % 50))).collect();
    fixture.append(&appended).await;
    let claims = (0..8).map(|_| {
        let store = fixture.store.clone();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let runs = store.claim(&ClaimRequest { max_lanes: 5, ..request() }).await.expect("claimed");
                if runs.is_empty() {
                    return claimed;
                }
                claimed.extend(runs.into_iter().flat_map(|run| run.events).map(|event| event.id));
            }
        })
    });
    let mut all = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        all.extend(claim.await.expect("ended"));
    }
    all.sort();
    assert_eq!(all, ids(&appended));
}

#[tokio::test]
async fn an_event_appended_behind_a_leased_run_waits_for_its_settlement() {
    let fixture = Fixture::new("gate").await;
    fixture.append(&events("a", 2)).await;
    let first = fixture.claim().await;
    let late = event("a");
    fixture.append(std::slice::from_ref(&late)).await;
    assert_eq!(fixture.claim().await.runs, []);
    assert_eq!(fixture.status(late.id()).await, "PENDING", "the lease does not cover it");
    fixture.store.acknowledge(first.token, &first.confirmed()).await.expect("settled");
    assert_eq!(fixture.claim().await.ids(), [late.id()]);
}

#[tokio::test]
async fn a_claim_keeps_every_bound_and_hands_out_one_event_however_large() {
    let fixture = Fixture::new("limits").await;
    for aggregate in ["a", "b", "c"] {
        fixture.append(&events(aggregate, 5)).await;
    }
    let shape = async |request: ClaimRequest| {
        let claim = fixture.claim_as(request).await;
        let lengths: Vec<usize> = claim.runs.iter().map(|run| run.events.len()).collect();
        fixture.store.release(claim.token, &claim.unconfirmed(), Duration::ZERO).await.expect("released");
        lengths
    };
    assert_eq!(shape(ClaimRequest { max_lanes: 2, ..request() }).await, [5, 5]);
    assert_eq!(shape(ClaimRequest { max_run: 2, ..request() }).await, [2, 2, 2]);
    assert_eq!(shape(ClaimRequest { max_events: 7, ..request() }).await.iter().sum::<usize>(), 7);
    // The payload takes 8 bytes.
    assert_eq!(shape(ClaimRequest { max_bytes: 24, ..request() }).await.iter().sum::<usize>(), 3);
    assert_eq!(shape(ClaimRequest { max_bytes: 0, ..request() }).await, [1]);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn the_age_of_an_event_is_told_by_the_database() {
    let fixture = Fixture::new("age").await;
    fixture.append(&events("a", 1)).await;
    fixture.sql().await.execute("UPDATE outbox_event SET created_at = created_at - interval '1 hour'").await;
    let claim = fixture.claim().await;
    let event = &claim.only_run().events[0];
    assert!(event.age_at_claim >= Duration::from_hours(1), "{:?}", event.age_at_claim);
    assert!(event.age_at_claim < Duration::from_hours(2), "{:?}", event.age_at_claim);
}

#[tokio::test]
async fn a_lane_that_an_appender_holds_is_passed_by_and_had_by_waiting_for_it() {
    let fixture = Fixture::new("held").await;
    fixture.append(&events("hot", 1)).await;
    fixture.append(&events("cold", 1)).await;
    let mut holder = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut holder, &events("hot", 1)).await.expect("appended");
    let cold = fixture.claim().await;
    assert_eq!(cold.only_run().events.len(), 1);
    let store = fixture.store.clone();
    let waiting = tokio::spawn(async move {
        loop {
            let runs = store.claim(&ClaimRequest { scope: ClaimScope::Overdue, ..request() }).await.expect("claimed");
            if !runs.is_empty() {
                return runs;
            }
        }
    });
    let asleep = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock' AND query LIKE '%outbox_claim_overdue%')";
    fixture.sql().await.wait_for("the claim waits for the lane", asleep).await;
    fixture.work.commit(holder).await.expect("committed");
    let runs = waiting.await.expect("ended");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].events.len(), 2, "it misses nothing of what the appender committed");
}

/// As if the whole index of due lanes had just been looked at and none was due: what is due was not visible then. The
/// next look was to come so long ago.
async fn nothing_was_due_when_looked_at(fixture: &Fixture, overdue: &str) {
    let known = format!(
        "DELETE FROM outbox_due_floor; INSERT INTO outbox_due_floor (looked_at, due_from, next_look_at) \
         VALUES (statement_timestamp(), statement_timestamp(), statement_timestamp() - interval '{overdue}')"
    );
    fixture.sql().await.execute(&known).await;
}

#[tokio::test]
async fn a_claim_that_finds_nothing_looks_for_a_lane_whose_append_committed_late() {
    let fixture = Fixture::new("unseen").await;
    let late = event("late");
    fixture.append(std::slice::from_ref(&late)).await;
    nothing_was_due_when_looked_at(&fixture, "0 s").await;
    assert_eq!(fixture.claim().await.ids(), [late.id()]);
}

#[tokio::test]
async fn a_lane_whose_append_committed_late_is_found_beside_others_though_nobody_claims_what_is_overdue() {
    let fixture = Fixture::new("unseen").await;
    let (late, next) = (event("late"), event("next"));
    fixture.append(std::slice::from_ref(&late)).await;
    nothing_was_due_when_looked_at(&fixture, "1 min").await;
    fixture.append(std::slice::from_ref(&next)).await;
    let left_to_others = "SELECT outbox_due_from('1 h') = f.due_from FROM outbox_due_floor f";
    assert!(fixture.sql().await.one::<bool>(left_to_others).await, "whoever has patience makes no look");
    let longest_waiting = ClaimRequest { max_lanes: 1, ..request() };
    assert_eq!(fixture.claim_as(longest_waiting).await.ids(), [late.id()], "a claim's patience ends");
}

#[tokio::test]
async fn a_look_by_a_clock_that_was_ahead_hides_no_lane() {
    let fixture = Fixture::new("set-back").await;
    fixture
        .sql()
        .await
        .execute(
            "DELETE FROM outbox_due_floor; INSERT INTO outbox_due_floor (looked_at, due_from, next_look_at) \
             SELECT t, t - interval '250 ms', t + interval '250 ms' FROM (SELECT statement_timestamp() + interval '1 h' AS t) ahead",
        )
        .await;
    let next = event("next");
    fixture.append(std::slice::from_ref(&next)).await;
    assert_eq!(fixture.claim().await.ids(), [next.id()]);
}

/// Refuses to write a claim or to settle an event at any isolation level but the relay's own.
const READ_COMMITTED_ALONE: &str = "CREATE FUNCTION refuse_other_levels() RETURNS trigger LANGUAGE plpgsql AS $$ \
     BEGIN \
         IF current_setting('transaction_isolation') <> 'read committed' THEN \
             RAISE EXCEPTION 'at isolation level %', current_setting('transaction_isolation'); \
         END IF; \
         RETURN NEW; \
     END $$; \
     CREATE TRIGGER refuse_other_levels BEFORE INSERT ON outbox_claim \
        FOR EACH ROW EXECUTE FUNCTION refuse_other_levels(); \
     CREATE TRIGGER refuse_other_levels BEFORE UPDATE ON outbox_event \
        FOR EACH ROW EXECUTE FUNCTION refuse_other_levels()";

/// Case P49.
#[tokio::test]
async fn relays_work_whatever_isolation_level_the_database_defaults_to() {
    for level in ["repeatable read", "serializable"] {
        // Without session settings, as behind a pooler, the database's default is what a transaction would get.
        let fixture = Fixture::with("isolation", |settings| settings.pgbouncer = true).await;
        let name = fixture.name();
        fixture
            .sql()
            .await
            .execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'"))
            .await;
        fixture.sql().await.execute(READ_COMMITTED_ALONE).await;
        let fixture2 = adapter_persistence_postgres::Database::connect(&fixture.settings).await.expect("a pool");
        let work = adapter_persistence_postgres::PostgresUnitOfWork::new(fixture2.clone());
        let mut tx = work.begin().await.expect("begun");
        let met = sea_level(&tx).await;
        assert_eq!(met, "read committed");
        fixture.events.append(&mut tx, &events("a", 3)).await.expect("appended");
        work.commit(tx).await.expect("committed");
        let repository = adapter_persistence_postgres::PostgresOutboxClaimRepository::new(fixture2);
        let store = adapter_persistence_postgres::OutboxStoreAdapter::new(
            std::sync::Arc::new(repository),
            Duration::from_secs(20),
        );
        let one = request();
        let runs = store.claim(&one).await.expect("claimed");
        let claim = super::support::Claim { token: one.token, runs };
        let settled = store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
        assert_eq!((settled.events, settled.freed), (3, 1));
    }
}

async fn sea_level(tx: &adapter_persistence_postgres::PgTransaction) -> String {
    use sea_orm::{ConnectionTrait, DbBackend, Statement};
    let statement = Statement::from_string(DbBackend::Postgres, "SHOW transaction_isolation");
    let row = tx.orm().query_one_raw(statement).await.expect("read").expect("a row");
    row.try_get_by_index(0).expect("a text")
}
