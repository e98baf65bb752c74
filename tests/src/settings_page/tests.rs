//! The page as it is, and pages on which something is planted.

use serde_json::json;

use super::{Fact, Facts, Kind, facts, problems, rewritten};

const PAGE_TEXT: &str = include_str!("../../../docs/settings.md");

/// The page with another line for the key, and the number of that line.
fn changed(key: &str, change: impl Fn(&str) -> Option<String>) -> (usize, String) {
    let begin = format!("| `{key}` |");
    let at = PAGE_TEXT.lines().position(|line| line.starts_with(&begin)).expect("a line of the key");
    let lines = PAGE_TEXT.lines().enumerate();
    let lines = lines.filter_map(|(index, line)| if index == at { change(line) } else { Some(line.to_owned()) });
    (at + 1, lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// What is found when a text in the line of the key is another one.
fn problems_with(key: &str, old: &str, new: &str) -> Vec<String> {
    let (number, page) = changed(key, |line| {
        assert!(line.contains(old), "{line}");
        Some(line.replacen(old, new, 1))
    });
    let place = format!("docs/settings.md:{number}: ");
    let found = problems(&page, &facts().unwrap());
    found.into_iter().map(|problem| problem.strip_prefix(&place).expect("of this line").to_owned()).collect()
}

fn with_a_new_key(key: &str) -> Facts {
    let mut facts = facts().unwrap();
    facts.insert(key.to_owned(), Fact { kind: Kind::Integer, default: json!(7) });
    facts
}

#[test]
fn the_page_of_settings_says_what_the_types_say() {
    let facts = facts().unwrap();
    assert_eq!(problems(PAGE_TEXT, &facts), Vec::<String>::new());
    assert_eq!(rewritten(PAGE_TEXT, &facts), PAGE_TEXT);
    assert!(facts.len() > 100, "{} keys", facts.len());
}

#[test]
fn a_key_that_is_missing_on_the_page_is_found_and_written_without_a_meaning() {
    let (number, page) = changed("service.grace", |_| None);
    let facts = facts().unwrap();
    assert_eq!(problems(&page, &facts), ["docs/settings.md: service.grace is missing"]);
    let mended = rewritten(&page, &facts);
    let line = mended.lines().nth(number - 1).unwrap();
    assert_eq!(line, "| `service.grace` | duration | `25s` | | | `APP__SERVICE__GRACE` |");
    let left = problems(&mended, &facts);
    assert!(left[0].ends_with("service.grace has no meaning"), "{left:?}");
    assert!(left[1].contains("service.grace has a bound that cannot be tried"), "{left:?}");
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_field_that_a_type_gains_is_missing_on_the_page() {
    let facts = with_a_new_key("outbox.relay.planted");
    assert_eq!(problems(PAGE_TEXT, &facts), ["docs/settings.md: outbox.relay.planted is missing"]);
    let line = "\n| `outbox.relay.planted` | integer | 7 | | | `APP__OUTBOX__RELAY__PLANTED` |\n";
    assert!(rewritten(PAGE_TEXT, &facts).contains(line));
    let in_a_section_of_its_own = rewritten(PAGE_TEXT, &with_a_new_key("planted.key"));
    assert!(in_a_section_of_its_own.contains("\n\n## planted\n\n| key | type |"));
}

#[test]
fn a_key_that_the_types_do_not_have_is_found_and_taken_out() {
    let (number, page) = changed("service.grace", |line| Some(format!("{line}\n{}", line.replace("grace", "graec"))));
    let facts = facts().unwrap();
    assert_eq!(problems(&page, &facts), [format!("docs/settings.md:{}: there is no key service.graec", number + 1)]);
    assert_eq!(rewritten(&page, &facts), PAGE_TEXT);
}

#[test]
fn a_key_that_is_there_twice_is_found() {
    let (number, page) = changed("service.grace", |line| Some(format!("{line}\n{line}")));
    let found = problems(&page, &facts().unwrap());
    assert_eq!(found, [format!("docs/settings.md:{}: service.grace is there twice", number + 1)]);
}

#[test]
fn a_wrong_default_type_or_variable_is_found_and_mended() {
    for (key, old, new) in [
        ("service.grace", "`25s`", "`26s`"),
        ("service.grace", "| duration |", "| text |"),
        ("service.grace", "__GRACE`", "_GRACE`"),
        ("service.instance", "host name and process id", "`app`"),
        ("http.max_body_bytes", "262144", "262145"),
        ("database.url", "`postgres://localhost/", "`postgres://elsewhere/"),
        ("outbound.amqp.topology.binding_keys", "`[\"#\"]`", "`[]`"),
        ("telemetry.otlp.endpoint", "| none |", "| `http://host` |"),
        ("outbox.wakeup.enabled", "`true`", "`false`"),
    ] {
        let found = problems_with(key, old, new);
        assert!(found.len() == 1 && found[0].starts_with("by the types it must be | `"), "{key} {new}: {found:?}");
        let (_, page) = changed(key, |line| Some(line.replacen(old, new, 1)));
        assert_eq!(rewritten(&page, &facts().unwrap()), PAGE_TEXT);
    }
}

#[test]
fn a_bound_that_the_settings_do_not_hold_is_found() {
    for (key, old, new, words) in [
        ("service.grace", "10 min", "9 min", "is taken as \"540000000001ns\""),
        ("service.grace", "10 min", "11 min", "is refused as \"660000000000ns\""),
        ("service.grace", "1 s to", "2 s to", "is taken as \"1999999999ns\""),
        ("outbound.amqp.heartbeat", "1 h", "59 min", "is taken as \"3541000000000ns\""),
        ("outbox.relay.workers", "1 to 64", "1 to 65", "is refused as 65"),
        ("outbox.relay.max_run", "`max_events`", "`workers`", "is taken as 9"),
        ("outbox.retry.max_attempts", "1 or more", "0 or more", "is refused as 0"),
        ("telemetry.otlp.sample_ratio", "0 to 1", "0 to 2", "is refused as 2.0"),
        ("consumer.name", "1 to 100 bytes", "1 to 99 bytes", "is taken as \"x"),
        ("logs.format", "`text`, `json`", "`text`, `xml`", "takes exactly "),
        ("service.grace", "1 s to 10 min", "not too long", "has a bound that cannot be tried"),
        ("database.pgbouncer", "`false` | |", "`false` | 1 to 2 |", "has a bound that cannot be tried"),
    ] {
        let found = problems_with(key, old, new);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{key} {words}")), "{key} {new}: {found:?}");
    }
}

#[test]
fn values_to_try_of_a_key_that_is_gone_are_found() {
    let mut facts = facts().unwrap();
    facts.remove("logs.filter");
    let found = problems(PAGE_TEXT, &facts);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1], "logs.filter has values to try, and is no key");
}

#[test]
fn a_line_with_other_columns_is_found() {
    let (number, page) = changed("service.grace", |line| Some(line.replacen("| duration ", "", 1)));
    let found = problems(&page, &facts().unwrap());
    let words = format!("docs/settings.md:{number}: the columns must be | key | type |");
    assert!(found.len() == 2 && found[0].starts_with(&words), "{found:?}");
}
