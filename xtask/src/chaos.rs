//! `chaos`: builds everything and hands over to the chaos program of the system tests.

use crate::{binaries::Binaries, command::Command, process, workspace};

/// The command `chaos`.
pub const COMMAND: Command = Command {
    name: "chaos",
    arguments: "[--seed N] [--minutes M] [--soak] [ARGUMENT]...",
    summary: "lets processes, servers and network fail as a seed says, and checks every event",
    run: |arguments| {
        let root = workspace::root();
        Err(process::become_program(Binaries::build(&root)?.command(&root, "chaos")?.args(arguments)))
    },
};
