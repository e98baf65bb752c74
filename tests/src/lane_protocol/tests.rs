//! The protocol holds in every state, and each flaw that is put into it is found.

use super::{Budget, Explored, Finding, Flaw, Report, Rules, Scenario, Step, explore};

const NOTHING: Budget = Budget {
    rollbacks: 0,
    refusals: 0,
    crashes: 0,
    slow_relays: 0,
    releases: 0,
    renewals: 0,
    commands: 0,
    replays: 0,
    lost_answers: 0,
};

/// Small bounds reach every branch soon: the first expiry shortens runs, the second kills.
fn scenario(relays: usize, transactions: &[&[usize]], budget: Budget) -> Scenario {
    Scenario {
        rules: Rules { max_run: 2, suspect_expiries: 1, dead_after: 2, skipping: Vec::new(), flaw: None },
        lanes: transactions.iter().flat_map(|lanes| lanes.iter()).max().map_or(0, |lane| lane + 1),
        transactions: transactions.iter().map(|lanes| lanes.to_vec()).collect(),
        relays,
        max_attempts: 2,
        budget,
    }
}

/// A search that became small by accident would hold without having looked.
fn holds(scenario: &Scenario, states_at_least: usize) {
    match explore(scenario) {
        Ok(Explored { states, steps }) => {
            println!("{states} states, {steps} steps between them");
            assert!(states >= states_at_least, "{states} states");
        }
        Err(finding) => panic!("{finding}"),
    }
}

#[test]
fn two_relays_on_one_lane_keep_the_protocol_when_they_crash_or_are_slow() {
    let budget = Budget { crashes: 1, slow_relays: 1, releases: 1, renewals: 1, rollbacks: 1, ..NOTHING };
    holds(&scenario(2, &[&[0], &[0], &[0]], budget), 42_000);
}

#[test]
fn two_relays_on_two_lanes_keep_the_protocol_when_appenders_hold_lanes() {
    let budget = Budget { crashes: 1, slow_relays: 1, rollbacks: 1, ..NOTHING };
    holds(&scenario(2, &[&[0, 1], &[0]], budget), 15_000);
}

#[test]
fn refused_events_keep_the_protocol_when_an_operator_requeues_and_discards_them() {
    let budget = Budget { refusals: 3, commands: 2, slow_relays: 1, ..NOTHING };
    for (skipping, states) in [(vec![], 18_000), (vec![0], 14_000)] {
        let mut scenario = scenario(2, &[&[0], &[0, 0]], budget);
        scenario.rules.skipping = skipping;
        holds(&scenario, states);
    }
}

#[test]
fn three_relays_keep_the_protocol() {
    let budget = Budget { crashes: 1, slow_relays: 1, ..NOTHING };
    holds(&scenario(3, &[&[0], &[0, 1]], budget), 14_000);
}

/// With two lanes the claim outlives what it has settled, and another relay claims a lane that it gave back.
#[test]
fn a_settlement_that_is_repeated_settles_nothing_charges_nothing_and_touches_no_lane_of_another_claim() {
    let one: &[&[usize]] = &[&[0], &[0]];
    let two: &[&[usize]] = &[&[0, 1], &[0]];
    let budget = Budget { lost_answers: 1, ..NOTHING };
    for (transactions, budget, states) in [
        (two, Budget { refusals: 1, replays: 1, ..budget }, 12_000),
        (two, Budget { slow_relays: 1, ..budget }, 8_000),
        (one, Budget { refusals: 1, replays: 1, slow_relays: 1, ..budget }, 8_500),
    ] {
        holds(&scenario(2, transactions, budget), states);
    }
}

/// What a search finds with the flaw, and nothing without it.
fn found(flaw: Flaw, transactions: &[&[usize]], budget: Budget) -> Finding {
    let mut scenario = scenario(2, transactions, budget);
    explore(&scenario).expect("the protocol holds without the flaw");
    scenario.rules.flaw = Some(flaw);
    let finding = explore(&scenario).expect_err("the flaw is found");
    println!("{finding}");
    finding
}

#[test]
fn a_sequence_drawn_before_the_lock_is_found() {
    let finding = found(Flaw::SequenceDrawnBeforeLock, &[&[0], &[0]], NOTHING);
    assert_eq!(finding.what, "an open event below the floor of its lane");
}

#[test]
fn a_waiting_head_that_is_passed_over_is_found() {
    let finding = found(Flaw::WaitingHeadPassed, &[&[0, 0]], Budget { refusals: 1, ..NOTHING });
    assert_eq!(finding.what, "an event is published before one that was committed earlier");
}

#[test]
fn a_lease_that_claims_ignore_is_found() {
    let finding = found(Flaw::LeaseIgnored, &[&[0]], NOTHING);
    assert_eq!(finding.what, "two relays hold a living lease on one lane");
}

#[test]
fn a_token_that_settlements_do_not_check_is_found() {
    let finding = found(Flaw::TokenUnchecked, &[&[0]], Budget { slow_relays: 1, ..NOTHING });
    assert_eq!(finding.what, "two relays hold a living lease on one lane");
    assert!(finding.trace.contains(&Step::Reap));
}

#[test]
fn a_lane_that_is_deleted_without_a_look_behind_its_run_is_found() {
    let finding = found(Flaw::LaneDeletedUnseen, &[&[0], &[0]], NOTHING);
    assert_eq!(finding.what, "open events without a lane");
}

#[test]
fn a_settlement_that_forgets_the_lanes_it_skipped_is_found() {
    let finding = found(Flaw::SkippedLanesForgotten, &[&[0], &[0]], NOTHING);
    assert_eq!(finding.what, "a leased lane without its claim");
}

#[test]
fn a_reaper_that_forgets_the_lanes_it_skipped_is_found() {
    let finding = found(Flaw::VoidedClaimsForgotten, &[&[0], &[0]], Budget { crashes: 1, ..NOTHING });
    assert_eq!(finding.what, "nothing leads on to delivery");
    assert!(finding.trace.contains(&Step::Reap));
}

#[test]
fn an_event_opened_again_below_a_floor_that_stays_is_found() {
    let budget = Budget { refusals: 2, commands: 2, ..NOTHING };
    let finding = found(Flaw::FloorNotLowered, &[&[0, 0]], budget);
    assert_eq!(finding.what, "an open event below the floor of its lane");
}

#[test]
fn a_claim_that_forgets_what_it_has_settled_is_found() {
    // An attempt is charged twice, and a replay is taken for sent.
    let budget = Budget { lost_answers: 1, ..NOTHING };
    for (budget, report) in
        [(Budget { refusals: 1, ..budget }, Report::Fail), (Budget { replays: 1, ..budget }, Report::Acknowledge)]
    {
        let finding = found(Flaw::SettledForgotten, &[&[0], &[0]], budget);
        assert_eq!(finding.what, "a repeated settlement settles or charges an event again");
        let lost = |step: &Step| matches!(step, Step::LoseAnswer(_, lost) if *lost == report);
        assert!(finding.trace.iter().any(lost), "{finding}");
    }
}

#[test]
fn a_repeated_settlement_whose_token_is_not_checked_is_found() {
    let finding = found(Flaw::TokenUnchecked, &[&[0], &[0]], Budget { lost_answers: 1, ..NOTHING });
    assert_eq!(finding.what, "a repeated settlement touches a lane that its claim does not hold");
}
