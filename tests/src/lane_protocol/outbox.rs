//! The database of the model: the tables of lanes, claims and events, and the functions that change them.

/// What is broken on purpose, to see that the checks find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The append draws its sequences before it locks the lanes.
    SequenceDrawnBeforeLock,
    /// A claim takes what follows a head that waits for its next attempt.
    WaitingHeadPassed,
    /// A claim takes lanes that another claim leases.
    LeaseIgnored,
    /// A settlement asks neither whether its claim stands nor whether a lane is leased under its token.
    TokenUnchecked,
    /// A lane whose run is through is deleted without a look for events behind the run.
    LaneDeletedUnseen,
    /// A settlement removes its claim although an appender holds a lane of it.
    SkippedLanesForgotten,
    /// The reaper does not come back for the lanes that appenders held when it voided their claim.
    VoidedClaimsForgotten,
    /// An event that is opened again below a lease does not lower the floor of its lane.
    FloorNotLowered,
    /// A claim forgets that it has settled the lanes that it still holds.
    SettledForgotten,
}

/// The settings that the functions are called with, and the flaw, if any.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The longest run of a lane.
    pub max_run: usize,
    /// From how many expiries on a run is the head alone.
    pub suspect_expiries: usize,
    /// At how many expiries the head dies.
    pub dead_after: usize,
    /// Lanes whose DEAD heads are skipped.
    pub skipping: Vec<usize>,
    /// What is broken.
    pub flaw: Option<Flaw>,
}

impl Rules {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// What the column `status` says, or that the row is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stored {
    /// `PENDING`.
    Pending,
    /// `FAILED`.
    Failed,
    /// `PUBLISHED`.
    Published,
    /// `DEAD`.
    Dead,
    /// Rolled back, or cleaned up.
    Gone,
}

/// A row of `outbox_event`; its index is its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// `lane`.
    pub lane: usize,
    /// `sequence`.
    pub sequence: usize,
    /// `status`.
    pub stored: Stored,
    /// `attempts`.
    pub attempts: usize,
    /// `next_attempt_at` lies ahead.
    pub waits: bool,
    /// `resolved_at` is set.
    pub resolved: bool,
    /// The transaction that appended it and has not ended: nobody else sees the row.
    pub open_in: Option<usize>,
}

impl Event {
    /// Whether others see the row.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        self.open_in.is_none() && self.stored != Stored::Gone
    }

    /// Whether the row is seen and neither published nor resolved.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_visible() && self.stored != Stored::Published && !self.resolved
    }
}

/// What `due_at` of a lane says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Due {
    /// A claim may take it.
    Now,
    /// Once a delay is over.
    Later,
    /// `NULL`: leased, or parked behind a DEAD head.
    Never,
}

/// A row of `outbox_lane`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// `floor`.
    pub floor: usize,
    /// `due_at`.
    pub due: Due,
    /// `token`, `claimed_from`, `claimed_through`.
    pub lease: Option<(usize, usize, usize)>,
    /// `expiries`.
    pub expiries: usize,
    /// The transaction that has the row locked.
    pub locked_by: Option<usize>,
    /// Whether that transaction inserted the row, so that nobody else sees it.
    pub is_new: bool,
}

impl Lane {
    pub(super) fn token(&self) -> Option<usize> {
        self.lease.map(|(token, ..)| token)
    }
}

/// `lease_expires_at` and `reaped_at` of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lease {
    /// It runs.
    Alive,
    /// It ran out; its holder may still settle or renew it.
    RanOut,
    /// The reaper has voided it.
    Reaped,
}

/// A row of `outbox_claim`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// `token`.
    pub token: usize,
    /// Its lease.
    pub lease: Lease,
    /// `lanes`.
    pub lanes: Vec<usize>,
    /// `held`.
    pub held: usize,
    /// `settled`, in the order of the lanes.
    pub settled: Vec<usize>,
}

/// What a settlement answers: the type `outbox_settlement`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Nothing was changed.
    pub stale: bool,
    /// Events that were changed.
    pub events: usize,
    /// Lanes that were freed.
    pub freed: usize,
    /// Lanes that an appender holds.
    pub postponed: Vec<usize>,
    /// An earlier report settled some of the lanes.
    pub repeated: bool,
}

/// What the reaper answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Claims that it voided.
    pub claims: usize,
    /// Lanes that it freed.
    pub lanes: usize,
    /// Lanes that an appender holds.
    pub postponed: usize,
    /// Heads that died.
    pub dead: usize,
}

/// What the relay decides about an event that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailedOutcome {
    /// `retry`.
    Retry,
    /// `block`.
    Block,
    /// `skip`.
    Skip,
}

/// The type `outbox_leases`: lanes that a report has locked, those that somebody else has, and those that an earlier
/// report settled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leases {
    locked: Vec<usize>,
    postponed: Vec<usize>,
    settled: Vec<usize>,
}

impl Leases {
    fn all(&self) -> Vec<usize> {
        [self.locked.as_slice(), self.postponed.as_slice()].concat()
    }
}

/// The tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outbox {
    /// `outbox_event_sequence`.
    pub last_sequence: usize,
    /// `outbox_event`, in the order of insertion.
    pub events: Vec<Event>,
    /// `outbox_lane`.
    pub lanes: Vec<Option<Lane>>,
    /// `outbox_claim`.
    pub claims: Vec<Claim>,
}

impl Outbox {
    /// Empty tables, for this many aggregates.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self { lanes: vec![None; lanes], ..Self::default() }
    }

    /// `nextval('outbox_event_sequence')`.
    pub fn next_sequence(&mut self) -> usize {
        self.last_sequence += 1;
        self.last_sequence
    }

    /// Whether a transaction has the lane's row locked: whoever wants it waits, or passes it by.
    #[must_use]
    pub fn is_locked(&self, lane: usize) -> bool {
        self.lanes[lane].as_ref().is_some_and(|lane| lane.locked_by.is_some())
    }

    /// The open events of a lane from its floor on, in order.
    fn open_from(&self, lane: usize, floor: usize) -> Vec<usize> {
        let is_it = |event: &Event| event.lane == lane && event.sequence >= floor && event.is_open();
        let mut found: Vec<usize> = (0..self.events.len()).filter(|id| is_it(&self.events[*id])).collect();
        found.sort_by_key(|id| self.events[*id].sequence);
        found
    }

    /// `append.sql`, from the moment when nobody else has one of the lanes locked: locks or creates the lanes, then
    /// draws the sequences, unless they were drawn before. `floor` is the sequence's `last_value` as the statement began.
    pub fn append(&mut self, transaction: usize, floor: usize, events: &[usize], drawn: &[usize]) {
        for lane in events {
            let row = self.lanes[*lane].get_or_insert(Lane {
                floor,
                due: Due::Now,
                lease: None,
                expiries: 0,
                locked_by: None,
                is_new: true,
            });
            row.locked_by = Some(transaction);
        }
        for (nth, lane) in events.iter().enumerate() {
            let sequence = drawn.get(nth).copied().unwrap_or_else(|| self.next_sequence());
            self.events.push(Event {
                lane: *lane,
                sequence,
                stored: Stored::Pending,
                attempts: 0,
                waits: false,
                resolved: false,
                open_in: Some(transaction),
            });
        }
    }

    /// `COMMIT` of a transaction that appended: its locks end, its rows are seen. Returns its events.
    pub fn commit(&mut self, transaction: usize) -> Vec<usize> {
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.locked_by == Some(transaction)) {
            (lane.locked_by, lane.is_new) = (None, false);
        }
        let mut committed = Vec::new();
        for (id, event) in self.events.iter_mut().enumerate().filter(|(_, event)| event.open_in == Some(transaction)) {
            event.open_in = None;
            committed.push(id);
        }
        committed
    }

    /// `ROLLBACK` of a transaction that appended: its rows never were, and the numbers that it drew are a gap.
    pub fn roll_back(&mut self, transaction: usize) {
        for slot in &mut self.lanes {
            match slot {
                Some(lane) if lane.locked_by == Some(transaction) && lane.is_new => *slot = None,
                Some(lane) if lane.locked_by == Some(transaction) => lane.locked_by = None,
                _ => {}
            }
        }
        for event in self.events.iter_mut().filter(|event| event.open_in == Some(transaction)) {
            (event.open_in, event.stored) = (None, Stored::Gone);
        }
    }

    /// `outbox_claim` with `outbox_lease_lanes`: leases every lane that is due and that nobody has locked, and puts
    /// lanes in order that are due without an event to send. Returns the run of each leased lane.
    pub fn claim(&mut self, rules: &Rules, token: usize) -> Vec<(usize, Vec<usize>)> {
        let mut runs = Vec::new();
        for lane in 0..self.lanes.len() {
            let Some(row) = &self.lanes[lane] else { continue };
            let passes = rules.has(Flaw::WaitingHeadPassed);
            let is_due = row.lease.is_none() && (row.due == Due::Now || row.due == Due::Later && passes);
            if row.locked_by.is_some() || !(is_due || row.lease.is_some() && rules.has(Flaw::LeaseIgnored)) {
                continue;
            }
            let limit = if row.expiries >= rules.suspect_expiries { 1 } else { rules.max_run };
            let found: Vec<usize> = self.open_from(lane, row.floor).into_iter().take(limit).collect();
            let is_sendable = |id: &usize| self.events[*id].stored != Stored::Dead && !self.events[*id].waits;
            let run: Vec<usize> =
                found.iter().copied().filter(|id| !passes || is_sendable(id)).take_while(is_sendable).collect();
            let head_due = found.first().map(|head| match self.events[*head].stored {
                Stored::Dead => Due::Never,
                _ => Due::Later,
            });
            let sequences =
                |ids: &[usize]| Some((self.events[*ids.first()?].sequence, self.events[*ids.last()?].sequence));
            let (bounds, head) = (sequences(&run), sequences(&found));
            match (&mut self.lanes[lane], head) {
                (Some(row), Some((head, _))) => {
                    row.floor = head;
                    row.due = if bounds.is_some() { Due::Never } else { head_due.unwrap_or(Due::Never) };
                    row.lease = bounds.map(|(from, through)| (token, from, through));
                }
                (slot, _) => *slot = None,
            }
            if !run.is_empty() {
                runs.push((lane, run));
            }
        }
        if !runs.is_empty() {
            let lanes: Vec<usize> = runs.iter().map(|(lane, _)| *lane).collect();
            self.claims.push(Claim { token, lease: Lease::Alive, held: lanes.len(), lanes, settled: Vec::new() });
        }
        runs
    }

    /// `outbox_lock_leases`: those of the lanes that the claim leases, locked or postponed.
    fn lock_leases(&self, rules: &Rules, token: usize, lanes: &[usize]) -> Leases {
        let is_mine = |lane: &&usize| {
            let row = self.lanes[**lane].as_ref();
            row.is_some_and(|row| row.token() == Some(token) || rules.has(Flaw::TokenUnchecked) && !row.is_new)
        };
        let (postponed, locked) = lanes.iter().filter(is_mine).partition(|lane| self.is_locked(**lane));
        Leases { locked, postponed, settled: Vec::new() }
    }

    /// `outbox_take_leases`: the fence, and then the locks; `None` if the claim is gone or reaped.
    fn take_leases(&self, rules: &Rules, token: usize, lanes: &[usize]) -> Option<Leases> {
        let claim = self.claims.iter().find(|claim| claim.token == token && claim.lease != Lease::Reaped);
        if claim.is_none() && !rules.has(Flaw::TokenUnchecked) {
            return None;
        }
        let mut leases = self.lock_leases(rules, token, lanes);
        if let Some(claim) = claim {
            // Also those that it freed: they were the claim's, and are not any more.
            let all = leases.all();
            let is_settled =
                |lane: &usize| claim.settled.contains(lane) || !all.contains(lane) && claim.lanes.contains(lane);
            leases.settled = lanes.iter().copied().filter(is_settled).collect();
        }
        Some(leases)
    }

    /// `outbox_lanes_to_settle`: the lanes that are leased and were not settled before. The claim remembers those of
    /// them that it still holds afterwards.
    fn lanes_to_settle(&mut self, rules: &Rules, token: usize, leases: &Leases) -> Vec<usize> {
        if !rules.has(Flaw::SettledForgotten) {
            for claim in self.claims.iter_mut().filter(|claim| claim.token == token) {
                claim.settled.extend(&leases.postponed);
                claim.settled.sort_unstable();
                claim.settled.dedup();
            }
        }
        leases.all().into_iter().filter(|lane| !leases.settled.contains(lane)).collect()
    }

    /// `outbox_settle_events`: the confirmed events of the lanes are published.
    fn settle_events(&mut self, lanes: &[usize], confirmed: &[usize]) -> usize {
        let mut settled = 0;
        for id in confirmed {
            let event = &mut self.events[*id];
            if event.is_open() && lanes.contains(&event.lane) {
                event.stored = Stored::Published;
                settled += 1;
            }
        }
        settled
    }

    /// `outbox_fail_events`: one attempt more, and what the relay decided.
    fn fail_events(&mut self, lanes: &[usize], failed: &[(usize, FailedOutcome)]) -> usize {
        let mut settled = 0;
        for (id, outcome) in failed {
            let event = &mut self.events[*id];
            if event.is_open() && lanes.contains(&event.lane) {
                event.attempts += 1;
                event.stored = if *outcome == FailedOutcome::Retry { Stored::Failed } else { Stored::Dead };
                event.waits = *outcome == FailedOutcome::Retry;
                event.resolved = *outcome == FailedOutcome::Skip;
                settled += 1;
            }
        }
        settled
    }

    /// `outbox_free_lanes`: looks for each lane's head from its floor, and lets the lane wait for what the head waits for,
    /// or deletes it; the claim goes with its last lane.
    fn free_lanes(&mut self, rules: &Rules, token: usize, lanes: &[usize], due: Due, expired: bool) {
        for lane in lanes {
            let Some(row) = self.lanes[*lane].clone() else { continue };
            let (from, through) = row.lease.map_or((0, usize::MAX), |(_, from, through)| (from, through));
            let mut open = self.open_from(*lane, row.floor);
            if rules.has(Flaw::LaneDeletedUnseen) {
                open.retain(|id| self.events[*id].sequence <= through);
            }
            self.lanes[*lane] = open.first().map(|head| {
                let head = &self.events[*head];
                let same = head.sequence == from;
                Lane {
                    floor: head.sequence,
                    due: match head.stored {
                        Stored::Dead => Due::Never,
                        _ if head.waits => Due::Later,
                        _ => due,
                    },
                    lease: None,
                    expiries: if same { row.expiries + usize::from(expired) } else { 0 },
                    ..row
                }
            });
        }
        if rules.has(Flaw::SkippedLanesForgotten) {
            self.claims.retain(|claim| claim.token != token);
        }
        for claim in self.claims.iter_mut().filter(|claim| claim.token == token) {
            claim.held = claim.held.saturating_sub(lanes.len());
        }
        self.claims.retain(|claim| claim.held > 0);
    }

    /// `outbox_acknowledge`, and `outbox_release`, which is the same with a delay.
    pub fn release(
        &mut self,
        rules: &Rules,
        token: usize,
        lanes: &[usize],
        confirmed: &[usize],
        due: Due,
    ) -> Settlement {
        self.settle(rules, token, lanes, confirmed, &[], due)
    }

    /// `outbox_fail`.
    pub fn fail(
        &mut self,
        rules: &Rules,
        token: usize,
        lanes: &[usize],
        confirmed: &[usize],
        failed: &[(usize, FailedOutcome)],
    ) -> Settlement {
        self.settle(rules, token, lanes, confirmed, failed, Due::Now)
    }

    /// `outbox_free_postponed`: frees lanes that an earlier report had to leave, as far as nobody holds them now.
    pub fn free_postponed(&mut self, rules: &Rules, token: usize, lanes: &[usize]) -> Settlement {
        let Some(leases) = self.take_leases(rules, token, lanes) else {
            return Settlement { stale: true, ..Settlement::default() };
        };
        self.free_lanes(rules, token, &leases.locked, Due::Now, false);
        Settlement { freed: leases.locked.len(), postponed: leases.postponed, ..Settlement::default() }
    }

    fn settle(
        &mut self,
        rules: &Rules,
        token: usize,
        lanes: &[usize],
        confirmed: &[usize],
        failed: &[(usize, FailedOutcome)],
        due: Due,
    ) -> Settlement {
        let Some(leases) = self.take_leases(rules, token, lanes) else {
            return Settlement { stale: true, ..Settlement::default() };
        };
        let unsettled = self.lanes_to_settle(rules, token, &leases);
        let events = self.settle_events(&unsettled, confirmed) + self.fail_events(&unsettled, failed);
        self.free_lanes(rules, token, &leases.locked, due, false);
        let (freed, repeated) = (leases.locked.len(), !leases.settled.is_empty());
        Settlement { stale: false, events, freed, postponed: leases.postponed, repeated }
    }

    /// `outbox_renew`. `false`: the claim is gone or reaped.
    pub fn renew(&mut self, token: usize) -> bool {
        let claim = self.claims.iter_mut().find(|claim| claim.token == token && claim.lease != Lease::Reaped);
        claim.map(|claim| claim.lease = Lease::Alive).is_some()
    }

    /// `outbox_reap`: voids claims whose lease ran out, and frees their lanes as far as nobody holds them.
    pub fn reap(&mut self, rules: &Rules) -> ReapReport {
        let mut report = ReapReport::default();
        let forgets = rules.has(Flaw::VoidedClaimsForgotten);
        let is_over = |claim: &&Claim| claim.lease == Lease::RanOut || claim.lease == Lease::Reaped && !forgets;
        for claim in self.claims.iter().filter(is_over).cloned().collect::<Vec<_>>() {
            if claim.lease == Lease::RanOut {
                for row in self.claims.iter_mut().filter(|row| row.token == claim.token) {
                    row.lease = Lease::Reaped;
                }
                report.claims += 1;
            }
            let leases = self.lock_leases(&Rules { flaw: None, ..rules.clone() }, claim.token, &claim.lanes);
            report.dead += self.kill_expired_heads(rules, &leases.locked);
            self.free_lanes(rules, claim.token, &leases.locked, Due::Now, true);
            report.lanes += leases.locked.len();
            report.postponed += leases.postponed.len();
            if leases.all().is_empty() {
                self.claims.retain(|row| row.token != claim.token);
            }
        }
        report
    }

    /// `outbox_kill_expired_heads`: a head that outlives its last lease is DEAD.
    fn kill_expired_heads(&mut self, rules: &Rules, lanes: &[usize]) -> usize {
        let mut dead = 0;
        for lane in lanes {
            let Some(Lane { floor, lease: Some((_, from, _)), expiries, .. }) = self.lanes[*lane] else { continue };
            let Some(head) = self.open_from(*lane, floor).first().copied() else { continue };
            let event = &mut self.events[head];
            if expiries + 1 >= rules.dead_after && event.sequence == from && event.stored != Stored::Dead {
                (event.stored, event.waits) = (Stored::Dead, false);
                event.resolved = rules.skipping.contains(lane);
                dead += 1;
            }
        }
        dead
    }

    /// `outbox_open_lane`: makes the lane due, and lets it start no later than at this sequence.
    fn open_lane(&mut self, rules: &Rules, lane: usize, sequence: usize) {
        let row = Lane { floor: sequence, due: Due::Now, lease: None, expiries: 0, locked_by: None, is_new: false };
        let row = self.lanes[lane].get_or_insert(row);
        if !rules.has(Flaw::FloorNotLowered) {
            row.floor = row.floor.min(sequence);
        }
        if row.lease.is_none() {
            (row.due, row.expiries) = (Due::Now, 0);
        }
    }

    /// `outbox_requeue`: a DEAD event, resolved or not, is PENDING again.
    pub fn requeue(&mut self, rules: &Rules, id: usize) -> bool {
        self.reopen(rules, id, Stored::Dead)
    }

    /// `outbox_replay`: a PUBLISHED event is PENDING again.
    pub fn replay(&mut self, rules: &Rules, id: usize) -> bool {
        self.reopen(rules, id, Stored::Published)
    }

    fn reopen(&mut self, rules: &Rules, id: usize, from: Stored) -> bool {
        let Event { lane, sequence, .. } = self.events[id];
        if !self.events[id].is_visible() || self.events[id].stored != from {
            return false;
        }
        self.open_lane(rules, lane, sequence);
        let event = &mut self.events[id];
        (event.stored, event.attempts, event.waits, event.resolved) = (Stored::Pending, 0, false, false);
        true
    }

    /// `outbox_discard`: a DEAD event is resolved, and its lane goes on.
    pub fn discard(&mut self, rules: &Rules, id: usize) -> bool {
        let Event { lane, sequence, .. } = self.events[id];
        if !self.events[id].is_open() || self.events[id].stored != Stored::Dead {
            return false;
        }
        self.open_lane(rules, lane, sequence);
        self.events[id].resolved = true;
        true
    }

    /// `outbox_cleanup` of everything that is published; returns how many rows went.
    pub fn clean_up(&mut self) -> usize {
        let old = self.events.iter_mut().filter(|event| event.is_visible() && event.stored == Stored::Published);
        old.map(|event| event.stored = Stored::Gone).count()
    }

    /// The lease of a claim runs out. `false`: there is no such claim, or it is over already.
    pub fn lease_ends(&mut self, token: usize) -> bool {
        let claim = self.claims.iter_mut().find(|claim| claim.token == token && claim.lease == Lease::Alive);
        claim.map(|claim| claim.lease = Lease::RanOut).is_some()
    }

    /// Every backoff and delay is over.
    pub fn time_passes(&mut self) {
        for event in &mut self.events {
            event.waits = false;
        }
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.due == Due::Later) {
            lane.due = Due::Now;
        }
    }

    /// The view `outbox_doctor`, and what it cannot see: what must not exist.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        for event in self.events.iter().filter(|event| event.is_open()) {
            match &self.lanes[event.lane] {
                None => return Some("open events without a lane"),
                Some(lane) if event.sequence < lane.floor => return Some("an open event below the floor of its lane"),
                Some(_) => {}
            }
        }
        for (lane, row) in self.lanes.iter().enumerate().filter_map(|(lane, row)| Some((lane, row.as_ref()?))) {
            let head = self.open_from(lane, row.floor).first().map(|head| self.events[*head].stored);
            match row.lease {
                Some((token, ..)) if self.claims.iter().all(|claim| claim.token != token) => {
                    return Some("a leased lane without its claim");
                }
                None if row.due == Due::Never && head.is_some_and(|head| head != Stored::Dead) => {
                    return Some("a parked lane whose head is neither DEAD nor paused");
                }
                _ => {}
            }
        }
        None
    }
}
