//! What happens in a round, drawn before it begins.

use std::{fmt, time::Duration};

use super::{
    dice::Dice,
    fault::{Fault, NetworkFault, PostgresFault, ProcessFault, RabbitMqFault, Target},
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
        Self { seed, round, strikes }
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
        for (index, Strike { at, fault }) in self.strikes.iter().enumerate() {
            write!(f, "{} {fault} at {} ms", if index == 0 { "" } else { ";" }, at.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Fault, Plan};

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
        let kill = |fault: &Fault| matches!(fault, Fault::Process(fault) if fault.kills());
        let kills = plans.iter().flat_map(Plan::faults).filter(kill).count();
        assert_eq!(kinds.len(), 20, "{kinds:?}");
        assert!(kills > 200);
    }
}
