//! The mapping from the template whose vocabulary this one keeps.

use super::{Index, rows};
use crate::{Report, markdown::codes, workspace::SourceFile};

/// The names that the mapping has to have a row for.
pub const MIRRORED: &[&str] = &[
    "OutboxAppendPort",
    "OutboxStorePort",
    "OutboxEvent",
    "NewOutboxEvent",
    "OutboxEventStatus",
    "PublishPendingOutboxEventsUseCase",
    "OutboxBackoffPolicy",
    "OutboxEventEntity",
    "OutboxStoreAdapter",
    "OutboxReaper",
    "OutboxClaimRepository",
    "PostgresOutboxClaimRepository",
    "OutboxEventRepository",
    "V3__outbox_event.sql",
    "OutboxMessagePublishAdapter",
    "DisabledOutboxMessagePublisher",
    "OutboxEnvelopeJson",
    "OutboxConfig",
    "OutboxSettings",
    "OutboxRelayScheduler",
    "OutboxMetrics",
    "OutboxLeaderElectionToken",
    "CreateWorkLog",
    "WorkLogReservedIntegrationEvent",
    "publish_pending_outbox_events_use_case",
    "outbox_backoff_policy",
    "new_outbox_event",
    "outbox_store_adapter",
    "outbox_reaper",
    "outbox_reaper_wiring",
    "outbox_row_lifecycle_contract",
    "outbox_publisher_leader_election_contract",
    "outbox_append_transactional_contract",
    "outbox_status_registry_contract",
    "event_payload_pii_contract",
    "outbox_message_publish_adapter",
    "create_work_log_outbox",
];

/// Checks the table `their name | our path | our item | our test`, and that it has a row for each name.
#[must_use]
pub fn check_mapping(document: &SourceFile, index: &Index, names: &[&str]) -> Report {
    let mut report = Report::default();
    let rows = rows(document, ["their name", "our path", "our item", "our test"]);
    for name in names {
        if !rows.iter().any(|([theirs, ..], row)| codes(row.cell(*theirs)).contains(name)) {
            report.problem(format!("{}: no row for {name}", document.path));
        }
    }
    for ([theirs, path, item, test], row) in &rows {
        let mut wrong = |what: String| {
            let name = row.cell(*theirs);
            report.problem(format!("{}:{}: {name}: {what}", document.path, row.line));
        };
        let (paths, items, tests) = (codes(row.cell(*path)), codes(row.cell(*item)), codes(row.cell(*test)));
        for (column, codes) in [("path", &paths), ("item", &items), ("test", &tests)] {
            if codes.is_empty() {
                wrong(format!("names no {column}"));
            }
        }
        let gone: Vec<&&str> = paths.iter().filter(|path| !index.has_path(path)).collect();
        for path in &gone {
            wrong(format!("no file `{path}`"));
        }
        let defined = |item: &str| paths.iter().any(|path| index.defines(path, item));
        for item in items.iter().filter(|item| gone.is_empty() && !defined(item)) {
            wrong(format!("`{item}` is not defined in {}", row.cell(*path)));
        }
        for test in tests.iter().filter(|test| !index.has_test(test)) {
            wrong(format!("no test `{test}`"));
        }
    }
    report.looked_at("mapped names", rows.len());
    report
}

#[cfg(test)]
mod tests {
    use super::check_mapping;
    use crate::names::fixture::{document, index};

    const HEADER: &str = "| Their name | Our path | Our item | Our test |\n| --- | --- | --- | --- |\n";

    fn problems(rows: &str) -> Vec<String> {
        check_mapping(&document(&format!("{HEADER}{rows}")), &index(), &["BackoffPolicy"]).problems().to_vec()
    }

    #[test]
    fn real_names_pass() {
        let rows = "| `BackoffPolicy` | `crates/core/src/outbox/backoff.rs` | `Backoff` | `backoff::*`, `it_grows` |\n\
                    | `V3` | `migrations/V3__event.sql` | `outbox_event` | `claims_once` |\n";
        assert_eq!(problems(rows), Vec::<String>::new());
    }

    #[test]
    fn wrong_path_item_and_test_are_told_at_once() {
        assert_eq!(
            problems(
                "| `BackoffPolicy` | `crates/core/src/backoff.rs` | `Backoff` | `it_grow` |\n\
                 | `Other` | `crates/core/src/outbox/backoff.rs` | `Backof` | `it_grow` |\n"
            ),
            [
                "docs/page.md:3: `BackoffPolicy`: no file `crates/core/src/backoff.rs`",
                "docs/page.md:3: `BackoffPolicy`: no test `it_grow`",
                "docs/page.md:4: `Other`: `Backof` is not defined in `crates/core/src/outbox/backoff.rs`",
                "docs/page.md:4: `Other`: no test `it_grow`",
            ]
        );
    }

    #[test]
    fn item_of_another_file_fails() {
        assert_eq!(
            problems("| `BackoffPolicy` | `tests/contract/store.rs` | `Backoff` | `it_grows` |\n"),
            ["docs/page.md:3: `BackoffPolicy`: `Backoff` is not defined in `tests/contract/store.rs`"]
        );
    }

    #[test]
    fn empty_cell_fails() {
        assert_eq!(
            problems("| `BackoffPolicy` | `tests/contract/store.rs` | `store` | later |\n"),
            ["docs/page.md:3: `BackoffPolicy`: names no test"]
        );
    }

    #[test]
    fn missing_row_and_empty_table_fail() {
        assert_eq!(
            problems(""),
            ["docs/page.md: no row for BackoffPolicy", "looked at no mapped names: the rule cannot hold"]
        );
    }
}
