//! Checks that what was committed arrived: nothing lost, nothing invented, in order, and repeated only where allowed.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use application_core::outbox::{EventId, OutboxEventStatus};
use serde::Serialize;

/// Why an event may arrive more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DuplicateReason {
    /// The relay was killed or stopped between a confirm and its settlement.
    RelayKilled,
    /// A lease ran out while its relay still worked.
    LeaseExpired,
    /// The settlement could not be written.
    SettlementLost,
    /// The connection to the broker broke before the confirm was read.
    ConfirmLost,
    /// The broker delivered to a consumer again.
    BrokerRedelivery,
    /// An operator sent the event again on purpose.
    Replay,
}

impl DuplicateReason {
    /// Every reason.
    pub const ALL: [Self; 6] = [
        Self::RelayKilled,
        Self::LeaseExpired,
        Self::SettlementLost,
        Self::ConfirmLost,
        Self::BrokerRedelivery,
        Self::Replay,
    ];
}

impl fmt::Display for DuplicateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RelayKilled => "relay killed",
            Self::LeaseExpired => "lease expired",
            Self::SettlementLost => "settlement lost",
            Self::ConfirmLost => "confirm lost",
            Self::BrokerRedelivery => "broker redelivery",
            Self::Replay => "replay",
        })
    }
}

/// Watches the three places that an event passes: the commit, the delivery, the effect. Clones share what they saw.
///
/// It may be told in any order, from any number of tasks: a delivery may be seen before the commit is reported. A report
/// of a million events takes about a second and some 100 bytes an event.
#[derive(Debug, Clone, Default)]
pub struct DeliveryChecker {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    aggregates: HashMap<String, u32>,
    committed: Vec<(EventId, u32, i64)>,
    delivered: Vec<EventId>,
    effects: Vec<EventId>,
    watches_effects: bool,
    open: Vec<(EventId, OutboxEventStatus)>,
    expected_dead: Vec<EventId>,
    allowed: HashMap<EventId, DuplicateReason>,
    allowed_everywhere: Option<DuplicateReason>,
}

impl DeliveryChecker {
    /// A checker that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An append was committed. `order` grows with each event of an aggregate: the sequence, or the number of the commit.
    pub fn committed(&self, aggregate: &str, id: EventId, order: i64) {
        let mut seen = self.seen();
        let fresh = u32::try_from(seen.aggregates.len()).unwrap_or(u32::MAX);
        let known = seen.aggregates.get(aggregate).copied();
        let aggregate = known.unwrap_or_else(|| *seen.aggregates.entry(aggregate.to_owned()).or_insert(fresh));
        seen.committed.push((id, aggregate, order));
    }

    /// The broker delivered the event; call it in the order of arrival.
    pub fn delivered(&self, id: EventId) {
        self.seen().delivered.push(id);
    }

    /// A consumer's effect of the event was committed; call it in the order of the commits. From the first call on, or
    /// from [`DeliveryChecker::watch_effects`], every event must have its effect once.
    pub fn effect(&self, id: EventId) {
        let mut seen = self.seen();
        seen.watches_effects = true;
        seen.effects.push(id);
    }

    /// Effects are watched, even if there is none.
    pub fn watch_effects(&self) {
        self.seen().watches_effects = true;
    }

    /// At the end, the event is still open in the outbox. Without a delivery that is not lost but stuck.
    pub fn still_open(&self, id: EventId, status: OutboxEventStatus) {
        self.seen().open.push((id, status));
    }

    /// The event is DEAD because the test made it so: neither lost nor stuck.
    pub fn expect_dead(&self, id: EventId) {
        self.seen().expected_dead.push(id);
    }

    /// The event may arrive more than once.
    pub fn allow_duplicate(&self, id: EventId, reason: DuplicateReason) {
        self.seen().allowed.insert(id, reason);
    }

    /// Any event may arrive more than once; a reason given for an event counts before this one.
    pub fn allow_duplicates(&self, reason: DuplicateReason) {
        self.seen().allowed_everywhere = Some(reason);
    }

    /// Compares what was seen. The checker can be told more afterwards, and asked again.
    #[must_use]
    pub fn report(&self) -> DeliveryReport {
        self.seen().report()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of events of one kind, the first of them by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How many.
    pub count: u64,
    /// The first ones, at most [`Finding::EXAMPLES`].
    pub examples: Vec<String>,
}

impl Finding {
    /// How many events are named.
    pub const EXAMPLES: usize = 10;

    fn note(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(example());
        }
    }

    const fn is_none(&self) -> bool {
        self.count == 0
    }
}

/// What was compared, and what was found wrong. `Display` is a short table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeliveryReport {
    /// Events whose append was committed.
    pub committed: u64,
    /// Of these, events that were delivered at least once.
    pub delivered: u64,
    /// Deliveries beyond the first, by the reason that allows them.
    pub allowed_duplicates: BTreeMap<DuplicateReason, u64>,
    /// Effects that were applied, each event counted once.
    pub effects: u64,
    /// Committed, not delivered, and gone from what is open.
    pub lost: Finding,
    /// Events delivered more than once without a reason.
    pub duplicated: Finding,
    /// First deliveries that came after a later event of the same aggregate.
    pub out_of_order: Finding,
    /// Delivered, although no append was committed.
    pub phantom: Finding,
    /// Still open at the end.
    pub stuck: Finding,
    /// Delivered, but without the effect.
    pub effect_missing: Finding,
    /// Events whose effect was applied more than once; nothing allows that.
    pub effect_repeated: Finding,
    /// Effects that came after the effect of a later event of the same aggregate.
    pub effect_out_of_order: Finding,
    /// Effects of events that were never committed.
    pub effect_phantom: Finding,
}

impl DeliveryReport {
    /// Whether nothing was found wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings().iter().all(|(_, finding)| finding.is_none())
    }

    /// Fails with the table unless nothing was found wrong and at least one event was committed.
    ///
    /// # Panics
    /// When something was found, or nothing was watched.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.committed > 0, "nothing was committed: the checker watched nothing");
        assert!(self.is_clean(), "deliveries are not as they must be\n{self}");
    }

    const fn findings(&self) -> [(&'static str, &Finding); 9] {
        [
            ("lost", &self.lost),
            ("duplicated", &self.duplicated),
            ("out of order", &self.out_of_order),
            ("phantom", &self.phantom),
            ("stuck", &self.stuck),
            ("effect missing", &self.effect_missing),
            ("effect repeated", &self.effect_repeated),
            ("effect out of order", &self.effect_out_of_order),
            ("effect phantom", &self.effect_phantom),
        ]
    }
}

impl fmt::Display for DeliveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, count: u64| writeln!(f, "{name:<34}{count:>9}");
        row("committed", self.committed)?;
        row("delivered", self.delivered)?;
        row("effects", self.effects)?;
        for (reason, count) in &self.allowed_duplicates {
            row(&format!("duplicates allowed ({reason})"), *count)?;
        }
        for (name, finding) in self.findings() {
            write!(f, "{name:<34}{:>9}", finding.count)?;
            if !finding.is_none() {
                write!(f, "  {}", finding.examples.join(", "))?;
            }
            writeln!(f)?;
        }
        write!(f, "{:<34}{:>9}", "verdict", if self.is_clean() { "clean" } else { "WRONG" })
    }
}

/// What is known of one event.
#[derive(Debug, Clone, Copy)]
struct Story {
    aggregate: u32,
    order: i64,
    deliveries: u32,
    effects: u32,
    open: Option<OutboxEventStatus>,
    expected_dead: bool,
}

impl Seen {
    fn report(&self) -> DeliveryReport {
        let mut report = DeliveryReport { committed: wide(self.committed.len()), ..DeliveryReport::default() };
        let mut stories: HashMap<EventId, Story> = HashMap::with_capacity(self.committed.len());
        for (id, aggregate, order) in &self.committed {
            let story = Story {
                aggregate: *aggregate,
                order: *order,
                deliveries: 0,
                effects: 0,
                open: None,
                expected_dead: false,
            };
            stories.insert(*id, story);
        }
        for (id, status) in &self.open {
            if let Some(story) = stories.get_mut(id) {
                story.open = Some(*status);
            }
        }
        for id in &self.expected_dead {
            if let Some(story) = stories.get_mut(id) {
                story.expected_dead = true;
            }
        }
        self.walk_deliveries(&mut stories, &mut report);
        self.walk_effects(&mut stories, &mut report);
        for (id, _, _) in &self.committed {
            if let Some(story) = stories.get(id) {
                self.judge(*id, story, &mut report);
            }
        }
        report
    }

    fn walk_deliveries(&self, stories: &mut HashMap<EventId, Story>, report: &mut DeliveryReport) {
        let mut last = LastOf::new(self.aggregates.len());
        for id in &self.delivered {
            let Some(story) = stories.get_mut(id) else {
                report.phantom.note(|| id.to_string());
                continue;
            };
            story.deliveries += 1;
            // Order is that of first deliveries: a repetition comes late by nature.
            if story.deliveries == 1 {
                report.delivered += 1;
                last.check(*id, story, &mut report.out_of_order);
            }
        }
    }

    fn walk_effects(&self, stories: &mut HashMap<EventId, Story>, report: &mut DeliveryReport) {
        let mut last = LastOf::new(self.aggregates.len());
        for id in &self.effects {
            let Some(story) = stories.get_mut(id) else {
                report.effect_phantom.note(|| id.to_string());
                continue;
            };
            story.effects += 1;
            if story.effects == 1 {
                report.effects += 1;
                last.check(*id, story, &mut report.effect_out_of_order);
            }
        }
    }

    fn judge(&self, id: EventId, story: &Story, report: &mut DeliveryReport) {
        match story.open {
            Some(OutboxEventStatus::Dead) if story.expected_dead => {}
            Some(status) => report.stuck.note(|| format!("{id} {status}")),
            None if story.deliveries == 0 && !story.expected_dead => report.lost.note(|| id.to_string()),
            None => {}
        }
        if story.deliveries > 1 {
            match self.allowed.get(&id).copied().or(self.allowed_everywhere) {
                Some(reason) => {
                    *report.allowed_duplicates.entry(reason).or_default() += u64::from(story.deliveries - 1);
                }
                None => report.duplicated.note(|| format!("{id} ×{}", story.deliveries)),
            }
        }
        if story.effects > 1 {
            report.effect_repeated.note(|| format!("{id} ×{}", story.effects));
        }
        if self.watches_effects && story.deliveries > 0 && story.effects == 0 {
            report.effect_missing.note(|| id.to_string());
        }
    }
}

/// The latest event of each aggregate so far.
struct LastOf(Vec<i64>);

impl LastOf {
    fn new(aggregates: usize) -> Self {
        Self(vec![i64::MIN; aggregates])
    }

    fn check(&mut self, id: EventId, story: &Story, finding: &mut Finding) {
        let index = usize::try_from(story.aggregate).unwrap_or(usize::MAX);
        let Some(last) = self.0.get_mut(index) else { return };
        if story.order < *last {
            let (order, after) = (story.order, *last);
            finding.note(|| format!("{id} ({order} after {after})"));
        }
        *last = story.order.max(*last);
    }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::event_id;

    /// Two aggregates of three events, all delivered in order, each with its effect.
    fn sound() -> DeliveryChecker {
        let checker = DeliveryChecker::new();
        for n in 1..=6 {
            commit(&checker, n);
            checker.delivered(event_id(n));
            checker.effect(event_id(n));
        }
        checker
    }

    /// Odd events belong to one aggregate, even ones to another.
    fn commit(checker: &DeliveryChecker, n: u64) {
        checker.committed(if n.is_multiple_of(2) { "even" } else { "odd" }, event_id(n), n.cast_signed());
    }

    fn found(checker: &DeliveryChecker) -> Vec<(&'static str, u64)> {
        let report = checker.report();
        let found: Vec<_> =
            report.findings().iter().filter(|(_, finding)| !finding.is_none()).map(|(n, f)| (*n, f.count)).collect();
        assert_eq!(found.is_empty(), report.is_clean());
        found
    }

    #[test]
    fn a_sound_run_is_clean_and_counted() {
        let report = sound().report();
        report.assert_clean();
        assert_eq!((report.committed, report.delivered, report.effects), (6, 6, 6));
    }

    #[test]
    fn what_is_told_in_another_order_is_the_same() {
        let checker = DeliveryChecker::new();
        for n in 1..=6 {
            checker.effect(event_id(n));
            checker.delivered(event_id(n));
        }
        for n in (1..=6).rev() {
            commit(&checker, n);
        }
        assert_eq!(checker.report(), sound().report());
    }

    #[test]
    fn a_lost_event_is_found() {
        let checker = sound();
        commit(&checker, 7);
        assert_eq!(found(&checker), [("lost", 1)]);
        assert_eq!(checker.report().lost.examples, [event_id(7).to_string()]);
    }

    #[test]
    fn a_duplicate_is_found_unless_something_allows_it() {
        let checker = sound();
        checker.delivered(event_id(2));
        checker.delivered(event_id(2));
        checker.delivered(event_id(3));
        assert_eq!(found(&checker), [("duplicated", 2)]);
        checker.allow_duplicate(event_id(2), DuplicateReason::Replay);
        assert_eq!(found(&checker), [("duplicated", 1)]);
        checker.allow_duplicates(DuplicateReason::RelayKilled);
        assert_eq!(found(&checker), []);
        let allowed = [(DuplicateReason::RelayKilled, 1), (DuplicateReason::Replay, 2)];
        assert_eq!(checker.report().allowed_duplicates, BTreeMap::from(allowed));
    }

    #[test]
    fn an_event_that_overtook_an_earlier_one_of_its_aggregate_is_found() {
        let checker = DeliveryChecker::new();
        for n in 1..=6 {
            commit(&checker, n);
        }
        // Across aggregates there is no order; within "odd", 1 comes after 3.
        for n in [2, 4, 6, 3, 1, 5] {
            checker.delivered(event_id(n));
        }
        assert_eq!(found(&checker), [("out of order", 1)]);
        assert!(checker.report().out_of_order.examples[0].ends_with("(1 after 3)"));
    }

    #[test]
    fn a_repetition_is_no_disorder() {
        let checker = sound();
        checker.delivered(event_id(1));
        checker.allow_duplicates(DuplicateReason::LeaseExpired);
        assert_eq!(found(&checker), []);
    }

    #[test]
    fn a_delivery_without_a_commit_is_found() {
        let checker = sound();
        checker.delivered(event_id(99));
        assert_eq!(found(&checker), [("phantom", 1)]);
    }

    #[test]
    fn an_event_that_is_open_at_the_end_is_stuck_and_not_lost() {
        let checker = sound();
        commit(&checker, 7);
        checker.still_open(event_id(7), OutboxEventStatus::InFlight);
        assert_eq!(found(&checker), [("stuck", 1)]);
        assert!(checker.report().stuck.examples[0].ends_with("IN_FLIGHT"));
        // Delivered, and yet not settled: that is stuck as well.
        checker.still_open(event_id(6), OutboxEventStatus::Pending);
        assert_eq!(found(&checker), [("stuck", 2)]);
    }

    #[test]
    fn an_event_that_the_test_killed_is_neither_lost_nor_stuck() {
        let checker = sound();
        commit(&checker, 7);
        checker.expect_dead(event_id(7));
        assert_eq!(found(&checker), [], "it may be resolved, and so not open");
        checker.still_open(event_id(7), OutboxEventStatus::Dead);
        assert_eq!(found(&checker), []);
    }

    #[test]
    fn faults_of_effects_are_found() {
        let checker = sound();
        checker.effect(event_id(1));
        checker.effect(event_id(99));
        for n in 7..=10 {
            commit(&checker, n);
            checker.delivered(event_id(n));
        }
        checker.effect(event_id(9));
        checker.effect(event_id(7));
        checker.effect(event_id(8));
        let expected =
            [("effect missing", 1), ("effect repeated", 1), ("effect out of order", 1), ("effect phantom", 1)];
        assert_eq!(found(&checker), expected);
    }

    #[test]
    fn effects_count_only_where_they_are_watched() {
        let checker = DeliveryChecker::new();
        commit(&checker, 1);
        checker.delivered(event_id(1));
        assert_eq!(found(&checker), []);
        checker.watch_effects();
        assert_eq!(found(&checker), [("effect missing", 1)]);
    }

    #[test]
    fn the_report_is_a_table_and_a_document() {
        let checker = sound();
        commit(&checker, 7);
        let report = checker.report();
        let table = report.to_string();
        assert!(
            table.lines().any(|line| line.starts_with("lost") && line.contains(&event_id(7).to_string())),
            "{table}"
        );
        assert!(table.ends_with("WRONG"));
        let document = serde_json::to_value(&report).expect("it has a JSON form");
        assert_eq!(document["lost"]["count"], 1);
    }

    #[test]
    fn a_million_events_are_checked_and_examples_stay_few() {
        const MANY: u64 = 1_000_000;
        let checker = DeliveryChecker::new();
        for n in 0..MANY {
            checker.committed(if n.is_multiple_of(3) { "a" } else { "b" }, event_id(n), n.cast_signed());
            if n.is_multiple_of(2) {
                checker.delivered(event_id(n));
            }
        }
        let report = checker.report();
        assert_eq!((report.delivered, report.lost.count), (MANY / 2, MANY / 2));
        assert_eq!(report.lost.examples.len(), Finding::EXAMPLES);
        assert!(report.out_of_order.is_none());
    }
}
