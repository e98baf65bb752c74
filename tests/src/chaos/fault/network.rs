//! What happens to the connections between one process and one server.

use std::{fmt, time::Duration};

use crate::chaos::{dice::Dice, error::ChaosError, fleet, proxy::Weather, stage::Stage, timer::lasting};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Database,
    Broker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Every connection is closed.
    Cut,
    /// The weather is bad for a while. Half-open and black-holed connections are cut when it clears, or go on.
    Bad { weather: Weather, lasts: Duration, then_cut: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetworkFault {
    name: &'static str,
    server: Server,
    trouble: Trouble,
}

impl NetworkFault {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let [first, others @ ..] = fleet::NAMES;
        let name = dice.pick(first, &others);
        let server = dice.pick(Server::Database, &[Server::Broker]);
        let slow = Weather::Slow(dice.millis(5..150));
        let weather = dice.pick(slow, &[Weather::HalfOpen, Weather::BlackHole]);
        let (lasts, then_cut) = (dice.millis(500..8_000), dice.pick(true, &[false]));
        let trouble = if dice.within(0..4) == 0 { Trouble::Cut } else { Trouble::Bad { weather, lasts, then_cut } };
        Self { name, server, trouble }
    }

    pub(crate) const fn is_to_the_database(&self) -> bool {
        matches!(self.server, Server::Database)
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self.trouble {
            Trouble::Cut => "TCP cut",
            Trouble::Bad { weather: Weather::Slow(_), .. } => "TCP slow",
            Trouble::Bad { weather: Weather::HalfOpen, .. } => "TCP half-open",
            Trouble::Bad { .. } => "TCP black-holed",
        }
    }

    pub(crate) async fn happen(&self, stage: &Stage) -> Result<(), ChaosError> {
        let member = stage.fleet.member(self.name)?;
        let proxy = match self.server {
            Server::Database => &member.database,
            Server::Broker => &member.broker,
        };
        match self.trouble {
            Trouble::Cut => proxy.cut(),
            Trouble::Bad { weather, lasts, then_cut } => {
                proxy.set(weather);
                lasting(lasts).await;
                if then_cut {
                    proxy.cut();
                }
                proxy.set(Weather::Fair);
            }
        }
        Ok(())
    }
}

impl fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = match self.server {
            Server::Database => "PostgreSQL",
            Server::Broker => "RabbitMQ",
        };
        let (verb, lasts) = match self.trouble {
            Trouble::Cut => return write!(f, "cut {} off {server}", self.name),
            Trouble::Bad { weather: Weather::Slow(delay), lasts, .. } => (format!("slow down ({delay:?})"), lasts),
            Trouble::Bad { weather: Weather::HalfOpen, lasts, .. } => ("hold back answers".to_owned(), lasts),
            Trouble::Bad { lasts, .. } => ("black-hole".to_owned(), lasts),
        };
        write!(f, "{verb} {} and {server} for {lasts:?}", self.name)
    }
}
