//! What the demo shows of the deliveries as they come: some work logs event by event, and a count of all.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    deliveries::{Arrival, Deliveries},
    say,
};
use crate::pause;

/// Work logs that are followed because they are the first to arrive.
const FIRST: usize = 5;
/// Deliveries of other work logs that are shown because they came again or out of order.
const ODD: usize = 10;
/// How often all are counted aloud.
const EVERY: Duration = Duration::from_secs(2);

/// What has arrived so far, and what of it is shown.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<Arrived>);

impl Arrivals {
    /// Shows deliveries until it is dropped.
    pub(super) async fn show(&self, deliveries: &Deliveries) -> Infallible {
        let (mut said, mut counted) = (Instant::now(), 0);
        loop {
            self.show_new(deliveries);
            let (total, summary) = self.with(|arrived| (arrived.total, arrived.to_string()));
            if said.elapsed() >= EVERY && total > counted {
                (said, counted) = (Instant::now(), total);
                say(&summary);
            }
            pause().await;
        }
    }

    /// Shows what came since the last look.
    pub(super) fn show_new(&self, deliveries: &Deliveries) {
        self.with(|arrived| {
            for arrival in deliveries.after(arrived.total) {
                if let Some(line) = arrived.take(arrival) {
                    say(&line);
                }
            }
        });
    }

    /// Says how many came.
    pub(super) fn sum_up(&self) {
        say(&self.with(|arrived| arrived.to_string()));
    }

    /// Follows these aggregates from now on; gives their names for people.
    pub(super) fn follow(&self, aggregates: Vec<String>) -> Vec<String> {
        let names = aggregates.iter().map(|aggregate| name(aggregate)).collect();
        self.with(|arrived| arrived.followed.extend(aggregates));
        names
    }

    fn with<T>(&self, look: impl FnOnce(&mut Arrived) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug, Default)]
struct Arrived {
    total: usize,
    again: usize,
    out_of_order: usize,
    events: BTreeSet<Uuid>,
    followed: BTreeSet<String>,
    /// What came of each aggregate, for people, and the highest sequence among it.
    aggregates: BTreeMap<String, (Vec<String>, i64)>,
    odd_shown: usize,
}

impl Arrived {
    /// Takes a delivery; gives a line if it is one to show.
    fn take(&mut self, arrival: Arrival) -> Option<String> {
        let Arrival { event, event_type, aggregate, sequence, relay } = arrival;
        self.total += 1;
        if self.aggregates.len() < FIRST && !self.aggregates.contains_key(&aggregate) {
            self.followed.insert(aggregate.clone());
        }
        let (steps, highest) = self.aggregates.entry(aggregate.clone()).or_insert((Vec::new(), i64::MIN));
        let again = !self.events.insert(event);
        let late = !again && sequence < *highest;
        *highest = (*highest).max(sequence);
        let marks = [relay.as_deref(), again.then_some("again"), late.then_some("OUT OF ORDER")];
        let marks: Vec<&str> = marks.into_iter().flatten().collect();
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        steps.push(format!("{} #{sequence}{marks}", event_type.trim_start_matches("WorkLog")));
        let line = format!("  work log {}: {}", name(&aggregate), steps.join(" → "));
        self.again += usize::from(again);
        self.out_of_order += usize::from(late);
        if self.followed.contains(&aggregate) {
            return Some(line);
        }
        let shown = (again || late) && self.odd_shown < ODD;
        self.odd_shown += usize::from(shown);
        shown.then_some(line)
    }
}

impl fmt::Display for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, again, out_of_order, events, aggregates, .. } = self;
        let (events, aggregates) = (events.len(), aggregates.len());
        write!(
            f,
            "{total} deliveries so far: {events} events of {aggregates} work logs, {again} again, {out_of_order} out of order"
        )
    }
}

/// The end of the identifier: the identifiers of one minute begin alike.
fn name(aggregate: &str) -> String {
    let id = aggregate.rsplit('/').next().unwrap_or(aggregate);
    let end = id.len().checked_sub(8).and_then(|from| id.get(from..));
    end.map_or_else(|| id.to_owned(), |end| format!("…{end}"))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Arrival, Arrived, FIRST, ODD};

    fn arrival(work_log: usize, step: &str, sequence: i64) -> Arrival {
        Arrival {
            event: Uuid::from_u128(sequence.unsigned_abs().into()),
            event_type: format!("WorkLog{step}"),
            aggregate: format!("work-log/0198c5a0-{work_log:08}"),
            sequence,
            relay: Some("relay-1".to_owned()),
        }
    }

    #[test]
    fn a_followed_work_log_is_shown_with_all_that_came_of_it() {
        let mut arrived = Arrived::default();
        let mut lines = Vec::new();
        for (step, sequence) in [("Reserved", 3), ("Started", 7), ("Started", 7), ("Completed", 5)] {
            lines.push(arrived.take(arrival(1, step, sequence)).expect("a line"));
        }
        assert_eq!(lines.first().map(String::as_str), Some("  work log …00000001: Reserved #3 (relay-1)"));
        let last = "  work log …00000001: Reserved #3 (relay-1) → Started #7 (relay-1) → Started #7 (relay-1, again) → \
                    Completed #5 (relay-1, OUT OF ORDER)";
        assert_eq!(lines.last().map(String::as_str), Some(last));
        assert_eq!(arrived.to_string(), "4 deliveries so far: 3 events of 1 work logs, 1 again, 1 out of order");
    }

    #[test]
    fn of_many_work_logs_some_are_shown_and_all_are_counted() {
        let mut arrived = Arrived::default();
        let numbers = || (0..200_usize).zip(1_i64..);
        let shown = numbers().filter_map(|(n, sequence)| arrived.take(arrival(n, "Reserved", sequence))).count();
        assert_eq!(shown, FIRST);
        let again = numbers().filter_map(|(n, sequence)| arrived.take(arrival(n, "Reserved", sequence))).count();
        assert_eq!(again, FIRST + ODD);
        assert_eq!((arrived.total, arrived.again, arrived.out_of_order), (400, 200, 0));
        arrived.followed.insert("work-log/0198c5a0-00000150".to_owned());
        assert!(arrived.take(arrival(150, "Started", 900)).is_some(), "one that is followed later");
    }
}
