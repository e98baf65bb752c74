//! `bench`: builds the service and the benchmarks with optimisations, runs them, and writes results into the book.

mod results;

use std::{fs, path::Path};

use crate::{Error, binaries::Binaries, command::Command, output, process, workspace};

/// The command `bench`.
pub const COMMAND: Command = Command {
    name: "bench",
    arguments: "[--quick] [--only NAME] [--json FILE] | --list | --write-docs FILE",
    summary: "measures the outbox against limits taken in the same run; --write-docs puts a report into the book",
    run: |arguments| run(&workspace::root(), arguments),
};

const DOCUMENT: &str = "docs/benchmarks.md";
const WRITE_DOCS: &str = "--write-docs";

fn run(root: &Path, arguments: &[String]) -> Result<u8, Error> {
    match arguments {
        [flag, file] if flag == WRITE_DOCS => write_docs(root, Path::new(file)),
        _ if arguments.iter().any(|argument| argument == WRITE_DOCS) => Err(Error::UnknownArgument {
            command: "bench",
            argument: arguments.join(" "),
            expected: "--write-docs and a report alone",
        }),
        _ => {
            let binaries = Binaries::build_in_release(root, &["benchmarks", "app-bootstrap"])?;
            let mut command = binaries.command(root, "bench")?;
            // A report is written where the reader stands, as he would expect of a relative path.
            if let Ok(folder) = std::env::current_dir() {
                command.current_dir(folder);
            }
            Err(process::become_program(command.args(arguments)))
        }
    }
}

/// Replaces the results in the book by those of the report.
fn write_docs(root: &Path, report: &Path) -> Result<u8, Error> {
    let report = workspace::read_text(report)?;
    let path = root.join(DOCUMENT);
    let page = workspace::read_text(&path)?;
    let written = results::render(&report, &page)
        .and_then(|results| Some((results::replace(&page, &results.text)?, results.unexplained)));
    let Some((page, unexplained)) = written else {
        return Err(Error::Unreadable {
            what: "report or page",
            expected: "a report of `--json`, and a page with the lines that mark its results",
        });
    };
    fs::write(&path, page).map_err(|source| Error::Write { path, source })?;
    output::say(&format!("wrote the results into {DOCUMENT}"));
    for target in unexplained {
        output::say(&format!("missed and not explained there: {target}"));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{run, write_docs};
    use crate::Error;

    #[test]
    fn results_are_written_alone_or_not_at_all() {
        let arguments = ["--quick", "--write-docs", "a.json"].map(str::to_owned);
        let error = run(Path::new("/nowhere"), &arguments).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }

    #[test]
    fn what_is_no_report_leaves_the_page_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        let (page, report) = (folder.path().join(super::DOCUMENT), folder.path().join("report.json"));
        std::fs::write(&page, "text").unwrap();
        std::fs::write(&report, "{}").unwrap();
        let error = write_docs(folder.path(), &report).unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "text");
    }
}
