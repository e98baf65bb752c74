//! Whatever is typed is a command or an error of a few lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::{CommandFactory, Parser};
use proptest::prelude::*;

use super::Cli;

const LONGEST_ERROR: usize = 16 * 1024;

const WORDS: &[&str] = &[
    "serve",
    "relay",
    "migrate",
    "config",
    "outbox",
    "inbox",
    "help",
    "--until-drained",
    "--config",
    "--config=",
    "status",
    "list",
    "show",
    "blocked",
    "requeue",
    "discard",
    "replay",
    "forget",
    "parked",
    "unpark",
    "--status",
    "--status=DEAD",
    "IN_FLIGHT",
    "--aggregate-type",
    "--aggregate-id",
    "--after",
    "--limit",
    "50",
    "0",
    "-1",
    "4294967296",
    "--json",
    "--consumer",
    "--events",
    "--discard",
    "0198c5a0-0000-7000-8000-000000000001",
    "--",
    "-",
    "-h",
    "--version",
    "",
];

fn any_argument() -> impl Strategy<Value = OsString> {
    prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(OsString::from),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec),
        1 => "-{0,2}\\PC{0,12}=?\\PC{0,12}".prop_map(OsString::from),
    ]
}

#[test]
fn the_command_line_is_one_that_its_library_accepts() {
    Cli::command().debug_assert();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_arguments_are_a_command_or_an_error_of_a_few_lines(arguments in prop::collection::vec(any_argument(), 0..9)) {
        let all = [vec![OsString::from("app")], arguments].concat();
        if let Err(error) = Cli::try_parse_from(all) {
            let text = error.to_string();
            prop_assert!(!text.is_empty() && text.len() < LONGEST_ERROR, "{} bytes", text.len());
        }
    }
}
