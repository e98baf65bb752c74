//! What a run has shown: on the terminal, as JSON, and as a section of a document.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    path::Path,
    time::Duration,
};

use serde::Serialize;
use test_support::checker::DeliveryReport;

use super::{
    error::ChaosError,
    plan::Plan,
    soak::{self, Sample, Trend},
    verdict,
};

/// One round.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Round {
    pub(crate) number: u32,
    pub(crate) plan: String,
    pub(crate) seconds: u64,
    pub(crate) violations: Vec<String>,
    /// KiB of each process at the end.
    pub(crate) memory: BTreeMap<&'static str, u64>,
    /// Everything since the beginning of the run.
    pub(crate) delivery: DeliveryReport,
}

/// All rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    seed: u64,
    seconds: u64,
    kills: u64,
    /// Of these, while the process held a lease.
    kills_in_mid_flight: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
    rounds: Vec<Round>,
    /// Events a second that a soak appends.
    steady_load: Option<f64>,
    samples: Vec<Sample>,
}

impl Round {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { number: plan.round, plan: plan.to_string(), ..Self::default() }
    }

    /// `answered` is the number of events whose commands were answered.
    pub(crate) fn judge(&mut self, delivery: DeliveryReport, answered: i64) {
        if !delivery.is_clean() {
            self.violations.push(format!("deliveries are not as they must be\n{delivery}"));
        }
        if delivery.committed == 0 || u64::try_from(answered) != Ok(delivery.committed) {
            let committed = delivery.committed;
            self.violations.push(format!("clients were answered for {answered} events, and {committed} are committed"));
        }
        self.delivery = delivery;
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duplicates: u64 = self.delivery.allowed_duplicates.values().sum();
        write!(
            f,
            "round {}: {} s, {} events so far, {duplicates} delivered again, ",
            self.number, self.seconds, self.delivery.committed
        )?;
        match self.violations.as_slice() {
            [] => write!(f, "clean"),
            violations => write!(f, "VIOLATED\n{}", violations.join("\n")),
        }
    }
}

impl Summary {
    pub(crate) fn new(seed: u64) -> Self {
        let (faults, violations, rounds) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (steady_load, samples) = (None, Vec::new());
        Self { seed, seconds: 0, kills: 0, kills_in_mid_flight: 0, faults, violations, rounds, steady_load, samples }
    }

    pub(crate) fn steady_load(&mut self, events_a_second: f64) {
        self.steady_load = Some(events_a_second);
    }

    pub(crate) fn add_sample(&mut self, plan: &Plan, sample: Sample) {
        self.count(plan);
        self.samples.push(sample);
    }

    fn count(&mut self, plan: &Plan) {
        for fault in plan.faults() {
            *self.faults.entry(fault.kind()).or_default() += 1;
        }
    }

    pub(crate) fn add(&mut self, plan: &Plan, round: Round) {
        self.count(plan);
        self.violations.extend(round.violations.iter().map(|violation| format!("round {}: {violation}", round.number)));
        self.rounds.push(round);
    }

    pub(crate) fn end(&mut self, took: Duration, (kills, kills_in_mid_flight): (u64, u64)) {
        let memory: Vec<_> = self.rounds.iter().map(|round| round.memory.clone()).collect();
        self.violations.extend(verdict::grown(&memory));
        for Trend { name, first, last, is_flat } in soak::trends(&self.samples) {
            if !is_flat {
                self.violations.push(format!("{name}: grown from {first} to {last}"));
            }
        }
        self.kills = kills;
        if self.rounds.is_empty() {
            self.violations.push("no round was played".to_owned());
        }
        self.seconds = took.as_secs();
        self.kills_in_mid_flight = kills_in_mid_flight;
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// The figures, in the order of a reader's interest.
    fn figures(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        let mut add = |label: &str, value: String| figures.push((label.to_owned(), value));
        let delivery = self.rounds.last().map(|round| round.delivery.clone()).unwrap_or_default();
        add("rounds", self.rounds.len().to_string());
        add("minutes", (self.seconds / 60).to_string());
        add("events committed", delivery.committed.to_string());
        add("events delivered", delivery.delivered.to_string());
        add("effects applied", delivery.effects.to_string());
        for (reason, count) in &delivery.allowed_duplicates {
            add(&format!("delivered again ({reason})"), count.to_string());
        }
        add("processes killed", self.kills.to_string());
        add("of these, while they held a lease", self.kills_in_mid_flight.to_string());
        for (kind, count) in &self.faults {
            add(&format!("fault: {kind}"), count.to_string());
        }
        let most = |rounds: &[Round]| rounds.iter().flat_map(|round| round.memory.values()).max().copied();
        let (first, later) = self.rounds.split_at(self.rounds.len().min(verdict::FIRST_ROUNDS));
        for (label, kib) in [("first", most(first)), ("later", most(later))] {
            if let Some(kib) = kib {
                add(&format!("most memory of a process, {label} rounds (KiB)"), kib.to_string());
            }
        }
        if let Some(load) = self.steady_load {
            add("steady load (events a second)", format!("{load:.0}"));
        }
        for Trend { name, first, last, is_flat } in soak::trends(&self.samples) {
            let judged = if is_flat { "flat" } else { "grown" };
            add(&format!("{name}, first and last third"), format!("{first}, {last}: {judged}"));
        }
        add("violations", self.violations.len().to_string());
        figures
    }

    fn section(&self) -> String {
        let mut text = format!("Seed {}.\n\n| figure | value |\n| --- | --- |\n", self.seed);
        for (label, value) in self.figures() {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "| {label} | {value} |");
        }
        for sample in &self.samples {
            let _written = writeln!(text, "{}- {sample}", if sample.is_first() { "\n" } else { "" });
        }
        for violation in &self.violations {
            let _written = writeln!(text, "\n```text\n{violation}\n```");
        }
        text
    }
}

#[expect(clippy::print_stdout, reason = "chaos talks to a person")]
pub(crate) fn say(text: &str) {
    println!("[chaos] {text}");
}

/// The table, what was violated, and how to repeat it.
#[expect(clippy::print_stdout, reason = "chaos talks to a person")]
pub(crate) fn print(summary: &Summary) {
    println!();
    for (label, value) in summary.figures() {
        println!("  {label:<58} {value:>8}");
    }
    println!();
    for violation in &summary.violations {
        println!("{violation}");
    }
    if let Some(round) = summary.rounds.iter().find(|round| !round.violations.is_empty()) {
        let (seed, number) = (summary.seed, round.number);
        println!("again: cargo xtask chaos --seed {seed} --first-round {number} --rounds 1 --logs FOLDER");
    }
}

/// Replaces what stands between the markers of the document, which gets a section with markers if it has none.
pub(crate) fn write_section(file: &Path, summary: &Summary) -> Result<(), ChaosError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "# Reliability\n".to_owned(),
        Err(error) => return Err(error.into()),
    };
    let title = if summary.steady_load.is_some() { "Soak" } else { "Chaos" };
    Ok(std::fs::write(file, with_section(&text, title, &summary.section()))?)
}

fn with_section(text: &str, title: &str, section: &str) -> String {
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {}: {word} -->", title.to_lowercase()));
    let section = format!("{begin}\n{}\n{end}", section.trim_end());
    let after = end.len();
    let markers = text.find(&begin).zip(text.find(&end)).filter(|(begin, end)| begin < end);
    match markers.and_then(|(begin, end)| Some((text.get(..begin)?, text.get(end + after..)?))) {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n## {title}\n\n{section}\n", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::with_section;

    #[test]
    fn a_section_is_added_once_and_then_replaced_in_its_place() {
        let once = with_section("# Reliability\n", "Chaos", "one\n");
        assert_eq!(once, "# Reliability\n\n## Chaos\n\n<!-- chaos: begin -->\none\n<!-- chaos: end -->\n");
        let followed = format!("{once}\n## Next\n");
        assert_eq!(with_section(&followed, "Chaos", "two"), followed.replace("one", "two"));
    }
}
