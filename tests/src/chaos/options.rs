//! The command line.

use std::{path::PathBuf, str::FromStr, time::Duration};

use super::error::ChaosError;

pub(crate) const USAGE: &str = "\
chaos [--seed N] [--minutes M] [--rounds N] [--first-round N] [--more-kills N] [--outage] [--soak] [--json FILE]
      [--report FILE] [--logs FOLDER] [--plant]

  --seed N          what the faults are drawn from (default 42); the same seed draws the same faults
  --minutes M       begins no round after this time (default 30); from 20 on, without --rounds, it is the long form: 200
                    kills and two minutes without RabbitMQ belong to it, or it fails
  --rounds N        runs no more rounds than this
  --first-round N   begins with this round, to repeat one that failed (default 1)
  --more-kills N    adds kills to each round, to repeat one that the long form has added them to
  --outage          the first round is two minutes without RabbitMQ and nothing else
  --soak            a steady load at half the drain rate instead of rounds, with faults in every second minute, sampled each
                    minute; from 20 minutes on, latency, memory and sizes must be flat
  --json FILE       writes the report as JSON
  --report FILE     writes the section between the markers of a Markdown file
  --logs FOLDER     keeps the logs of the processes
  --plant           before the first check, forgets a delivery, removes an event and adds one without a lane: the run
                    must fail
";

/// From here on a run is the long form, and a soak is judged.
pub(crate) const LONG: Duration = Duration::from_mins(20);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) rounds: u32,
    pub(crate) first_round: u32,
    pub(crate) more_kills: u32,
    pub(crate) outage: bool,
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
            more_kills: 0,
            outage: false,
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
                "--more-kills" => options.more_kills = number(argument, value()?)?,
                "--outage" => options.outage = true,
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

    /// Whether the run owes kills and an outage: long enough for both, and not told how many rounds to play.
    pub(crate) const fn is_long_form(&self) -> bool {
        !self.soak && self.rounds == u32::MAX && self.time.as_secs() >= LONG.as_secs()
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
        let again = parse("--first-round 9 --rounds 1 --more-kills 4 --outage").unwrap();
        assert_eq!((again.first_round, again.more_kills, again.outage), (9, 4, true));
        assert!(parse("--seed seven").unwrap_err().contains("--seed needs a number, not `seven`"));
        assert!(parse("--minutes").unwrap_err().contains("--minutes needs a value"));
        assert!(parse("--minute 5").unwrap_err().contains("unknown argument `--minute`"));
    }

    #[test]
    fn the_long_form_has_twenty_minutes_or_more_and_as_many_rounds_as_fit() {
        for (line, is_long_form) in [
            ("", true),
            ("--minutes 20", true),
            ("--minutes 19", false),
            ("--rounds 2", false),
            ("--minutes 20 --soak", false),
        ] {
            assert_eq!(parse(line).unwrap().is_long_form(), is_long_form, "{line}");
        }
    }
}
