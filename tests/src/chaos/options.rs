//! The command line.

use std::{path::PathBuf, str::FromStr, time::Duration};

use super::error::ChaosError;

pub(crate) const USAGE: &str = "\
chaos [--seed N] [--minutes M] [--rounds N] [--first-round N] [--soak] [--json FILE] [--report FILE] [--logs FOLDER]

  --seed N          what the faults are drawn from (default 42); the same seed draws the same faults
  --minutes M       begins no round after this time (default 30)
  --rounds N        runs no more rounds than this
  --first-round N   begins with this round, to repeat one that failed (default 1)
  --soak            a steady load at half the drain rate instead of rounds, with faults now and then, sampled each minute
  --json FILE       writes the report as JSON
  --report FILE     writes the section between the markers of a Markdown file
  --logs FOLDER     keeps the logs of the processes
  --plant           forgets a delivery and removes an event before the first check: the run must fail
";

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) rounds: u32,
    pub(crate) first_round: u32,
    pub(crate) soak: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) logs: Option<PathBuf>,
    pub(crate) plant: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 42,
            time: Duration::from_mins(30),
            rounds: u32::MAX,
            first_round: 1,
            soak: false,
            json: None,
            report: None,
            logs: None,
            plant: false,
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, ChaosError> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| ChaosError::Usage(format!("{argument} needs a value")));
            match argument.as_str() {
                "--seed" => options.seed = number(argument, value()?)?,
                "--minutes" => options.time = Duration::from_mins(number(argument, value()?)?),
                "--rounds" => options.rounds = number(argument, value()?)?,
                "--first-round" => options.first_round = number(argument, value()?)?,
                "--soak" => options.soak = true,
                "--json" => options.json = Some(value()?.into()),
                "--report" => options.report = Some(value()?.into()),
                "--logs" => options.logs = Some(value()?.into()),
                "--plant" => options.plant = true,
                unknown => return Err(ChaosError::Usage(format!("unknown argument `{unknown}`"))),
            }
        }
        Ok(options)
    }
}

fn number<N: FromStr>(argument: &str, value: &str) -> Result<N, ChaosError> {
    value.parse().map_err(|_not_a_number| ChaosError::Usage(format!("{argument} needs a number, not `{value}`")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read_and_wrong_ones_named() {
        let options = parse("--seed 7 --minutes 5 --json a.json --soak").unwrap();
        assert_eq!((options.seed, options.time, options.soak), (7, Duration::from_mins(5), true));
        assert!(parse("--seed seven").unwrap_err().contains("--seed needs a number, not `seven`"));
        assert!(parse("--minutes").unwrap_err().contains("--minutes needs a value"));
        assert!(parse("--minute 5").unwrap_err().contains("unknown argument `--minute`"));
    }
}
