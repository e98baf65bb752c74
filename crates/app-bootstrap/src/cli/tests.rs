//! Whatever is typed is a command or an error of a few lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::{CommandFactory, Parser};
use proptest::prelude::*;
use test_support::documents::{Page, pages};

use super::Cli;

const LONGEST_ERROR: usize = 16 * 1024;

const WORDS: &[&str] = &[
    "serve",
    "relay",
    "migrate",
    "config",
    "outbox",
    "inbox",
    "completions",
    "man",
    "purge",
    "--older-than",
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
    "--from",
    "--to",
    "--published-from",
    "--published-until",
    "2026-01-02T03:04:05Z",
    "9999-12-31T23:59:59-23:59",
    "--dry-run",
    "--limit",
    "50",
    "0",
    "-1",
    "4294967296",
    "--json",
    "--consumer",
    "--events",
    "--discard",
    "--unmarked",
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

/// Commands that have none below them, as they are typed.
fn leaves(command: &clap::Command, above: &str) -> Vec<(String, clap::Command)> {
    let below = command.get_subcommands();
    let named = below.flat_map(|sub| leaves(sub, &format!("{above} {}", sub.get_name()))).collect::<Vec<_>>();
    if named.is_empty() { vec![(above.to_owned(), command.clone())] } else { named }
}

/// What operators type when something is wrong.
fn of_operators() -> Vec<(String, clap::Command)> {
    let all = leaves(&Cli::described(), "app");
    let found: Vec<_> =
        all.into_iter().filter(|(name, _)| name.starts_with("app outbox ") || name.starts_with("app inbox ")).collect();
    assert!(found.len() > 12, "{}", found.len());
    found
}

#[test]
fn every_command_of_operators_shows_examples_of_itself_and_can_answer_in_json() {
    for (name, mut command) in of_operators() {
        let help = command.render_long_help().to_string();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no examples"));
        assert!(examples.lines().any(|line| line.starts_with(&format!("  {name}"))), "{name}: {examples}");
        assert!(command.get_arguments().any(|argument| argument.get_long() == Some("json")), "{name} has no --json");
    }
}

#[test]
fn every_example_of_the_help_is_a_command() {
    let mut tried = 0;
    for (_, command) in leaves(&Cli::described(), "app") {
        // As it is written: the rendered help breaks long lines.
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  app ")) {
            let line = line.split(" | ").next().unwrap_or(line);
            let quoted = line.split('\'').enumerate();
            let words =
                quoted.flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() });
            let words: Vec<&str> = words.collect();
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{line}: {error}");
            }
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

/// The first word of a command line that is neither a command nor an option of the program. Values are not looked at.
fn unknown_word(line: &str) -> Option<String> {
    let program = Cli::described();
    let mut command = &program;
    for word in line.split_whitespace().skip(1) {
        let known = match word.strip_prefix("--").and_then(|option| option.split('=').next()) {
            Some(name) => {
                let mut options = command.get_arguments().chain(program.get_arguments());
                ["help", "version"].contains(&name) || options.any(|option| option.get_long() == Some(name))
            }
            None => match command.find_subcommand(word) {
                Some(below) => {
                    command = below;
                    true
                }
                None => !command.has_subcommands(),
            },
        };
        if !known {
            return Some(word.to_owned());
        }
    }
    None
}

/// The command lines of the program on a page, in blocks for a shell and in sentences, with the place of each.
fn told_to_type(page: &Page) -> Vec<(String, String)> {
    let blocks = page.blocks_of("sh").into_iter();
    let typed = blocks.flat_map(|block| block.commands().into_iter().map(move |line| (block.place.clone(), line)));
    let spans = page.text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let named = spans.filter(|span| span.starts_with("app ")).map(|span| (page.path.clone(), span.to_owned()));
    let behind_variables = |(place, line): (String, String)| {
        let words: Vec<&str> = line.split(['|', '>', ';']).next()?.split_whitespace().collect();
        let program = words.iter().position(|word| !word.contains('='))?;
        let is_ours = ["app", "target/debug/app"].contains(words.get(program)?);
        is_ours.then(|| (place, words.get(program..).unwrap_or_default().join(" ")))
    };
    typed.chain(named).filter_map(behind_variables).collect()
}

#[test]
fn every_command_of_the_program_on_the_pages_is_one_with_its_options() {
    let lines: Vec<_> = pages().iter().flat_map(told_to_type).collect();
    for (place, line) in &lines {
        assert_eq!(unknown_word(line), None, "{place}: {line}");
    }
    assert!(lines.len() > 60, "{}", lines.len());
}

#[test]
fn a_command_on_a_page_that_is_none_is_found() {
    let typed = ["```sh", "A=b target/debug/app outbox list --stauts DEAD | less", "app serve", "```"];
    let page = Page { path: "a.md".to_owned(), text: format!("`app outbox lsit`\n{}", typed.join("\n")) };
    let found: Vec<_> = told_to_type(&page).into_iter().map(|(place, line)| (place, unknown_word(&line))).collect();
    let (wrong_option, wrong_command) = (Some("--stauts".to_owned()), Some("lsit".to_owned()));
    let (block, page) = ("a.md:2".to_owned(), "a.md".to_owned());
    assert_eq!(found, [(block.clone(), wrong_option), (block, None), (page, wrong_command)]);
}

/// Under the program's name, and under one of two words as a clone may have: a shell's function has no `-` in its name.
#[test]
fn completions_and_the_manual_know_every_command() {
    for program in ["app", "two-words"] {
        let described = || Cli::described().name(program).bin_name(program);
        let mut script = Vec::new();
        clap_complete::generate(clap_complete::Shell::Bash, &mut described(), program, &mut script);
        let script = String::from_utf8(script).unwrap().replace("__subcmd__", "__");
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(described(), folder.path()).unwrap();
        for (name, _) in leaves(&described(), program) {
            assert!(script.contains(&name.replace([' ', '-'], "__")), "{name} in the completions");
            let page = folder.path().join(format!("{}.1", name.replace(' ', "-")));
            assert!(page.is_file(), "{}", page.display());
        }
    }
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
