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
    pace::KILLS,
    plan::Plan,
    soak::{Sample, Trend, trends},
    stage::KillCounts,
    verdict,
};

/// One round.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Round {
    pub(crate) number: u32,
    pub(crate) plan: String,
    /// Options that draw the plan again, beside seed and number.
    options: String,
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
    /// Of these, while the process led and cleaned.
    kills_while_cleaning: u64,
    /// The kills that belong to the run, if it is the long form.
    kills_owed: Option<u64>,
    /// Events that waited at the end of the minutes without RabbitMQ.
    waited: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
    /// What belongs to the long form and was not done.
    shortfalls: Vec<String>,
    rounds: Vec<Round>,
    /// Events a second that a soak appends.
    steady_load: Option<f64>,
    samples: Vec<Sample>,
}

impl Round {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { number: plan.round, plan: plan.to_string(), options: plan.options(), ..Self::default() }
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
        Self {
            seed,
            seconds: 0,
            kills: 0,
            kills_in_mid_flight: 0,
            kills_while_cleaning: 0,
            kills_owed: None,
            waited: 0,
            faults: BTreeMap::new(),
            violations: Vec::new(),
            shortfalls: Vec::new(),
            rounds: Vec::new(),
            steady_load: None,
            samples: Vec::new(),
        }
    }

    pub(crate) fn waited(&mut self, events: u64) {
        self.waited = events;
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

    pub(crate) fn end(&mut self, took: Duration, kills: KillCounts) {
        let grown = trends(&self.samples).into_iter().filter(Trend::has_grown);
        self.violations.extend(grown.map(|trend| format!("{}, first and last third: {trend}", trend.name)));
        self.kills = kills.all;
        self.kills_in_mid_flight = kills.mid_flight;
        self.kills_while_cleaning = kills.cleaning;
        if self.rounds.is_empty() {
            self.violations.push("no round was played".to_owned());
        }
        self.seconds = took.as_secs();
    }

    /// Notes what belongs to the long form and is missing. A violation ends a run early: then nothing else is asked of it.
    pub(crate) fn judge_long_form(&mut self, owes_an_outage: bool) {
        self.kills_owed = Some(KILLS);
        if !self.is_clean() {
            return;
        }
        if self.kills < KILLS {
            self.shortfalls.push(format!("kills: {} of {KILLS} (too few)", self.kills));
        }
        if owes_an_outage {
            self.shortfalls.push("outage: RabbitMQ was not down for two minutes".to_owned());
        } else if self.waited == 0 {
            self.shortfalls.push("outage: no event waited while RabbitMQ was down".to_owned());
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether the run is clean and did all that belongs to it.
    pub(crate) fn is_fulfilled(&self) -> bool {
        self.is_clean() && self.shortfalls.is_empty()
    }

    fn told_kills(&self) -> String {
        match self.kills_owed {
            Some(owed) if self.kills < owed => format!("{} of {owed} (too few)", self.kills),
            Some(owed) => format!("{} of {owed}", self.kills),
            None => self.kills.to_string(),
        }
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
        add("processes killed", self.told_kills());
        add("of these, while they held a lease", self.kills_in_mid_flight.to_string());
        add("of these, while they led and cleaned", self.kills_while_cleaning.to_string());
        for (kind, count) in &self.faults {
            add(&format!("fault: {kind}"), count.to_string());
        }
        if self.waited > 0 {
            add("events that waited while RabbitMQ was down", self.waited.to_string());
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
            if trends(&self.samples).is_empty() {
                add("latency, memory and sizes", "not judged: the soak was too short".to_owned());
            }
        }
        for trend in trends(&self.samples) {
            add(&format!("{}, first and last third", trend.name), trend.to_string());
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
        for shortfall in &self.shortfalls {
            let _written = writeln!(text, "\n{shortfall}");
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
    for line in summary.violations.iter().chain(&summary.shortfalls) {
        println!("{line}");
    }
    if let Some(round) = summary.rounds.iter().find(|round| !round.violations.is_empty()) {
        let (seed, Round { number, options, .. }) = (summary.seed, round);
        println!("again: cargo xtask chaos --seed {seed} --first-round {number} --rounds 1{options} --logs FOLDER");
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
    use std::time::Duration;

    use super::{KillCounts, Plan, Round, Summary, with_section};

    fn ended(kills: u64, waited: u64, owes_an_outage: bool) -> Summary {
        let mut summary = Summary::new(42);
        let plan = Plan::draw(42, 1);
        summary.add(&plan, Round::of(&plan));
        summary.waited(waited);
        summary.end(Duration::from_mins(20), KillCounts { all: kills, ..KillCounts::default() });
        summary.judge_long_form(owes_an_outage);
        summary
    }

    #[test]
    fn the_long_form_with_too_few_kills_or_without_its_outage_is_not_fulfilled_and_says_so() {
        assert!(ended(200, 700, false).is_fulfilled());
        let few = ended(126, 700, false);
        assert!(few.is_clean() && !few.is_fulfilled());
        let section = few.section();
        assert!(section.contains("| processes killed | 126 of 200 (too few) |"), "{section}");
        assert!(section.contains("\nkills: 126 of 200 (too few)\n"), "{section}");
        assert!(!ended(200, 0, true).is_fulfilled(), "there was no outage");
        assert!(!ended(200, 0, false).is_fulfilled(), "the outage met nothing");
    }

    #[test]
    fn a_section_is_added_once_and_then_replaced_in_its_place() {
        let once = with_section("# Reliability\n", "Chaos", "one\n");
        assert_eq!(once, "# Reliability\n\n## Chaos\n\n<!-- chaos: begin -->\none\n<!-- chaos: end -->\n");
        let followed = format!("{once}\n## Next\n");
        assert_eq!(with_section(&followed, "Chaos", "two"), followed.replace("one", "two"));
    }
}
