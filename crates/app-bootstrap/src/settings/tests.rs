//! Layers of settings, their problems, and what is shown of them.

mod any_source;

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

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
fn a_list_with_secrets_that_cannot_be_read_is_not_told() {
    for text in [r#"[{url = "https://h/hush", secrets = "hush"]"#, r#""hush-hush""#, "hush-hush", "{ hush = 1 }"] {
        let error = load("", &[("APP__OUTBOUND__WEBHOOK__OVERRIDES", text)]).unwrap_err().to_string();
        assert!(error.contains("outbound.webhook.overrides") && !error.contains("hush"), "{error}");
    }
}

#[test]
fn a_webhook_publisher_needs_a_url_and_secrets_and_all_its_problems_are_told_at_once() {
    let variables = [
        ("APP__OUTBOUND__PUBLISHER", "webhook"),
        ("APP__OUTBOUND__WEBHOOK__OVERRIDES", r#"[{event_type = "Paid"}]"#),
        ("APP__OUTBOUND__WEBHOOK__IDLE_TIMEOUT", "2h"),
    ];
    assert_eq!(
        problems("", &variables),
        [
            "outbound.webhook.url",
            "outbound.webhook.secrets",
            "outbound.webhook.overrides[0].url",
            "outbound.webhook.idle_timeout"
        ]
    );
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
fn an_item_of_another_type_is_refused_with_its_key_and_place_from_file_and_environment() {
    let file = "[outbox.dead_head]\nskip = [\"a\", 1, true]\n[outbound.amqp.topology]\nbinding_keys = [{ a = 1 }]\n";
    let items = ["outbound.amqp.topology.binding_keys[0]", "outbox.dead_head.skip[1]", "outbox.dead_head.skip[2]"];
    assert_eq!(problems(file, &[]), items);
    let variables = [
        ("APP__OUTBOX__DEAD_HEAD__SKIP", r#"["a", 4711]"#),
        ("APP__OUTBOUND__ROUTE__OVERRIDES", r#"["a", {event_type = "Paid", exchange = 4711}]"#),
        ("APP__OUTBOUND__WEBHOOK__OVERRIDES", r#"[{event_type = "Paid", secrets = 4711}]"#),
    ];
    let told = texts(&variables);
    assert_eq!(
        told,
        [
            "outbound.route.overrides[0] is a text, but it must be a section as in a file, {key = \"value\"}",
            "outbound.route.overrides[1].exchange is a number, but it must be a text in quotes",
            "outbound.webhook.overrides[0].secrets is a number, but it must be a text in quotes",
            "outbox.dead_head.skip[1] is a number, but it must be a text in quotes",
        ]
    );
}

#[test]
fn variables_of_which_one_sets_what_another_sets_too_are_refused_with_both_names() {
    let within = [("APP__HTTP__LISTEN", "127.0.0.1:1"), ("APP__HTTP__LISTEN__X", "1")];
    let text =
        "http.listen is set by APP__HTTP__LISTEN, but APP__HTTP__LISTEN__X sets a key within it: set one of them";
    assert_eq!(texts(&within), [text]);
    let (upper, lower) = ("APP__SERVICE__GRACE", "APP__SERVICE__GRACE".to_lowercase());
    let text = format!("service.grace is set by {upper}, but {lower} sets it as well: set one of them");
    assert_eq!(texts(&[(upper, "3s"), (lower.as_str(), "4s")]), [text]);
    let list = [("APP__OUTBOX__DEAD_HEAD__SKIP", "[]"), ("APP__OUTBOX__DEAD_HEAD__SKIP__0", "a")];
    assert_eq!(problems("", &list), ["outbox.dead_head.skip"]);
    // An empty variable counts as none, and a longer name alone is no conflict.
    load("", &[("APP__HTTP__LISTEN", "127.0.0.1:1"), ("APP__HTTP__LISTEN__X", "")]).unwrap();
    load("", &[("APP__DATABASE__URL", "postgres://h/d"), ("DATABASE_URL", "postgres://other/d")]).unwrap();
    load("", &[("APP__OUTBOX__RELAY__MAX_RUN", "9"), ("APP__OUTBOX__RELAY__MAX_EVENTS", "99")]).unwrap();
}

#[test]
fn a_variable_of_any_letters_and_any_depth_is_told_by_its_own_key() {
    let text = texts(&[("APP__ENCRYPTION__KEYS__ÜX", "hush-0123456789")]).concat();
    assert!(text.starts_with("encryption.keys is a text of 3 bytes, but an identifier must be 1 to 64"), "{text}");
    assert_eq!(problems("", &[("APP__OUTBOX__ÜX", "1")]), ["outbox.üx"]);
    assert_eq!(problems("", &[("APP__OUTBOX__DEAD_HEAD__SKIP[0]", "a")]), ["outbox.dead_head.skip[0]"]);
    let deep = format!("APP__{}", "A__".repeat(30_000));
    let text = texts(&[(deep.as_str(), "1")]).concat();
    assert!(text.contains("at most 16 parts") && text.len() < 1_000, "{text}");
}

#[test]
fn a_key_in_quotes_is_not_taken_for_a_path() {
    let file = "\"http.listen\" = \"127.0.0.1:1\"\n[http]\nlisten = \"127.0.0.1:2\"\n[outbox]\n\"relay.workers\" = 3\n";
    assert_eq!(problems(file, &[]), ["\"http.listen\"", "outbox.\"relay.workers\""]);
}

#[test]
fn exactly_the_file_that_is_named_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let named = directory.path().join("zz");
    fs::write(directory.path().join("zz.toml"), "[outbox.relay]\nworkers = 4\n").unwrap();
    let sources = Sources { file: Some(named.clone()), ..Sources::default() };
    match sources.load() {
        Err(SettingsError::Unreadable { file, reason }) => {
            assert_eq!((file, reason.as_str()), (named.clone(), "there is no such file"));
        }
        other => panic!("{other:?}"),
    }
    assert!(!sources.settings_file().found);
    fs::write(&named, "\u{feff}[outbox.relay]\nworkers = 5\n").unwrap();
    assert_eq!(sources.load().unwrap().outbox.relay.workers, 5);
    assert!(sources.settings_file().found);
}

#[test]
fn what_is_no_readable_file_is_a_problem_with_its_path_and_cause() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    // Reading a pipe that nobody writes into would wait.
    assert!(Command::new("mkfifo").arg(at("pipe.toml")).status().unwrap().success());
    fs::create_dir(at("folder.toml")).unwrap();
    std::os::unix::fs::symlink(at("round.toml"), at("round.toml")).unwrap();
    fs::write(at("bytes.toml"), b"# hush \xff\n").unwrap();
    fs::write(at("words.toml"), "url = hush\n").unwrap();
    for (name, cause) in [
        ("pipe", "it is a pipe"),
        ("folder", "it is a directory"),
        ("round", ""),
        ("bytes", "it is not UTF-8 from byte 7 on"),
        ("words", "TOML parse error at line 1"),
    ] {
        let file = at(&format!("{name}.toml"));
        let asked_for = Sources { file: Some(file.clone()), ..Sources::default() };
        let of_profile =
            Sources { directory: directory.path().to_owned(), profile: name.to_owned(), ..Sources::default() };
        for sources in [asked_for, of_profile] {
            let error = sources.load().unwrap_err();
            assert!(matches!(error, SettingsError::Unreadable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&file.display().to_string()) && text.contains(cause), "{text}");
            assert!(!text.contains("hush"), "{text}");
        }
    }
}

#[test]
fn an_empty_profile_is_the_local_one() {
    let named = |name: &str| super::load::profile(&environment(&[("APP_PROFILE", name)]));
    assert_eq!((named(""), named("test")), ("local".to_owned(), "test".to_owned()));
    assert_eq!(super::load::profile(&BTreeMap::new()), "local");
}

#[test]
fn each_wait_of_a_retry_is_told_with_key_bound_and_value_and_no_follow_on() {
    let variables = [
        ("APP__OUTBOX__RETRY__MAX_ATTEMPTS", "0"),
        ("APP__OUTBOX__RETRY__FLOOR", "0s"),
        ("APP__OUTBOX__RETRY__CAP", "8d"),
        ("APP__CONSUMER__RETRY__FLOOR", "5s"),
        ("APP__OUTBOX__RELAY__MAX_EVENTS", "many"),
        ("APP__OUTBOX__RELAY__MIN_LANES", "9999"),
    ];
    assert_eq!(
        texts(&variables),
        [
            "outbox.relay.max_events is \"many\", but it must be a whole number, for example 500",
            "outbox.retry.max_attempts is 0, but it must be 1 to 4294967295",
            "outbox.retry.floor is 0s, but it must be above 0s, up to 7d",
            "outbox.retry.cap is 8d, but it must be at most 7d",
            "consumer.retry.base is 1s, but it must be 5s (floor) to 7d",
        ]
    );
}

#[test]
fn a_long_value_is_told_by_its_beginning() {
    let long = "q".repeat(100_000);
    for (name, key) in [
        ("APP__CONSUMER__QUEUE", "consumer.queue"),
        ("APP__SERVICE__INSTANCE", "service.instance"),
        ("APP__OUTBOX__DEAD_HEAD__SKIP", "outbox.dead_head.skip"),
        ("APP__OUTBOX__WAKEUP__NOTIFY__CHANNEL", "outbox.wakeup.notify.channel"),
        ("APP__LOGS__FILTER", "logs.filter"),
    ] {
        let value = if name == "APP__LOGS__FILTER" { format!("{long}={long}") } else { long.clone() };
        let text = texts(&[(name, value.as_str())]).concat();
        assert!(text.starts_with(key) && text.contains("characters)") && text.len() < 3_000, "{} bytes", text.len());
    }
    let name = format!("APP__{long}");
    let text = texts(&[(name.as_str(), "1")]).concat();
    assert!(text.contains("characters)") && text.len() < 3_000, "{} bytes", text.len());
}

#[test]
fn a_list_is_not_taken_for_the_keys_of_a_section() {
    let file = "http = [\"127.0.0.1:1\", 1024, 1, \"1s\"]\n[outbound.route]\noverrides = [[\"a\", \"b\"]]\n";
    let mut found = problems(file, &[]);
    found.sort();
    assert_eq!(found, ["http", "outbound.route.overrides[0]"]);
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
            "outbox.retry.base",
            "service.grace",
            "surplus"
        ]
    );
}

fn texts(variables: &[(&str, &str)]) -> Vec<String> {
    match load("", variables) {
        Err(SettingsError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_that_cannot_be_read_is_told_with_what_can() {
    for (name, value, text) in [
        (
            "OUTBOUND__PUBLISHER",
            "carrier-pigeon",
            "outbound.publisher is \"carrier-pigeon\", but it must be one of amqp, webhook, stdout, disabled",
        ),
        ("LOGS__FORMAT", "xml", "logs.format is \"xml\", but it must be json or text"),
        ("SERVICE__GRACE", "30", "service.grace is \"30\", but it must be a duration, for example 25s"),
        (
            "OUTBOX__RETENTION__PUBLISHED",
            "1 fortnight",
            "outbox.retention.published is \"1 fortnight\", but it must be a duration, for example 30d",
        ),
        (
            "HTTP__LISTEN",
            "localhost:8080",
            "http.listen is \"localhost:8080\", but it must be an IP address with a port, for example 127.0.0.1:8080",
        ),
        (
            "OUTBOX__RELAY__WORKERS",
            "many",
            "outbox.relay.workers is \"many\", but it must be a whole number, for example 8",
        ),
        ("CONSUMER__ENABLED", "maybe", "consumer.enabled is \"maybe\", but it must be true or false"),
        ("OUTBOX__RELAY", "2", "outbox.relay is \"2\", but it must be a section with keys of its own"),
        ("LOGS__FROMAT", "json", "logs.fromat is set, but there is no such key; known here: format or filter"),
    ] {
        assert_eq!(texts(&[(format!("APP__{name}").as_str(), value)]), [text]);
    }
}

#[test]
fn a_number_that_does_not_fit_is_told_where_the_key_takes_a_number() {
    let huge = "99999999999999999999";
    let told = "it must be a whole number, for example 8; this one is out of range";
    for value in [huge, "-100000", "18446744073709551616", "-1"] {
        let text = texts(&[("APP__OUTBOX__RELAY__WORKERS", value)]);
        assert_eq!(text, [format!("outbox.relay.workers is {value:?}, but {told}")]);
    }
    assert_eq!(
        load("[outbox.relay]\nworkers = -1\n", &[]).unwrap_err().to_string(),
        format!("1 problem in the settings\n  outbox.relay.workers is -1, but {told}")
    );
    // What is longer than numbers are may be a secret under the wrong key, as it may be elsewhere.
    let (longest, longer) = ("9".repeat(32), "9".repeat(33));
    let text = texts(&[("APP__OUTBOX__RELAY__WORKERS", longest.as_str())]);
    assert_eq!(text, [format!("outbox.relay.workers is {longest:?}, but {told}")]);
    let text = texts(&[("APP__OUTBOX__RELAY__WORKERS", longer.as_str())]);
    assert_eq!(text, [format!("outbox.relay.workers is a text that is not shown here, but {told}")]);
    let text = load(&format!("[outbox.relay]\nworkers = {longer}\n"), &[]).unwrap_err().to_string();
    assert!(text.contains("line 2: outbox.relay.workers is a number that is not shown here, but "), "{text}");
    let text = texts(&[("APP__OUTBOX__RELAY", huge), ("APP__CONSUMER__ENABLED", huge)]).concat();
    assert!(!text.contains(huge), "{text}");
}

#[test]
fn a_number_of_a_file_that_64_bits_do_not_hold_is_told_with_file_line_and_key_and_no_secret() {
    let huge = "99999999999999999999";
    let file = format!(
        "[outbox.relay]\nworkers = {huge}\nlease = -{huge}\n[operations]\nops_token = {huge}1\n[database.pool]\n\
         \"max.connections\" = 0xFFFFFFFFFFFFFFFFF\n[outbox.dead_head]\nskip = [\"a\", {huge}2]\n"
    );
    let (directory, sources) = sources(&file, &[]);
    let error = sources.load().unwrap_err();
    let SettingsError::Unreadable { file, reason } = &error else { panic!("{error:?}") };
    assert_eq!(*file, directory.path().join("test.toml"));
    let told: Vec<_> = reason.split("; ").collect();
    assert_eq!(
        told,
        [
            "line 2: outbox.relay.workers is 99999999999999999999, but it must be a whole number, for example 8, and 64 \
             bits must hold a number",
            "line 3: outbox.relay.lease is -99999999999999999999, but it must be a duration, for example 30s, and 64 \
             bits must hold a number",
            "line 5: operations.ops_token is a number that is not shown here, but 64 bits must hold it",
            "line 7: database.pool.\"max.connections\" is a number that is not shown here, but 64 bits must hold it",
            "line 9: outbox.dead_head.skip[1] is a number that is not shown here, but 64 bits must hold it",
        ]
    );
}

#[test]
fn whatever_key_cannot_be_read_says_what_can_stand_there() {
    fn keys(table: &toml::Table, path: &str, found: &mut Vec<String>) {
        for (name, value) in table {
            match value {
                toml::Value::Table(inner) => keys(inner, &format!("{path}{name}."), found),
                _ => found.push(format!("{path}{name}")),
            }
        }
    }
    let mut found = Vec::new();
    keys(&toml::from_str(&Settings::default().redacted().unwrap()).unwrap(), "", &mut found);
    let mut refused = 0;
    for key in found {
        let variable = format!("APP__{}", key.to_uppercase().replace('.', "__"));
        if let Err(SettingsError::Invalid(problems)) = load("", &[(variable.as_str(), "!")]) {
            let problem = problems.iter().find(|problem| problem.key == key).expect("a problem of the key");
            assert!(!problem.bound.contains("cannot be read"), "{problem}");
            refused += 1;
        }
    }
    assert!(refused > 60, "{refused}");
}

#[test]
fn a_lease_that_is_too_short_for_the_confirms_names_both_settings_and_what_would_do() {
    let lease = ("APP__OUTBOX__RELAY__LEASE", "12s");
    assert_eq!(
        texts(&[lease]),
        [
            "outbox.relay.lease is 12s, but a lease must outlast three time-outs of a confirm: set it to 30s or more, or \
          outbound.amqp.confirm_timeout (now 10s) to 4s or less"
        ]
    );
    load("", &[("APP__OUTBOX__RELAY__LEASE", "30s")]).unwrap();
    load("", &[lease, ("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "4s")]).unwrap();
    let webhook = [
        ("APP__OUTBOUND__PUBLISHER", "webhook"),
        ("APP__OUTBOUND__WEBHOOK__URL", "https://hooks.example.com/in"),
        ("APP__OUTBOUND__WEBHOOK__SECRETS", "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw=="),
        lease,
    ];
    let text = &texts(&webhook)[0];
    assert!(text.ends_with("or outbound.webhook.confirm_timeout (now 10s) to 4s or less"), "{text}");
    // Another publisher has no such setting.
    let stdout = ("APP__OUTBOUND__PUBLISHER", "stdout");
    let text = &texts(&[stdout, ("APP__OUTBOX__RELAY__LEASE", "2s")])[0];
    assert!(text.ends_with("set it to 3s or more"), "{text}");
}

#[test]
fn durations_are_shown_in_days_hours_minutes_and_seconds() {
    let shown = Settings::default().redacted().unwrap();
    for line in ["published = \"30d\"", "inbox = \"31d\"", "grace = \"25s\"", "notify_interval = \"20ms\""] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is missing in\n{shown}");
    }
}

#[test]
fn the_file_that_is_read_or_missed_is_named_with_its_profile() {
    let (directory, mut sources) = sources("", &[]);
    let file = sources.settings_file();
    assert_eq!((file.profile.as_deref(), file.found), (Some("test"), true));
    assert_eq!(file.path, directory.path().join("test.toml"));
    assert!(
        file.to_string().starts_with("profile \"test\", file \"") && file.to_string().ends_with("(read)"),
        "{file}"
    );
    sources.profile = "tset".to_owned();
    let file = sources.settings_file();
    assert!(!file.found && file.to_string().ends_with("tset.toml\" (looked for and missing)"), "{file}");
    sources.file = Some("relative.toml".into());
    let file = sources.settings_file();
    assert!(file.profile.is_none() && file.path.is_absolute(), "{file:?}");
}

#[test]
fn a_variable_without_a_name_behind_its_underscores_is_an_unknown_key_by_its_own_name() {
    let lower = "APP__OUTBOX____WORKERS".to_lowercase();
    for name in ["APP__", "APP____", "APP__OUTBOX__", "APP____OUTBOX", lower.as_str()] {
        let told = format!("{name} is set, but there is no such key: a name must stand behind each __");
        assert_eq!(texts(&[(name, "5")]), [told]);
    }
    load("", &[("APP__", ""), ("APP_", "5"), ("APP", "5")]).unwrap();
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
fn keys_of_personal_fields_are_set_by_their_names_in_file_and_environment_and_what_is_wrong_is_told_without_them() {
    let file = "[encryption]\nactive_key = \"2026_07\"\n[encryption.keys]\n2026_01 = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n";
    assert_eq!(problems(file, &[]), ["encryption.active_key"]);
    let key = ("APP__ENCRYPTION__KEYS__2026_07", "hush/6/0123456789abcdefghijklmnopqrstuvwxyw=");
    let settings = load(file, &[key]).unwrap();
    assert_eq!(settings.encryption.keys.keys().collect::<Vec<_>>(), ["2026_01", "2026_07"]);
    for (name, value) in [
        ("APP__ENCRYPTION__KEYS__2026_07", "hush-0123456789"),
        ("APP__ENCRYPTION__ACTIVE_KEY", "hush/6/0123456789abcdefghijklmnopqrstuvwxyw="),
        ("APP__ENCRYPTION__KEYS", "hush-0123456789"),
        ("APP__ENCRYPTION", "hush-0123456789"),
    ] {
        let error = load(file, &[(name, value)]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"), "{name}: {error:?}");
    }
}

#[test]
fn a_password_that_is_not_encoded_is_told_neither_by_problems_nor_by_what_is_shown() {
    for ending in ["4711#hush", "4711?hush", "4711/hush", "hush@hush", "hush%zz", "hu sh\u{7f}hush"] {
        for (name, scheme) in [
            ("APP__DATABASE__URL", "postgres"),
            ("APP__DATABASE__DIRECT_URL", "postgres"),
            ("APP__OUTBOUND__AMQP__URL", "amqp"),
            ("APP__CONSUMER__URL", "amqp"),
            ("APP__OUTBOUND__WEBHOOK__URL", "https"),
        ] {
            let url = format!("{scheme}://user:{ending}@db/app");
            let told = match load("", &[(name, url.as_str())]) {
                Ok(settings) => format!("{} {settings:?}", settings.redacted().unwrap()),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!told.contains("hush") && !told.contains("4711"), "{name} {ending}: {told}");
        }
    }
}

#[test]
fn what_is_shown_of_the_settings_has_no_secret_and_reads_back() {
    let secrets = [
        ("APP__DATABASE__URL", "postgres://user:hush-1@db/app"),
        ("APP__DATABASE__DIRECT_URL", "postgres://user:hush-2@db/app"),
        ("AMQP_URL", "amqp://user:hush-3@mq/a"),
        ("APP__CONSUMER__URL", "amqp://user:hush-4@mq/a"),
        ("APP__OPERATIONS__OPS_TOKEN", "hush-5-0123456789abcdef"),
        ("APP__OUTBOUND__WEBHOOK__URL", "https://hooks.example.com/hush-6"),
        ("APP__OUTBOUND__WEBHOOK__SECRETS", "whsec_hush-7"),
        (
            "APP__OUTBOUND__WEBHOOK__OVERRIDES",
            r#"[{event_type = "Paid", url = "https://h/hush-8", secrets = "hush-9"}]"#,
        ),
        // 32 bytes that begin as the other secrets do, in base64.
        ("APP__ENCRYPTION__KEYS__2026_07", "hush/6/0123456789abcdefghijklmnopqrstuvwxyw="),
        ("APP__ENCRYPTION__ACTIVE_KEY", "2026_07"),
        ("APP__OUTBOX__RELAY__WORKERS", "7"),
    ];
    let settings = load("", &secrets).unwrap();
    let shown = settings.redacted().unwrap();
    assert!(!shown.contains("hush"), "{shown}");
    let shown_as_json = settings.redacted_json().unwrap();
    assert!(!shown_as_json.to_string().contains("hush"), "{shown_as_json}");
    assert_eq!(shown_as_json["outbox"]["relay"]["workers"], 7);
    assert_eq!(shown_as_json["encryption"]["keys"]["2026_07"], "***");
    assert!(!format!("{settings:?}").contains("hush"), "{settings:?}");
    let read: Settings = toml::from_str(&shown).unwrap();
    assert_eq!(read.outbox, settings.outbox);
    assert_eq!(read.http, settings.http);
}
