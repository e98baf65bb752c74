//! A destination that is not available, in any order and for however long, is no event's fault: rule R5, case B59.

use proptest::{collection::vec, prelude::*};

use super::*;

/// A broker whose answers were drawn: a confirm, or *unavailable*. What was not drawn is unavailable too.
#[derive(Debug)]
struct Drawn {
    confirms: Mutex<VecDeque<bool>>,
}

#[async_trait]
impl MessagePublishPort for Drawn {
    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new(event.aggregate_type.as_str()))
    }

    async fn publish(&self, _event: &OutboxEvent) -> Result<(), PublishFailure> {
        TestClock::new().sleep(Duration::from_millis(1)).await;
        let confirmed = self.confirms.lock().unwrap().pop_front().unwrap_or(false);
        if confirmed { Ok(()) } else { Err(PublishFailure::new(FailureClass::Unavailable, "says nobody")) }
    }
}

/// Aggregates of two destinations. Every head has one attempt left, so that one charge more would make it DEAD.
fn runs() -> impl Strategy<Value = Vec<Run>> {
    vec((prop_oneof![Just("orders"), Just("invoices")], 1..4_i64), 1..6).prop_map(|drawn| {
        let runs = (1..).zip(drawn);
        runs.map(|(lane, (destination, events))| attempted(run_of(destination, lane, events), 2)).collect()
    })
}

/// Lets relays take turns at the same events, each pause later; returns what the store was told of failures and deaths.
async fn told(runs: Vec<Run>, confirms: Vec<bool>, pauses: Vec<u64>, pipelined: bool) -> Vec<String> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let broker = Arc::new(Drawn { confirms: Mutex::new(confirms.into()) });
    let clock = TestClock::new();
    // Two relays judge by what each has seen itself; the second begins to work in the middle of it.
    let relays = [(), ()].map(|()| {
        let mut store = MockOutboxStorePort::new();
        let (handed_out, log) = (runs.clone(), Arc::clone(&told));
        store.expect_claim().returning(move |_| Ok(handed_out.clone()));
        store.expect_renew().returning(|_, _| Ok(true));
        store.expect_acknowledge().returning(|_, runs| Ok(all_done(runs.len())));
        store.expect_release().returning(|_, runs, _| Ok(all_done(runs.len())));
        store.expect_fail().returning(move |_, runs| {
            log.lock().unwrap().extend(runs.iter().map(|run| format!("{run:?}")));
            Ok(all_done(runs.len()))
        });
        let policy = PublishPolicy { pipelining_may_reorder_within_aggregate: pipelined, ..policy() };
        observed_relay(store, Arc::clone(&broker), policy, Arc::clone(&clock), Arc::new(NoObserver))
    });
    let [first, second] = &relays;
    let half = pauses.len() / 2;
    for (nth, millis) in pauses.into_iter().enumerate() {
        round(first).await;
        if nth >= half {
            round(second).await;
        }
        clock.skip(Duration::from_millis(millis));
    }
    let told = told.lock().unwrap();
    told.clone()
}

proptest! {
    #[test]
    fn no_sequence_of_unavailable_outcomes_charges_an_attempt_or_makes_an_event_dead(
        runs in runs(),
        // Confirms are rare: most sequences are an outage with a few messages that came through.
        confirms in vec(prop::bool::weighted(0.2), 0..60),
        pauses in vec(0..20_000_u64, 1..30),
        pipelined in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let told = runtime.block_on(told(runs, confirms, pauses, pipelined));
        prop_assert!(told.is_empty(), "{told:?}");
    }
}
