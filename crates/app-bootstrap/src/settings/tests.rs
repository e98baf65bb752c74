//! Layers of settings, their problems, and what is shown of them.

mod any_source;

use std::{collections::BTreeMap, fs, time::Duration};

use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::{Settings, SettingsError, Sources};

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The profile `test` with this file, and these variables.
fn sources(file: &str, variables: &[(&str, &str)]) -> (TempDir, Sources) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("test.toml"), file).unwrap();
    let (path, profile) = (directory.path().to_owned(), "test".to_owned());
    (
        directory,
        Sources { file: None, directory: path, profile, environment: environment(variables), not_text: Vec::new() },
    )
}

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let (_directory, sources) = sources(file, variables);
    sources.load()
}

fn problems(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    match load(file, variables) {
        Err(SettingsError::Invalid(problems)) => problems.into_iter().map(|problem| problem.key).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_any_source_the_defaults_hold() {
    let settings = Sources::default().load().unwrap();
    assert_eq!(settings.outbox, Settings::default().outbox);
    assert_eq!(settings.http, Settings::default().http);
}

#[test]
fn the_file_goes_over_the_defaults_and_the_environment_over_the_file() {
    let file = "[outbox.relay]\nworkers = 5\nmax_run = 50\n[outbox.retry]\nmax_attempts = 7\n";
    let settings = load(file, &[("APP__OUTBOX__RELAY__WORKERS", "9"), ("APP__HTTP__REQUEST_TIMEOUT", "3s")]).unwrap();
    assert_eq!(settings.outbox.relay.workers, 9, "of the environment");
    assert_eq!(settings.outbox.relay.max_run, 50, "of the file");
    assert_eq!(settings.outbox.retry.max_attempts, 7, "of the file");
    assert_eq!(settings.outbox.relay.window, Settings::default().outbox.relay.window, "of the defaults");
    assert_eq!(settings.http.request_timeout, Duration::from_secs(3), "of the environment");
}

#[test]
fn the_file_of_a_profile_may_be_missing_and_one_that_was_asked_for_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut sources =
        Sources { directory: directory.path().to_owned(), profile: "absent".to_owned(), ..Sources::default() };
    assert!(sources.load().is_ok());
    let file = directory.path().join("asked-for.toml");
    sources.file = Some(file.clone());
    match sources.load() {
        Err(SettingsError::Unreadable { file: named, .. }) => assert_eq!(named, file),
        other => panic!("{other:?}"),
    }
    fs::write(&file, "[outbox.relay]\nworkers = 4\n").unwrap();
    assert_eq!(sources.load().unwrap().outbox.relay.workers, 4);
}

#[test]
fn customary_names_of_urls_count_and_the_specific_variable_wins() {
    let both = [("DATABASE_URL", "postgres://db/a"), ("AMQP_URL", "amqp://mq/a")];
    let settings = load("[database]\nurl = \"postgres://file/a\"\n", &both).unwrap();
    assert_eq!(settings.database.url.expose_secret(), "postgres://db/a");
    assert_eq!(settings.outbound.amqp.url.expose_secret(), "amqp://mq/a");
    assert_eq!(settings.consumer.url.expose_secret(), "amqp://mq/a");
    let specific = [
        ("DATABASE_URL", "postgres://db/a"),
        ("AMQP_URL", "amqp://mq/a"),
        ("APP__DATABASE__URL", "postgres://db/b"),
        ("APP__CONSUMER__URL", "amqp://mq/b"),
    ];
    let settings = load("", &specific).unwrap();
    assert_eq!(settings.database.url.expose_secret(), "postgres://db/b");
    assert_eq!(settings.outbound.amqp.url.expose_secret(), "amqp://mq/a");
    assert_eq!(settings.consumer.url.expose_secret(), "amqp://mq/b");
}

#[test]
fn an_empty_variable_counts_as_none() {
    let settings = load("[outbox.relay]\nworkers = 5\n", &[("APP__OUTBOX__RELAY__WORKERS", "")]).unwrap();
    assert_eq!(settings.outbox.relay.workers, 5);
}

const OVERRIDES: &str =
    r#"[{aggregate_type = "invoice", exchange = "money"}, {event_type = "Paid", routing_key = "paid"}]"#;

#[test]
fn lists_are_set_from_the_environment_as_they_stand_in_a_file() {
    let file = "[outbox.dead_head]\nskip = [\"a\"]\n[outbound.amqp.topology]\nbinding_keys = [\"file\"]\n";
    let variables = [
        ("APP__OUTBOX__DEAD_HEAD__SKIP", r#"["work-log", "a,b"]"#),
        ("APP__OUTBOUND__AMQP__TOPOLOGY__BINDING_KEYS", ""),
        ("APP__OUTBOUND__ROUTE__OVERRIDES", OVERRIDES),
        ("APP__OUTBOX__RELAY__WORKERS", "3"),
    ];
    let settings = load(file, &variables).unwrap();
    assert_eq!(settings.outbox.dead_head.skip, ["work-log", "a,b"]);
    assert_eq!(settings.outbound.amqp.topology.binding_keys, ["file"], "an empty variable counts as none");
    assert_eq!(settings.outbox.relay.workers, 3);
    let of_file: Settings = toml::from_str(&format!("[outbound.route]\noverrides = {OVERRIDES}\n")).unwrap();
    assert_eq!(settings.outbound.route, of_file.outbound.route);
    let none = load(file, &[("APP__OUTBOX__DEAD_HEAD__SKIP", "[]")]).unwrap();
    assert!(none.outbox.dead_head.skip.is_empty());
}

#[test]
fn a_variable_that_is_no_list_is_a_problem_of_its_key() {
    for text in ["work-log", "\"work-log\"", "[work-log]", "[1", "{a = 1}", "7"] {
        let found = problems("", &[("APP__OUTBOX__DEAD_HEAD__SKIP", text), ("APP__SERVICE__GRACE", "1h")]);
        assert_eq!(found, ["outbox.dead_head.skip", "service.grace"], "{text}");
    }
    let error = load("", &[("APP__OUTBOX__DEAD_HEAD__SKIP", "work-log")]).unwrap_err().to_string();
    assert!(error.contains("outbox.dead_head.skip is \"work-log\", but it must be a list as in a file"), "{error}");
}

#[test]
fn every_list_of_the_settings_can_be_set_from_the_environment() {
    fn lists(table: &toml::Table, path: &str, found: &mut Vec<String>) {
        for (name, value) in table {
            match value {
                toml::Value::Array(_) => found.push(format!("{path}{name}")),
                toml::Value::Table(inner) => lists(inner, &format!("{path}{name}."), found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    lists(&toml::from_str(&Settings::default().redacted().unwrap()).unwrap(), "", &mut found);
    found.sort();
    let mut known = super::load::LISTS;
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn a_list_is_not_taken_for_the_keys_of_a_section() {
    let file = "http = [\"127.0.0.1:1\", 1024, 1, \"1s\"]\n[outbound.route]\noverrides = [[\"a\", \"b\"]]\n";
    let mut found = problems(file, &[]);
    found.sort();
    assert_eq!(found, ["http", "outbound.route.overrides"]);
}

#[test]
fn one_run_names_every_problem_by_its_key() {
    let file = "\
        surplus = 1\n\
        [outbox.relay]\nworkers = 0\nlease = \"soon\"\nwrokers = 3\n\
        [outbox.retry]\nfloor = \"1min\"\nbase = \"1s\"\n\
        [http]\nmax_connections = 0\n";
    let mut found = problems(file, &[("APP__SERVICE__GRACE", "1h"), ("APP__OUTBOUND__PUBLISHER", "carrier-pigeon")]);
    found.sort();
    assert_eq!(
        found,
        [
            "http.max_connections",
            "outbound.publisher",
            "outbox.relay.lease",
            "outbox.relay.workers",
            "outbox.relay.wrokers",
            "outbox.retry",
            "service.grace",
            "surplus"
        ]
    );
}

#[test]
fn a_misspelt_variable_is_an_unknown_key() {
    assert_eq!(problems("", &[("APP__OUTBOX__RELAY__WROKERS", "3")]), ["outbox.relay.wrokers"]);
}

#[test]
fn the_text_of_the_error_lists_the_problems_one_a_line() {
    let error = load("[outbox.relay]\nworkers = 0\n[http]\nmax_connections = 0\n", &[]).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("2 problems in the settings\n"), "{text}");
    assert!(text.contains("outbox.relay.workers") && text.contains("http.max_connections"), "{text}");
}

#[test]
fn a_secret_under_a_key_that_takes_no_such_value_is_not_told() {
    let secret = "postgres://user:hush \"'\\@db/app";
    for name in ["APP__CONSUMER__CONCURRENCY", "APP__SERVICE__GRACE", "APP__OUTBOUND__PUBLISHER", "APP__DATABASE"] {
        let error = load("", &[(name, secret)]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"), "{name}: {error:?}");
    }
    let error = load("[outbox]\nrelay = \"hush-0123456789\"\n", &[]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
}

#[test]
fn what_is_shown_of_the_settings_has_no_secret_and_reads_back() {
    let secrets = [
        ("APP__DATABASE__URL", "postgres://user:hush-1@db/app"),
        ("APP__DATABASE__DIRECT_URL", "postgres://user:hush-2@db/app"),
        ("AMQP_URL", "amqp://user:hush-3@mq/a"),
        ("APP__CONSUMER__URL", "amqp://user:hush-4@mq/a"),
        ("APP__OPERATIONS__OPS_TOKEN", "hush-5-0123456789abcdef"),
        ("APP__OUTBOX__RELAY__WORKERS", "7"),
    ];
    let settings = load("", &secrets).unwrap();
    let shown = settings.redacted().unwrap();
    assert!(!shown.contains("hush"), "{shown}");
    let shown_as_json = settings.redacted_json().unwrap();
    assert!(!shown_as_json.to_string().contains("hush"), "{shown_as_json}");
    assert_eq!(shown_as_json["outbox"]["relay"]["workers"], 7);
    assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
    let read: Settings = toml::from_str(&shown).unwrap();
    assert_eq!(read.outbox, settings.outbox);
    assert_eq!(read.http, settings.http);
}
