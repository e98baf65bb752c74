//! What happens in a round, drawn before it begins.

use std::{fmt, time::Duration};

use super::{
    dice::Dice,
    fault::{Fault, Group, NetworkFault, PostgresFault, ProcessFault, RabbitMqFault},
};

/// A fault and when it begins, counted from the beginning of the faults. One of the same group that lasts delays it.
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
}

impl Plan {
    /// The same seed and round draw the same plan.
    pub(crate) fn draw(seed: u64, round: u32) -> Self {
        let mut dice = Dice::new(seed, round);
        let mut strikes = Vec::new();
        for _ in 0..dice.within(3..7) {
            strikes.push(Strike { at: dice.millis(0..8_000), fault: Fault::Process(ProcessFault::draw(&mut dice)) });
        }
        if dice.within(0..2) == 0 {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::Postgres(PostgresFault::draw(&mut dice)) });
        }
        if dice.within(0..2) == 0 {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::RabbitMq(RabbitMqFault::draw(&mut dice)) });
        }
        for _ in 0..dice.within(0..3) {
            strikes.push(Strike { at: dice.millis(0..6_000), fault: Fault::Network(NetworkFault::draw(&mut dice)) });
        }
        strikes.sort_by_key(|strike| strike.at);
        Self { seed, round, strikes }
    }

    pub(crate) fn of(&self, group: Group) -> impl Iterator<Item = Strike> {
        self.strikes.iter().filter(move |strike| strike.fault.group() == group).copied()
    }

    pub(crate) fn faults(&self) -> impl Iterator<Item = Fault> {
        self.strikes.iter().map(|strike| strike.fault)
    }

    /// How many processes are killed.
    pub(crate) fn kills(&self) -> usize {
        self.faults().filter(|fault| matches!(fault, Fault::Process(fault) if fault.kills())).count()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {} seed {}:", self.round, self.seed)?;
        for (index, Strike { at, fault }) in self.strikes.iter().enumerate() {
            write!(f, "{} {fault} at {} ms", if index == 0 { "" } else { ";" }, at.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Plan;

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
        assert!(plans.iter().map(Plan::kills).sum::<usize>() > 200);
    }
}
