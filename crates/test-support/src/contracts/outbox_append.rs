//! What every append port must do: rules R7, R9 and R10, cases O3 and P47.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::pin::pin;

use application_core::{
    outbox::{NewOutboxEvent, OutboxEventStatus},
    ports::OutboxAppendError,
};

use super::{
    OutboxHarness,
    bench::{Bench, assert_waits},
};

pub async fn events_of_one_append_keep_their_order<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 20).await;
    assert_eq!(bench.claim().await.ids(), [ids]);
}

pub async fn ids_do_not_decide_the_order<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let mut events = bench.events.many_of("a", 5);
    events.reverse();
    let ids: Vec<_> = events.iter().map(NewOutboxEvent::id).collect();
    bench.append(&events).await;
    assert_eq!(bench.claim().await.ids(), [ids]);
}

pub async fn several_appends_of_one_transaction_keep_their_order<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events = bench.events.many_of("a", 4);
    let mut tx = bench.open_append(&events[..1]).await;
    bench.append_in(&mut tx, &events[1..3]).await;
    bench.append_in(&mut tx, &events[3..]).await;
    bench.commit(tx).await;
    let ids: Vec<_> = events.iter().map(NewOutboxEvent::id).collect();
    assert_eq!(bench.claim().await.ids(), [ids]);
}

pub async fn events_of_several_aggregates_in_one_append_keep_the_order_of_each<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events: Vec<_> = (0..30).map(|n| bench.events.of(format!("a{}", n % 3)).build()).collect();
    bench.append(&events).await;
    let of = |n: usize| events.iter().skip(n).step_by(3).map(NewOutboxEvent::id).collect::<Vec<_>>();
    assert_eq!(bench.claim().await.ids(), [of(0), of(1), of(2)]);
}

pub async fn one_id_under_two_aggregate_types_is_two_aggregates<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events = ["order", "invoice"].map(|kind| bench.events.of("a").aggregate_type(kind).build());
    bench.append(&events).await;
    assert_eq!(bench.claim().await.runs.len(), 2);
}

pub async fn payload_and_headers_are_kept_byte_for_byte<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let payload = r#"{"b": 9223372036854775807, "a":0.10000000000000000000000001, "a":1e400, "ü":"\ud83d\ude00"}"#;
    let event = bench.events.of("a").payload(payload).header("occurredAt", "then").header("x", "ü\"\\").build();
    bench.append(std::slice::from_ref(&event)).await;
    let content = bench.harness.operations().content(event.id()).await.unwrap().expect("it is there");
    assert_eq!((&content.payload, &content.headers), (event.payload(), event.headers()));
    let claim = bench.claim().await;
    let claimed = &claim.runs[0].events[0];
    assert_eq!((&claimed.payload, &claimed.headers), (event.payload(), event.headers()));
    assert_eq!(
        (claimed.id, &claimed.aggregate_type, &claimed.aggregate_id, &claimed.event_type),
        (event.id(), event.aggregate_type(), event.aggregate_id(), event.event_type())
    );
}

pub async fn a_new_event_is_pending_and_due<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let state = bench.state(id).await;
    assert_eq!((state.status, state.attempts, state.replays), (OutboxEventStatus::Pending, 0, 0));
    assert!(state.due_at.is_some() && state.published_at.is_none() && state.last_error.is_none());
}

pub async fn an_empty_append_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.append(&[]).await;
    assert!(bench.claim().await.runs.is_empty());
}

pub async fn an_id_that_is_in_the_outbox_is_a_duplicate_and_nothing_of_its_append_stays<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.events.of("a").build();
    bench.append(std::slice::from_ref(&first)).await;
    let again = bench.events.of("b").id(first.id()).build();
    let other = bench.events.of("c").build();
    let refusal = bench.try_append(&[other.clone(), again]).await.expect_err("a duplicate");
    assert!(matches!(refusal, OutboxAppendError::Duplicate { id } if id == first.id()), "{refusal:?}");
    assert_eq!(bench.find(other.id()).await, None);
    assert_eq!(bench.claim().await.ids(), [[first.id()]]);
}

pub async fn an_id_twice_in_one_append_is_a_duplicate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    let refusal = bench.try_append(&[event.clone(), event.clone()]).await.expect_err("a duplicate");
    assert!(matches!(refusal, OutboxAppendError::Duplicate { id } if id == event.id()), "{refusal:?}");
    assert_eq!(bench.find(event.id()).await, None);
}

pub async fn an_id_that_is_not_committed_yet_is_waited_for_and_then_a_duplicate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.events.of("a").build();
    let tx = bench.open_append(std::slice::from_ref(&first)).await;
    let again = [bench.events.of("b").id(first.id()).build()];
    let mut appending = pin!(bench.try_append(&again));
    assert_waits(appending.as_mut(), "the second append of the id").await;
    bench.commit(tx).await;
    let refusal = appending.await.expect_err("a duplicate");
    assert!(matches!(refusal, OutboxAppendError::Duplicate { id } if id == first.id()), "{refusal:?}");
}

pub async fn the_id_of_a_published_event_is_a_duplicate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    bench.append(std::slice::from_ref(&event)).await;
    bench.publish_due().await;
    let refusal = bench.try_append(std::slice::from_ref(&event)).await.expect_err("a duplicate");
    assert!(matches!(refusal, OutboxAppendError::Duplicate { .. }), "{refusal:?}");
}

pub async fn a_transaction_in_which_an_append_failed_cannot_be_committed<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    bench.append(std::slice::from_ref(&event)).await;
    let other = bench.events.of("b").build();
    let mut tx = bench.open_append(std::slice::from_ref(&other)).await;
    bench.harness.append().append(&mut tx, &[event]).await.expect_err("a duplicate");
    bench.harness.unit_of_work().commit(tx).await.expect_err("nothing can be committed");
    assert_eq!(bench.find(other.id()).await, None);
}

pub async fn a_dropped_transaction_leaves_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    drop(bench.open_append(std::slice::from_ref(&event)).await);
    // The same id may be appended: waits, if it must, until the drop has reached the database.
    bench.append(std::slice::from_ref(&event)).await;
    assert_eq!(bench.claim().await.ids(), [[event.id()]]);
}

pub async fn uncommitted_events_are_invisible<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    let tx = bench.open_append(std::slice::from_ref(&event)).await;
    assert!(bench.claim().await.runs.is_empty());
    assert_eq!(bench.find(event.id()).await, None);
    bench.commit(tx).await;
    assert_eq!(bench.claim().await.ids(), [[event.id()]]);
}

pub async fn a_second_appender_to_an_aggregate_waits_for_the_commit_of_the_first<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events = bench.events.many_of("a", 2);
    let first = bench.open_append(&events[..1]).await;
    let mut second = bench.begin().await;
    {
        let append = bench.harness.append();
        let mut appending = pin!(append.append(&mut second, &events[1..]));
        assert_waits(appending.as_mut(), "the second appender").await;
        bench.commit(first).await;
        appending.await.expect("it goes on");
    }
    bench.commit(second).await;
    let (before, after) = (bench.state(events[0].id()).await, bench.state(events[1].id()).await);
    assert!(before.sequence < after.sequence, "the order of commits is the order of the aggregate");
    assert_eq!(bench.claim().await.ids(), [[events[0].id(), events[1].id()]]);
}

pub async fn a_second_appender_goes_on_when_the_first_rolls_back<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events = bench.events.many_of("a", 2);
    let first = bench.open_append(&events[..1]).await;
    let mut second = bench.begin().await;
    {
        let append = bench.harness.append();
        let mut appending = pin!(append.append(&mut second, &events[1..]));
        assert_waits(appending.as_mut(), "the second appender").await;
        drop(first);
        appending.await.expect("it goes on");
    }
    bench.commit(second).await;
    assert_eq!(bench.claim().await.ids(), [[events[1].id()]]);
}

pub async fn an_appender_to_another_aggregate_does_not_wait<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let held = bench.open_append(&bench.events.many_of("a", 1)).await;
    let other = bench.appended("b", 1).await;
    assert_eq!(bench.claim().await.ids(), [other]);
    bench.commit(held).await;
}

pub async fn appends_to_the_same_aggregates_in_opposite_orders_all_end<H: OutboxHarness>() {
    const ROUNDS: usize = 20;
    let bench = Bench::<H>::fresh().await;
    let names: Vec<_> = (0..8).map(|n| format!("a{n}")).collect();
    let append_all = async |reversed: bool| {
        for _ in 0..ROUNDS {
            let mut events: Vec<_> = names.iter().map(|name| bench.events.of(name).build()).collect();
            if reversed {
                events.reverse();
            }
            bench.append(&events).await;
        }
    };
    // Both come to a stop in the middle of their first append, each with some lanes in hand.
    let middle = bench.open_append(&[bench.events.of(&names[4]).build()]).await;
    let mut both = pin!(futures_util::future::join(append_all(false), append_all(true)));
    assert_waits(both.as_mut(), "both appenders").await;
    drop(middle);
    both.await;
    let claim = bench.claim().await;
    assert_eq!(claim.runs.iter().map(|run| run.events.len()).collect::<Vec<_>>(), vec![2 * ROUNDS; names.len()]);
}
