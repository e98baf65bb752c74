//! What happens in a round, drawn before it begins.

use std::{fmt, time::Duration};

use super::{
    dice::Dice,
    fault::{Fault, NetworkFault, PostgresFault, ProcessFault, RabbitMqFault, Target},
    fleet,
};

/// A fault and when it begins, counted from the beginning of the faults. One to the same target that lasts delays it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// The strikes of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    seed: u64,
    pub(crate) round: u32,
    strikes: Vec<Strike>,
    more_kills: u32,
}

impl Plan {
    /// The same seed and round draw the same plan.
    pub(crate) fn draw(seed: u64, round: u32) -> Self {
        let mut dice = Dice::new(seed, round);
        let mut strikes = Vec::new();
        for _ in 0..dice.within(5..10) {
            strikes.push(Strike { at: dice.millis(0..8_000), fault: Fault::Process(ProcessFault::draw(&mut dice)) });
        }
        if dice.within(0..3) > 0 {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::Postgres(PostgresFault::draw(&mut dice)) });
        }
        if dice.within(0..3) > 0 {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::RabbitMq(RabbitMqFault::draw(&mut dice)) });
        }
        for _ in 0..dice.within(0..3) {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::Network(NetworkFault::draw(&mut dice)) });
        }
        strikes.sort_by_key(|strike| strike.at);
        Self { seed, round, strikes, more_kills: 0 }
    }

    /// Minutes without RabbitMQ, and nothing else: every process lives meanwhile.
    pub(crate) fn outage(seed: u64, round: u32) -> Self {
        let strikes = vec![Strike { at: Duration::ZERO, fault: Fault::RabbitMq(RabbitMqFault::Outage) }];
        Self { seed, round, strikes, more_kills: 0 }
    }

    /// The same with `more` kills beside its strikes, dealt round the processes so that they happen side by side.
    pub(crate) fn with_more_kills(mut self, more: u32) -> Self {
        let mut dice = Dice::beside(self.seed, self.round);
        let from = usize::try_from(dice.within(0..fleet::NAMES.len() as u64)).unwrap_or_default();
        let names = fleet::NAMES.into_iter().cycle().skip(from);
        let kill = |(_, name)| Strike { at: dice.millis(0..8_000), fault: Fault::Process(ProcessFault::Kill { name }) };
        self.strikes.extend((0..more).zip(names).map(kill));
        self.strikes.sort_by_key(|strike| strike.at);
        self.more_kills += more;
        self
    }

    /// What draws this plan again, beside the seed and the number of the round.
    pub(crate) fn options(&self) -> String {
        let outage = if self.is_outage() { " --outage" } else { "" };
        if self.more_kills > 0 { format!("{outage} --more-kills {}", self.more_kills) } else { outage.to_owned() }
    }

    pub(crate) fn is_outage(&self) -> bool {
        self.faults().any(|fault| fault == Fault::RabbitMq(RabbitMqFault::Outage))
    }

    /// The kills among its strikes.
    pub(crate) fn kills(&self) -> u64 {
        self.faults().filter(|fault| matches!(fault, Fault::Process(fault) if fault.kills())).count() as u64
    }

    /// The strikes of each target, in order.
    pub(crate) fn by_target(&self) -> Vec<Vec<Strike>> {
        let mut targets: Vec<(Target, Vec<Strike>)> = Vec::new();
        for strike in &self.strikes {
            match targets.iter_mut().find(|(target, _)| *target == strike.fault.target()) {
                Some((_, strikes)) => strikes.push(*strike),
                None => targets.push((strike.fault.target(), vec![*strike])),
            }
        }
        targets.into_iter().map(|(_, strikes)| strikes).collect()
    }

    /// The same with its first strikes alone.
    pub(crate) fn first(mut self, strikes: usize) -> Self {
        self.strikes.truncate(strikes);
        self
    }

    pub(crate) fn faults(&self) -> impl Iterator<Item = Fault> {
        self.strikes.iter().map(|strike| strike.fault)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {} seed {}:", self.round, self.seed)?;
        if self.strikes.is_empty() {
            write!(f, " no fault")?;
        }
        for (index, Strike { at, fault }) in self.strikes.iter().enumerate() {
            write!(f, "{} {fault} at {} ms", if index == 0 { "" } else { ";" }, at.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Fault, Plan, ProcessFault, fleet::NAMES};

    #[test]
    fn a_seed_repeats_its_plans_and_a_round_does_not_depend_on_those_before() {
        assert_eq!(Plan::draw(42, 9), Plan::draw(42, 9));
        assert_ne!(Plan::draw(42, 9).to_string(), Plan::draw(42, 10).to_string());
        assert!(Plan::draw(42, 9).to_string().starts_with("round 9 seed 42: "));
    }

    #[test]
    fn a_long_run_draws_every_kind_of_fault_and_hundreds_of_kills() {
        let plans: Vec<_> = (1..=80).map(|round| Plan::draw(42, round)).collect();
        let kinds: BTreeSet<_> = plans.iter().flat_map(Plan::faults).map(|fault| fault.kind()).collect();
        assert_eq!(kinds.len(), 20, "{kinds:?}");
        assert!(plans.iter().map(Plan::kills).sum::<u64>() > 200);
    }

    #[test]
    fn kills_that_are_added_leave_the_other_strikes_as_they_are_and_go_round_the_processes() {
        let (drawn, more) = (Plan::draw(42, 9), Plan::draw(42, 9).with_more_kills(8));
        assert_eq!(more.kills(), drawn.kills() + 8);
        assert!(drawn.strikes.iter().all(|strike| more.strikes.contains(strike)));
        assert!(more.strikes.is_sorted_by_key(|strike| strike.at));
        for name in NAMES {
            let kill = Fault::Process(ProcessFault::Kill { name });
            let of = |plan: &Plan| plan.faults().filter(|fault| *fault == kill).count();
            assert_eq!(of(&more), of(&drawn) + 2, "{name}");
        }
        assert_eq!(more, Plan::draw(42, 9).with_more_kills(8));
        assert_eq!((drawn.options().as_str(), more.options().as_str()), ("", " --more-kills 8"));
    }

    #[test]
    fn an_outage_is_the_one_strike_of_its_round() {
        let outage = Plan::outage(42, 9);
        assert!(outage.is_outage() && !Plan::draw(42, 9).is_outage());
        assert_eq!((outage.faults().count(), outage.kills()), (1, 0));
        assert_eq!(outage.options(), " --outage");
    }
}
