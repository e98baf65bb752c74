//! Where the demo sees the deliveries: at the exchange, or in what the relays write to standard output.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use uuid::Uuid;

use crate::tap::{Seen, Tap};

/// One event as it was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The event.
    pub(super) event: Uuid,
    /// Its type.
    pub(super) event_type: String,
    /// The aggregate's type and identifier, with a slash between them.
    pub(super) aggregate: String,
    /// The place in the aggregate's order.
    pub(super) sequence: i64,
    /// The process that published it; standard output, which all share, does not tell.
    pub(super) relay: Option<String>,
}

/// All deliveries so far, in the order of delivery.
#[derive(Debug)]
pub(super) enum Deliveries {
    /// What comes to a queue at the exchange.
    Tap(Tap),
    /// What the relays append to one file.
    Lines(Lines),
}

impl Deliveries {
    /// What was delivered behind the first `already` deliveries.
    pub(super) fn after(&self, already: usize) -> Vec<Arrival> {
        match self {
            Self::Tap(tap) => tap.seen_after(already).into_iter().map(Arrival::from).collect(),
            Self::Lines(lines) => lines.after(already),
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Tap(tap) => tap.count(),
            Self::Lines(lines) => lines.after(0).len(),
        }
    }

    /// Whether a consumer applies them as well.
    pub(super) fn are_consumed(&self) -> bool {
        matches!(self, Self::Tap(_))
    }
}

impl From<Seen> for Arrival {
    fn from(seen: Seen) -> Self {
        let Seen { event, event_type, aggregate, sequence, publisher, .. } = seen;
        Self { event, event_type, aggregate, sequence, relay: publisher }
    }
}

/// A file to which relays append an envelope a line.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    read: Mutex<ReadSoFar>,
}

#[derive(Debug, Default)]
struct ReadSoFar {
    bytes: u64,
    arrivals: Vec<Arrival>,
}

impl Lines {
    pub(super) fn of(path: PathBuf) -> Self {
        Self { path, read: Mutex::default() }
    }

    fn after(&self, already: usize) -> Vec<Arrival> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // There is no file before the first process starts; the next look finds what this one could not read.
        if let Ok(text) = self.rest(read.bytes) {
            let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let lines = text.get(..complete).unwrap_or_default().split(|byte| *byte == b'\n');
            read.arrivals.extend(lines.filter_map(arrival));
            read.bytes += u64::try_from(complete).unwrap_or_default();
        }
        read.arrivals.get(already..).unwrap_or_default().to_vec()
    }

    fn rest(&self, from: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    }
}

fn arrival(line: &[u8]) -> Option<Arrival> {
    let envelope: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| envelope.get(name)?.as_str();
    Some(Arrival {
        event: Uuid::parse_str(text("eventId")?).ok()?,
        event_type: text("eventType")?.to_owned(),
        aggregate: format!("{}/{}", text("aggregateType")?, text("aggregateId")?),
        sequence: envelope.get("sequence")?.as_i64()?,
        relay: None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Lines;

    #[test]
    fn a_line_counts_once_it_is_complete_and_is_read_once() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let lines = Lines::of(file.path().to_owned());
        let line = |sequence: i64| {
            serde_json::json!({
                "eventId": uuid::Uuid::from_u128(sequence.unsigned_abs().into()), "eventType": "WorkLogReserved",
                "aggregateType": "work-log", "aggregateId": "a", "sequence": sequence
            })
        };
        let (first, second) = (line(1).to_string(), line(2).to_string());
        let (begin, end) = second.split_at(20);
        write!(file, "{first}\n{begin}").expect("written");
        assert_eq!(lines.after(0).len(), 1);
        writeln!(file, "{end}").expect("written");
        let sequences = |already| lines.after(already).iter().map(|arrival| arrival.sequence).collect::<Vec<_>>();
        assert_eq!(sequences(0), [1, 2]);
        assert_eq!(sequences(1), [2]);
        assert!(sequences(2).is_empty() && sequences(3).is_empty());
    }
}
