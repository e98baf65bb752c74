//! Append: order, duplicates, bounds, and writers that use plain SQL.

use std::{collections::BTreeMap, time::Duration};

use adapter_persistence_postgres::{DatabaseSettings, DriverError};
use application_core::{
    outbox::{ClaimRequest, ClaimScope, EventField, EventHeaders, EventId, InvalidEvent, NewOutboxEvent, bounds},
    ports::{OutboxAppendError, OutboxAppendPort, OutboxOperationsPort, OutboxStorePort, StoreError, UnitOfWork},
};
use futures_util::StreamExt;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use sea_orm::ConnectionTrait;
use sqlx::Row;
use tokio::sync::Barrier;

use super::support::{Fixture, Sql, event, events, fresh_id, ids, request};

#[tokio::test]
async fn events_of_one_transaction_keep_the_order_in_which_they_were_appended() {
    let fixture = Fixture::new("order").await;
    let mixed: Vec<NewOutboxEvent> = (0..30).map(|n| event(["b", "a", "c"][n % 3])).collect();
    fixture.append(&mixed).await;
    let mut sql = fixture.sql().await;
    let stored: Vec<uuid::Uuid> =
        sql.rows("SELECT id FROM outbox_event ORDER BY sequence").await.iter().map(|row| row.get(0)).collect();
    assert_eq!(stored, ids(&mixed).iter().map(EventId::as_uuid).collect::<Vec<_>>());
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn an_event_id_that_is_in_the_outbox_is_reported_as_a_duplicate_even_after_it_was_published() {
    let fixture = Fixture::new("duplicate").await;
    let (first, second) = (event("a"), event("a"));
    fixture.append(std::slice::from_ref(&first)).await;
    let refused = |result: Result<(), OutboxAppendError>| match result {
        Err(OutboxAppendError::Duplicate { id }) => id,
        other => panic!("{other:?}"),
    };
    let both = [second.clone(), first.clone()];
    assert_eq!(refused(fixture.try_append(&both).await), first.id());
    let claim = fixture.claim().await;
    fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!(refused(fixture.try_append(&both).await), first.id());
    assert_eq!(refused(fixture.try_append(&[second.clone(), second.clone()]).await), second.id());
    assert_eq!(fixture.sql().await.one::<i64>("SELECT count(*) FROM outbox_event").await, 1);
}

/// Case P47.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_come_late_in_any_order_skip_no_event_and_reorder_none() {
    const APPENDERS: usize = 64;
    const TRANSACTIONS: usize = 6;
    let patient = |settings: &mut DatabaseSettings| {
        settings.pool.max_connections = 70;
        settings.lock_timeout = Duration::from_secs(30);
        settings.transaction_statement_timeout = Duration::from_secs(40);
    };
    let appending = Fixture::with("late", patient).await;
    let appender = |n: usize| {
        let (work, repository) = (appending.work.clone(), appending.events.clone());
        async move {
            for round in 0..TRANSACTIONS {
                let mut tx = work.begin().await.expect("begun");
                // Its own aggregate, and one of four that all appenders share.
                let batch = [event(&format!("own{n}")), event(&format!("shared{}", (n + round) % 4))];
                repository.append(&mut tx, &batch).await.expect("appended");
                tx.orm().execute_unprepared("SELECT pg_sleep(random() * 0.02)").await.expect("delayed");
                if (n + round).is_multiple_of(10) {
                    drop(tx);
                } else {
                    work.commit(tx).await.expect("committed");
                }
            }
        }
    };
    let appenders: Vec<_> = (0..APPENDERS).map(|n| tokio::spawn(appender(n))).collect();
    let mut published: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let (mut waiting, begun) = (Vec::new(), std::time::Instant::now());
    loop {
        // Looked at before the claim: what commits after the last look is claimed once more.
        let done = appenders.iter().all(tokio::task::JoinHandle::is_finished);
        let mut taken = 0;
        for scope in [ClaimScope::Due, ClaimScope::Overdue] {
            let claim = appending.claim_as(ClaimRequest { scope, ..request() }).await;
            for event in claim.runs.iter().flat_map(|run| &run.events) {
                published.entry(event.aggregate_id.to_string()).or_default().push(event.sequence.0);
                taken += 1;
            }
            let settled = appending.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
            // Lanes that an appender held at that moment keep their lease until they are asked for again.
            for lane in settled.postponed {
                waiting.push((
                    claim.token,
                    claim.unconfirmed().into_iter().find(|run| run.lane == lane).expect("its run"),
                ));
            }
        }
        for (token, run) in std::mem::take(&mut waiting) {
            let freed = appending.store.acknowledge(token, std::slice::from_ref(&run)).await.expect("settled");
            if !freed.postponed.is_empty() {
                waiting.push((token, run));
            }
        }
        assert!(begun.elapsed() < Duration::from_mins(5), "{waiting:?}");
        let open = "SELECT count(*) FROM outbox_event_state WHERE status <> 'PUBLISHED'";
        if done && taken == 0 && waiting.is_empty() && appending.sql().await.one::<i64>(open).await == 0 {
            break;
        }
    }
    for appender in appenders {
        appender.await.expect("no appender failed");
    }
    let mut sql = appending.sql().await;
    let rows = sql.rows("SELECT aggregate_id, sequence FROM outbox_event ORDER BY aggregate_id, sequence").await;
    let mut committed: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in rows {
        committed.entry(row.get(0)).or_default().push(row.get(1));
    }
    assert!(committed.len() > APPENDERS, "own and shared aggregates");
    assert_eq!(published, committed, "each event once, in the order of its aggregate");
    appending.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_transaction_that_is_dropped_leaves_no_event() {
    let fixture = Fixture::new("rollback").await;
    let mut tx = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut tx, &events("a", 3)).await.expect("appended");
    drop(tx);
    // The next transaction needs the lane: it waits for the rollback.
    fixture.append(&events("a", 1)).await;
    assert_eq!(fixture.sql().await.one::<i64>("SELECT count(*) FROM outbox_event").await, 1);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_transaction_whose_statement_failed_is_not_reported_as_committed() {
    let fixture = Fixture::new("failed").await;
    let twice = event("a");
    fixture.append(std::slice::from_ref(&twice)).await;
    let mut tx = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut tx, &events("b", 1)).await.expect("appended");
    fixture.events.append(&mut tx, &[twice]).await.expect_err("a duplicate");
    // A caller that ignores the error must not be told that its work was committed.
    let refused = fixture.work.commit(tx).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(fixture.sql().await.one::<i64>("SELECT count(*) FROM outbox_event").await, 1);
}

#[tokio::test]
async fn the_second_of_two_overlapping_appends_to_one_aggregate_waits_for_the_first() {
    let fixture = Fixture::new("overlap").await;
    let (early, late) = (event("a"), event("a"));
    let mut first = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut first, std::slice::from_ref(&early)).await.expect("appended");
    let (work, outbox, appended) = (fixture.work.clone(), fixture.events.clone(), late.clone());
    let second = tokio::spawn(async move {
        let mut tx = work.begin().await.expect("begun");
        outbox.append(&mut tx, &[appended]).await.expect("appended");
        work.commit(tx).await.expect("committed");
    });
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock')";
    fixture.sql().await.wait_for("the second append waits", waiting).await;
    // Another aggregate's append waits for nobody.
    fixture.append(&events("b", 1)).await;
    fixture.work.commit(first).await.expect("committed");
    second.await.expect("ended");
    let claim = fixture.claim().await;
    let run = claim.runs.iter().find(|run| run.events.len() == 2).expect("the run of a");
    assert_eq!(run.events.iter().map(|event| event.id).collect::<Vec<_>>(), [early.id(), late.id()]);
}

/// Case O3, with a writer that knows nothing of lanes: its transaction waits for an open append, and holds up the next one.
#[tokio::test]
async fn a_plain_insert_waits_for_an_open_append_to_its_aggregate_and_an_append_for_an_open_plain_insert() {
    const WAITING: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock')";
    let fixture = Fixture::new("mixed").await;
    let (early, foreign, late) = (event("a"), fresh_id(), event("a"));
    let mut appending = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut appending, std::slice::from_ref(&early)).await.expect("appended");
    let mut writer = fixture.sql().await;
    let inserting = tokio::spawn(async move {
        writer.execute("BEGIN").await;
        let insert = format!(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES ('{foreign}', 'order', 'a', 'Foreign', '1')"
        );
        writer.execute(&insert).await;
        writer
    });
    let mut sql = fixture.sql().await;
    sql.wait_for("the plain INSERT waits", WAITING).await;
    fixture.work.commit(appending).await.expect("committed");
    let mut writer = inserting.await.expect("inserted");
    let (work, outbox, appended) = (fixture.work.clone(), fixture.events.clone(), late.clone());
    let second = tokio::spawn(async move {
        let mut tx = work.begin().await.expect("begun");
        outbox.append(&mut tx, &[appended]).await.expect("appended");
        work.commit(tx).await.expect("committed");
    });
    sql.wait_for("the append waits", WAITING).await;
    writer.execute("COMMIT").await;
    second.await.expect("ended");
    assert_eq!(fixture.claim().await.ids(), [early.id(), foreign, late.id()]);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn two_transactions_that_append_to_the_same_aggregates_in_opposite_order_do_not_deadlock() {
    let fixture = Fixture::new("deadlock").await;
    let appends = (0..40).map(|n| {
        let (work, outbox) = (fixture.work.clone(), fixture.events.clone());
        tokio::spawn(async move {
            let names = if n % 2 == 0 { ["a", "b", "c"] } else { ["c", "b", "a"] };
            let mut tx = work.begin().await.expect("begun");
            outbox.append(&mut tx, &names.map(event)).await.expect("appended");
            work.commit(tx).await.expect("committed");
        })
    });
    for append in appends.collect::<Vec<_>>() {
        append.await.expect("no deadlock");
    }
    assert_eq!(fixture.claim().await.ids().len(), 120);
}

/// One event a call: the lanes are locked in the order of the calls, and not in their own.
async fn append_call_by_call(
    fixture: &Fixture,
    events: &[NewOutboxEvent; 2],
    first_lane_is_held: &Barrier,
) -> Result<(), OutboxAppendError> {
    let first = async {
        let mut tx = fixture.work.begin().await?;
        fixture.events.append(&mut tx, &events[..1]).await?;
        Ok::<_, OutboxAppendError>(tx)
    }
    .await;
    // Who has failed comes here as well: the other one would wait for ever, and nobody would be told why.
    first_lane_is_held.wait().await;
    let mut tx = first?;
    fixture.events.append(&mut tx, &events[1..]).await?;
    Ok(fixture.work.commit(tx).await?)
}

/// Case P49: a deadlock that happens.
#[tokio::test]
async fn of_two_transactions_that_wait_for_each_others_lanes_one_is_to_be_tried_again_and_then_both_are_complete() {
    let fixture = Fixture::with("circle", |settings| {
        // Nobody gives up before the server has found the circle, which it looks for after a second of waiting.
        settings.lock_timeout = Duration::from_secs(30);
        settings.transaction_statement_timeout = Duration::from_secs(40);
    })
    .await;
    let mut committed: BTreeMap<String, Vec<EventId>> = BTreeMap::new();
    // Lanes that are new are waited for in another way than those that are there: it takes both rounds.
    for _ in 0..2 {
        let [one, other] = [["a", "b"], ["b", "a"]].map(|names| names.map(event));
        let both_hold_one = Barrier::new(2);
        let outcomes = tokio::join!(
            append_call_by_call(&fixture, &one, &both_hold_one),
            append_call_by_call(&fixture, &other, &both_hold_one),
        );
        let (won, lost, error) = match outcomes {
            (Ok(()), Err(error)) => (one, other, error),
            (Err(error), Ok(())) => (other, one, error),
            both => panic!("one of two ends the other's wait: {both:?}"),
        };
        let OutboxAppendError::Store { source: conflict @ StoreError::Conflict { source } } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.downcast_ref::<DriverError>().and_then(DriverError::sqlstate), Some("40P01"));
        assert!(conflict.is_transient());
        append_call_by_call(&fixture, &lost, &Barrier::new(1)).await.expect("the second try");
        for event in won.iter().chain(&lost) {
            committed.entry(event.aggregate_id().to_string()).or_default().push(event.id());
        }
    }
    let claimed: BTreeMap<String, Vec<EventId>> = fixture
        .claim()
        .await
        .runs
        .iter()
        .map(|run| (run.events[0].aggregate_id.to_string(), run.events.iter().map(|event| event.id).collect()))
        .collect();
    assert_eq!(claimed, committed, "each event once, those of an aggregate in the order of the commits");
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn payload_and_headers_come_back_byte_for_byte() {
    let fixture = Fixture::new("bytes").await;
    let payload = r#"{"b":9223372036854775807, "a":0.10000000000000000000000001,"a":1e400,"é":"\u00e9'\\"}"#;
    let appended = NewOutboxEvent::draft_raw(fresh_id(), ("order", "it's {a} $1 \\ \"id\""), "Type", payload)
        .header("quoted \" name", "value \\ ' é")
        .build()
        .expect("valid");
    fixture.append(std::slice::from_ref(&appended)).await;
    let claim = fixture.claim().await;
    let claimed = &claim.only_run().events[0];
    assert_eq!(claimed.payload.as_str(), payload);
    assert_eq!(claimed.headers, *appended.headers());
    assert_eq!(claimed.aggregate_id, *appended.aggregate_id());
    let content = fixture.events.content(appended.id()).await.expect("read").expect("found");
    assert_eq!(content.payload.as_str(), payload);
    assert_eq!(content.headers, *appended.headers());
}

/// The constraint that a plain INSERT breaks with this value, given as a SQL expression, in this column.
async fn broken_by(sql: &mut Sql, column: &str, expression: &str) -> Option<String> {
    let mut values = [
        ("id", format!("'{}'", fresh_id())),
        ("aggregate_type", "'t'".to_owned()),
        ("aggregate_id", "'i'".to_owned()),
        ("event_type", "'e'".to_owned()),
        ("payload", "'1'".to_owned()),
        ("headers", "'{}'".to_owned()),
        ("created_at", "statement_timestamp()".to_owned()),
    ];
    for (name, value) in &mut values {
        if *name == column {
            expression.clone_into(value);
        }
    }
    let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    let text = format!("INSERT INTO outbox_event ({}) VALUES ({})", names.join(", "), values.join(", "));
    let error = sql.try_execute(&text).await.err()?;
    let met = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint).map(ToOwned::to_owned);
    Some(met.unwrap_or_else(|| error.to_string()))
}

#[tokio::test]
async fn the_table_holds_each_bound_of_the_core_and_its_error_names_it() {
    let fixture = Fixture::new("bounds").await;
    let mut sql = fixture.sql().await;
    let text = |n: usize| format!("repeat('x', {n})");
    let json = |n: usize| format!("('\"' || repeat('x', {n} - 2) || '\"')::json");
    let nested = |n: usize| format!("(repeat('[', {n}) || repeat(']', {n}))::json");
    let headers = |n: usize| format!("jsonb_build_object('h', repeat('x', {n} - 9))");
    let (kind, id, event) =
        (bounds::MAX_AGGREGATE_TYPE_BYTES, bounds::MAX_AGGREGATE_ID_BYTES, bounds::MAX_EVENT_TYPE_BYTES);
    for (column, value) in [
        ("aggregate_type", text(kind)),
        ("aggregate_id", text(id)),
        ("event_type", text(event)),
        ("payload", json(bounds::MAX_PAYLOAD_BYTES)),
        ("payload", nested(bounds::MAX_PAYLOAD_DEPTH)),
        ("payload", r#"'["\\u0000", "\\\\ud83d", "\ud83d\ude00"]'"#.to_owned()),
        ("headers", headers(bounds::MAX_HEADERS_BYTES)),
        ("headers", r#"'{"tenant": "", "\"\\": "\"\\"}'"#.to_owned()),
    ] {
        assert_eq!(broken_by(&mut sql, column, &value).await, None, "{column}");
    }
    let control = "E'a\\x7f'".to_owned();
    for (column, value, constraint) in [
        ("aggregate_type", text(kind + 1), format!("aggregate_type_has_1_to_{kind}_bytes")),
        ("aggregate_type", text(0), format!("aggregate_type_has_1_to_{kind}_bytes")),
        ("aggregate_type", control.clone(), "aggregate_type_has_no_control_character".to_owned()),
        ("aggregate_id", text(id + 1), format!("aggregate_id_has_1_to_{id}_bytes")),
        ("aggregate_id", text(0), format!("aggregate_id_has_1_to_{id}_bytes")),
        ("aggregate_id", control.clone(), "aggregate_id_has_no_control_character".to_owned()),
        ("event_type", text(event + 1), format!("event_type_has_1_to_{event}_bytes")),
        ("event_type", text(0), format!("event_type_has_1_to_{event}_bytes")),
        ("event_type", control, "event_type_has_no_control_character".to_owned()),
        (
            "payload",
            json(bounds::MAX_PAYLOAD_BYTES + 1),
            format!("payload_has_at_most_{}_bytes", bounds::MAX_PAYLOAD_BYTES),
        ),
        (
            "payload",
            nested(bounds::MAX_PAYLOAD_DEPTH + 1),
            format!("payload_has_at_most_{}_levels", bounds::MAX_PAYLOAD_DEPTH),
        ),
        ("payload", r#"'"\u0000"'"#.to_owned(), "payload_has_no_nul_and_no_half_surrogate".to_owned()),
        ("payload", r#"'"\ud83d\\\ude00"'"#.to_owned(), "payload_has_no_nul_and_no_half_surrogate".to_owned()),
        (
            "headers",
            headers(bounds::MAX_HEADERS_BYTES + 1),
            format!("headers_have_at_most_{}_bytes", bounds::MAX_HEADERS_BYTES),
        ),
        ("headers", "'{\"a\": 1}'".to_owned(), "headers_are_an_object_of_strings".to_owned()),
        ("headers", "'[\"a\"]'".to_owned(), "headers_are_an_object_of_strings".to_owned()),
        ("headers", "'{\"a\": [\"b\"]}'".to_owned(), "headers_are_an_object_of_strings".to_owned()),
        ("headers", "'{\"\": \"b\"}'".to_owned(), "headers_have_no_empty_name".to_owned()),
        ("headers", "'{\"a\": \"\\n\"}'".to_owned(), "headers_have_no_control_character".to_owned()),
        ("headers", "'{\"a\\u0085\": \"b\"}'".to_owned(), "headers_have_no_control_character".to_owned()),
        ("headers", "'{\"idempotencyKey\": \"\"}'".to_owned(), "headers_have_no_empty_idempotency_key".to_owned()),
        ("created_at", "'infinity'".to_owned(), "outbox_event_created_at_check".to_owned()),
        ("created_at", "'-infinity'".to_owned(), "outbox_event_created_at_check".to_owned()),
        ("created_at", "'10000-01-01 00:00:00+00'".to_owned(), "outbox_event_created_at_check".to_owned()),
    ] {
        assert_eq!(broken_by(&mut sql, column, &value).await, Some(constraint), "{column}");
    }
}

/// An event as any writer may give it: the parts of an INSERT, headers as pairs.
#[derive(Debug)]
struct Foreign {
    names: [String; 3],
    payload: String,
    headers: BTreeMap<String, String>,
}

/// Texts that are mostly plain, and now and then hold what is refused.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .:/_\"\\\\{}-]{1,20}",
        1 => "[\u{0}-\u{20}\u{7e}-\u{a1}é]{0,3}",
        1 => "x{98,102}",
        1 => "é{98,102}",
    ]
}

/// JSON and what resembles it, rich in escapes and in depths around the bound.
fn any_payload() -> impl Strategy<Value = String> {
    let escape = prop_oneof![
        Just(r"\\"),
        Just(r"\\\"),
        Just(r"\u0000"),
        Just(r"\u00e9"),
        Just(r"\ud83d"),
        Just(r"\uDBFF"),
        Just(r"\ude00"),
        Just(r"\uDc00"),
        Just(r"\ud7ff"),
        Just(r"\ue000"),
        Just(r#"\""#),
        Just(r"\n"),
        Just(r"\x"),
        Just(r"\u12"),
        Just("u0000"),
        Just("[{"),
        Just("]}"),
        Just("x"),
        Just("\u{85}"),
    ];
    let text = prop::collection::vec(escape, 0..6).prop_map(|parts| format!("\"{}\"", parts.concat()));
    let leaf = prop_oneof![text, "[0-9eE.+-]{1,6}", Just("null".to_owned()), Just("nul".to_owned())];
    (leaf, 95_usize..106, prop::bool::weighted(0.3), prop::bool::weighted(0.05)).prop_map(
        |(leaf, depth, deep, open)| {
            if !deep {
                return leaf;
            }
            // Wide on the way down, so that there are more brackets than levels.
            let down: String = (0..depth).map(|level| if level % 2 == 0 { "[[],{}, " } else { "{\"a]\" :" }).collect();
            let mut text = down + &leaf;
            for level in (usize::from(open)..depth).rev() {
                text.push(if level % 2 == 0 { ']' } else { '}' });
            }
            text
        },
    )
}

fn any_foreign() -> impl Strategy<Value = Foreign> {
    let value = prop_oneof![3 => any_text(), 1 => Just(String::new())];
    let name = prop_oneof![3 => any_text(), 1 => Just("idempotencyKey".to_owned())];
    let headers = prop::collection::btree_map(name, value, 0..3);
    ([any_text(), any_text(), any_text()], any_payload(), headers).prop_map(|(names, payload, headers)| Foreign {
        names,
        payload,
        headers,
    })
}

impl Foreign {
    fn core(&self) -> Result<NewOutboxEvent, InvalidEvent> {
        let [kind, id, event] = &self.names;
        let draft = NewOutboxEvent::draft_raw(fresh_id(), (kind, id), event, self.payload.as_str());
        self.headers.iter().fold(draft, |draft, (name, value)| draft.header(name, value)).build()
    }

    async fn table(&self, sql: &mut Sql) -> Result<(), sqlx::Error> {
        let [kind, id, event] = &self.names;
        let headers = serde_json::to_string(&self.headers).expect("texts");
        sqlx::query(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers) \
             VALUES ($1, $2, $3, $4, $5::text::json, $6::text::jsonb)",
        )
        .bind(fresh_id().as_uuid())
        .bind(kind)
        .bind(id)
        .bind(event)
        .bind(&self.payload)
        .bind(headers)
        .execute(&mut sql.0)
        .await
        .map(drop)
    }
}

#[tokio::test]
async fn the_table_takes_what_the_core_takes_and_nothing_else() {
    let fixture = Fixture::new("agreement").await;
    let mut sql = fixture.sql().await;
    let mut runner = TestRunner::new(Config::default());
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let foreign = any_foreign().new_tree(&mut runner).expect("generated").current();
        let (core, table) = (foreign.core(), foreign.table(&mut sql).await);
        assert_eq!(core.is_ok(), table.is_ok(), "{foreign:?}\ncore: {core:?}\ntable: {table:?}");
        *(if core.is_ok() { &mut taken } else { &mut refused }) += 1;
    }
    assert!(taken > 100 && refused > 100, "{taken} taken and {refused} refused");
}

#[tokio::test]
async fn a_sequence_of_a_writers_own_is_refused_whatever_its_transaction_did_before() {
    let fixture = Fixture::new("sequence").await;
    let insert = |sequence: &str| {
        let id = fresh_id();
        format!(
            "INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
             VALUES ('{id}', {sequence}, 'order', 'i', 'Foreign', '1')"
        )
    };
    let mut sql = fixture.sql().await;
    for sequence in ["1", "-1", "nextval('outbox_event_sequence')"] {
        let error = sql.try_execute(&insert(sequence)).await.expect_err("a sequence of its own").to_string();
        assert!(error.contains("outbox_event.sequence must be left out"), "{error}");
    }
    // The append statement says that it has the lanes; what follows in its transaction has not.
    let mut tx = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut tx, &events("i", 1)).await.expect("appended");
    let refused = tx.orm().execute_unprepared(&insert("nextval('outbox_event_sequence')")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("must be left out")));
    drop(tx);
    sql.execute(&insert("NULL")).await;
    assert_eq!(fixture.claim().await.ids().len(), 1);
    fixture.assert_lanes_are_sound().await;
}

/// While PostgreSQL logs a sequence ahead, other sessions see a `last_value` that is 32 too large: a lane that began there
/// would begin above its own events, be taken for empty, and be deleted with its events left behind.
#[tokio::test]
async fn a_new_lane_begins_so_far_below_its_events_that_a_sequence_logged_ahead_hides_none() {
    const LOGGED_AHEAD: i64 = 32;
    let fixture = Fixture::new("ahead").await;
    fixture.append(&events("a", 3)).await;
    let mut sql = fixture.sql().await;
    sql.execute(
        "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         VALUES (gen_random_uuid(), 'order', 'b', 'Foreign', '1')",
    )
    .await;
    let least = "SELECT min(e.first - l.floor)::bigint FROM outbox_lane l JOIN \
         (SELECT lane, min(sequence) AS first FROM outbox_event GROUP BY lane) e USING (lane) HAVING count(*) = 2";
    assert!(sql.one::<i64>(least).await > LOGGED_AHEAD);
}

#[tokio::test]
async fn a_dump_of_data_alone_is_loaded_with_its_lanes_and_sequences() {
    let (from, to) = (Fixture::new("dumped").await, Fixture::new("loaded").await);
    let appended = [events("a", 2), events("b", 1)].concat();
    from.append(&appended).await;
    let (mut old, mut new) = (from.sql().await, to.sql().await);
    new.execute("SET outbox.lanes_are_taken = 'yes'").await;
    for (table, columns) in [
        (
            "outbox_event",
            "id, sequence, aggregate_type, aggregate_id, event_type, payload, headers, status, created_at",
        ),
        ("outbox_lane", "lane, floor, due_at, expiries"),
    ] {
        let dump = format!("COPY {table} ({columns}) TO STDOUT");
        let mut rows = old.0.copy_out_raw(&dump).await.expect("dumped");
        let mut bytes = Vec::new();
        while let Some(chunk) = rows.next().await {
            bytes.extend_from_slice(&chunk.expect("a chunk"));
        }
        drop(rows);
        let mut load = new.0.copy_in_raw(&format!("COPY {table} ({columns}) FROM STDIN")).await.expect("loading");
        load.send(bytes).await.expect("sent");
        load.finish().await.expect("loaded");
    }
    let sequence = "SELECT setval('outbox_event_sequence', (SELECT max(sequence) FROM outbox_event))";
    new.execute(sequence).await;
    to.assert_lanes_are_sound().await;
    let mut claimed = to.claim().await.ids();
    claimed.sort();
    assert_eq!(claimed, ids(&appended));
}

#[tokio::test]
async fn headers_that_the_core_lets_pass_are_taken_by_the_table() {
    let fixture = Fixture::new("headers").await;
    // The fullest headers that the core takes, in the shapes that take most room as JSON: many short ones, and quotes.
    let mut fullest = Vec::new();
    for name in ["h", "\"\\"] {
        let build = |count: usize| {
            EventHeaders::try_new((0..count).map(|n| (format!("{name}{n:05}"), "\"".to_owned())).collect())
        };
        let count = (1..20_000).take_while(|count| build(*count).is_ok()).last().expect("some fit");
        assert!(matches!(build(count + 1), Err(InvalidEvent::TooLong { field: EventField::Headers, .. })));
        fullest.push(build(count).expect("valid"));
    }
    for headers in fullest {
        let mut draft = NewOutboxEvent::draft_raw(fresh_id(), ("order", "a"), "Type", "1");
        for (name, value) in headers.iter() {
            draft = draft.header(name, value);
        }
        fixture.append(&[draft.build().expect("valid")]).await;
    }
}

#[tokio::test]
async fn a_plain_insert_of_another_writer_takes_the_lane_and_is_claimed_in_order() {
    let fixture = Fixture::new("foreign").await;
    let mut sql = fixture.sql().await;
    let before = event("i");
    fixture.append(std::slice::from_ref(&before)).await;
    let mut foreign = Vec::new();
    for _ in 0..3 {
        let id = fresh_id();
        sql.execute(&format!(
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES ('{id}', 'order', 'i', 'Foreign', '{{\"a\": 1}}')"
        ))
        .await;
        foreign.push(id);
    }
    let after = event("i");
    fixture.append(std::slice::from_ref(&after)).await;
    let claim = fixture.claim().await;
    let expected: Vec<_> = std::iter::once(before.id()).chain(foreign).chain([after.id()]).collect();
    assert_eq!(claim.ids(), expected);
    assert_eq!(claim.only_run().events[1].headers, EventHeaders::default());
    fixture.assert_lanes_are_sound().await;
}
