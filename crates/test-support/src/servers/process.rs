//! The processes of a server: finding and signalling the whole tree.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    error::ServersError,
    ready::{Look, Unmet, until},
};

const STOPPING: Duration = Duration::from_secs(10);

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    state: char,
}

impl Process {
    /// Stopped, or dead and therefore at rest.
    fn rests(self) -> bool {
        matches!(self.state, 'T' | 't' | 'Z' | 'X')
    }
}

/// `root` and all that descend from it.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    descent(&table(), root).into_iter().map(|process| process.pid).collect()
}

/// Sends a signal; a process that has ended meanwhile is no error.
pub(crate) fn signal(pid: i32, signal: Signal) -> Result<(), ServersError> {
    let Some(target) = Pid::from_raw(pid) else {
        return Ok(());
    };
    match kill_process(target, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(ServersError::io(format!("send signal {signal:?} to {pid}"))(error.into())),
    }
}

/// Sends a signal to every process of the tree, the root first.
pub(crate) fn signal_tree(root: i32, what: Signal) -> Result<(), ServersError> {
    tree(root).into_iter().try_for_each(|pid| signal(pid, what))
}

/// Stops every process of the tree, those included that are born meanwhile.
pub(crate) async fn freeze(root: i32) -> Result<(), ServersError> {
    let frozen = until(STOPPING, async || {
        let awake: Vec<_> = descent(&table(), root).into_iter().filter(|process| !process.rests()).collect();
        for process in &awake {
            if let Err(error) = signal(process.pid, Signal::STOP) {
                return Look::Never(error);
            }
        }
        if awake.is_empty() { Look::Done(()) } else { Look::NotYet(format!("{} processes still run", awake.len())) }
    });
    frozen.await.map_err(|unmet| match unmet {
        Unmet::Never(error) => error,
        Unmet::Late(_) => {
            ServersError::TimedOut { what: format!("stopping all processes of {root}"), within: STOPPING }
        }
    })
}

fn descent(table: &[Process], root: i32) -> Vec<Process> {
    let mut found: Vec<_> = table.iter().copied().filter(|process| process.pid == root).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(table.iter().copied().filter(|process| process.parent == parent && process.pid != parent));
        next += 1;
    }
    found
}

fn table() -> Vec<Process> {
    match fs::read_dir("/proc/self") {
        Ok(_) => proc_table(),
        Err(_no_proc) => ps_table(),
    }
}

fn proc_table() -> Vec<Process> {
    let Ok(entries) = fs::read_dir(Path::new("/proc")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            parse_stat(pid, &stat)
        })
        .collect()
}

/// `pid (name) state parent …`, where the name may hold blanks and parentheses.
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, state })
}

fn ps_table() -> Vec<Process> {
    let output = std::process::Command::new("ps").args(["-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_ps).collect()
}

fn parse_ps(line: &str) -> Option<Process> {
    let mut fields = line.split_whitespace();
    Some(Process {
        pid: fields.next()?.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        state: fields.next()?.chars().next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Process, descent, parse_ps, parse_stat, ps_table};

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let expected = Process { pid: 7, parent: 3, state: 'S' };
        assert_eq!(parse_stat(7, "7 (a) b (c) S 3 7 7 0 -1"), Some(expected));
        assert_eq!(parse_ps("    7     3 Ss+"), Some(expected));
    }

    #[test]
    fn grandchildren_belong_to_the_tree_and_strangers_do_not() {
        let table = [(1, 0), (5, 1), (6, 5), (7, 6), (8, 1)].map(|(pid, parent)| Process { pid, parent, state: 'S' });
        let found: Vec<_> = descent(&table, 5).iter().map(|process| process.pid).collect();
        assert_eq!(found, [5, 6, 7]);
    }

    #[test]
    fn ps_lists_this_very_process_where_it_is_installed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let table = ps_table();
        assert!(table.is_empty() || table.iter().any(|process| process.pid == own));
    }
}
