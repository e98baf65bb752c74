//! Who acts on the database: appenders, relays, the broker, the clock, the reaper and an operator.

use super::outbox::{Due, Event, FailedOutcome, Flaw, Lane, Lease, Outbox, Rules, Settlement, Stored};

/// What is explored.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The functions' settings.
    pub rules: Rules,
    /// How many aggregates there are.
    pub lanes: usize,
    /// For each business transaction the lanes of the events that it appends.
    pub transactions: Vec<Vec<usize>>,
    /// How many relays there are.
    pub relays: usize,
    /// Failed deliveries that make an event DEAD.
    pub max_attempts: usize,
    /// How often what need not happen may happen.
    pub budget: Budget,
}

/// How often what need not happen may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    /// Transactions that roll back.
    pub rollbacks: u8,
    /// Events that the broker refuses.
    pub refusals: u8,
    /// Relays that are killed.
    pub crashes: u8,
    /// Leases that run out under a relay that lives.
    pub slow_relays: u8,
    /// Claims that are given back before their runs are through.
    pub releases: u8,
    /// Renewals.
    pub renewals: u8,
    /// Events that an operator requeues or discards.
    pub commands: u8,
    /// Events that an operator replays.
    pub replays: u8,
    /// Settlements that take effect, and whose answer does not arrive.
    pub lost_answers: u8,
}

/// Where a business transaction is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Writer {
    Waiting,
    Appending { floor: usize, drawn: Vec<usize> },
    Appended,
    Ended,
}

/// What a relay knows of a lane that it has claimed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Run {
    lane: usize,
    events: Vec<usize>,
    confirmed: usize,
    refused: bool,
    postponed: bool,
}

impl Run {
    fn is_through(&self) -> bool {
        self.confirmed == self.events.len() && !self.postponed
    }

    fn is_unfinished(&self) -> bool {
        !self.is_through() && !self.refused && !self.postponed
    }

    fn is_part_of(&self, report: Report) -> bool {
        match report {
            Report::Acknowledge => self.is_through(),
            Report::Fail => self.refused,
            Report::Release => self.is_unfinished(),
        }
    }

    fn confirmed(&self) -> &[usize] {
        &self.events[..self.confirmed]
    }
}

/// The arguments of a settling call, but for its token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Call {
    lanes: Vec<usize>,
    confirmed: Vec<usize>,
    failed: Vec<(usize, FailedOutcome)>,
}

/// A relay: idle, or with a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Relay {
    token: Option<usize>,
    runs: Vec<Run>,
    /// What it has reported without an answer: it says that again before anything else. Its runs are in here alone.
    unheard: Option<Call>,
}

/// A state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The database.
    pub outbox: Outbox,
    writers: Vec<Writer>,
    relays: Vec<Relay>,
    /// For each lane its committed events, in the order of their commits.
    committed: Vec<Vec<usize>>,
    /// Events that the broker has, one bit each.
    sent: u32,
    /// Events that later ones were allowed to pass: skipped or discarded once.
    passed: u32,
    budget: Budget,
}

/// What a relay may report of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// `outbox_acknowledge` for all runs that are through.
    Acknowledge,
    /// `outbox_fail` for all runs that stopped at a refused event.
    Fail,
    /// `outbox_release` for all runs that are not through.
    Release,
}

/// What may happen next. Numbers are transactions, relays, lanes, tokens and events; relays that are in the same
/// state are not told apart, so the relay of one step may have another number in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The append's statement begins: `last_value` is read.
    BeginAppend(usize),
    /// The statement is granted its lanes and inserts.
    Append(usize),
    /// The business transaction commits.
    Commit(usize),
    /// It rolls back.
    RollBack(usize),
    /// `outbox_claim`.
    Claim(usize),
    /// The broker confirms the next event of the lane's run.
    Confirm(usize, usize),
    /// The broker refuses it.
    Refuse(usize, usize),
    /// The relay reports, and hears what came of it.
    Settle(usize, Report),
    /// The relay reports, and the answer is lost.
    LoseAnswer(usize, Report),
    /// The relay says again, with the same token, what it has heard no answer to.
    SettleAgain(usize),
    /// `outbox_free_postponed`.
    FreePostponed(usize),
    /// `outbox_renew`.
    Renew(usize),
    /// The relay is killed.
    Crash(usize),
    /// The lease of the claim with this token runs out.
    LeaseEnds(usize),
    /// Backoffs are over.
    TimePasses,
    /// `outbox_reap`.
    Reap,
    /// `outbox_requeue`.
    Requeue(usize),
    /// `outbox_discard`.
    Discard(usize),
    /// `outbox_replay`.
    Replay(usize),
}

const fn bit(event: usize) -> u32 {
    1 << event
}

impl World {
    /// Nothing has happened.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            outbox: Outbox::new(scenario.lanes),
            writers: vec![Writer::Waiting; scenario.transactions.len()],
            relays: vec![Relay::default(); scenario.relays],
            committed: vec![Vec::new(); scenario.lanes],
            sent: 0,
            passed: 0,
            budget: scenario.budget,
        }
    }

    /// Everything that may happen next.
    #[must_use]
    pub fn steps(&self, scenario: &Scenario) -> Vec<Step> {
        let mut steps = Vec::new();
        for (writer, state) in self.writers.iter().enumerate() {
            match state {
                Writer::Waiting => {
                    // Transactions that append the same begin one after the other: which is which says nothing.
                    let lanes = &scenario.transactions[writer];
                    let mut before = self.writers[..writer].iter().zip(&scenario.transactions);
                    if before.all(|(other, others)| *other != Writer::Waiting || others != lanes) {
                        steps.push(Step::BeginAppend(writer));
                    }
                }
                Writer::Appending { .. } => {
                    if scenario.transactions[writer].iter().all(|lane| !self.outbox.is_locked(*lane)) {
                        steps.push(Step::Append(writer));
                    }
                }
                Writer::Appended => {
                    steps.push(Step::Commit(writer));
                    if self.budget.rollbacks > 0 {
                        steps.push(Step::RollBack(writer));
                    }
                }
                Writer::Ended => {}
            }
        }
        for (relay, state) in self.relays.iter().enumerate() {
            // Idle relays do the same: let the first of them act.
            if state.token.is_none() && self.relays[..relay].contains(state) {
                continue;
            }
            self.steps_of_relay(scenario, relay, state, &mut steps);
        }
        for claim in &self.outbox.claims {
            let has_holder = self.relays.iter().any(|relay| relay.token == Some(claim.token));
            if claim.lease == Lease::Alive && (!has_holder || self.budget.slow_relays > 0) {
                steps.push(Step::LeaseEnds(claim.token));
            }
        }
        let lanes = || self.outbox.lanes.iter().flatten();
        if lanes().any(|lane| lane.due == Due::Later) {
            steps.push(Step::TimePasses);
        }
        if self.outbox.claims.iter().any(|claim| claim.lease != Lease::Alive) {
            steps.push(Step::Reap);
        }
        self.steps_of_operator(&mut steps);
        steps
    }

    fn steps_of_operator(&self, steps: &mut Vec<Step>) {
        let is_free = |event: &Event| event.is_visible() && !self.outbox.is_locked(event.lane);
        for (id, event) in self.outbox.events.iter().enumerate().filter(|(_, event)| is_free(event)) {
            if self.budget.commands > 0 && event.stored == Stored::Dead {
                steps.push(Step::Requeue(id));
                if !event.resolved {
                    steps.push(Step::Discard(id));
                }
            }
            if self.budget.replays > 0 && event.stored == Stored::Published {
                steps.push(Step::Replay(id));
            }
        }
    }

    fn steps_of_relay(&self, scenario: &Scenario, relay: usize, state: &Relay, steps: &mut Vec<Step>) {
        let Some(token) = state.token else {
            let free = |lane: &Lane| lane.locked_by.is_none() && lane.due == Due::Now;
            if self.outbox.lanes.iter().flatten().any(free) || scenario.rules.flaw.is_some() {
                steps.push(Step::Claim(relay));
            }
            return;
        };
        if state.unheard.is_some() {
            steps.push(Step::SettleAgain(relay));
        } else {
            self.steps_of_claim(relay, token, &state.runs, steps);
        }
        if self.budget.renewals > 0 {
            steps.push(Step::Renew(relay));
        }
        if self.budget.crashes > 0 {
            steps.push(Step::Crash(relay));
        }
    }

    fn steps_of_claim(&self, relay: usize, token: usize, runs: &[Run], steps: &mut Vec<Step>) {
        // A relay stops sending before its lease ends: it reads its own clock before it claims.
        if self.is_alive(token) {
            for run in runs.iter().filter(|run| run.is_unfinished()) {
                steps.push(Step::Confirm(relay, run.lane));
                if self.budget.refusals > 0 {
                    steps.push(Step::Refuse(relay, run.lane));
                }
            }
        }
        for report in [Report::Acknowledge, Report::Fail, Report::Release] {
            let may = report != Report::Release || self.budget.releases > 0 || !self.is_alive(token);
            if may && runs.iter().any(|run| run.is_part_of(report)) {
                steps.push(Step::Settle(relay, report));
                if self.budget.lost_answers > 0 {
                    steps.push(Step::LoseAnswer(relay, report));
                }
            }
        }
        if runs.iter().any(|run| run.postponed) {
            steps.push(Step::FreePostponed(relay));
        }
    }

    fn is_alive(&self, token: usize) -> bool {
        self.outbox.claims.iter().any(|claim| claim.token == token && claim.lease == Lease::Alive)
    }

    /// Whether a step is one that the parts take by themselves, and not a fault or somebody's decision.
    #[must_use]
    pub fn is_ordinary(&self, step: Step) -> bool {
        match step {
            Step::RollBack(_)
            | Step::Refuse(..)
            | Step::Renew(_)
            | Step::Crash(_)
            | Step::LoseAnswer(..)
            | Step::Requeue(_)
            | Step::Discard(_)
            | Step::Replay(_) => false,
            Step::Settle(relay, Report::Release) => self.relays[relay].token.is_none_or(|token| !self.is_alive(token)),
            Step::LeaseEnds(token) => self.relays.iter().all(|relay| relay.token != Some(token)),
            _ => true,
        }
    }

    /// The state after a step.
    ///
    /// # Errors
    /// What must not happen, and did by this step.
    pub fn after(&self, scenario: &Scenario, step: Step) -> Result<Self, &'static str> {
        let mut next = self.clone();
        next.take(scenario, step)?;
        next.rename();
        match next.violation() {
            Some(violation) => Err(violation),
            None => Ok(next),
        }
    }

    fn take(&mut self, scenario: &Scenario, step: Step) -> Result<(), &'static str> {
        let rules = &scenario.rules;
        match step {
            Step::BeginAppend(writer) => {
                let floor = self.outbox.last_sequence;
                let early = rules.flaw == Some(Flaw::SequenceDrawnBeforeLock);
                let count = if early { scenario.transactions[writer].len() } else { 0 };
                let drawn = (0..count).map(|_| self.outbox.next_sequence()).collect();
                self.writers[writer] = Writer::Appending { floor, drawn };
            }
            Step::Append(writer) => {
                if let Writer::Appending { floor, drawn } = self.writers[writer].clone() {
                    self.outbox.append(writer, floor, &scenario.transactions[writer], &drawn);
                    self.writers[writer] = Writer::Appended;
                }
            }
            Step::Commit(writer) => {
                for id in self.outbox.commit(writer) {
                    self.committed[self.outbox.events[id].lane].push(id);
                }
                self.writers[writer] = Writer::Ended;
            }
            Step::RollBack(writer) => {
                self.budget.rollbacks -= 1;
                self.outbox.roll_back(writer);
                self.writers[writer] = Writer::Ended;
            }
            Step::LeaseEnds(token) => {
                let has_holder = self.relays.iter().any(|relay| relay.token == Some(token));
                self.budget.slow_relays -= u8::from(has_holder);
                self.outbox.lease_ends(token);
            }
            Step::TimePasses => self.outbox.time_passes(),
            Step::Reap => {
                self.outbox.reap(rules);
            }
            Step::Requeue(id) => {
                self.budget.commands -= 1;
                self.outbox.requeue(rules, id);
            }
            Step::Discard(id) => {
                self.budget.commands -= 1;
                self.outbox.discard(rules, id);
            }
            Step::Replay(id) => {
                self.budget.replays -= 1;
                self.outbox.replay(rules, id);
            }
            Step::Claim(relay)
            | Step::Confirm(relay, _)
            | Step::Refuse(relay, _)
            | Step::Settle(relay, _)
            | Step::LoseAnswer(relay, _)
            | Step::SettleAgain(relay)
            | Step::FreePostponed(relay)
            | Step::Renew(relay)
            | Step::Crash(relay) => return self.take_of_relay(scenario, step, relay),
        }
        self.note_passed();
        Ok(())
    }

    fn take_of_relay(&mut self, scenario: &Scenario, step: Step, relay: usize) -> Result<(), &'static str> {
        let rules = &scenario.rules;
        let state = self.relays[relay].clone();
        let Some(token) = state.token else {
            let token = self.fresh_token();
            let runs = self.outbox.claim(rules, token);
            let known = |(lane, events)| Run { lane, events, confirmed: 0, refused: false, postponed: false };
            let runs: Vec<Run> = runs.into_iter().map(known).collect();
            self.relays[relay] = Relay { token: (!runs.is_empty()).then_some(token), runs, unheard: None };
            return Ok(());
        };
        match step {
            Step::Confirm(_, lane) => return self.confirm(relay, lane),
            Step::Refuse(_, lane) => {
                self.budget.refusals -= 1;
                let run = self.relays[relay].runs.iter_mut().find(|run| run.lane == lane);
                if let Some(run) = run {
                    run.refused = true;
                }
            }
            Step::Renew(_) => {
                self.budget.renewals -= 1;
                if !self.outbox.renew(token) {
                    self.relays[relay] = Relay::default();
                }
            }
            Step::Crash(_) => {
                self.budget.crashes -= 1;
                self.relays[relay] = Relay::default();
            }
            Step::Settle(_, report) | Step::LoseAnswer(_, report) => {
                self.budget.releases -= u8::from(report == Report::Release && self.is_alive(token));
                let call = self.call(scenario, &state, report);
                let answer = self.settle(rules, token, &call);
                if matches!(step, Step::Settle(..)) {
                    self.take_in(relay, &call.lanes, &answer);
                } else {
                    self.budget.lost_answers -= 1;
                    self.relays[relay].runs.retain(|run| !call.lanes.contains(&run.lane));
                    self.relays[relay].unheard = Some(call);
                }
            }
            Step::SettleAgain(_) => {
                if let Some(call) = &state.unheard {
                    let answer = self.settle_again(rules, token, call)?;
                    self.take_in(relay, &call.lanes, &answer);
                }
            }
            _ => {
                let lanes: Vec<usize> = state.runs.iter().filter(|run| run.postponed).map(|run| run.lane).collect();
                let answer = self.outbox.free_postponed(rules, token, &lanes);
                self.take_in(relay, &lanes, &answer);
            }
        }
        self.note_passed();
        Ok(())
    }

    /// What a relay reports of its runs.
    fn call(&self, scenario: &Scenario, state: &Relay, report: Report) -> Call {
        let runs: Vec<&Run> = state.runs.iter().filter(|run| run.is_part_of(report)).collect();
        let failed = |run: &&Run| {
            let id = run.events[run.confirmed];
            let is_last = self.outbox.events[id].attempts + 1 >= scenario.max_attempts;
            let skips = scenario.rules.skipping.contains(&run.lane);
            let last = if skips { FailedOutcome::Skip } else { FailedOutcome::Block };
            (id, if is_last { last } else { FailedOutcome::Retry })
        };
        Call {
            lanes: runs.iter().map(|run| run.lane).collect(),
            confirmed: runs.iter().flat_map(|run| run.confirmed()).copied().collect(),
            failed: runs.iter().filter(|run| run.refused).map(failed).collect(),
        }
    }

    fn settle(&mut self, rules: &Rules, token: usize, Call { lanes, confirmed, failed }: &Call) -> Settlement {
        if failed.is_empty() {
            self.outbox.release(rules, token, lanes, confirmed, Due::Now)
        } else {
            self.outbox.fail(rules, token, lanes, confirmed, failed)
        }
    }

    /// The first time the call took effect as a whole, whatever has happened since.
    fn settle_again(&mut self, rules: &Rules, token: usize, call: &Call) -> Result<Settlement, &'static str> {
        let before = self.outbox.clone();
        let answer = self.settle(rules, token, call);
        if self.outbox.events != before.events {
            return Err("a repeated settlement settles or charges an event again");
        }
        let mut lanes = before.lanes.iter().zip(&self.outbox.lanes);
        if lanes.any(|(before, after)| before != after && before.as_ref().and_then(Lane::token) != Some(token)) {
            return Err("a repeated settlement touches a lane that its claim does not hold");
        }
        Ok(answer)
    }

    /// The relay hears what came of its report. Of a lane that was postponed it still knows that it has to free it.
    fn take_in(&mut self, relay: usize, lanes: &[usize], answer: &Settlement) {
        let relay = &mut self.relays[relay];
        relay.runs.retain(|run| !lanes.contains(&run.lane));
        let postponed =
            |lane: &usize| Run { lane: *lane, events: Vec::new(), confirmed: 0, refused: false, postponed: true };
        relay.runs.extend(answer.postponed.iter().map(postponed));
        relay.runs.sort();
        relay.unheard = None;
        if answer.stale || relay.runs.is_empty() {
            *relay = Relay::default();
        }
    }

    /// The broker takes the next event of the run. Before its first time, every event of the lane that was committed
    /// earlier was there, unless it was given up.
    fn confirm(&mut self, relay: usize, lane: usize) -> Result<(), &'static str> {
        let Some(run) = self.relays[relay].runs.iter_mut().find(|run| run.lane == lane) else { return Ok(()) };
        let id = run.events[run.confirmed];
        run.confirmed += 1;
        if self.sent & bit(id) == 0 {
            let earlier = self.committed[lane].iter().take_while(|earlier| **earlier != id);
            if earlier.into_iter().any(|earlier| (self.sent | self.passed) & bit(*earlier) == 0) {
                return Err("an event is published before one that was committed earlier");
            }
            self.sent |= bit(id);
        }
        Ok(())
    }

    fn note_passed(&mut self) {
        for (id, event) in self.outbox.events.iter().enumerate().filter(|(_, event)| event.resolved) {
            self.passed |= bit(id) & if event.is_visible() { u32::MAX } else { 0 };
        }
    }

    fn fresh_token(&self) -> usize {
        let used = |token: &usize| {
            self.relays.iter().any(|relay| relay.token == Some(*token))
                || self.outbox.claims.iter().any(|claim| claim.token == *token)
                || self.outbox.lanes.iter().flatten().any(|lane| lane.lease.is_some_and(|(other, ..)| other == *token))
        };
        let most = self.relays.len() + self.outbox.claims.len() + self.outbox.lanes.len();
        (0..=most).find(|token| !used(token)).unwrap_or(most)
    }

    /// Gives states that differ in the numbers of relays and tokens alone the same form.
    fn rename(&mut self) {
        self.relays.sort_by(|a, b| {
            let rest = || a.unheard.cmp(&b.unheard).then(a.token.is_some().cmp(&b.token.is_some()));
            a.runs.cmp(&b.runs).then_with(rest)
        });
        let mut order: Vec<usize> = self.relays.iter().filter_map(|relay| relay.token).collect();
        let mut rest: Vec<_> = self.outbox.claims.iter().filter(|claim| !order.contains(&claim.token)).collect();
        rest.sort_by(|a, b| (&a.lanes, a.lease, a.held, &a.settled).cmp(&(&b.lanes, b.lease, b.held, &b.settled)));
        order.extend(rest.iter().map(|claim| claim.token));
        for (token, ..) in self.outbox.lanes.iter().flatten().filter_map(|lane| lane.lease) {
            if !order.contains(&token) {
                order.push(token);
            }
        }
        let renamed = |token: usize| order.iter().position(|other| *other == token).unwrap_or(token);
        for relay in &mut self.relays {
            relay.token = relay.token.map(renamed);
        }
        for claim in &mut self.outbox.claims {
            claim.token = renamed(claim.token);
        }
        self.outbox.claims.sort();
        for lane in self.outbox.lanes.iter_mut().flatten() {
            lane.lease = lane.lease.map(|(token, from, through)| (renamed(token), from, through));
        }
    }

    /// What must hold in every state.
    fn violation(&self) -> Option<&'static str> {
        let lost = |(id, event): (usize, &Event)| event.stored == Stored::Published && self.sent & bit(id) == 0;
        if self.outbox.events.iter().enumerate().any(lost) {
            return Some("an event is PUBLISHED that the broker does not have");
        }
        let mut leased: Vec<usize> = Vec::new();
        for relay in self.relays.iter().filter(|relay| relay.token.is_some_and(|token| self.is_alive(token))) {
            for run in &relay.runs {
                if leased.contains(&run.lane) {
                    return Some("two relays hold a living lease on one lane");
                }
                leased.push(run.lane);
            }
        }
        self.outbox.problem()
    }

    /// Whether all is delivered that can be without an operator.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let blocked = |lane: usize| {
            let dead = |event: &Event| event.lane == lane && event.is_open() && event.stored == Stored::Dead;
            self.outbox.events.iter().any(dead)
        };
        self.writers.iter().all(|writer| *writer == Writer::Ended)
            && self.outbox.events.iter().all(|event| !event.is_open() || blocked(event.lane))
            && self.outbox.claims.is_empty()
    }
}
