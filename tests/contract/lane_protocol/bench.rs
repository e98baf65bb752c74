//! One database and one model, side by side, and the log of what a broker would have.

use std::{collections::BTreeSet, fmt, time::Duration};

use adapter_persistence_postgres::{PgTransaction, PostgresLeadership};
use application_core::{
    outbox::{
        AggregateType, ConfirmedRun, EventId, FailedOutcome as Outcome, FailedRun, HolderName, LaneId, LeaseToken,
        Settlement,
    },
    ports::{LeadershipPort, OutboxAppendPort, OutboxMaintenancePort, ReapReport, ReapRequest, StoreError, UnitOfWork},
};
use proptest::sample::Index;
use sea_orm::ConnectionTrait;
use system_tests::lane_protocol::{self as model, Due, FailedOutcome, Lease, Outbox, Rules, Stored};
use test_support::{
    fixtures::{AGGREGATE_TYPE, Events},
    operate::OperateOne,
};

use super::{Action, How, LANES};
use crate::postgres::{Postgres, Sql, request};

const SKIPPING: &str = "skipping";
/// A delay that no run of the test outlasts.
const LONG: Duration = Duration::from_hours(1);

/// Only the last few claims are settled, so that the steps do not spend themselves on what is long over.
const RECENT: usize = 4;

/// Everything that can be seen, a line for each event, lane and claim.
const SEEN: &str = "\
    SELECT format('event %s %s %s %s %s', id, status, attempts, resolution IS NOT NULL, coalesce(holder, '-')) \
      FROM outbox_event_state \
    UNION ALL \
    SELECT format('lane %s %s %s %s', lane, coalesce(token::text, '-'), \
                  CASE WHEN due_at > statement_timestamp() THEN 'Later' WHEN due_at IS NULL THEN 'Never' ELSE 'Now' END, \
                  expiries) \
      FROM outbox_lane \
    UNION ALL \
    SELECT format('claim %s %s %s %s', token, \
                  CASE WHEN reaped_at IS NOT NULL THEN 'Reaped' \
                       WHEN lease_expires_at < statement_timestamp() THEN 'RanOut' ELSE 'Alive' END, \
                  held, ARRAY(SELECT s.lane FROM unnest(settled) AS s (lane) ORDER BY s.lane)) \
      FROM outbox_claim \
    UNION ALL \
    SELECT format('problem %s', problem) FROM outbox_doctor";

/// A claim as its relay knows it.
struct Held {
    token: LeaseToken,
    relay: HolderName,
    runs: Vec<HeldRun>,
}

struct HeldRun {
    lane: usize,
    events: Vec<usize>,
    sent: usize,
    settled: bool,
}

/// A settling call, as both sides take it.
struct Call {
    claim: usize,
    how: How,
    lanes: Vec<usize>,
    runs: Vec<ConfirmedRun>,
    confirmed: Vec<usize>,
    /// For each run that was not sent to its end, the event that is next.
    next: Vec<usize>,
}

pub(super) struct Bench<'a> {
    postgres: &'a Postgres,
    sql: Sql,
    model: Outbox,
    rules: Rules,
    series: Events,
    lanes: Vec<LaneId>,
    ids: Vec<EventId>,
    open: Vec<(usize, PgTransaction)>,
    transactions: usize,
    /// The index is the token's number in the model.
    held: Vec<Held>,
    last_call: Option<Call>,
    /// For each lane its committed events, in the order of the commits.
    committed: Vec<Vec<usize>>,
    sent: BTreeSet<usize>,
    /// Events that later ones were allowed to pass: skipped or discarded once.
    passed: BTreeSet<usize>,
}

fn aggregate(lane: usize) -> (&'static str, String) {
    (if lane + 1 == LANES { SKIPPING } else { AGGREGATE_TYPE }, format!("aggregate-{lane}"))
}

fn same<T: PartialEq + fmt::Debug>(what: &str, real: &T, expected: &T) -> Result<(), String> {
    if real == expected { Ok(()) } else { Err(format!("{what} is {real:?}, and {expected:?} by the model")) }
}

/// A database whose functions are what the migrations made them, but for these texts that are replaced.
pub(super) async fn database(faults: &[(&str, &str, &str)]) -> Postgres {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    // Nobody lets go of a lane while a step waits for it, so half a second would change nothing.
    sql.execute("ALTER FUNCTION outbox_wait_for_lane(bigint) SET lock_timeout = '5ms'").await;
    for (function, text, replacement) in faults {
        let source = sql.one::<String>(&format!("SELECT pg_get_functiondef('{function}'::regproc)")).await;
        assert!(source.contains(text), "{function} does not contain `{text}`");
        sql.execute(&source.replace(text, replacement)).await;
    }
    postgres
}

impl<'a> Bench<'a> {
    /// Both sides empty. A transaction that a failed sequence left open is waited for.
    pub(super) async fn new(postgres: &'a Postgres, dead_after: usize) -> Self {
        let mut sql = postgres.sql().await;
        sql.execute("TRUNCATE outbox_event, outbox_lane, outbox_claim, outbox_due_floor, outbox_leader").await;
        let mut lanes = Vec::new();
        for lane in 0..LANES {
            let (kind, id) = aggregate(lane);
            lanes.push(LaneId(sql.one(&format!("SELECT outbox_lane_of('{kind}', '{id}')")).await));
        }
        Self {
            postgres,
            sql,
            model: Outbox::new(LANES),
            rules: Rules { max_run: 0, suspect_expiries: 3, dead_after, skipping: vec![LANES - 1], flaw: None },
            series: Events::new(),
            lanes,
            ids: Vec::new(),
            open: Vec::new(),
            transactions: 0,
            held: Vec::new(),
            last_call: None,
            committed: vec![Vec::new(); LANES],
            sent: BTreeSet::new(),
            passed: BTreeSet::new(),
        }
    }

    /// Takes the step on both sides, and compares what they answer and what they look like afterwards.
    pub(super) async fn take(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Append(lanes) => self.append(lanes).await,
            Action::Commit(index) => {
                if !self.open.is_empty() {
                    self.commit(index.index(self.open.len())).await;
                }
            }
            Action::RollBack(index) => {
                if !self.open.is_empty() {
                    self.roll_back(index.index(self.open.len())).await;
                }
            }
            Action::Claim { relay, max_run } => self.claim(*relay, *max_run).await?,
            Action::Settle { claim, lane, sent, how } => self.settle(*claim, *lane, *sent, *how).await?,
            Action::SettleAgain => self.settle_again().await?,
            Action::Renew(claim) => {
                if let Some(claim) = self.recent(*claim) {
                    let renewed = self.postgres.store().renew(self.held[claim].token, LONG).await;
                    same("the renewal", &renewed.map_err(text)?, &self.model.renew(claim))?;
                }
            }
            Action::LeaseEnds(claim) => {
                if let Some(claim) = self.recent(*claim).filter(|claim| self.model.lease_ends(*claim)) {
                    let token = self.held[claim].token;
                    let past = "SET lease_expires_at = statement_timestamp() - interval '1 s'";
                    self.sql.execute(&format!("UPDATE outbox_claim {past} WHERE token = '{token}'")).await;
                }
            }
            Action::TimePasses => self.time_passes().await,
            Action::Reap => self.reap().await?,
            Action::Requeue(event) => {
                if let Some(event) = self.free_event(*event) {
                    let done = self.postgres.operations().requeue(self.ids[event]).await.map_err(text)?;
                    same("the requeue", &done, &self.model.requeue(&self.rules, event))?;
                }
            }
            Action::Discard(event) => {
                if let Some(event) = self.free_event(*event) {
                    let done = self.postgres.operations().discard(self.ids[event]).await.map_err(text)?;
                    same("the discard", &done, &self.model.discard(&self.rules, event))?;
                }
            }
            Action::Replay(event) => {
                if let Some(event) = self.free_event(*event) {
                    let done = self.postgres.operations().replay(self.ids[event]).await.map_err(text)?;
                    same("the replay", &done, &self.model.replay(&self.rules, event))?;
                }
            }
            Action::CleanUp => self.clean_up().await?,
        }
        self.compare().await
    }

    async fn append(&mut self, lanes: &[usize]) {
        let lanes: Vec<usize> = lanes.iter().copied().filter(|lane| !self.model.is_locked(*lane)).collect();
        if lanes.is_empty() {
            return;
        }
        let event = |lane: &usize| {
            let (kind, id) = aggregate(*lane);
            self.series.of(id).aggregate_type(kind).build()
        };
        let events: Vec<_> = lanes.iter().map(event).collect();
        let mut tx = self.postgres.unit_of_work().begin().await.expect("begun");
        self.postgres.append().append(&mut tx, &events).await.expect("appended");
        let floor = self.model.last_sequence;
        self.model.append(self.transactions, floor, &lanes, &[]);
        self.ids.extend(events.iter().map(application_core::outbox::NewOutboxEvent::id));
        self.open.push((self.transactions, tx));
        self.transactions += 1;
    }

    async fn commit(&mut self, at: usize) {
        let (transaction, tx) = self.open.remove(at);
        self.postgres.unit_of_work().commit(tx).await.expect("committed");
        for id in self.model.commit(transaction) {
            self.committed[self.model.events[id].lane].push(id);
        }
    }

    async fn roll_back(&mut self, at: usize) {
        let (transaction, tx) = self.open.remove(at);
        // Dropping it would do, but some time later.
        tx.orm().execute_unprepared("ROLLBACK").await.expect("rolled back");
        self.model.roll_back(transaction);
    }

    async fn claim(&mut self, relay: usize, max_run: usize) -> Result<(), String> {
        // A poll looks at all lanes four times a second only; between two steps of the test less than that passes.
        self.sql.execute("DELETE FROM outbox_due_floor").await;
        let mut request = request();
        request.holder = HolderName::new(format!("relay-{relay}"));
        request.max_run = u32::try_from(max_run).expect("small");
        let claimed = self.postgres.store().claim(&request).await.map_err(text)?;
        self.rules.max_run = max_run;
        let expected = self.model.claim(&self.rules, self.held.len());
        let ids = |events: &[usize]| events.iter().map(|event| self.ids[*event]).collect::<Vec<_>>();
        let mut real: Vec<_> =
            claimed.iter().map(|run| (run.lane, run.events.iter().map(|event| event.id).collect::<Vec<_>>())).collect();
        let mut wanted: Vec<_> = expected.iter().map(|(lane, events)| (self.lanes[*lane], ids(events))).collect();
        real.sort();
        wanted.sort();
        same("the claim", &real, &wanted)?;
        let known = |(lane, events)| HeldRun { lane, events, sent: 0, settled: false };
        let runs = expected.into_iter().map(known).collect();
        self.held.push(Held { token: request.token, relay: request.holder, runs });
        Ok(())
    }

    /// One of the last claims.
    fn recent(&self, index: Index) -> Option<usize> {
        let few = self.held.len().min(RECENT);
        (few > 0).then(|| self.held.len() - 1 - index.index(few))
    }

    fn free_event(&self, index: Index) -> Option<usize> {
        let event = (!self.ids.is_empty()).then(|| index.index(self.ids.len()))?;
        (!self.model.is_locked(self.model.events[event].lane)).then_some(event)
    }

    /// What a relay sends before it settles. It sends nothing after its lease, and nothing after it has settled.
    fn send(&mut self, claim: usize, wanted: &[usize], sent: usize) -> Result<(), String> {
        let row = self.model.claims.iter().find(|row| row.token == claim);
        if row.is_none_or(|row| row.lease != Lease::Alive) {
            return Ok(());
        }
        for run in self.held[claim].runs.iter_mut().filter(|run| wanted.contains(&run.lane) && !run.settled) {
            while run.sent < sent.min(run.events.len()) {
                let event = run.events[run.sent];
                run.sent += 1;
                let mut earlier = self.committed[run.lane].iter().take_while(|earlier| **earlier != event);
                let missing = earlier.find(|earlier| !self.sent.contains(earlier) && !self.passed.contains(earlier));
                if let Some(missing) = missing.filter(|_| !self.sent.contains(&event)) {
                    return Err(format!("event {event} is published before {missing}, which was committed earlier"));
                }
                self.sent.insert(event);
            }
        }
        Ok(())
    }

    async fn settle(&mut self, claim: Index, lane: Option<Index>, sent: usize, how: How) -> Result<(), String> {
        let Some(claim) = self.recent(claim).filter(|claim| !self.held[*claim].runs.is_empty()) else { return Ok(()) };
        let mut wanted: Vec<usize> = self.held[claim].runs.iter().map(|run| run.lane).collect();
        if let Some(lane) = lane {
            wanted = vec![wanted[lane.index(wanted.len())]];
        }
        let through = if matches!(how, How::Acknowledge) { usize::MAX } else { sent };
        self.send(claim, &wanted, through)?;
        let is_fail = matches!(how, How::Fail(_));
        let held = &mut self.held[claim];
        let is_wanted = |run: &&mut HeldRun| wanted.contains(&run.lane) && (!is_fail || run.sent < run.events.len());
        let (mut lanes, mut runs, mut confirmed, mut next) = (vec![], vec![], vec![], vec![]);
        for run in held.runs.iter_mut().filter(is_wanted) {
            run.settled = true;
            let sent = if matches!(how, How::Free) { &[] } else { &run.events[..run.sent] };
            lanes.push(run.lane);
            confirmed.extend_from_slice(sent);
            next.extend(run.events.get(run.sent));
            let ids = sent.iter().map(|event| self.ids[*event]).collect();
            runs.push(ConfirmedRun { lane: self.lanes[run.lane], confirmed: ids });
        }
        if lanes.is_empty() {
            return Ok(());
        }
        let call = Call { claim, how, lanes, runs, confirmed, next };
        self.report(&call).await?;
        self.last_call = Some(call);
        Ok(())
    }

    /// The last report once more, as if its answer had been lost.
    async fn settle_again(&mut self) -> Result<(), String> {
        let Some(call) = self.last_call.take() else { return Ok(()) };
        let answer = self.report(&call).await?;
        self.last_call = Some(call);
        same("the number of events that a repeated report settles", &answer.events, &0)
    }

    /// Calls both sides, compares what they answer, and returns it.
    async fn report(&mut self, call: &Call) -> Result<model::Settlement, String> {
        let Call { claim, how, lanes, runs, confirmed, next } = call;
        let (store, token) = (self.postgres.store(), self.held[*claim].token);
        let mut settled = confirmed.len();
        let (real, expected) = match *how {
            How::Fail(outcome) => {
                settled += next.len();
                let failed: Vec<_> = next.iter().map(|event| (*event, outcome)).collect();
                let refused = |(run, event): (&ConfirmedRun, &usize)| failure(run.clone(), self.ids[*event], outcome);
                let failures: Vec<FailedRun> = runs.iter().zip(next).map(refused).collect();
                let real = store.fail(token, &failures).await;
                (real, self.model.fail(&self.rules, *claim, lanes, confirmed, &failed))
            }
            How::Release { later } => {
                let (delay, due) = if later { (LONG, Due::Later) } else { (Duration::ZERO, Due::Now) };
                let real = store.release(token, runs, delay).await;
                (real, self.model.release(&self.rules, *claim, lanes, confirmed, due))
            }
            How::Acknowledge if next.is_empty() => {
                let real = store.acknowledge(token, runs).await;
                (real, self.model.release(&self.rules, *claim, lanes, confirmed, Due::Now))
            }
            How::Acknowledge => {
                let real = store.release(token, runs, Duration::ZERO).await;
                (real, self.model.release(&self.rules, *claim, lanes, confirmed, Due::Now))
            }
            How::Free => {
                let real = store.acknowledge(token, runs).await;
                (real, self.model.free_postponed(&self.rules, *claim, lanes))
            }
        };
        self.note_passed();
        let complete =
            expected.repeated || expected.events == settled && expected.freed + expected.postponed.len() == lanes.len();
        match real {
            // A claim that stands and had less than was settled is what the adapter reports as an error.
            Err(StoreError::RowsAffected { .. }) if !expected.stale && !complete => {}
            Err(error) => return Err(text(error)),
            Ok(mut real) => {
                real.postponed.sort();
                same("the settlement", &real, &self.settlement(&expected))?;
            }
        }
        Ok(expected)
    }

    fn settlement(&self, expected: &model::Settlement) -> Settlement {
        let small = |number| u32::try_from(number).expect("small");
        let mut postponed: Vec<_> = expected.postponed.iter().map(|lane| self.lanes[*lane]).collect();
        postponed.sort();
        Settlement { freed: small(expected.freed), events: small(expected.events), postponed, stale: expected.stale }
    }

    async fn time_passes(&mut self) {
        if (0..LANES).any(|lane| self.model.is_locked(lane)) {
            return;
        }
        let past = |table: &str, column: &str| {
            format!("UPDATE {table} SET {column} = statement_timestamp() WHERE {column} > statement_timestamp();")
        };
        let text = [past("outbox_event", "next_attempt_at"), past("outbox_lane", "due_at")].concat();
        self.sql.execute(&text).await;
        self.model.time_passes();
    }

    async fn reap(&mut self) -> Result<(), String> {
        let small = |number| u32::try_from(number).expect("small");
        let request = ReapRequest {
            max_claims: 100,
            dead_after_expiries: small(self.rules.dead_after),
            skip_types: vec![AggregateType::try_new(SKIPPING).expect("valid")],
        };
        let real = self.postgres.maintenance().reap(&request).await.map_err(text)?;
        let model::ReapReport { claims, lanes, postponed, dead } = self.model.reap(&self.rules);
        let expected =
            ReapReport { claims: small(claims), lanes: small(lanes), postponed: small(postponed), dead: small(dead) };
        self.note_passed();
        same("the reaper's report", &real, &expected)
    }

    async fn clean_up(&mut self) -> Result<(), String> {
        let leadership = PostgresLeadership::new(self.postgres.database.clone());
        let holder = HolderName::new("maintenance");
        let term = leadership.acquire("outbox-maintenance", &holder, LONG).await.map_err(text)?.ok_or("no leader")?;
        let removed = self.postgres.maintenance().clean_up(&term, Duration::ZERO, 1_000).await.map_err(text)?;
        let expected = u32::try_from(self.model.clean_up()).expect("small");
        same("the number of events cleaned up", &removed, &Some(expected))
    }

    fn note_passed(&mut self) {
        let resolved = self.model.events.iter().enumerate().filter(|(_, event)| event.is_visible() && event.resolved);
        self.passed.extend(resolved.map(|(id, _)| id));
    }

    async fn compare(&mut self) -> Result<(), String> {
        self.note_passed();
        let mut real: Vec<String> = self.sql.column(SEEN).await;
        let mut expected = self.expected();
        real.sort();
        expected.sort();
        let only = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|line| !those.contains(line)).cloned().collect()
        };
        let (more, less) = (only(&real, &expected), only(&expected, &real));
        if more.is_empty() && less.is_empty() {
            Ok(())
        } else {
            Err(format!("the database has {more:#?}, the model {less:#?}"))
        }
    }

    fn expected(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (id, event) in self.model.events.iter().enumerate().filter(|(_, event)| event.is_visible()) {
            let lane = self.model.lanes[event.lane].as_ref().filter(|_| event.is_open());
            let lease = lane.and_then(|lane| lane.lease);
            let holder = lease.filter(|(_, from, through)| {
                event.stored != Stored::Dead && (*from..=*through).contains(&event.sequence)
            });
            let status = match (holder, event.stored) {
                (Some(_), _) => "IN_FLIGHT",
                (_, Stored::Pending) => "PENDING",
                (_, Stored::Failed) => "FAILED",
                (_, Stored::Published) => "PUBLISHED",
                (_, Stored::Dead) => "DEAD",
                (_, Stored::Gone) => continue,
            };
            let holder = holder.map_or("-", |(token, ..)| self.held[token].relay.as_str());
            let resolved = if event.resolved { "t" } else { "f" };
            lines.push(format!("event {} {status} {} {resolved} {holder}", self.ids[id], event.attempts));
        }
        for (lane, row) in self.model.lanes.iter().enumerate() {
            let Some(row) = row.as_ref().filter(|row| !row.is_new) else { continue };
            let token = row.lease.map_or_else(|| "-".to_owned(), |(token, ..)| self.held[token].token.to_string());
            lines.push(format!("lane {} {token} {:?} {}", self.lanes[lane].0, row.due, row.expiries));
        }
        for claim in &self.model.claims {
            let mut settled: Vec<i64> = claim.settled.iter().map(|lane| self.lanes[*lane].0).collect();
            settled.sort_unstable();
            let settled: Vec<String> = settled.iter().map(ToString::to_string).collect();
            let (token, settled) = (self.held[claim.token].token, settled.join(","));
            lines.push(format!("claim {token} {:?} {} {{{settled}}}", claim.lease, claim.held));
        }
        lines
    }

    /// Ends whatever is open, and publishes the rest: everything committed arrives, or was given up by name.
    pub(super) async fn drain(&mut self) -> Result<(), String> {
        while !self.open.is_empty() {
            self.commit(0).await;
        }
        for claim in 0..self.held.len() {
            if self.model.lease_ends(claim) {
                let past = "SET lease_expires_at = statement_timestamp() - interval '1 s'";
                let token = self.held[claim].token;
                self.sql.execute(&format!("UPDATE outbox_claim {past} WHERE token = '{token}'")).await;
            }
        }
        self.reap().await?;
        self.compare().await?;
        for _ in 0..=self.ids.len() {
            self.time_passes().await;
            for event in 0..self.ids.len() {
                let dead = self.model.events[event].is_open() && self.model.events[event].stored == Stored::Dead;
                if dead && !self.postgres.operations().requeue(self.ids[event]).await.map_err(text)? {
                    return Err(format!("event {event} is not requeued"));
                }
                if dead {
                    self.model.requeue(&self.rules, event);
                }
            }
            self.claim(0, 3).await?;
            let all = self.held.len() - 1;
            let wanted: Vec<usize> = self.held[all].runs.iter().map(|run| run.lane).collect();
            if wanted.is_empty() {
                break;
            }
            self.send(all, &wanted, usize::MAX)?;
            let runs: Vec<ConfirmedRun> = self.held[all].runs.iter().map(|run| self.confirmed(run)).collect();
            let real = self.postgres.store().acknowledge(self.held[all].token, &runs).await.map_err(text)?;
            let events: Vec<usize> = self.held[all].runs.iter().flat_map(|run| run.events.clone()).collect();
            let expected = self.model.release(&self.rules, all, &wanted, &events, Due::Now);
            same("the settlement", &real, &self.settlement(&expected))?;
            self.compare().await?;
        }
        let committed = self.committed.iter().flatten();
        let lost: Vec<_> = committed.filter(|id| !self.sent.contains(id) && !self.passed.contains(id)).collect();
        if !lost.is_empty() {
            return Err(format!("{lost:?} were committed, and neither sent nor given up"));
        }
        let left = "SELECT count(*) FROM outbox_event WHERE published_at IS NULL AND resolved_at IS NULL";
        same("what is open in the end", &self.sql.one::<i64>(left).await, &0)?;
        same("what is left of lanes", &self.sql.one::<i64>("SELECT count(*) FROM outbox_lane").await, &0)
    }

    fn confirmed(&self, run: &HeldRun) -> ConfirmedRun {
        let ids = run.events.iter().map(|event| self.ids[*event]).collect();
        ConfirmedRun { lane: self.lanes[run.lane], confirmed: ids }
    }
}

fn failure(run: ConfirmedRun, failed: EventId, outcome: FailedOutcome) -> FailedRun {
    let outcome = match outcome {
        FailedOutcome::Retry => Outcome::Retry { after: LONG },
        FailedOutcome::Block => Outcome::Block,
        FailedOutcome::Skip => Outcome::Skip,
    };
    FailedRun { run, failed, outcome, error: "refused".to_owned() }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn text(error: StoreError) -> String {
    format!("{error}: {:?}", std::error::Error::source(&error))
}
