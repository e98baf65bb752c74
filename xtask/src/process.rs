//! Running other programs: cargo above all.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use crate::Error;

/// How long a program's descendants may hold its output open after its end.
const LINGER: Duration = Duration::from_secs(3);

/// Refuses arguments to a command that takes none.
///
/// # Errors
/// [`Error::UnknownArgument`] for the first argument.
pub fn no_arguments(command: &'static str, arguments: &[String]) -> Result<(), Error> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Error::UnknownArgument { command, argument: argument.clone(), expected: "no arguments" }),
    }
}

/// The cargo that runs us, or the one on the search path.
#[must_use]
pub fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo command in the folder `root`.
#[must_use]
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(cargo_path());
    command.current_dir(root);
    forget_our_package(&mut command);
    command
}

/// Takes back what cargo has told us of our own package. Build scripts that watch these variables would run again at each
/// change between `cargo xtask …` and a plain cargo, and everything above them would be built anew.
pub fn forget_our_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let ours =
            name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if ours {
            command.env_remove(name);
        }
    }
}

/// The command line, as a reader would type it.
#[must_use]
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_string_lossy();
    let arguments = command.get_args().map(|argument| format!(" {}", argument.to_string_lossy()));
    std::iter::once(program.into_owned()).chain(arguments).collect()
}

/// Runs a program to its end and gives what it wrote to standard output; standard error is the reader's.
///
/// # Errors
/// [`Error::Run`] if it cannot be run, [`Error::Failed`] if it ends without success.
pub fn output_of(command: &mut Command) -> Result<String, Error> {
    let program = line(command);
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|source| Error::Run { program: program.clone(), source })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Failed { program, status: output.status })
    }
}

/// Runs a program with our own input and output and gives its exit code.
///
/// # Errors
/// [`Error::Run`] if it cannot be run.
pub fn status_of(command: &mut Command) -> Result<u8, Error> {
    let status = command.status().map_err(|source| Error::Run { program: line(command), source })?;
    Ok(code(status))
}

/// Sends what the program writes to our standard error.
pub fn to_errors(command: &mut Command) {
    command.stdout(io::stderr());
}

/// Becomes the program, so that signals and the exit code are its own. Returns if it cannot be run.
#[cfg(unix)]
#[must_use]
pub fn become_program(command: &mut Command) -> Error {
    use std::os::unix::process::CommandExt;
    let program = line(command);
    Error::Run { program, source: command.exec() }
}

/// The exit code that stands for this end.
#[must_use]
pub fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Runs a program, hands each line of its output and errors to `on_line` in the order written, and gives its end.
///
/// A descendant that keeps the output open does not keep us waiting.
///
/// # Errors
/// [`Error::Run`] if it cannot be run.
pub fn follow(mut command: Command, mut on_line: impl FnMut(&str)) -> Result<ExitStatus, Error> {
    let program = line(&command);
    let failed = |source| Error::Run { program: program.clone(), source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    let errors = writer.try_clone().map_err(failed)?;
    let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).spawn().map_err(failed)?;
    // It holds the writing ends: the reader would never see their end.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || read_lines(reader, &sender));
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Disconnected) => return child.wait().map_err(failed),
            Err(RecvTimeoutError::Timeout) => match ended {
                None => ended = child.try_wait().map_err(failed)?.map(|status| (status, Instant::now())),
                Some((status, since)) if since.elapsed() > LINGER => return Ok(status),
                Some(_) => {}
            },
        }
    }
}

fn read_lines(reader: impl Read, sender: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
        let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
        bytes.clear();
        if sender.send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, process::Command};

    use super::{cargo, follow, line, output_of};
    use crate::Error;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn cargo_is_told_nothing_of_our_own_package() {
        let command = cargo(Path::new("."));
        for name in ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR", "CARGO_MANIFEST_DIR"] {
            assert!(command.get_envs().any(|(removed, value)| removed == name && value.is_none()), "{name}");
        }
    }

    #[test]
    fn lines_of_both_outputs_come_in_the_order_written() {
        let mut seen = Vec::new();
        let status = follow(shell("echo a; echo b >&2; echo c; exit 3"), |line| seen.push(line.to_owned())).unwrap();
        assert_eq!((seen.join(" "), status.code()), ("a b c".to_owned(), Some(3)));
    }

    #[test]
    fn descendant_that_keeps_the_output_open_does_not_keep_us_waiting() {
        let mut seen = Vec::new();
        let status = follow(shell("echo a; sleep 60 & echo $!"), |line| seen.push(line.to_owned())).unwrap();
        assert!(status.success());
        let pid = seen.last().unwrap();
        assert!(Command::new("kill").arg(pid).status().unwrap().success(), "it still ran when we went on");
    }

    #[test]
    fn failed_program_is_an_error_that_shows_its_command_line() {
        let error = output_of(&mut shell("exit 7")).unwrap_err();
        assert!(matches!(&error, Error::Failed { program, .. } if program == "sh -c exit 7"), "{error}");
        assert_eq!(line(&shell("true")), "sh -c true");
    }
}
