//! The benchmarks, one file each.

mod append;
mod cost;
mod dead;
mod drain;
mod growth;
mod idle;
mod latency;
mod memory;
mod noop;
mod order;
mod scale;

use std::{pin::Pin, time::Duration};

use crate::{error::BenchError, runner::Bench};

/// One benchmark.
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// How long it may take in all.
    pub(crate) within: Duration,
    pub(crate) needs_broker: bool,
    pub(crate) run: Run,
}

type Run = for<'a> fn(&'a mut Bench<'_>) -> Pin<Box<dyn Future<Output = Result<(), BenchError>> + 'a>>;

/// All benchmarks, in the order in which they are run.
pub(crate) const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "drain",
        about: "one relay empties a backlog, against its limits",
        within: Duration::from_mins(20),
        needs_broker: true,
        run: |bench| Box::pin(drain::run(bench)),
    },
    Benchmark {
        name: "noop",
        about: "the same with a publisher that answers at once: the database's side alone",
        within: Duration::from_mins(4),
        needs_broker: false,
        run: |bench| Box::pin(noop::run(bench)),
    },
    Benchmark {
        name: "order",
        about: "four relays share 2,000 aggregates of ten events",
        within: Duration::from_mins(5),
        needs_broker: true,
        run: |bench| Box::pin(order::run(bench)),
    },
    Benchmark {
        name: "scale",
        about: "one, two and four relays; one, two and four workers",
        within: Duration::from_mins(8),
        needs_broker: true,
        run: |bench| Box::pin(scale::run(bench)),
    },
    Benchmark {
        name: "cost",
        about: "processor time, statements and log per event",
        within: Duration::from_mins(8),
        needs_broker: true,
        run: |bench| Box::pin(cost::run(bench)),
    },
    Benchmark {
        name: "latency",
        about: "commit to confirm and to the consumer at 200 events a second",
        within: Duration::from_mins(8),
        needs_broker: true,
        run: |bench| Box::pin(latency::run(bench)),
    },
    Benchmark {
        name: "append",
        about: "what an event and the wake-up add to a business transaction",
        within: Duration::from_mins(6),
        needs_broker: false,
        run: |bench| Box::pin(append::run(bench)),
    },
    Benchmark {
        name: "growth",
        about: "claims beside backlogs, history, gated events and open transactions",
        within: Duration::from_mins(25),
        needs_broker: false,
        run: |bench| Box::pin(growth::run(bench)),
    },
    Benchmark {
        name: "dead",
        about: "what an operator's requests cost beside a million DEAD events",
        within: Duration::from_mins(10),
        needs_broker: false,
        run: |bench| Box::pin(dead::run(bench)),
    },
    Benchmark {
        name: "memory",
        about: "the most memory of a relay, small and large backlogs and payloads",
        within: Duration::from_mins(12),
        needs_broker: true,
        run: |bench| Box::pin(memory::run(bench)),
    },
    Benchmark {
        name: "idle",
        about: "what a relay costs that has nothing to do",
        within: Duration::from_mins(4),
        needs_broker: true,
        run: |bench| Box::pin(idle::run(bench)),
    },
];
