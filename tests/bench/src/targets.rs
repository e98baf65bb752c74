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

const RATIO: &str = "ratio";

/// All targets, by number.
pub(crate) const TARGETS: &[Target] = &[
    target("drain", "drain.a.claims_to_marks", AtLeast(0.6), RATIO, "0 limit P to P0, ten events an aggregate"),
    target("drain", "drain.a.ratio", AtLeast(0.9), RATIO, "1a drain to min(P, B), ten events an aggregate"),
    target("drain", "drain.b.ratio", AtLeast(0.9), RATIO, "1b drain to min(P, B), every event its own"),
    target("drain", "drain.c.ratio", AtLeast(0.9), RATIO, "1c drain to min(P, B), Zipf"),
    target("drain", "drain.d.ratio", AtLeast(0.9), RATIO, "2 one hot aggregate to B1"),
    target("drain", "drain.d.pipelined_ratio", AtLeast(0.7), RATIO, "2 one hot aggregate pipelined to drain a"),
    target("growth", "growth.gated.poll_ratio", AtMost(2.0), RATIO, "3 empty poll, 500,000 gated to empty table"),
    target("growth", "growth.backlog.time_ratio", AtMost(1.2), RATIO, "3 claim time an event, backlog 10^6 to 10^4"),
    target(
        "growth",
        "growth.retained.time_ratio",
        AtMost(1.2),
        RATIO,
        "3 claim time an event, 5*10^6 retained to none",
    ),
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
        "growth.writer.kept_up",
        AtLeast(0.99),
        RATIO,
        "4 writer held: appended and published to 2,000 a second",
    ),
    target("growth", "growth.writer.p99_ratio", AtMost(2.0), RATIO, "4 writer held: claim p99 to without"),
    target("cost", "cost.wal.kept", AtMost(1_400.0), "bytes an event", "5 log of claim and acknowledge, kept"),
    target("cost", "cost.wal.deleted", AtMost(700.0), "bytes an event", "5 log of claim and acknowledge, deleted"),
    target("latency", "latency.in_process.confirmed.p50", AtMost(5.0), "ms", "6 commit to confirm, in process, p50"),
    target("latency", "latency.in_process.confirmed.p99", AtMost(30.0), "ms", "6 commit to confirm, in process, p99"),
    target("latency", "latency.cross_process.confirmed.p50", AtMost(10.0), "ms", "6 commit to confirm, by NOTIFY, p50"),
    target("append", "append.wakeup.cost", AtMost(0.05), "part", "7 what wake-up takes off 16 clients' appends"),
    target("idle", "idle.statements", AtMost(1.0), "a second", "8 statements of an idle relay"),
    target("idle", "idle.cpu", AtMost(0.005), "cores", "8 processor of an idle relay"),
    target("idle", "idle.resident", AtMost(40.0), "MiB", "8 memory of an idle relay"),
    target("order", "order.to_asked", AtLeast(1.0), RATIO, "9 four relays to min(8,000 a second, B)"),
    target("latency", "latency.in_process.received.p50", AtMost(2.5), "ms", "9 commit to consumer, in process, p50"),
    target("order", "order.postgres_cpu", AtMost(0.03), "s per 1,000", "9 four relays, processor of PostgreSQL"),
    target("noop", "noop.relay", AtLeast(43_000.0), "events/s", "9 publisher that answers at once (a stretch)"),
    target("cost", "cost.relay_cpu_ratio", AtMost(1.3), RATIO, "10 processor of the relay to loops B and P"),
    target("memory", "memory.backlog_ratio", AtMost(1.25), RATIO, "- peak memory, a whole backlog to a tenth of it"),
];
