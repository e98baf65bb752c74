//! What the demo says at the end: a table of what arrived, and whether that is what was promised.

use std::fmt;

use test_support::checker::DeliveryReport;

use crate::tally::Counts;

/// Events of each work log that was walked to its end.
const EVENTS_EACH: i64 = 3;

/// What became of every event, by the database and by the deliveries.
#[derive(Debug)]
pub(super) struct Verdict {
    counts: Counts,
    report: DeliveryReport,
    are_consumed: bool,
}

impl Verdict {
    /// Judges; `are_consumed` says whether a consumer had to apply what was delivered.
    pub(super) const fn new(counts: Counts, report: DeliveryReport, are_consumed: bool) -> Self {
        Self { counts, report, are_consumed }
    }

    /// The exit code: whether anything is lost, out of order, repeated without a reason, DEAD or missing.
    pub(super) fn code(&self) -> u8 {
        u8::from(!(self.report.is_clean() && self.counts.dead == 0 && self.missing() == 0))
    }

    /// Events that the work logs should have and the table has not: of what was never stored, or is gone, no delivery
    /// tells.
    const fn missing(&self) -> i64 {
        self.counts.work_logs * EVENTS_EACH - self.counts.events
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, report, are_consumed } = self;
        let duplicates: u64 = report.allowed_duplicates.values().sum();
        let applied = if *are_consumed { counts.applied.to_string() } else { "not consumed".to_owned() };
        writeln!(f)?;
        for (label, value) in [
            ("work logs created (rows committed)", counts.work_logs.to_string()),
            ("events committed with them", report.committed.to_string()),
            ("events that work logs lack", self.missing().to_string()),
            ("events published", counts.published.to_string()),
            ("events DEAD", counts.dead.to_string()),
            ("events delivered", report.delivered.to_string()),
            ("delivered again (allowed: a relay was killed)", duplicates.to_string()),
            ("effects applied", applied),
            ("order violations", (report.out_of_order.count + report.effect_out_of_order.count).to_string()),
            ("lost", (report.lost.count + report.stuck.count).to_string()),
            ("effects missing or repeated", (report.effect_missing.count + report.effect_repeated.count).to_string()),
            ("delivered without a commit", report.phantom.count.to_string()),
        ] {
            writeln!(f, "  {label:<52}{value:>8}")?;
        }
        if report.is_clean() { Ok(()) } else { write!(f, "\n{report}") }
    }
}

#[cfg(test)]
mod tests {
    use application_core::outbox::{EventId, OutboxEventStatus};
    use test_support::checker::{DeliveryChecker, DuplicateReason};
    use uuid::Uuid;

    use super::{Counts, EVENTS_EACH, Verdict};

    const WORK_LOGS: i64 = 4;

    fn event(work_log: i64, step: i64) -> EventId {
        EventId::new(Uuid::from_u128((work_log * EVENTS_EACH + step + 1).unsigned_abs().into()))
    }

    /// Every event, work log by work log, in order.
    fn all() -> Vec<EventId> {
        (0..WORK_LOGS).flat_map(|work_log| (0..EVENTS_EACH).map(move |step| event(work_log, step))).collect()
    }

    fn counts() -> Counts {
        let events = WORK_LOGS * EVENTS_EACH;
        Counts { work_logs: WORK_LOGS, events, published: events, in_flight: 0, dead: 0, applied: events }
    }

    /// The verdict on these deliveries and effects of what was committed.
    fn verdict(delivered: &[EventId], effects: &[EventId], open: &[(EventId, OutboxEventStatus)]) -> Verdict {
        let checker = DeliveryChecker::new();
        checker.allow_duplicates(DuplicateReason::RelayKilled);
        checker.watch_effects();
        for work_log in 0..WORK_LOGS {
            for step in 0..EVENTS_EACH {
                checker.committed(&format!("work-log/{work_log}"), event(work_log, step), step);
            }
        }
        for id in delivered {
            checker.delivered(*id);
        }
        for id in effects {
            checker.effect(*id);
        }
        for (id, status) in open {
            checker.still_open(*id, *status);
        }
        Verdict::new(counts(), checker.report(), true)
    }

    /// The exit code, and what stands in the table beside this label.
    fn told(verdict: &Verdict, label: &str) -> (u8, String) {
        let table = verdict.to_string();
        let row = table.lines().find_map(|line| line.trim_start().strip_prefix(label)).expect("a row of this label");
        (verdict.code(), row.trim().to_owned())
    }

    #[track_caller]
    fn assert_wrong(verdict: &Verdict, label: &str, finding: &str) {
        assert_eq!(told(verdict, label), (1, "1".to_owned()), "{verdict}");
        let names_it = |line: &str| line.starts_with(finding) && line.contains('-');
        assert!(verdict.to_string().lines().any(names_it), "{finding} is not named:\n{verdict}");
    }

    #[test]
    fn what_arrived_in_order_and_had_its_effect_once_is_good_also_when_it_was_delivered_again() {
        let again = [all(), vec![event(1, 2)]].concat();
        let verdict = verdict(&again, &all(), &[]);
        assert_eq!(told(&verdict, "delivered again (allowed: a relay was killed)"), (0, "1".to_owned()), "{verdict}");
        for label in ["events that work logs lack", "order violations", "lost", "effects missing or repeated"] {
            assert_eq!(told(&verdict, label), (0, "0".to_owned()), "{verdict}");
        }
    }

    #[test]
    fn a_lost_event_fails_the_demo_and_is_named() {
        let lost = event(2, 1);
        let arrived: Vec<EventId> = all().into_iter().filter(|id| *id != lost).collect();
        assert_wrong(&verdict(&arrived, &arrived, &[]), "lost", "lost");
        let stuck = [(lost, OutboxEventStatus::Failed)];
        assert_wrong(&verdict(&arrived, &arrived, &stuck), "lost", "stuck");
    }

    #[test]
    fn an_order_violation_fails_the_demo_and_is_named() {
        let mut turned = all();
        turned.swap(4, 5);
        assert_wrong(&verdict(&turned, &all(), &[]), "order violations", "out of order");
        assert_wrong(&verdict(&all(), &turned, &[]), "order violations", "effect out of order");
    }

    #[test]
    fn an_effect_that_is_repeated_or_missing_fails_the_demo_and_is_named() {
        let twice = [all(), vec![event(0, 0)]].concat();
        assert_wrong(&verdict(&all(), &twice, &[]), "effects missing or repeated", "effect repeated");
        let missing = all().split_off(1);
        assert_wrong(&verdict(&all(), &missing, &[]), "effects missing or repeated", "effect missing");
    }

    #[test]
    fn a_delivery_without_a_commit_a_missing_row_and_a_dead_event_fail_the_demo() {
        let foreign = [all(), vec![event(WORK_LOGS, 0)]].concat();
        assert_wrong(&verdict(&foreign, &all(), &[]), "delivered without a commit", "phantom");
        let mut lacking = verdict(&all(), &all(), &[]);
        lacking.counts.events -= 1;
        assert_eq!(told(&lacking, "events that work logs lack"), (1, "1".to_owned()), "{lacking}");
        let mut dead = verdict(&all(), &all(), &[]);
        dead.counts.dead = 1;
        assert_eq!(told(&dead, "events DEAD"), (1, "1".to_owned()), "{dead}");
    }
}
