//! The targets, each with the figure whose median is held against it.

use crate::figures::Bound::{self, AtLeast, AtMost};

/// What is asked of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) benchmark: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

const fn target(
    benchmark: &'static str,
    figure: &'static str,
    bound: Bound,
    unit: &'static str,
    name: &'static str,
) -> Target {
    Target { name, benchmark, figure, bound, unit }
}

/// Plans of a call beside millions of events must not read the table of events from end to end.
const fn sequential(figure: &'static str, name: &'static str) -> Target {
    target("growth", figure, AtMost(0.0), "scans", name)
}

const RATIO: &str = "ratio";

/// All targets, by number: the first word of the name, by which the book says what stands in the way of one.
pub(crate) const TARGETS: &[Target] = &[
    target("drain", "drain.a.claims_to_marks", AtLeast(0.6), RATIO, "0 limit P to P0, ten events an aggregate"),
    target("drain", "drain.b.claims_to_marks", AtLeast(0.6), RATIO, "0 limit P to P0, every event its own"),
    target("drain", "drain.c.claims_to_marks", AtLeast(0.6), RATIO, "0 limit P to P0, Zipf"),
    target("drain", "drain.a.ratio", AtLeast(0.9), RATIO, "1a drain to min(P, B), ten events an aggregate"),
    target("drain", "drain.b.ratio", AtLeast(0.9), RATIO, "1b drain to min(P, B), every event its own"),
    target("drain", "drain.c.ratio", AtLeast(0.9), RATIO, "1c drain to min(P, B), Zipf"),
    target("drain", "drain.d.ratio", AtLeast(0.9), RATIO, "2 one hot aggregate to B1"),
    target("drain", "drain.d.pipelined_ratio", AtLeast(0.7), RATIO, "2 one hot aggregate pipelined to drain a"),
    target("growth", "growth.gated.poll_ratio", AtMost(2.0), RATIO, "3 empty poll, 500,000 gated to empty table"),
    target(
        "growth",
        "growth.backlog.1_000_000.time_ratio",
        AtMost(1.2),
        RATIO,
        "3 claim time an event, backlog 10^6 to 10^4",
    ),
    target(
        "growth",
        "growth.retained.5_000_000.time_ratio",
        AtMost(1.2),
        RATIO,
        "3 claim time an event, 5*10^6 retained to none",
    ),
    sequential("growth.plans.claim.sequential", "3 claim beside 5*10^6 retained, scans of the whole table"),
    sequential("growth.plans.acknowledge.sequential", "3 acknowledge, scans of the whole table"),
    sequential("growth.plans.reap.sequential", "3 reap, scans of the whole table"),
    sequential("growth.plans.clean_up.sequential", "3 clean-up, scans of the whole table"),
    sequential("growth.plans.statistics.sequential", "3 statistics, scans of the whole table"),
    sequential("growth.plans.list.sequential", "3 lists, scans of the whole table"),
    target(
        "growth",
        "growth.snapshot.kept_up",
        AtLeast(0.99),
        RATIO,
        "4 snapshot held: appended and published to 2,000 a second",
    ),
    target("growth", "growth.snapshot.p99_ratio", AtMost(2.0), RATIO, "4 snapshot held: claim p99 to without"),
    target(
        "growth",
        "growth.snapshot.found.p99_ratio",
        AtMost(2.0),
        RATIO,
        "4 snapshot held: p99 of claims that found events to without",
    ),
    target(
        "growth",
        "growth.writer.kept_up",
        AtLeast(0.99),
        RATIO,
        "4 writer held: appended and published to 2,000 a second",
    ),
    target("growth", "growth.writer.p99_ratio", AtMost(2.0), RATIO, "4 writer held: claim p99 to without"),
    target(
        "growth",
        "growth.writer.found.p99_ratio",
        AtMost(2.0),
        RATIO,
        "4 writer held: p99 of claims that found events to without",
    ),
    target("cost", "cost.wal.kept", AtMost(1_400.0), "bytes an event", "5 log of claim and acknowledge, kept"),
    target("cost", "cost.wal.deleted", AtMost(700.0), "bytes an event", "5 log of claim and acknowledge, deleted"),
    target("latency", "latency.in_process.confirmed.p50", AtMost(5.0), "ms", "6 commit to confirm, in process, p50"),
    target("latency", "latency.in_process.confirmed.p99", AtMost(30.0), "ms", "6 commit to confirm, in process, p99"),
    target("latency", "latency.cross_process.confirmed.p50", AtMost(10.0), "ms", "6 commit to confirm, by NOTIFY, p50"),
    target("append", "append.wakeup.cost.16", AtMost(0.05), "part", "7 what wake-up takes off 16 clients' appends"),
    target("idle", "idle.statements", AtMost(1.0), "a second", "8 statements of an idle relay"),
    target("idle", "idle.cpu", AtMost(0.005), "cores", "8 processor of an idle relay"),
    target("idle", "idle.resident", AtMost(40.0), "MiB", "8 memory of an idle relay"),
    target("order", "order.to_asked", AtLeast(1.0), RATIO, "9 four relays to min(8,000 a second, B)"),
    target("latency", "latency.in_process.received.p50", AtMost(2.5), "ms", "9 commit to consumer, in process, p50"),
    target("order", "order.postgres_cpu", AtMost(0.03), "s per 1,000", "9 four relays, processor of PostgreSQL"),
    target("noop", "noop.relay", AtLeast(43_000.0), "events/s", "9 publisher that answers at once (a stretch)"),
    target("cost", "cost.relay_cpu_ratio", AtMost(1.3), RATIO, "10 processor of the relay to loops B and P"),
    target("memory", "memory.backlog_ratio", AtMost(1.25), RATIO, "11 peak memory, a whole backlog to a tenth of it"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::TARGETS;
    use crate::benchmarks::BENCHMARKS;

    #[test]
    fn every_target_has_a_number_a_name_of_its_own_and_a_figure_of_its_benchmark() {
        let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(names.len(), TARGETS.len());
        for target in TARGETS {
            assert!(target.name.starts_with(|c: char| c.is_ascii_digit()), "{}", target.name);
            assert!(target.figure.starts_with(&format!("{}.", target.benchmark)), "{}", target.figure);
            assert!(BENCHMARKS.iter().any(|benchmark| benchmark.name == target.benchmark), "{}", target.benchmark);
        }
    }
}
