//! What processes use, as Linux tells it: processor time, memory, who listens on a port.

use std::{collections::HashMap, fs, path::Path};

/// The unit of processor times in `/proc`; the same on every architecture that Rust runs Linux on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor seconds of a process and all its descendants, those that ended and were waited for included.
pub(crate) fn cpu_seconds(root: u32) -> Option<f64> {
    let all = processes();
    all.get(&root)?;
    let mut ticks = 0.0;
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        ticks += all.get(&pid).map_or(0.0, |process| process.ticks);
        waiting.extend(all.iter().filter(|(_, process)| process.parent == pid).map(|(child, _)| *child));
    }
    Some(ticks / TICKS_PER_SECOND)
}

/// Processor seconds of this process alone: the servers are descendants of it and do not count.
pub(crate) fn own_cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    process(&stat).map(|process| process.own_ticks / TICKS_PER_SECOND)
}

struct Process {
    parent: u32,
    own_ticks: f64,
    /// With those of children that ended.
    ticks: f64,
}

fn processes() -> HashMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Reads a line of `/proc/PID/stat`, in which the name may hold anything but ends with the last parenthesis.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let sum = |times: &[&str]| times.iter().filter_map(|time| time.parse::<f64>().ok()).sum();
    Some(Process { parent, own_ticks: sum(fields.get(11..13)?), ticks: sum(fields.get(11..15)?) })
}

/// Resident memory of a process in MiB: now, and the most there ever was.
pub(crate) fn memory(pid: u32) -> Option<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1_024.0)
    };
    Some((mib("VmRSS:")?, mib("VmHWM:")?))
}

/// The process that listens on a TCP port of this machine; `None` if there is none or it cannot be seen.
pub(crate) fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let socket = tables.iter().flat_map(|table| table.lines()).find_map(|line| listening_socket(line, port))?;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().find(|pid| holds(Path::new(&format!("/proc/{pid}/fd")), &socket))
}

/// The socket of a line of `/proc/net/tcp` if it listens on the port.
fn listening_socket(line: &str, port: u16) -> Option<String> {
    const LISTENING: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let local = fields.get(1)?.rsplit_once(':')?.1;
    let fits = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTENING;
    fits.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
}

fn holds(folder: &Path, socket: &str) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.to_str() == Some(socket))
}

/// What all processors have done since the machine started, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processors {
    idle: f64,
    all: f64,
}

impl Processors {
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        let times: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
        Some(Self { idle: times.get(3)? + times.get(4)?, all: times.iter().take(8).sum() })
    }

    /// The part of all processors that was used since an earlier look.
    pub(crate) fn busy_since(self, earlier: Self) -> Option<f64> {
        (self.all > earlier.all).then(|| 1.0 - (self.idle - earlier.idle) / (self.all - earlier.all))
    }
}

/// The part of all processors that was used since an earlier look; `None` where that cannot be seen.
pub(crate) fn busy_since(earlier: Option<Processors>) -> Option<f64> {
    Processors::now()?.busy_since(earlier?)
}

/// How many processes wanted to run, as a mean of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_process_with_an_odd_name_is_read() {
        let line = "77 (a (b) c) S 7 1 1 0 -1 4194304 9 9 0 0 150 50 25 75 20 0 1 0 3 4 5";
        let process = process(line).unwrap();
        assert_eq!((process.parent, process.own_ticks, process.ticks), (7, 200.0, 300.0));
        assert!(super::process("nonsense").is_none());
    }

    #[test]
    fn this_process_is_seen_with_its_port_its_memory_and_its_time() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let me = std::process::id();
        assert_eq!(listener(server.local_addr().unwrap().port()), Some(me));
        let (now, most) = memory(me).unwrap();
        assert!(now > 0.0 && most >= now);
        assert!(own_cpu_seconds() <= cpu_seconds(me));
        assert!(own_cpu_seconds().is_some());
        assert!(cpu_seconds(u32::MAX).is_none());
    }

    #[test]
    fn processors_that_wait_for_a_disk_are_idle() {
        let read = |stat| Processors::read(stat).unwrap();
        let earlier = read("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1");
        let later = read("cpu  150 0 125 710 115 0 0 0 0 0\n");
        assert_eq!(later.busy_since(earlier), Some(0.75));
        assert_eq!(later.busy_since(later), None);
        assert!(Processors::read("cpu  1 2 3").is_none());
    }

    #[test]
    fn a_socket_that_only_connects_is_no_listener() {
        let line = "0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1";
        assert_eq!(listening_socket(line, 0x1538).as_deref(), Some("socket:[4711]"));
        assert_eq!(listening_socket(line, 1), None);
        assert_eq!(listening_socket(&line.replace(" 0A ", " 01 "), 0x1538), None);
    }
}
