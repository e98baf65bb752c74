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
    assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
    let read: Settings = toml::from_str(&shown).unwrap();
    assert_eq!(read.outbox, settings.outbox);
    assert_eq!(read.http, settings.http);
}
