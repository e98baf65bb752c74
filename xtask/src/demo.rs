//! `demo`: builds everything and hands over to the demo program of the system tests.

use crate::{binaries::Binaries, command::Command, process, workspace};

/// The command `demo`.
pub const COMMAND: Command = Command {
    name: "demo",
    arguments: "",
    summary: "shows work logs arriving at a consumer while a relay is killed",
    run: |arguments| {
        process::no_arguments("demo", arguments)?;
        let root = workspace::root();
        Err(process::become_program(&mut Binaries::build(&root)?.command(&root, "demo")?))
    },
};
