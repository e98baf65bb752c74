//! The inbox: once per consumer, in the handler's transaction.

use std::time::Duration;

use adapter_persistence_postgres::{PostgresInbox, PostgresLeadership};
use application_core::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, HolderName},
    ports::{
        AuditEntry, ConsumerName, FirstSeen, GiveUp, InboxMaintenancePort, InboxOperationsPort, InboxPort,
        LeadershipPort, OutboxAuditPort, ParkingPort, UnitOfWork,
    },
};
use test_support::operate::tester;

use super::support::{Fixture, fresh_id};

#[tokio::test]
async fn an_event_is_first_seen_once_per_consumer_and_again_after_a_rollback() {
    let fixture = Fixture::new("inbox").await;
    let inbox = PostgresInbox::new(fixture.database.clone());
    let (one, two) = (ConsumerName::new("one"), ConsumerName::new("two"));
    let id = fresh_id();
    assert_eq!(inbox.consumers().await.expect("read"), Vec::<String>::new());
    let mut tx = fixture.work.begin().await.expect("begun");
    assert_eq!(inbox.record(&mut tx, &one, id).await.expect("recorded"), FirstSeen::Yes);
    drop(tx);
    for expected in [FirstSeen::Yes, FirstSeen::No] {
        let mut tx = fixture.work.begin().await.expect("begun");
        assert_eq!(inbox.record(&mut tx, &one, id).await.expect("recorded"), expected);
        fixture.work.commit(tx).await.expect("committed");
    }
    let mut tx = fixture.work.begin().await.expect("begun");
    assert_eq!(inbox.record(&mut tx, &two, id).await.expect("recorded"), FirstSeen::Yes);
    assert_eq!(inbox.record(&mut tx, &one, fresh_id()).await.expect("recorded"), FirstSeen::Yes);
    fixture.work.commit(tx).await.expect("committed");
    assert_eq!(inbox.consumers().await.expect("read"), ["one", "two"]);

    let unknown = fresh_id();
    assert_eq!(inbox.forget(&one, &[id, unknown], &tester()).await.expect("asked"), 1);
    assert_eq!(inbox.forget(&one, &[id], &tester()).await.expect("asked"), 0, "not recorded");
    let audit = fixture.events.audit(None, 10).await.expect("read");
    let seen: Vec<_> = audit.iter().map(|e| (e.action.as_str(), e.consumer.as_deref(), &e.events[..])).collect();
    assert_eq!(seen, [("forget", Some("one"), &[id][..])], "what was forgotten is recorded, and nothing else");
    assert_eq!(audit[0].by, tester());
    let mut tx = fixture.work.begin().await.expect("begun");
    assert_eq!(inbox.record(&mut tx, &one, id).await.expect("recorded"), FirstSeen::Yes);
}

#[tokio::test]
async fn of_many_deliveries_at_once_one_is_the_first() {
    let fixture = Fixture::new("dup").await;
    let id = fresh_id();
    let deliveries = (0..10).map(|n| {
        let (inbox, work) = (PostgresInbox::new(fixture.database.clone()), fixture.work.clone());
        tokio::spawn(async move {
            let mut tx = work.begin().await.expect("begun");
            let seen = inbox.record(&mut tx, &ConsumerName::new("c"), id).await.expect("recorded");
            // The first three to get in fail afterwards: their record must not count.
            if seen == FirstSeen::Yes && n < 3 {
                drop(tx);
                return false;
            }
            work.commit(tx).await.expect("committed");
            seen == FirstSeen::Yes
        })
    });
    let mut first = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        first += usize::from(delivery.await.expect("ended"));
    }
    assert_eq!(first, 1);
}

#[tokio::test]
async fn what_is_asked_of_parked_messages_is_recorded_with_aggregate_and_event() {
    let fixture = Fixture::new("asked").await;
    let inbox = PostgresInbox::new(fixture.database.clone());
    let kind = AggregateType::try_new("order").expect("valid");
    let (aggregate, given_up) = (AggregateId::try_new("it's 42").expect("valid"), fresh_id());
    let ask = async |discard, unmarked| {
        inbox.record_unpark(&kind, &aggregate, discard, unmarked, &tester()).await.expect("recorded")
    };
    assert_eq!(ask(None, false).await, 0, "nothing is parked, so this leaves no record");
    for consumer in ["c", "d"] {
        let (aggregate_type, aggregate_id) = (kind.clone(), aggregate.clone());
        let parked = ParkedAggregate { aggregate_type, aggregate_id, event: given_up, reason: "broken".to_owned() };
        inbox.park(&ConsumerName::new(consumer), &parked).await.expect("parked");
    }
    assert_eq!(ask(None, false).await, 2);
    for consumer in ["c", "d"] {
        assert!(inbox.unpark(&ConsumerName::new(consumer), &kind, &aggregate).await.expect("unparked"));
    }
    let all = GiveUp { event: given_up, consumer: None };
    let one = GiveUp { consumer: Some(ConsumerName::new("d")), ..all.clone() };
    assert_eq!(
        (ask(None, false).await, ask(Some(all), true).await, ask(Some(one), true).await),
        (0, 1, 1),
        "what may be parked without a mark counts as one"
    );
    let audit = fixture.events.audit(None, 10).await.expect("read");
    let seen: Vec<_> =
        audit.iter().rev().map(|e| (e.action.as_str(), e.consumer.as_deref(), &e.events[..], e.affected)).collect();
    let expected = [
        ("unpark", None, &[][..], 2),
        ("discard_parked", None, &[given_up][..], 1),
        ("discard_parked", Some("d"), &[given_up][..], 1),
    ];
    assert_eq!(seen, expected);
    let of = |e: &AuditEntry| (e.aggregate_type.clone(), e.aggregate_id.clone(), e.by.clone());
    let expected = (Some("order".to_owned()), Some("it's 42".to_owned()), tester());
    assert!(audit.iter().all(|e| of(e) == expected), "{audit:?}");
    assert_eq!(fixture.events.audit_of(given_up, 10).await.expect("read").len(), 2);
}

#[tokio::test]
async fn a_parked_aggregate_is_remembered_until_it_is_let_through() {
    let fixture = Fixture::new("park").await;
    let inbox = PostgresInbox::new(fixture.database.clone());
    let consumer = ConsumerName::new("it's me");
    let parked = ParkedAggregate {
        aggregate_type: AggregateType::try_new("order").expect("valid"),
        aggregate_id: AggregateId::try_new("42").expect("valid"),
        event: fresh_id(),
        reason: "it's 'broken'".to_owned(),
    };
    let (kind, id) = (&parked.aggregate_type, &parked.aggregate_id);
    assert_eq!(inbox.parked(&consumer, kind, id).await.expect("read"), None);
    inbox.park(&consumer, &parked).await.expect("parked");
    let later = ParkedAggregate { event: fresh_id(), ..parked.clone() };
    inbox.park(&consumer, &later).await.expect("parked");
    assert_eq!(inbox.parked(&consumer, kind, id).await.expect("read"), Some(parked.clone()), "the first one counts");
    assert_eq!(inbox.list_parked(&consumer, 10).await.expect("read"), std::slice::from_ref(&parked));
    assert_eq!(inbox.parked(&ConsumerName::new("another"), kind, id).await.expect("read"), None);
    assert_eq!(inbox.consumers().await.expect("read"), ["it's me"], "who has parked has a record");
    assert!(inbox.unpark(&consumer, kind, id).await.expect("asked"));
    assert!(!inbox.unpark(&consumer, kind, id).await.expect("asked"));
    assert_eq!(inbox.parked(&consumer, kind, id).await.expect("read"), None);
}

#[tokio::test]
async fn an_unpark_looks_at_the_marks_of_its_aggregate_alone() {
    let fixture = Fixture::new("marks").await;
    let mut sql = fixture.sql().await;
    sql.execute(
        "INSERT INTO outbox_inbox_parked (consumer, aggregate_type, aggregate_id, event_id, reason) \
         SELECT 'c', 'order', 'o-' || n, gen_random_uuid(), 'broken' FROM generate_series(1, 20000) n; \
         ANALYZE outbox_inbox_parked",
    )
    .await;
    let mut asking = fixture.sql().await;
    asking.execute("BEGIN").await;
    let parked: i64 = asking.one("SELECT outbox_record_unpark('order', 'o-7', NULL, 'somebody')").await;
    let read_through: i64 =
        asking.one("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'outbox_inbox_parked'").await;
    assert_eq!((parked, read_through), (1, 0));
}

#[tokio::test]
async fn records_are_forgotten_by_age_in_batches_and_under_a_standing_term_alone() {
    let fixture = Fixture::new("forget").await;
    let inbox = PostgresInbox::new(fixture.database.clone());
    let leadership = PostgresLeadership::new(fixture.database.clone());
    let mut sql = fixture.sql().await;
    sql.execute(
        "INSERT INTO outbox_inbox (consumer, event_id, processed_at) SELECT 'c', gen_random_uuid(), \
         statement_timestamp() - CASE WHEN n > 25 THEN interval '0' ELSE interval '10 days' END \
         FROM generate_series(1, 30) n",
    )
    .await;
    let holder = HolderName::new("one");
    let term = leadership.acquire("m", &holder, Duration::from_mins(1)).await.expect("asked").expect("vacant");
    let day = Duration::from_hours(24);
    let mut removed = Vec::new();
    for _ in 0..3 {
        removed.push(inbox.clean_up(&term, day, 10).await.expect("cleaned"));
    }
    assert_eq!(removed, [Some(10), Some(10), Some(5)]);
    leadership.resign(&term).await.expect("resigned");
    assert_eq!(inbox.clean_up(&term, Duration::ZERO, 10).await.expect("asked"), None);
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_inbox").await, 5);
}

#[tokio::test]
async fn the_inboxs_tables_hold_the_bounds_of_a_consumers_name() {
    let fixture = Fixture::new("inboxname").await;
    let mut sql = fixture.sql().await;
    let record = |bytes: usize| {
        format!("INSERT INTO outbox_inbox (consumer, event_id) VALUES (repeat('x', {bytes}), gen_random_uuid())")
    };
    let park = |bytes: usize| {
        format!(
            "INSERT INTO outbox_inbox_parked (consumer, aggregate_type, aggregate_id, event_id, reason) \
             VALUES (repeat('x', {bytes}), 'work-log', '1', gen_random_uuid(), 'r')"
        )
    };
    for statement in [record(1), record(ConsumerName::MAX_BYTES), park(1), park(ConsumerName::MAX_BYTES)] {
        sql.try_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for (statement, constraint) in [
        (record(0), "outbox_inbox_consumer_check"),
        (record(ConsumerName::MAX_BYTES + 1), "outbox_inbox_consumer_check"),
        (park(0), "outbox_inbox_parked_consumer_check"),
        (park(ConsumerName::MAX_BYTES + 1), "outbox_inbox_parked_consumer_check"),
    ] {
        let error = sql.try_execute(&statement).await.expect_err(&statement);
        let met = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
        assert_eq!(met, Some(constraint), "{statement}: {error}");
    }
}
