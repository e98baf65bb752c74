//! What the in-memory outbox offers beyond the ports: ordered failures, effects at commit, assertions, a publisher.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use application_core::{
    outbox::{
        ClaimRequest, ClaimScope, ConfirmedRun, FailureClass, HolderName, LeaseToken, NewOutboxEvent, OutboxEvent,
        OutboxEventStatus, PublishFailure, Run,
    },
    ports::{
        Availability, Destination, MessagePublishPort, OutboxAppendError, OutboxAppendPort, OutboxOperationsPort,
        OutboxStorePort, StoreError, UnitOfWork, WakeupPort,
    },
    usecases::{Transaction, Transactional},
};
use futures_util::poll;
use test_support::{
    clock::FakeClock,
    fixtures::{self, Events, new_event},
    in_memory::{
        InMemoryOutbox, InMemoryTransaction, Operation, RecordingPublisher, StoreErrorKind, assert_nothing_open,
        assert_outbox_contains, assert_outbox_is_empty, assert_outbox_lacks,
    },
    operate::OperateOne,
};

const SAMPLE: (&str, &str) = (fixtures::AGGREGATE_TYPE, "a");

fn outbox() -> (InMemoryOutbox, Arc<FakeClock>) {
    let clock = Arc::new(FakeClock::default());
    (InMemoryOutbox::new(Arc::clone(&clock) as _), clock)
}

async fn append(outbox: &InMemoryOutbox, events: &[NewOutboxEvent]) {
    let unit_of_work = outbox.unit_of_work();
    let mut tx = unit_of_work.begin().await.unwrap();
    outbox.append(&mut tx, events).await.unwrap();
    unit_of_work.commit(tx).await.unwrap();
}

fn request(token: u64) -> ClaimRequest {
    ClaimRequest {
        token: LeaseToken::new(fixtures::uuid(token)),
        scope: ClaimScope::Due,
        holder: HolderName::new("relay"),
        lease: Duration::from_secs(30),
        max_lanes: 10,
        max_run: 10,
        max_events: 10,
        max_bytes: 1_000,
    }
}

fn whole(runs: &[Run]) -> Vec<ConfirmedRun> {
    runs.iter()
        .map(|run| ConfirmedRun { lane: run.lane, confirmed: run.events.iter().map(|event| event.id).collect() })
        .collect()
}

mod failures {
    use super::*;

    #[tokio::test]
    async fn as_many_calls_fail_as_were_ordered_and_change_nothing() {
        let (outbox, _) = outbox();
        append(&outbox, &[new_event("a").build()]).await;
        outbox.fail_next(2, StoreErrorKind::Unavailable);
        assert!(matches!(outbox.claim(&request(1)).await, Err(StoreError::Unavailable { .. })));
        assert!(matches!(outbox.claim(&request(1)).await, Err(StoreError::Unavailable { .. })));
        assert_eq!(outbox.claim(&request(1)).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn every_kind_is_the_error_of_its_name() {
        let (outbox, _) = outbox();
        for (kind, transient) in [
            (StoreErrorKind::Unavailable, true),
            (StoreErrorKind::Timeout, true),
            (StoreErrorKind::AnswerLost, true),
            (StoreErrorKind::Conflict, true),
            (StoreErrorKind::Refused, false),
        ] {
            outbox.fail_next(1, kind);
            assert_eq!(outbox.blocked(1).await.unwrap_err().is_transient(), transient, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_failure_can_be_ordered_for_one_operation() {
        let (outbox, _) = outbox();
        outbox.fail_next_of(Operation::Commit, 1, StoreErrorKind::Timeout);
        let unit_of_work = outbox.unit_of_work();
        let mut tx = unit_of_work.begin().await.unwrap();
        outbox.append(&mut tx, &[new_event("a").build()]).await.unwrap();
        assert!(matches!(unit_of_work.commit(tx).await, Err(StoreError::Timeout { .. })));
        assert_outbox_is_empty(&outbox);
    }

    #[tokio::test]
    async fn a_lost_answer_hides_a_call_that_took_effect() {
        let (outbox, _) = outbox();
        append(&outbox, &[new_event("a").build()]).await;
        let runs = outbox.claim(&request(1)).await.unwrap();
        outbox.fail_next_of(Operation::Acknowledge, 1, StoreErrorKind::AnswerLost);
        let token = request(1).token;
        assert!(matches!(outbox.acknowledge(token, &whole(&runs)).await, Err(StoreError::Timeout { .. })));
        assert_nothing_open(&outbox);
        assert!(outbox.acknowledge(token, &whole(&runs)).await.unwrap().stale, "the claim ended the first time");
    }
}

mod transactions {
    use super::*;

    #[derive(Debug, Default)]
    struct Wakeups(AtomicUsize);

    impl WakeupPort for Wakeups {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[derive(Debug)]
    struct Failed;

    impl From<StoreError> for Failed {
        fn from(_: StoreError) -> Self {
            Self
        }
    }

    impl From<OutboxAppendError> for Failed {
        fn from(_: OutboxAppendError) -> Self {
            Self
        }
    }

    fn transactional(outbox: &InMemoryOutbox) -> (Transactional<InMemoryTransaction>, Arc<Wakeups>) {
        let wakeups = Arc::new(Wakeups::default());
        let unit_of_work = Arc::new(outbox.unit_of_work());
        (Transactional::new(unit_of_work, Arc::new(outbox.clone()), Arc::clone(&wakeups) as _), wakeups)
    }

    #[tokio::test]
    async fn effects_happen_at_the_commit_together_with_the_events() {
        let (outbox, _) = outbox();
        let (transactional, wakeups) = transactional(&outbox);
        let rows = Arc::new(AtomicUsize::new(0));
        let run = async |events: &Events| {
            transactional
                .run(async |transaction: &mut Transaction<InMemoryTransaction>| {
                    let rows = Arc::clone(&rows);
                    transaction.tx().on_commit(move || {
                        rows.fetch_add(1, Ordering::Relaxed);
                    });
                    transaction.record(events.of("a").event_type("Reserved").build());
                    Ok::<_, Failed>(())
                })
                .await
        };
        let events = Events::new();
        outbox.fail_next_of(Operation::Commit, 1, StoreErrorKind::Unavailable);
        run(&events).await.expect_err("the commit fails");
        assert_eq!((rows.load(Ordering::Relaxed), wakeups.0.load(Ordering::Relaxed)), (0, 0));
        assert_outbox_lacks(&outbox, "Reserved", SAMPLE);
        run(&events).await.expect("the second commits");
        assert_eq!((rows.load(Ordering::Relaxed), wakeups.0.load(Ordering::Relaxed)), (1, 1));
        assert_outbox_contains(&outbox, "Reserved", SAMPLE);
    }

    #[tokio::test]
    async fn a_circle_of_waiting_appenders_is_a_conflict_for_the_last_of_them() {
        let (outbox, _) = outbox();
        let unit_of_work = outbox.unit_of_work();
        let (mut first, mut second) = (unit_of_work.begin().await.unwrap(), unit_of_work.begin().await.unwrap());
        outbox.append(&mut first, &[new_event("a").build()]).await.unwrap();
        outbox.append(&mut second, &[new_event("b").build()]).await.unwrap();
        let into_b = [new_event("b").build()];
        let mut waiting = pin!(outbox.append(&mut first, &into_b));
        assert!(poll!(waiting.as_mut()).is_pending());
        let conflict = outbox.append(&mut second, &[new_event("a").build()]).await.expect_err("a circle");
        let OutboxAppendError::Store { source } = conflict else { panic!("{conflict:?}") };
        assert!(matches!(source, StoreError::Conflict { .. }) && source.is_transient());
        drop(second);
        waiting.await.expect("the other goes on");
    }

    #[tokio::test]
    async fn an_appender_that_stops_waiting_is_in_nobodys_way() {
        let (outbox, _) = outbox();
        let unit_of_work = outbox.unit_of_work();
        let (mut holder, mut waiter) = (unit_of_work.begin().await.unwrap(), unit_of_work.begin().await.unwrap());
        outbox.append(&mut holder, &[new_event("a").build()]).await.unwrap();
        outbox.append(&mut waiter, &[new_event("b").build()]).await.unwrap();
        {
            let into_a = [new_event("a").build()];
            let mut waiting = pin!(outbox.append(&mut waiter, &into_a));
            assert!(poll!(waiting.as_mut()).is_pending());
        }
        let into_b = [new_event("b").build()];
        let mut appending = pin!(outbox.append(&mut holder, &into_b));
        assert!(poll!(appending.as_mut()).is_pending(), "it waits for the one that does not wait any more");
        drop(waiter);
        appending.await.expect("no circle was seen");
    }

    #[tokio::test]
    async fn a_transaction_of_another_outbox_is_refused() {
        let ((one, _), (other, _)) = (outbox(), outbox());
        let mut tx = one.unit_of_work().begin().await.unwrap();
        other.append(&mut tx, &[new_event("a").build()]).await.expect_err("it is not its own");
    }

    #[tokio::test]
    async fn an_operator_waits_for_an_appender_that_holds_the_lane() {
        let (outbox, _) = outbox();
        let published = new_event("a").build();
        append(&outbox, std::slice::from_ref(&published)).await;
        let runs = outbox.claim(&request(1)).await.unwrap();
        outbox.acknowledge(request(1).token, &whole(&runs)).await.unwrap();
        let mut tx = outbox.unit_of_work().begin().await.unwrap();
        outbox.append(&mut tx, &[new_event("a").build()]).await.unwrap();
        let mut replaying = pin!(outbox.replay(published.id()));
        assert!(poll!(replaying.as_mut()).is_pending());
        drop(tx);
        assert!(replaying.await.unwrap());
    }

    #[tokio::test]
    async fn an_overdue_claim_gets_a_lane_between_two_appenders() {
        let (outbox, clock) = outbox();
        append(&outbox, &[new_event("a").build()]).await;
        let overdue = ClaimRequest { scope: ClaimScope::Overdue, ..request(2) };
        assert_eq!(outbox.claim(&overdue).await.unwrap(), [], "it is due, but not for long");
        clock.advance(Duration::from_secs(1));
        let mut tx = outbox.unit_of_work().begin().await.unwrap();
        outbox.append(&mut tx, &[new_event("a").build()]).await.unwrap();
        assert_eq!(outbox.claim(&request(1)).await.unwrap(), []);
        assert_eq!(outbox.claim(&overdue).await.unwrap(), [], "it does not wait for ever");
        let mut claiming = pin!(outbox.claim(&overdue));
        assert!(poll!(claiming.as_mut()).is_pending());
        drop(tx);
        let Poll::Ready(runs) = poll!(claiming.as_mut()) else { panic!("the lane is free") };
        assert_eq!(runs.unwrap().len(), 1);
    }
}

mod assertions {
    use super::*;

    /// What an assertion says when it fails.
    fn complaint(assertion: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(assertion)).expect_err("the assertion should fail");
        panic.downcast_ref::<String>().cloned().expect("it says something")
    }

    #[tokio::test]
    async fn a_failed_assertion_shows_what_is_there_without_payloads() {
        let (outbox, _) = outbox();
        let text = complaint(|| drop(assert_outbox_contains(&outbox, "Reserved", SAMPLE)));
        assert_eq!(text, "the outbox should hold one Reserved of sample/a, it holds 0 of them; it is empty");
        let event = Events::new().of("b").payload("\"secret\"").build();
        append(&outbox, std::slice::from_ref(&event)).await;
        let line = format!("1 SampleHappened of sample/b PENDING {}", event.id());
        for text in [
            complaint(|| drop(assert_outbox_contains(&outbox, "Reserved", SAMPLE))),
            complaint(|| assert_outbox_lacks(&outbox, "SampleHappened", (fixtures::AGGREGATE_TYPE, "b"))),
            complaint(|| assert_outbox_is_empty(&outbox)),
            complaint(|| assert_nothing_open(&outbox)),
        ] {
            assert!(text.contains(&line) && !text.contains("secret"), "{text}");
        }
    }

    #[tokio::test]
    async fn an_assertion_returns_the_event_that_it_found() {
        let (outbox, _) = outbox();
        let event = new_event("a").event_type("Reserved").payload("{\"minutes\":5}").build();
        append(&outbox, std::slice::from_ref(&event)).await;
        let found = assert_outbox_contains(&outbox, "Reserved", SAMPLE);
        assert_eq!((found.id, found.status), (event.id(), OutboxEventStatus::Pending));
        assert_eq!(found.payload.as_str(), "{\"minutes\":5}");
        assert_outbox_lacks(&outbox, "Started", SAMPLE);
    }

    #[tokio::test]
    async fn two_events_where_one_is_meant_are_a_failure() {
        let (outbox, _) = outbox();
        append(&outbox, &Events::new().many_of("a", 2)).await;
        let text = complaint(|| drop(assert_outbox_contains(&outbox, fixtures::EVENT_TYPE, SAMPLE)));
        assert!(text.contains("it holds 2 of them"), "{text}");
    }
}

mod publisher {
    use super::*;

    async fn claimed(count: usize) -> Vec<OutboxEvent> {
        let (outbox, _) = outbox();
        append(&outbox, &Events::new().many_of("a", count)).await;
        outbox.claim(&request(1)).await.unwrap().remove(0).events
    }

    #[tokio::test]
    async fn what_is_sent_is_recorded_in_order_and_refusals_come_as_scripted() {
        let events = claimed(2).await;
        let publisher = RecordingPublisher::new();
        publisher.refuse_next(events[0].id, FailureClass::Rejected);
        publisher.refuse_next(events[0].id, FailureClass::Unroutable);
        for class in [FailureClass::Rejected, FailureClass::Unroutable] {
            assert_eq!(publisher.publish(&events[0]).await.unwrap_err().class(), class);
        }
        publisher.publish(&events[1]).await.unwrap();
        publisher.publish(&events[0]).await.unwrap();
        let ids = |nth: &[usize]| nth.iter().map(|n| events[*n].id).collect::<Vec<_>>();
        assert_eq!(publisher.sent_ids(), ids(&[0, 0, 1, 0]));
        assert_eq!(publisher.confirmed_ids(), ids(&[1, 0]));
        assert_eq!(publisher.sent()[2], events[1]);
    }

    #[tokio::test]
    async fn a_broken_destination_fails_until_it_is_healed_and_others_do_not() {
        let events = claimed(2).await;
        let publisher = RecordingPublisher::new();
        let (first, second) = (events[0].id, events[1].clone());
        publisher.route_by(
            move |event| {
                if event.id == first { Ok(Destination::new("one")) } else { Ok(Destination::new("two")) }
            },
        );
        let one = Destination::new("one");
        assert_eq!(publisher.destination(&events[0]), Ok(one.clone()));
        publisher.break_destination(&one, FailureClass::Unavailable);
        assert_eq!(publisher.publish(&events[0]).await.unwrap_err().class(), FailureClass::Unavailable);
        publisher.publish(&second).await.unwrap();
        publisher.heal_destination(&one);
        publisher.publish(&events[0]).await.unwrap();
    }

    #[tokio::test]
    async fn an_event_that_no_route_takes_is_poison() {
        let events = claimed(1).await;
        let publisher = RecordingPublisher::new();
        publisher.route_by(|_| Err(PublishFailure::new(FailureClass::Poison, "no route")));
        assert_eq!(publisher.destination(&events[0]).unwrap_err().class(), FailureClass::Poison);
    }

    #[tokio::test]
    async fn held_confirms_come_when_they_are_released() {
        let events = claimed(3).await;
        let publisher = RecordingPublisher::new();
        let held = publisher.hold_confirms();
        let (mut first, mut second, mut third) = (
            pin!(publisher.publish(&events[0])),
            pin!(publisher.publish(&events[1])),
            pin!(publisher.publish(&events[2])),
        );
        assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        publisher.wait_until_sent(3).await;
        held.release(events[1].id);
        second.await.unwrap();
        assert!(poll!(first.as_mut()).is_pending());
        held.release_all();
        first.await.unwrap();
        third.await.unwrap();
        assert_eq!(publisher.confirmed_ids(), [events[1].id, events[0].id, events[2].id]);
    }

    #[tokio::test]
    async fn availability_is_a_switch() {
        let publisher = RecordingPublisher::new();
        assert_eq!(publisher.availability(), Availability::Available);
        publisher.set_availability(Availability::Disabled);
        assert_eq!(publisher.availability(), Availability::Disabled);
    }
}
