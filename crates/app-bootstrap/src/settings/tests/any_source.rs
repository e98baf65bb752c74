//! Whatever stands in a file and in the environment is read, or refused by problems with their keys, and secrets stay out.

use proptest::prelude::*;
use test_support::corpus;

use super::*;

/// Stands in every URL of the corpus.
const SECRET: &str = "hush-0123456789";
const LONGEST_ERROR: usize = 256 * 1024;

/// Names that a reader which guesses at extensions takes for each other.
static FILES: [&str; 6] = ["zz", "zz.toml", "zz.toml.toml", "zz.json", ".toml", "zz."];

/// The defaults as a tree.
fn defaults() -> toml::Table {
    toml::from_str(&Settings::default().redacted().unwrap()).unwrap()
}

/// Whether what stands at this place is shown by right: a text that is no secret, or a key that has no default.
fn is_shown(path: &[String]) -> bool {
    let Some((last, parents)) = path.split_last() else { return true };
    if ["url", "direct_url", "ops_token", "secrets"].contains(&last.as_str()) || parents == ["encryption", "keys"] {
        return false;
    }
    let table = parents.iter().try_fold(defaults(), |table, key| table.get(key)?.as_table().cloned());
    table.and_then(|table| table.get(last).map(|value| value.is_str() || value.is_array())).unwrap_or(true)
}

/// Whether the secret stands somewhere else than where it is known for one.
fn is_misplaced(value: &toml::Value, path: &[String]) -> bool {
    match value {
        toml::Value::String(text) => text.contains(SECRET) && is_shown(path),
        toml::Value::Array(values) => values.iter().any(|value| is_misplaced(value, path)),
        toml::Value::Table(table) => table.iter().any(|(key, value)| {
            key.contains(SECRET) || is_misplaced(value, &[path, std::slice::from_ref(key)].concat())
        }),
        _ => false,
    }
}

fn keys_of(prefix: &str, table: &toml::Table) -> Vec<String> {
    let under = |(key, value): (&String, &toml::Value)| {
        let name = format!("{prefix}__{}", key.to_uppercase());
        match value {
            toml::Value::Table(inner) => [keys_of(&name, inner), vec![name]].concat(),
            _ => vec![name],
        }
    };
    table.iter().flat_map(under).collect()
}

/// Variables that are settings, nearly are, or are not.
fn any_environment() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop_oneof![
        6 => prop::sample::select(keys_of("APP", &defaults())),
        1 => prop::sample::select(vec![
            "DATABASE_URL",
            "AMQP_URL",
            "APP__",
            "APP____",
            "APP__DATABASE__URL__X",
            "APP__HTTP__LISTEN",
            "APP__HTTP__LISTEN__X",
            "app__http__listen",
            "APP__OUTBOX__DEAD_HEAD__SKIP[0]",
            "APP__ENCRYPTION__KEYS__ÜX",
            "APP__OUTBOUND__WEBHOOK__URL",
            "APP__OUTBOUND__WEBHOOK__SECRETS",
        ])
            .prop_map(ToOwned::to_owned),
        1 => "APP__[A-Z_\\[\\].0-9é]{0,20}",
    ];
    let value = prop_oneof![
        prop::sample::select(vec![
            "",
            "0",
            "-1",
            "3",
            "1e400",
            "18446744073709551616",
            "true",
            "10s",
            "99999999999999999y",
            "1s 1s",
            "127.0.0.1:1",
            "amqp",
            "a,b",
            "[1,2]",
            "{\"a\":1}",
            "postgres://u:hush-0123456789@h/d",
            "amqp://u:hush-0123456789@h:99999/%",
        ])
        .prop_map(ToOwned::to_owned),
        "\\PC{0,20}",
    ];
    prop::collection::btree_map(name, value, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_file_and_environment_are_read_or_refused_and_tell_no_secret(
        begin in any::<usize>(), edits in prop::collection::vec(any::<corpus::Edit>(), 0..4), environment in any_environment(),
    ) {
        let mut known = corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/settings"));
        known.extend(corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config")));
        let directory = tempfile::tempdir().unwrap();
        let file = corpus::edited(&known, begin, &edits);
        fs::write(directory.path().join("test.toml"), &file).unwrap();
        let tree = str::from_utf8(&file).ok().and_then(|text| toml::from_str::<toml::Value>(text).ok());
        let misplaced = tree.is_some_and(|tree| is_misplaced(&tree, &[]))
            || environment.iter().any(|(name, value)| {
                let path: Vec<String> = name.split("__").skip(1).map(str::to_lowercase).collect();
                name.starts_with("APP__") && value.contains(SECRET) && is_shown(&path)
            });
        let (path, profile) = (directory.path().to_owned(), "test".to_owned());
        let sources = Sources { file: None, directory: path, profile, environment, not_text: Vec::new() };
        let load = || match sources.load() {
            Ok(settings) => settings.redacted().unwrap() + &format!("{settings:?}"),
            Err(error) => error.to_string() + &format!("{error:?}"),
        };
        let said = load();
        prop_assert_eq!(&load(), &said, "it depends on chance");
        prop_assert!(misplaced || !said.contains(SECRET), "{said}");
        prop_assert!(said.len() < LONGEST_ERROR, "{} bytes", said.len());
    }

    #[test]
    fn exactly_the_file_of_the_name_is_read_whatever_lies_beside_it(
        present in prop::sample::subsequence(FILES.to_vec(), 0..=FILES.len()), asked in prop::sample::select(FILES.to_vec()),
    ) {
        let directory = tempfile::tempdir().unwrap();
        for name in &present {
            let workers = 1 + FILES.iter().position(|file| file == name).unwrap();
            fs::write(directory.path().join(name), format!("[outbox.relay]\nworkers = {workers}\n")).unwrap();
        }
        let sources = Sources { file: Some(directory.path().join(asked)), ..Sources::default() };
        prop_assert_eq!(sources.settings_file().found, present.contains(&asked));
        match sources.load() {
            Ok(settings) => {
                prop_assert!(present.contains(&asked));
                prop_assert_eq!(FILES.get(settings.outbox.relay.workers - 1), Some(&asked));
            }
            Err(SettingsError::Unreadable { file, .. }) => {
                prop_assert!(!present.contains(&asked));
                prop_assert_eq!(file, directory.path().join(asked));
            }
            Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }
}
