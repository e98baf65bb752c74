//! Unit tests of claims: what is asked for, and when.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_claim_carries_the_settings_and_a_token_of_its_own() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut store = MockOutboxStorePort::new();
    let log = Arc::clone(&asked);
    store.expect_claim().times(2).returning(move |request| {
        log.lock().unwrap().push(request.clone());
        Ok(Vec::new())
    });
    let policy = PublishPolicy { max_events: 40, min_lanes: 7, max_run: 9, max_bytes: 1_000, window: 3, ..policy() };
    let relay = relay(store, Arc::new(Broker::default()), policy);
    round(&relay).await;
    round(&relay).await;
    let asked = asked.lock().unwrap();
    assert_ne!(asked[0].token, asked[1].token);
    let expected = ClaimRequest {
        token: asked[0].token,
        scope: ClaimScope::Due,
        holder: HolderName::new("relay-1"),
        lease: LEASE,
        max_lanes: 40,
        max_run: 9,
        max_events: 40,
        max_bytes: 1_000,
    };
    assert_eq!(asked[0], expected);
}

#[tokio::test(start_paused = true)]
async fn a_pipelined_run_may_be_a_whole_claim() {
    let mut store = MockOutboxStorePort::new();
    store.expect_claim().times(1).withf(|request| request.max_run == 40).returning(|_| Ok(Vec::new()));
    let pipelining_may_reorder_within_aggregate = true;
    let policy = PublishPolicy { max_events: 40, max_run: 9, pipelining_may_reorder_within_aggregate, ..policy() };
    round(&relay(store, Arc::new(Broker::default()), policy)).await;
}

#[tokio::test(start_paused = true)]
async fn the_number_of_lanes_asked_for_follows_the_length_of_runs_down_to_the_fewest() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut store = MockOutboxStorePort::new();
    let log = Arc::clone(&asked);
    store.expect_claim().returning(move |request| {
        log.lock().unwrap().push(request.max_lanes);
        Ok(vec![run(1, 50)])
    });
    store.expect_acknowledge().returning(|_, runs| Ok(all_done(runs.len())));
    let relay = relay(store, Arc::new(Broker::default()), PublishPolicy { max_events: 100, ..policy() });
    for _ in 0..20 {
        round(&relay).await;
    }
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0], 100, "at first every event counts as a lane of its own");
    assert!(asked.is_sorted_by(|before, after| before >= after));
    assert_eq!(asked.last(), Some(&policy().min_lanes));
}

#[tokio::test(start_paused = true)]
async fn now_and_then_an_overdue_lane_is_claimed_first() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut store = MockOutboxStorePort::new();
    let log = Arc::clone(&asked);
    let hot = run(1, 90);
    let mut answers = VecDeque::from([vec![], vec![], vec![hot.clone()], vec![], vec![], vec![]]);
    store.expect_claim().times(answers.len()).returning(move |request| {
        log.lock().unwrap().push((request.scope, request.max_lanes));
        Ok(answers.pop_front().expect("six claims"))
    });
    expect_acknowledge(&mut store, vec![start_of(&hot, 90)]);
    let clock = TestClock::new();
    let policy = PublishPolicy { max_events: 100, overdue_check: Duration::from_secs(1), ..policy() };
    let relay = observed_relay(store, Arc::new(Broker::default()), policy, Arc::clone(&clock), Arc::new(NoObserver));
    for _ in 0..2 {
        round(&relay).await;
    }
    clock.skip(Duration::from_secs(1));
    round(&relay).await;
    round(&relay).await;
    clock.skip(Duration::from_secs(1));
    round(&relay).await;
    let (due, overdue) = ((ClaimScope::Due, 100), (ClaimScope::Overdue, 100));
    // The third round is content with the hot lane, whose length says nothing about others; the fifth finds none.
    assert_eq!(*asked.lock().unwrap(), [due, due, overdue, due, overdue, due]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_claim_is_the_rounds_error() {
    let mut store = MockOutboxStorePort::new();
    store.expect_claim().times(1).return_once(|_| Err(database_gone()));
    let error = relay(store, Arc::new(Broker::default()), policy()).run_once(&StopSignal::new()).await;
    assert!(error.expect_err("no claim").is_transient());
}
