//! The real SQL, driven at random through the ports, against the model of the lane protocol.
//!
//! The model (`system_tests::lane_protocol`) is checked in every state, but it is a description; here every step is taken
//! by both, and after each what can be seen of them is compared. When that fails, the shortest sequence that still fails
//! is shown.

mod bench;

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{TestCaseError, TestError},
};
use system_tests::lane_protocol::FailedOutcome;

use bench::Bench;

use super::random;

/// The aggregates; the last is of a type whose DEAD heads are skipped.
const LANES: usize = 3;

/// One step. What an index points at is chosen among what there is when the step is taken; with nothing there, or with a
/// lane that the step would wait for, nothing happens.
#[derive(Debug, Clone)]
enum Action {
    /// Opens a transaction that appends an event to each of these lanes, as far as no other transaction holds them.
    Append(Vec<usize>),
    Commit(Index),
    RollBack(Index),
    Claim {
        relay: usize,
        max_run: usize,
    },
    /// The relay of one of the last claims has sent `sent` events of each run, and says so: of one of its lanes, or of all.
    Settle {
        claim: Index,
        lane: Option<Index>,
        sent: usize,
        how: How,
    },
    /// The last report once more, as if its answer had been lost.
    SettleAgain,
    Renew(Index),
    LeaseEnds(Index),
    TimePasses,
    Reap,
    Requeue(Index),
    Discard(Index),
    Replay(Index),
    CleanUp,
}

#[derive(Debug, Clone, Copy)]
enum How {
    /// Acknowledges runs that are through, and releases others.
    Acknowledge,
    Release {
        later: bool,
    },
    /// Fails the first event that was not sent.
    Fail(FailedOutcome),
    /// Acknowledges the lanes without events, as for postponed ones.
    Free,
}

fn any_how() -> impl Strategy<Value = How> {
    prop_oneof![
        6 => Just(How::Acknowledge),
        2 => any::<bool>().prop_map(|later| How::Release { later }),
        2 => Just(How::Fail(FailedOutcome::Retry)),
        1 => Just(How::Fail(FailedOutcome::Block)),
        1 => Just(How::Fail(FailedOutcome::Skip)),
        2 => Just(How::Free),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    let settle = (any::<Index>(), any::<Option<Index>>(), 0..4_usize, any_how());
    prop_oneof![
        6 => prop::collection::vec(0..LANES, 1..4).prop_map(Action::Append),
        5 => any::<Index>().prop_map(Action::Commit),
        1 => any::<Index>().prop_map(Action::RollBack),
        6 => (0..3_usize, 1..4_usize).prop_map(|(relay, max_run)| Action::Claim { relay, max_run }),
        8 => settle.prop_map(|(claim, lane, sent, how)| Action::Settle { claim, lane, sent, how }),
        3 => Just(Action::SettleAgain),
        1 => any::<Index>().prop_map(Action::Renew),
        3 => any::<Index>().prop_map(Action::LeaseEnds),
        2 => Just(Action::TimePasses),
        3 => Just(Action::Reap),
        3 => any::<Index>().prop_map(Action::Requeue),
        2 => any::<Index>().prop_map(Action::Discard),
        3 => any::<Index>().prop_map(Action::Replay),
        1 => Just(Action::CleanUp),
    ]
}

/// Random sequences of steps on a database that `planted` has changed; shrinks to a short one when it fails.
fn drive(seed: u64, cases: u32, planted: &[(&str, &str, &str)], shrinks: u32) -> Result<(), TestError<Vec<Action>>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let postgres = runtime.block_on(bench::database(planted));
    let mut runner = random::runner(seed, cases, shrinks);
    let sequences = (2..6_usize, prop::collection::vec(any_action(), 10..60));
    let outcome = runner.run(&sequences, |(dead_after, actions)| {
        runtime.block_on(async {
            let mut bench = Bench::new(&postgres, dead_after).await;
            for action in &actions {
                bench.take(action).await.map_err(|what| TestCaseError::fail(format!("{action:?}: {what}")))?;
            }
            bench.drain().await.map_err(|what| TestCaseError::fail(format!("at the end: {what}")))
        })
    });
    outcome.map_err(|error| match error {
        TestError::Abort(why) => TestError::Abort(why),
        TestError::Fail(why, (_, actions)) => TestError::Fail(why, actions),
    })
}

#[test]
fn random_steps_of_the_real_sql_agree_with_the_model_and_lose_and_reorder_nothing() {
    let seed = random::seed();
    let outcome = drive(seed, random::cases(24), &[], 200);
    assert!(outcome.is_ok(), "RANDOM_TEST_SEED={seed}: {outcome:#?}");
}

/// Which step shows what is wrong depends on the sequence; that some step does is what counts.
fn assert_found(planted: &[(&str, &str, &str)]) {
    let outcome = drive(1, 400, planted, 0);
    assert!(matches!(outcome, Err(TestError::Fail(..))), "{planted:?} is not found: {outcome:?}");
}

#[test]
fn sql_that_settles_without_its_token_is_found() {
    assert_found(&[
        ("outbox_take_leases", "IF NOT FOUND THEN", "IF false THEN"),
        ("outbox_lock_leases", " AND l.token = p_token", ""),
    ]);
}

#[test]
fn sql_that_forgets_the_lanes_it_skipped_is_found() {
    assert_found(&[("outbox_free_lanes", " AND c.held <= v_freed", "")]);
}

#[test]
fn sql_that_forgets_what_a_claim_has_settled_is_found() {
    assert_found(&[("outbox_lanes_to_settle", "IF cardinality(p_leases.postponed) > 0 THEN", "IF false THEN")]);
}

#[test]
fn sql_that_looks_for_a_head_behind_the_run_alone_is_found() {
    // The lane goes when its run is through, whatever was appended meanwhile.
    assert_found(&[(
        "outbox_free_lanes",
        "(e.lane, e.sequence) <= (w.lane, 9223372036854775807)",
        "(e.lane, e.sequence) <= (w.lane, (SELECT x.claimed_through FROM outbox_lane x WHERE x.lane = w.lane))",
    )]);
}

#[test]
fn sql_that_reopens_an_event_without_lowering_the_floor_is_found() {
    assert_found(&[("outbox_open_lanes", "least(l.floor, excluded.floor)", "l.floor")]);
}
