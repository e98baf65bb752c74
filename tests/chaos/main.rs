//! The short form of chaos, as a program of its own, so that its exit code counts.

use std::{error::Error, process::Output, time::Duration};

use tokio::{process::Command, sync::Mutex};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a short run may take on a slow machine.
const PATIENCE: Duration = Duration::from_mins(12);
/// Two rounds of it have all of [`KINDS`].
const SEED: &str = "667";
/// What the register of cases says that the fixed seed provokes.
const KINDS: [&str; 7] = [
    "SIGKILL",
    "SIGKILL of the leader while it cleans",
    "SIGSTOP longer than the lease",
    "PostgreSQL immediate stop",
    "RabbitMQ memory alarm",
    "full queue, reject-publish",
    "TCP black-holed",
];
/// Servers and processes of two runs at once would starve each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn chaos(arguments: &[&str]) -> Outcome<(Option<i32>, String)> {
    let _turn = ONE_AT_A_TIME.lock().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(arguments).kill_on_drop(true);
    let Output { status, stdout, stderr } = tokio::time::timeout(PATIENCE, command.output()).await??;
    let text = [stdout, stderr].concat();
    Ok((status.code(), String::from_utf8_lossy(&text).into_owned()))
}

#[tokio::test]
async fn no_event_is_lost_repeated_without_reason_or_out_of_order_under_faults_of_a_fixed_seed() -> Outcome {
    let directory = tempfile::tempdir()?;
    let (json, section) = (directory.path().join("chaos.json"), directory.path().join("page.md"));
    let files = [json.to_str().unwrap_or_default(), section.to_str().unwrap_or_default()];
    let (code, output) = chaos(&["--seed", SEED, "--rounds", "2", "--json", files[0], "--report", files[1]]).await?;
    assert_eq!(code, Some(0), "{output}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    assert_eq!(report["rounds"].as_array().map(Vec::len), Some(2), "{report}");
    assert_eq!(report["violations"], serde_json::json!([]), "{report}");
    for kind in KINDS {
        assert!(report["faults"][kind].as_u64() > Some(0), "the seed draws no `{kind}`: {report}");
    }
    assert!(std::fs::read_to_string(&section)?.contains("| violations | 0 |"));
    Ok(())
}

#[tokio::test]
async fn chaos_fails_and_names_what_was_planted() -> Outcome {
    let (code, output) = chaos(&["--seed", SEED, "--rounds", "1", "--plant"]).await?;
    assert_eq!(code, Some(1), "{output}");
    let found = |name: &str| {
        output.lines().any(|line| line.starts_with(name) && line.split_whitespace().any(|word| word == "1"))
    };
    assert!(found("lost ") && found("phantom ") && found("effect phantom ") && found("stuck "), "{output}");
    assert!(output.contains("stuck: open events without a lane: lane "), "{output}");
    assert!(output.contains(" of planted/without-a-lane, "), "{output}");
    assert!(output.contains("again: cargo xtask chaos --seed 667 --first-round 1 --rounds 1"), "{output}");
    Ok(())
}

#[tokio::test]
async fn a_command_line_that_cannot_be_used_is_refused() -> Outcome {
    let (code, output) = chaos(&["--rounds", "some"]).await?;
    assert_eq!(code, Some(64), "{output}");
    assert!(output.contains("--rounds needs a number"), "{output}");
    Ok(())
}
