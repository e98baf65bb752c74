//! A report of the benchmarks as a section of the book.

use serde_json::Value;

use crate::markdown;

const BEGIN: &str = "<!-- results: written by `cargo xtask bench --write-docs FILE` -->";
const END: &str = "<!-- end of results -->";

/// What is written between the marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) text: String,
    /// Targets that are missed and of which the page says nothing under `Target NUMBER`.
    pub(super) unexplained: Vec<String>,
}

/// The page with other results between the lines that mark them, and everything else as it was; `None` if it has no such
/// lines.
pub(super) fn replace(page: &str, results: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{results}\n{END}{after}"))
}

/// Conditions, targets and figures of a report; `None` if it is none. A missed target leads to what the page says of it:
/// the heading `Target` and its number, which is the first word of its name. What was measured under other conditions
/// than the rest is marked.
pub(super) fn render(report: &str, page: &str) -> Option<Results> {
    let report: Value = serde_json::from_str(report).ok()?;
    let anchors: Vec<String> = markdown::anchors(page).collect();
    let mut unexplained = Vec::new();
    let mut lines = conditions(report.get("conditions")?)?;
    lines.extend([String::new(), "### Targets".to_owned(), String::new()]);
    lines.extend(table(&["target", "value", "bound", "unit", "holds"]));
    for line in report.get("summary")?.as_array()? {
        let name = text(line, "name")?;
        let explanation = format!("target-{}", name.split_whitespace().next().unwrap_or_default());
        let holds = if line.get("holds")?.as_bool()? {
            "yes".to_owned()
        } else if anchors.contains(&explanation) {
            format!("**[no](#{explanation})**")
        } else {
            unexplained.push(name.to_owned());
            "**no**".to_owned()
        };
        let value = line.get("value").and_then(Value::as_f64).map_or_else(|| "none".to_owned(), readable);
        let apart = stands_apart(&report, name).map(|benchmark| format!("{name} ([other conditions](#{benchmark}))"));
        let name = apart.as_deref().unwrap_or(name);
        lines.push(row(&[name, &value, text(line, "target")?, text(line, "unit")?, &holds]));
    }
    for outcome in report.get("benchmarks")?.as_array()? {
        let name = text(outcome, "benchmark")?;
        lines.extend([String::new(), format!("### {name}"), String::new()]);
        let number = |key: &str| outcome.get(key).and_then(Value::as_f64).map_or_else(|| "?".to_owned(), readable);
        let busy = outcome.get("busy_before").and_then(Value::as_f64).unwrap_or(f64::NAN) * 100.0;
        lines.push(format!(
            "Begun {}{}, {} s; before it load average {}, processors {busy:.0} % busy.",
            text(outcome, "begun")?,
            outcome
                .pointer("/conditions/commit")
                .map(|commit| format!(", commit {}", code(commit)))
                .unwrap_or_default(),
            number("took"),
            number("load_average")
        ));
        if let Some(differs) = differs(outcome) {
            lines.extend([String::new(), format!("**Other conditions than the rest**: {differs}.")]);
        }
        if let Some(failure) = outcome.get("failure").and_then(Value::as_str) {
            let first = failure.lines().next().unwrap_or_default();
            lines.extend([String::new(), format!("**Failed, so nothing below counts**: {first}")]);
        }
        lines.push(String::new());
        lines.extend(table(&["figure", "median", "min", "max", "runs", "unit"]));
        let own = |line: &&Value| line.get("benchmark").and_then(Value::as_str) == Some(name);
        for line in report.get("figures")?.as_array()?.iter().filter(own) {
            let figure = format!("`{}`", text(line, "figure")?);
            let [median, min, max] = ["median", "min", "max"].map(|key| line.get(key).and_then(Value::as_f64));
            let runs = line.get("runs")?.to_string();
            lines.push(row(&[
                &figure,
                &readable(median?),
                &readable(min?),
                &readable(max?),
                &runs,
                text(line, "unit")?,
            ]));
        }
    }
    Some(Results { text: lines.join("\n") + "\n", unexplained })
}

/// In what the conditions of a benchmark differ from those of the report.
fn differs(outcome: &Value) -> Option<String> {
    let differs: Vec<&str> = outcome.get("differs")?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!differs.is_empty()).then(|| differs.join("; "))
}

/// The benchmark that a target's figure is from, if its conditions are not those of the report.
fn stands_apart<'a>(report: &'a Value, target: &str) -> Option<&'a str> {
    let has = |outcome: &&Value| {
        let targets = outcome.get("targets").and_then(Value::as_array);
        targets.is_some_and(|targets| targets.iter().any(|name| name.as_str() == Some(target)))
    };
    let outcome = report.get("benchmarks")?.as_array()?.iter().find(has)?;
    differs(outcome).and_then(|_| text(outcome, "benchmark"))
}

fn code(value: &Value) -> String {
    format!("`{}`", value.as_str().unwrap_or("unknown"))
}

fn conditions(conditions: &Value) -> Option<Vec<String>> {
    let settings = conditions.get("postgres_settings")?.as_array()?.iter().filter_map(|pair| {
        let (name, value) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
        Some(format!("`{name} = {value}`"))
    });
    let release = conditions.get("release_build")?.as_bool()?;
    let quick = conditions.get("quick")?.as_bool()?;
    let mut lines = vec![
        format!(
            "- Begun {}, {} build{}.",
            text(conditions, "date")?,
            if release { "release" } else { "**debug**" },
            conditions.get("commit").map(|commit| format!(" of commit {}", code(commit))).unwrap_or_default()
        ),
        format!(
            "- {}, {} cores, {} MiB, Linux {}.",
            text(conditions, "processor")?,
            conditions.get("cores")?,
            conditions.get("memory_mib")?,
            text(conditions, "kernel")?
        ),
        format!(
            "- PostgreSQL {} and RabbitMQ {} on the same host.",
            text(conditions, "postgres")?,
            text(conditions, "rabbitmq")?
        ),
        format!("- {}.", settings.collect::<Vec<_>>().join(", ")),
        format!("- {}.", text(conditions, "relay")?),
    ];
    if quick {
        lines.push("- **Quick**: sizes cut down, one round; these figures say nothing.".to_owned());
    }
    Some(lines)
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn table(titles: &[&str]) -> [String; 2] {
    [row(titles), row(&vec!["---"; titles.len()])]
}

fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Three digits that matter.
fn readable(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, Results, replace};

    const REPORT: &str = r#"{
        "conditions": {"date": "2026-01-02T03:04:05Z", "processor": "P", "cores": 2, "memory_mib": 4096, "kernel": "6",
            "postgres": "15.5", "postgres_settings": [["fsync", "on"]], "rabbitmq": "3.10.8", "relay": "relay: 2 workers",
            "release_build": true, "quick": false},
        "benchmarks": [{"benchmark": "noop", "begun": "2026-01-02T03:05:00Z", "load_average": 0.5, "busy_before": 0.02,
            "took": 12.3, "failure": null}],
        "runs": [],
        "figures": [{"benchmark": "noop", "figure": "noop.relay", "unit": "events/s", "median": 20000.0, "min": 19000.0,
            "max": 21000.5, "runs": 3}],
        "summary": [{"name": "a", "value": null, "target": "≥ 1", "unit": "ratio", "holds": false}]
    }"#;

    fn render(report: &str) -> Option<String> {
        super::render(report, "").map(|results| results.text)
    }

    #[test]
    fn missed_target_leads_to_what_the_page_says_of_it() {
        let report = REPORT.replace(r#""name": "a""#, r#""name": "1b drain""#);
        let row = |results: &Results| results.text.lines().find(|line| line.starts_with("| 1b ")).unwrap().to_owned();
        let explained = super::render(&report, "# Page\n\n### Target 1b\n\nProcessors.\n").unwrap();
        assert_eq!(row(&explained), "| 1b drain | none | ≥ 1 | ratio | **[no](#target-1b)** |");
        assert_eq!(explained.unexplained, Vec::<String>::new());
        let silent = super::render(&report, "# Page\n\n### Target 1\n").unwrap();
        assert_eq!(row(&silent), "| 1b drain | none | ≥ 1 | ratio | **no** |");
        assert_eq!(silent.unexplained, ["1b drain"]);
    }

    #[test]
    fn benchmark_under_other_conditions_is_marked_and_so_are_its_targets() {
        let mixed = REPORT.replace(
            r#""failure": null"#,
            r#""failure": null, "conditions": {"commit": "new"}, "differs": ["commit new instead of old"], "targets": ["a"]"#,
        );
        let text = render(&mixed).unwrap();
        for line in [
            "| a ([other conditions](#noop)) | none | ≥ 1 | ratio | **no** |",
            "**Other conditions than the rest**: commit new instead of old.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains("Begun 2026-01-02T03:05:00Z, commit `new`, 12.3 s"), "{text}");
        assert!(!render(REPORT).unwrap().contains("ther conditions"));
    }

    #[test]
    fn report_becomes_conditions_targets_and_figures() {
        let text = render(REPORT).unwrap();
        for line in [
            "- P, 2 cores, 4096 MiB, Linux 6.",
            "- `fsync = on`.",
            "| a | none | ≥ 1 | ratio | **no** |",
            "| `noop.relay` | 20000 | 19000 | 21000 | 3 | events/s |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("Failed"));
    }

    #[test]
    fn failed_benchmark_is_marked() {
        let failed = REPORT.replace(r#""failure": null"#, r#""failure": "two events were lost\nmore""#);
        assert!(render(&failed).unwrap().contains("**Failed, so nothing below counts**: two events were lost\n"));
    }

    #[test]
    fn what_is_no_report_gives_nothing() {
        assert_eq!((render("{}"), render("nonsense")), (None, None));
    }

    #[test]
    fn only_the_marked_part_of_the_page_is_replaced() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let once = replace(&page, "new\n").unwrap();
        assert_eq!(once, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(replace(&once, "new\n").unwrap(), once, "writing the same again changes nothing");
        assert_eq!(replace("no marks", "new"), None);
    }
}
