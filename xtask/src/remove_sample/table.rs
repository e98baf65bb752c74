//! Where the sample is.

/// The sample's crate.
pub(super) const SAMPLE: &str = "crates/sample-portfolio";

/// Files and folders that go: the sample, and the tests and the demo that work by its HTTP routes.
pub(super) const FILES: &[&str] = &[
    SAMPLE,
    "crates/app-bootstrap/src/contexts/portfolio.rs",
    "docs/tutorial.ko.md",
    "docs/tutorial.md",
    "docs/events/asyncapi.json",
    "docs/events/golden/WorkLogCancelled.v1.json",
    "docs/events/golden/WorkLogCompleted.v1.json",
    "docs/events/golden/WorkLogReserved.v1.json",
    "docs/events/golden/WorkLogStarted.v1.json",
    "docs/events/schemas/WorkLogCancelled.v1.json",
    "docs/events/schemas/WorkLogCompleted.v1.json",
    "docs/events/schemas/WorkLogReserved.v1.json",
    "docs/events/schemas/WorkLogStarted.v1.json",
    "migrations/app/V1__work_log.sql",
    "migrations/app/V2__work_log_idempotency.sql",
    "migrations/app/V3__portfolio_minutes.sql",
    "tests/chaos",
    "tests/src/bin/chaos.rs",
    "tests/src/bin/demo.rs",
    "tests/src/chaos",
    "tests/src/chaos.rs",
    "tests/src/demo",
    "tests/src/demo.rs",
    "tests/src/work_load.rs",
    "tests/system/contexts/portfolio.rs",
    "tests/system/demo.rs",
    "tests/system/faults.rs",
    "tests/system/doctor.rs",
    "tests/system/inbox_over_http.rs",
    "tests/system/runbooks",
    "tests/system/runbooks.rs",
    "tests/system/operations.rs",
    "tests/system/operators.rs",
    "tests/system/pages.rs",
    "tests/system/outbox_reaper_wiring.rs",
    "tests/system/relays.rs",
    "tests/system/sample_routes.rs",
    "tests/system/stopping.rs",
    "tests/system/tls.rs",
    "tests/system/traces",
    "tests/system/traces.rs",
    "tests/system/world.rs",
    "xtask/src/chaos.rs",
    "xtask/src/demo.rs",
];

/// Of a file an entry of a list.
pub(super) const LISTS: &[(&str, &str)] = &[
    ("crates/app-bootstrap/src/contexts.rs", "portfolio::CONTEXT"),
    ("xtask/src/arch/table.rs", "\"sample-portfolio\""),
];

/// Of a file the one text that goes, and what stands there instead.
pub(super) const EDITS: &[(&str, &str, &str)] = &[
    ("Cargo.toml", "sample-portfolio = { path = \"crates/sample-portfolio\" }\n", ""),
    ("crates/app-bootstrap/Cargo.toml", "sample-portfolio.workspace = true\n", ""),
    ("crates/app-bootstrap/src/contexts.rs", "mod portfolio;\n", ""),
    ("tests/src/lib.rs", "pub mod chaos;\npub mod demo;\n", ""),
    ("tests/src/lib.rs", "pub mod work_load;\n", ""),
    (
        "tests/src/lib.rs",
        "What the contract tests, the system tests, the demo and chaos share: processes of the binary, load, a tap on the exchange.",
        "What contract tests, system tests and benchmarks share: processes of the binary, waiting, a tap on the exchange.",
    ),
    (
        "tests/system/main.rs",
        "mod demo;\nmod doctor;\nmod faults;\nmod inbox_over_http;\nmod operations;\nmod operators;\nmod outbox_reaper_wiring;\nmod pages;\nmod relays;\nmod runbooks;\nmod sample_routes;\nmod stopping;\nmod tls;\nmod traces;\nmod world;\n",
        "",
    ),
    ("tests/system/contexts.rs", "\nmod portfolio;\n", "\n"),
    ("xtask/src/command.rs", "    crate::chaos::COMMAND,\n", ""),
    ("xtask/src/command.rs", "    crate::demo::COMMAND,\n", ""),
    ("xtask/src/lib.rs", "pub mod chaos;\n", ""),
    ("xtask/src/lib.rs", "pub mod demo;\n", ""),
    ("xtask/src/names/mapping.rs", "    \"CreateWorkLog\",\n    \"WorkLogReservedIntegrationEvent\",\n", ""),
    ("xtask/src/names/mapping.rs", "    \"create_work_log_outbox\",\n", ""),
    (
        "README.md",
        "cargo xtask demo    # two service processes, one is killed in mid-flight, ends with a table of what arrived\n",
        "",
    ),
    ("README.md", "## Two commands", "## One command"),
    ("README.md", "Both commands bring PostgreSQL and RabbitMQ themselves", "It brings PostgreSQL and RabbitMQ itself"),
    (
        "README.md",
        "installed server binaries; on Debian and Ubuntu they can",
        "installed server binaries; on Debian and Ubuntu it can",
    ),
    (
        "README.md",
        "curl -i -X POST localhost:8080/portfolios/8b8ad1f5-9a5c-4d0e-9d63-6a3a6f0f7a11/work-logs \\\n  \
         -H 'content-type: application/json' -H 'idempotency-key: 1' \\\n  \
         -d '{\"title\":\"Write the first page\",\"plannedMinutes\":30}'\n",
        "",
    ),
    (
        "README.md",
        "curl localhost:8080/portfolios/8b8ad1f5-9a5c-4d0e-9d63-6a3a6f0f7a11/minutes   # the consumer's effect\n",
        "",
    ),
    ("README.md", "    boot --> sample[\"sample-portfolio: the domain to replace\"]\n", ""),
    ("README.md", "    sample --> core\n", ""),
    ("docs/SUMMARY.md", "- [Ten minutes: your first own event](tutorial.md)\n- [10분 튜토리얼](tutorial.ko.md)\n", ""),
    (
        "docs/README.md",
        "| [Ten minutes](tutorial.md) ([한국어](tutorial.ko.md)) | from a clone to your first own event |\n",
        "",
    ),
    ("docs/architecture.md", "    boot --> sample[sample-portfolio]\n", ""),
    (
        "docs/architecture.md",
        "    sample --> core\n    sample -. its integration events only .-> events\n    sample -. its adapter module only .-> pg\n",
        "",
    ),
    (
        "docs/architecture.md",
        "| `tests` | contract and system tests, the demo, chaos |",
        "| `tests` | contract and system tests |",
    ),
];
