//! The command line: settings that cannot be used, what is refused, and what the errors say.

use std::net::TcpListener;

use sqlx::{Connection, PgConnection};
use system_tests::AppEnvironment;
use test_support::servers::{Options, private};
use tokio::process::Command;

use crate::commands::{Outcome, run};

/// An environment in which no server is reached.
fn nowhere(directory: &tempfile::TempDir) -> AppEnvironment {
    let database = "postgres://somebody:hidden-database@127.0.0.1:9/nowhere";
    AppEnvironment::new(directory.path(), database, Some("amqp://somebody:hidden-broker@127.0.0.1:9/nowhere"))
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_problems_are_reported_all_at_once_with_their_keys() -> Outcome {
    let directory = tempfile::tempdir()?;
    let environment = nowhere(&directory)
        .with("APP__OUTBOX__RELAY__BATHC", "5")
        .with("APP__OUTBOX__RELAY__WORKERS", "many")
        .with("APP__OUTBOX__RELAY__LEASE", "1s")
        .with("APP__HTTP__MAX_CONNECTIONS", "0")
        .with("APP__SERVICE__GRACE", "1ms")
        .with("APP__OUTBOUND__PUBLISHER", "pigeon")
        .with("APP__DATABASE__STATEMENT_TIMEOUT", "soon");
    let (status, output) = run(&environment, &["serve"]).await?;
    assert_eq!(status.code(), Some(1), "{output}");
    for key in [
        "outbox.relay.bathc",
        "outbox.relay.workers",
        "outbox.relay.lease",
        "http.max_connections",
        "service.grace",
        "outbound.publisher",
        "database.statement_timeout",
    ] {
        assert!(output.contains(key), "{key} is missing in\n{output}");
    }
    assert!(output.contains("7 problems in the settings"), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_command_is_refused() -> Outcome {
    let directory = tempfile::tempdir()?;
    let (status, output) = run(&nowhere(&directory), &["publish"]).await?;
    assert_eq!(status.code(), Some(2), "{output}");
    assert!(output.contains("publish") && output.contains("Usage"), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_out_of_bounds_is_refused_with_its_name_bound_and_value() -> Outcome {
    let directory = tempfile::tempdir()?;
    let environment = nowhere(&directory);
    let (event, long) = ("0190b2c3-0000-7000-8000-000000000001", "x".repeat(201));
    let cases: [(&[&str], [&str; 3]); 11] = [
        (&["outbox", "show", "abc"], ["<ID>", "'abc'", "must be a UUID, for example 0198c5a0-"]),
        (&["outbox", "list", "--older-than", "soon"], ["--older-than", "'soon'", "such as 90s, 2h or 7d"]),
        (&["inbox", "forget", "--consumer", "", "--events", event], ["--consumer", "''", "is empty"]),
        (&["inbox", "forget", "--consumer", &long, "--events", event], ["--consumer", "xxx", "201 bytes, at most 100"]),
        (
            &["inbox", "forget", "--consumer", "c", "--events", "7"],
            ["--events", "'7'", "must be a UUID, for example 0198c5a0-"],
        ),
        (&["inbox", "parked", "--consumer", "a\tb"], ["--consumer", "a\tb", "control character at byte 1"]),
        (&["inbox", "unpark", "--aggregate-type", "", "--aggregate-id", "1"], ["--aggregate-type", "''", "is empty"]),
        (
            &["inbox", "unpark", "--aggregate-type", "t", "--aggregate-id", &long],
            ["--aggregate-id", "xxx", "201 bytes, at most 200"],
        ),
        (&["outbox", "list", "--aggregate-type", &long], ["--aggregate-type", "xxx", "201 bytes, at most 100"]),
        (
            &["outbox", "list", "--status", "gone"],
            ["--status", "'gone'", "PENDING, IN_FLIGHT, PUBLISHED, FAILED, DEAD"],
        ),
        (&["outbox", "list", "--limit", "0"], ["--limit", "'0'", "1..=1000"]),
    ];
    for (arguments, words) in cases {
        let (status, output) = run(&environment, arguments).await?;
        assert_eq!(status.code(), Some(2), "{arguments:?}: {output}");
        for word in words {
            assert!(output.contains(word), "{arguments:?}: {word} is missing in\n{output}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_printed_with_its_causes_and_each_of_them_once() -> Outcome {
    let servers = private(Options::fast());
    let empty = servers.database("causes", "causes", async |_| Ok::<(), std::io::Error>(())).await?;
    let directory = tempfile::tempdir()?;
    sqlx::query("CREATE TABLE outbox_lane ()").execute(&mut PgConnection::connect(empty.url()).await?).await?;
    let environment = AppEnvironment::new(directory.path(), empty.url(), None);
    let (status, output) = run(&environment, &["migrate"]).await?;
    assert_eq!(status.code(), Some(1), "{output}");
    // The migrator's own text repeats the server's.
    assert_eq!(output.matches("already exists").count(), 1, "{output}");
    assert!(output.contains("error: the database cannot be migrated\n  because "), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_behind_names_the_command_that_cures_it() -> Outcome {
    let servers = private(Options::fast());
    let empty = servers.database("behind", "empty", async |_| Ok::<(), std::io::Error>(())).await?;
    let directory = tempfile::tempdir()?;
    let environment = AppEnvironment::new(directory.path(), empty.url(), None);
    for command in [&["serve"][..], &["relay"], &["outbox", "status"]] {
        let (status, output) = run(&environment, command).await?;
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains("run `app migrate`"), "{output}");
    }
    let (status, output) = run(&environment, &["migrate"]).await?;
    assert!(status.success(), "{output}");
    let (status, output) = run(&environment, &["outbox", "status"]).await?;
    assert!(status.success(), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_is_a_typed_error() -> Outcome {
    let directory = tempfile::tempdir()?;
    for command in [&["serve"][..], &["migrate"], &["outbox", "status"]] {
        let (status, output) = run(&nowhere(&directory), command).await?;
        assert_eq!(status.code(), Some(1), "{command:?}: {output}");
        assert!(output.contains("error: the database cannot be"), "{command:?}: {output}");
        assert!(output.contains("look at `database.url` (DATABASE_URL)"), "{command:?}: {output}");
        assert!(!output.contains("hidden-database"), "{command:?}: {output}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_port_is_taken_names_its_setting() -> Outcome {
    let servers = private(Options::fast());
    let empty = servers.database("listen", "empty", async |_| Ok::<(), std::io::Error>(())).await?;
    let directory = tempfile::tempdir()?;
    let free = "127.0.0.1:0";
    let environment = AppEnvironment::new(directory.path(), empty.url(), None)
        .with("APP__HTTP__LISTEN", free)
        .with("APP__OPERATIONS__HEALTH_LISTEN", free)
        .with("APP__OPERATIONS__OPS_LISTEN", free);
    let (status, output) = run(&environment, &["migrate"]).await?;
    assert!(status.success(), "{output}");
    let taken = TcpListener::bind(free)?;
    let address = taken.local_addr()?.to_string();
    for setting in ["http.listen", "operations.health_listen", "operations.ops_listen"] {
        let variable = format!("APP__{}", setting.to_uppercase().replace('.', "__"));
        let (status, output) = run(&environment.clone().with(&variable, &address), &["serve"]).await?;
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains(&format!("the address of `{setting}`")) && output.contains(&address), "{output}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_commands_and_config_tell_which_settings_file_was_read_or_missed() -> Outcome {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("mine.toml");
    std::fs::write(&file, "[outbox.relay]\nworkers = 5\n")?;
    let name = file.to_str().ok_or("a path of text")?;
    for command in ["serve", "relay"] {
        let (_, output) = run(&nowhere(&directory), &[command]).await?;
        let missed = output.lines().filter(|line| line.contains("there is no settings file")).collect::<Vec<_>>();
        assert!(
            matches!(missed[..], [line] if line.contains("profile=\"none\"") && line.contains("none.toml")),
            "{output}"
        );
        let (_, output) = run(&nowhere(&directory), &[command, "--config", name]).await?;
        assert!(output.contains("settings are read from a file") && output.contains(name), "{output}");
    }
    let (_, output) = run(&nowhere(&directory), &["config"]).await?;
    let first = output.lines().next().unwrap_or_default();
    assert!(first.starts_with("# profile \"none\", file ") && first.ends_with("(looked for and missing)"), "{output}");
    let (_, output) = run(&nowhere(&directory), &["config", "--config", name]).await?;
    assert_eq!(output.lines().next(), Some(format!("# file {name:?} (read)").as_str()), "{output}");
    let (_, output) = run(&nowhere(&directory), &["outbox", "status"]).await?;
    assert!(!output.contains("settings file"), "{output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_effective_settings_are_printed_without_secrets() -> Outcome {
    let directory = tempfile::tempdir()?;
    let environment = nowhere(&directory)
        .with("APP__OUTBOX__RELAY__WORKERS", "7")
        .with("APP__OPERATIONS__OPS_TOKEN", "hidden-token-of-the-operators")
        .with("APP__DATABASE__DIRECT_URL", "postgres://somebody:hidden-direct@127.0.0.1:9/nowhere");
    let (status, output) = run(&environment, &["config"]).await?;
    assert!(status.success(), "{output}");
    let settings: toml::Table = toml::from_str(&output)?;
    assert_eq!(settings["outbox"]["relay"]["workers"].as_integer(), Some(7));
    assert!(!output.contains("hidden"), "{output}");
    Ok(())
}

/// Settings that cannot be used: what describes the program needs none.
fn without_settings(directory: &tempfile::TempDir) -> AppEnvironment {
    nowhere(directory).with("APP__OUTBOUND__PUBLISHER", "pigeon")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_shell_is_given_completions_that_know_the_commands_and_bash_completes_by_them() -> Outcome {
    const COMPLETE: &str = "set -u; . \"$0\"; complete -p app >/dev/null; COMP_WORDS=(app outbox requ); COMP_CWORD=2; \
         _app app requ outbox; echo \"${COMPREPLY[*]}\"";
    let directory = tempfile::tempdir()?;
    let environment = without_settings(&directory);
    for (shell, words) in [
        ("bash", ["complete -F _app", "app__subcmd__outbox__subcmd__requeue", "--published-from"]),
        ("zsh", ["#compdef app", "(requeue)", "--published-from"]),
        ("fish", ["complete -c app", "-a \"requeue\"", "-l published-from"]),
    ] {
        let (status, script) = run(&environment, &["completions", shell]).await?;
        assert!(status.success(), "{shell}: {script}");
        for word in words {
            assert!(script.contains(word), "{shell}: {word} is missing in\n{script}");
        }
        std::fs::write(directory.path().join(shell), script)?;
    }
    let bash = Command::new("bash").args(["-c", COMPLETE]).arg(directory.path().join("bash")).output().await?;
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "requeue", "{}", String::from_utf8_lossy(&bash.stderr));

    let (status, refused) = run(&environment, &["completions", "tcl"]).await?;
    assert_eq!(status.code(), Some(2), "{refused}");
    assert!(refused.contains("'tcl'") && refused.contains("bash") && refused.contains("fish"), "{refused}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_is_printed_or_written_page_by_page_and_a_folder_that_is_missing_is_named() -> Outcome {
    let directory = tempfile::tempdir()?;
    let environment = without_settings(&directory);
    let (status, page) = run(&environment, &["man"]).await?;
    assert!(status.success() && page.contains(".TH app 1") && page.contains(".SH SUBCOMMANDS"), "{page}");

    let folder = directory.path().join("man1");
    let into = ["man", "--into", folder.to_str().ok_or("a path of text")?];
    let (status, refused) = run(&environment, &into).await?;
    assert_eq!(status.code(), Some(1), "{refused}");
    let named = format!("error: the manual cannot be written to {}\n  because ", folder.display());
    assert!(refused.starts_with(&named), "{refused}");
    std::fs::create_dir(&folder)?;
    let (status, nothing) = run(&environment, &into).await?;
    assert!(status.success() && nothing.is_empty(), "{nothing}");
    for page in ["app.1", "app-migrate.1", "app-outbox-requeue.1", "app-inbox-unpark.1"] {
        let text = std::fs::read_to_string(folder.join(page))?;
        let name = page.trim_end_matches(".1");
        assert!(text.contains(&format!(".TH {name} 1")), "{page}: {text}");
    }
    let requeue = std::fs::read_to_string(folder.join("app-outbox-requeue.1"))?;
    assert!(requeue.contains("Exit codes: 0 done"), "{requeue}");
    Ok(())
}
