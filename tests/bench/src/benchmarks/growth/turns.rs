//! The same work in two databases, in turn: a ratio of two times that are minutes apart would say how the machine
//! changed meanwhile.

use std::time::{Duration, Instant};

use crate::{
    error::BenchError,
    figures::{millis, number, percentile},
    runner::Bench,
    statements::{Statements, Usage},
};

/// One side of a comparison: a database and what is done in it.
pub(super) trait Side {
    /// Does its work; returns the events and the time of the call that is looked at, by the client.
    async fn work(&mut self) -> Result<(usize, Duration), BenchError>;

    /// Makes the database what it was before; takes no part in any time.
    async fn restore(&mut self, events: usize) -> Result<(), BenchError>;

    /// The counts of its database.
    fn statements(&mut self) -> &mut Statements;
}

/// Which statements are looked at: the name in figures, and the pattern of their text. The first one is timed.
pub(super) type Looked = [(&'static str, &'static str)];

/// One turn of one side.
struct Turn {
    events: f64,
    /// Microseconds an event of the call that is looked at.
    time: f64,
    /// The same of the work as a whole, by the client.
    whole: f64,
    usage: Vec<Option<Usage>>,
}

/// Some rounds of turns; records what each side takes an event, and the median ratio of the turns of a round.
/// Which side is first changes with each turn.
pub(super) async fn compare(
    bench: &mut Bench<'_>,
    figure: &str,
    turns: usize,
    looked: &Looked,
    (base, case): (&mut impl Side, &mut impl Side),
) -> Result<(), BenchError> {
    // What a session reads once is read before anything counts.
    turn(base, looked).await?;
    turn(case, looked).await?;
    for _ in 0..bench.rounds() {
        let (mut bases, mut cases) = (Vec::with_capacity(turns), Vec::with_capacity(turns));
        for n in 0..turns {
            if n % 2 == 0 {
                bases.push(turn(base, looked).await?);
                cases.push(turn(case, looked).await?);
            } else {
                cases.push(turn(case, looked).await?);
                bases.push(turn(base, looked).await?);
            }
        }
        record(bench, &format!("{figure}.base"), looked, &bases);
        record(bench, figure, looked, &cases);
        let ratio = median_ratio(cases.iter().map(|turn| turn.time), bases.iter().map(|turn| turn.time));
        bench.record_known(&format!("{figure}.time_ratio"), "ratio", ratio);
        let ratio = buffers(&cases).zip(buffers(&bases)).map(|(case, base)| case / base.max(1e-9));
        bench.record_known(&format!("{figure}.buffers_ratio"), "ratio", ratio);
    }
    Ok(())
}

async fn turn(side: &mut impl Side, looked: &Looked) -> Result<Turn, BenchError> {
    side.statements().reset().await?;
    let begun = Instant::now();
    let (events, call) = side.work().await?;
    let whole = begun.elapsed();
    let mut usage = Vec::with_capacity(looked.len());
    for (_, pattern) in looked {
        usage.push(side.statements().usage(pattern).await?);
    }
    side.restore(events).await?;
    if events == 0 {
        return Err(BenchError::Unsound("a turn found no event to work on".to_owned()));
    }
    let events = number(events);
    let of_server = usage.first().copied().flatten().map(|used| (used.calls, used.millis));
    if of_server.is_some_and(|(calls, _)| calls < 1.0) {
        return Err(BenchError::Unsound("the statement that is timed was not counted".to_owned()));
    }
    let time = of_server.map_or_else(|| millis(call), |(_, millis)| millis) * 1e3 / events;
    Ok(Turn { events, time, whole: millis(whole) * 1e3 / events, usage })
}

fn record(bench: &mut Bench<'_>, figure: &str, looked: &Looked, turns: &[Turn]) {
    let times = |time: fn(&Turn) -> f64| median(turns.iter().map(time));
    bench.record_known(&format!("{figure}.whole"), "us an event", times(|turn| turn.whole));
    bench.record_known(&format!("{figure}.time"), "us an event", times(|turn| turn.time));
    for (place, (name, _)) in looked.iter().enumerate() {
        let buffers = an_event(turns, place, |used| used.buffers);
        bench.record_known(&format!("{figure}.{name}.buffers"), "pages an event", buffers);
        let wal = an_event(turns, place, |used| used.wal_bytes);
        bench.record_known(&format!("{figure}.{name}.wal"), "bytes an event", wal);
    }
}

fn buffers(turns: &[Turn]) -> Option<f64> {
    an_event(turns, 0, |used| used.buffers)
}

/// What the statements at this place took an event, over all turns.
fn an_event(turns: &[Turn], place: usize, part: fn(&Usage) -> f64) -> Option<f64> {
    let of = |turn: &Turn| turn.usage.get(place).and_then(Option::as_ref).map(part);
    let sum: f64 = turns.iter().map(of).sum::<Option<f64>>()?;
    let events: f64 = turns.iter().map(|turn| turn.events).sum();
    (events > 0.0).then(|| sum / events)
}

/// The median of the ratios of turns that were taken one after the other.
fn median_ratio(case: impl Iterator<Item = f64>, base: impl Iterator<Item = f64>) -> Option<f64> {
    median(case.zip(base).map(|(case, base)| case / base.max(1e-9)))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_neighbours_and_a_machine_that_slows_down_changes_nothing() {
        // Both sides take twice as long in the second half; one turn of the case had a hiccup.
        let (base, case) = ([10.0, 10.0, 20.0, 20.0, 20.0], [11.0, 11.0, 22.0, 900.0, 22.0]);
        let ratio = median_ratio(case.into_iter(), base.into_iter()).unwrap();
        assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn what_an_event_takes_is_the_sum_over_the_events_of_all_turns() {
        let turn = |events: f64, buffers: f64| Turn {
            events,
            time: 0.0,
            whole: 0.0,
            usage: vec![Some(Usage { buffers, ..Usage::default() })],
        };
        assert_eq!(buffers(&[turn(100.0, 200.0), turn(300.0, 400.0)]), Some(1.5));
        let unknown = Turn { usage: vec![None], ..turn(1.0, 1.0) };
        assert_eq!(buffers(&[turn(100.0, 200.0), unknown]), None);
    }
}
