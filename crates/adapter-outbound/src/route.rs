//! Which exchange and routing key an event gets (rule R18).

use std::fmt;

use application_core::{
    outbox::{FailureClass, OutboxEvent, PublishFailure},
    ports::Destination,
};
use serde::{Deserialize, Serialize};

use application_core::SettingProblem;

/// The longest name that AMQP can carry, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The patterns of exchange and routing key.
///
/// A pattern is text in which `{aggregate_type}`, `{event_type}` and, in routing keys, `{aggregate_id}` stand for the
/// event's values. The exchange `""` is the broker's default one, where the routing key is a queue's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteSettings {
    /// The exchange's pattern.
    pub exchange: String,
    /// The routing key's pattern.
    pub routing_key: String,
    /// Exceptions; the first that fits an event counts.
    pub overrides: Vec<RouteOverride>,
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            exchange: "outbox.events".to_owned(),
            routing_key: "{aggregate_type}.{event_type}".to_owned(),
            overrides: Vec::new(),
        }
    }
}

/// Another route for some events. It names an aggregate type, an event type, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteOverride {
    /// Fits events of this aggregate type; any if absent.
    pub aggregate_type: Option<String>,
    /// Fits events of this type; any if absent.
    pub event_type: Option<String>,
    /// The exchange's pattern, if another.
    pub exchange: Option<String>,
    /// The routing key's pattern, if another.
    pub routing_key: Option<String>,
}

impl RouteSettings {
    /// Everything that is wrong; keys begin with `prefix`.
    #[must_use]
    pub fn problems(&self, prefix: &str) -> Vec<SettingProblem> {
        match Route::compile(self, prefix) {
            Ok(_) => Vec::new(),
            Err(problems) => problems,
        }
    }
}

/// The compiled settings.
#[derive(Debug, Clone)]
pub struct Route {
    rules: Vec<Rule>,
    default: PatternPair,
}

/// Where one event goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What fails as one: the exchange, or behind the default exchange the queue.
    pub destination: Destination,
    /// The exchange; empty for the default one.
    pub exchange: String,
    /// The routing key; at most 255 bytes.
    pub routing_key: String,
}

#[derive(Debug, Clone)]
struct Rule {
    aggregate_type: Option<String>,
    event_type: Option<String>,
    patterns: PatternPair,
}

#[derive(Debug, Clone)]
struct PatternPair {
    exchange: Pattern,
    routing_key: Pattern,
}

impl Route {
    /// Compiles the settings.
    ///
    /// # Errors
    /// All problems at once; their keys begin with `prefix`.
    pub fn compile(settings: &RouteSettings, prefix: &str) -> Result<Self, Vec<SettingProblem>> {
        let mut problems = Vec::new();
        let default = PatternPair::compile(&settings.exchange, &settings.routing_key, prefix, &mut problems);
        let mut rules = Vec::with_capacity(settings.overrides.len());
        for (at, entry) in settings.overrides.iter().enumerate() {
            let prefix = format!("{prefix}.overrides[{at}]");
            if entry.aggregate_type.is_none() && entry.event_type.is_none() {
                problems.push(SettingProblem::new(
                    prefix.clone(),
                    "without aggregate_type and event_type",
                    "it must name at least one of them",
                ));
            }
            let exchange = entry.exchange.as_ref().unwrap_or(&settings.exchange);
            let routing_key = entry.routing_key.as_ref().unwrap_or(&settings.routing_key);
            if entry.exchange.is_none() && entry.routing_key.is_none() {
                problems.push(SettingProblem::new(
                    prefix.clone(),
                    "without exchange and routing_key",
                    "it must change at least one of them",
                ));
                continue;
            }
            // A part that is taken over from above has its problems reported there.
            let mut own = Vec::new();
            let patterns = PatternPair::compile(exchange, routing_key, &prefix, &mut own);
            own.retain(|problem| {
                (entry.exchange.is_some() || !problem.key.ends_with(".exchange"))
                    && (entry.routing_key.is_some() || !problem.key.ends_with(".routing_key") || exchange.is_empty())
            });
            problems.extend(own);
            if let Some(patterns) = patterns {
                rules.push(Rule {
                    aggregate_type: entry.aggregate_type.clone(),
                    event_type: entry.event_type.clone(),
                    patterns,
                });
            }
        }
        match (default, problems.is_empty()) {
            (Some(default), true) => Ok(Self { rules, default }),
            _ => Err(problems),
        }
    }

    /// Finds where the event goes.
    ///
    /// # Errors
    /// A failure of class *poison* when a name becomes longer than AMQP can carry.
    pub fn resolve(&self, event: &OutboxEvent) -> Result<Target, PublishFailure> {
        let fits = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        let patterns = self
            .rules
            .iter()
            .find(|rule| {
                fits(&rule.aggregate_type, event.aggregate_type.as_str())
                    && fits(&rule.event_type, event.event_type.as_str())
            })
            .map_or(&self.default, |rule| &rule.patterns);
        let exchange = bounded("exchange", patterns.exchange.fill(event))?;
        let routing_key = bounded("routing key", patterns.routing_key.fill(event))?;
        let destination = if exchange.is_empty() {
            Destination::new(format!("queue {routing_key}"))
        } else {
            Destination::new(exchange.clone())
        };
        Ok(Target { destination, exchange, routing_key })
    }

    /// The exchanges whose names do not depend on the event, in the order of the settings; the default one left out.
    pub(crate) fn fixed_exchanges(&self) -> Vec<String> {
        let mut names = Vec::new();
        for patterns in self.all() {
            match patterns.exchange.fixed() {
                Some(name) if !name.is_empty() && !names.contains(&name) => names.push(name),
                _ => {}
            }
        }
        names
    }

    /// The queues that are addressed by name, through the default exchange.
    pub(crate) fn fixed_queues(&self) -> Vec<String> {
        let mut names = Vec::new();
        for patterns in self.all().filter(|patterns| patterns.exchange.fixed().is_some_and(|name| name.is_empty())) {
            match patterns.routing_key.fixed() {
                Some(name) if !names.contains(&name) => names.push(name),
                _ => {}
            }
        }
        names
    }

    fn all(&self) -> impl Iterator<Item = &PatternPair> {
        std::iter::once(&self.default).chain(self.rules.iter().map(|rule| &rule.patterns))
    }
}

fn bounded(what: &str, name: String) -> Result<String, PublishFailure> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(name);
    }
    let reason = format!("the {what} has {} bytes; AMQP carries {MAX_NAME_BYTES}", name.len());
    Err(PublishFailure::new(FailureClass::Poison, reason))
}

impl PatternPair {
    fn compile(exchange: &str, routing_key: &str, prefix: &str, problems: &mut Vec<SettingProblem>) -> Option<Self> {
        let before = problems.len();
        let mut parse = |name: &str, text: &str, forbidden: Option<(Placeholder, &str)>| {
            let bound = match Pattern::parse(text, forbidden.is_none()) {
                Ok(pattern) => match forbidden.filter(|(placeholder, _)| pattern.has(*placeholder)) {
                    None => return Some(pattern),
                    Some((_, bound)) => bound.to_owned(),
                },
                Err(invalid) => invalid.to_string(),
            };
            problems.push(SettingProblem::new(format!("{prefix}.{name}"), Quoted(text), bound));
            None
        };
        let per_aggregate = |bound| (Placeholder::AggregateId, bound);
        let in_exchange = "an exchange per aggregate would need a channel each: use {aggregate_id} in the routing key";
        let in_queue = "with the default exchange it names a queue, and a queue per aggregate is not supported";
        let by_queue_name = exchange.is_empty();
        let exchange_pattern = parse("exchange", exchange, Some(per_aggregate(in_exchange)));
        let key_pattern = parse("routing_key", routing_key, by_queue_name.then_some(per_aggregate(in_queue)));
        if by_queue_name && routing_key.is_empty() {
            let bound = "with the default exchange it must be a queue's name";
            problems.push(SettingProblem::new(format!("{prefix}.routing_key"), Quoted(routing_key), bound));
        }
        if problems.len() > before {
            return None;
        }
        Some(Self { exchange: exchange_pattern?, routing_key: key_pattern? })
    }
}

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    AggregateType,
    EventType,
    AggregateId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern(Vec<Part>);

const IN_ROUTING_KEYS: &str = "{aggregate_type}, {event_type} and {aggregate_id}";
const IN_EXCHANGES_AND_QUEUES: &str = "{aggregate_type} and {event_type}";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum InvalidPattern {
    #[error("{{{name}}} is no placeholder here; there are {offered}")]
    UnknownPlaceholder { name: String, offered: &'static str },
    #[error("a brace must be part of a placeholder")]
    LoneBrace,
    #[error("its text has {0} bytes; AMQP carries {MAX_NAME_BYTES}")]
    TooLong(usize),
    #[error("it must not hold control characters")]
    ControlCharacter,
}

impl Pattern {
    /// Reads a pattern; `per_aggregate`: whether the aggregate's identifier is offered where a name is unknown.
    fn parse(text: &str, per_aggregate: bool) -> Result<Self, InvalidPattern> {
        if text.chars().any(char::is_control) {
            return Err(InvalidPattern::ControlCharacter);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some((before, after)) = rest.split_once('{') else {
                parts.push(Part::text(rest)?);
                break;
            };
            if !before.is_empty() {
                parts.push(Part::text(before)?);
            }
            let (name, after) = after.split_once('}').ok_or(InvalidPattern::LoneBrace)?;
            parts.push(Part::Value(match name {
                "aggregate_type" => Placeholder::AggregateType,
                "event_type" => Placeholder::EventType,
                "aggregate_id" => Placeholder::AggregateId,
                _ if name.contains('{') => return Err(InvalidPattern::LoneBrace),
                other => {
                    let offered = if per_aggregate { IN_ROUTING_KEYS } else { IN_EXCHANGES_AND_QUEUES };
                    return Err(InvalidPattern::UnknownPlaceholder { name: other.to_owned(), offered });
                }
            }));
            rest = after;
        }
        let fixed: usize = parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum();
        if fixed > MAX_NAME_BYTES {
            return Err(InvalidPattern::TooLong(fixed));
        }
        Ok(Self(parts))
    }

    fn has(&self, wanted: Placeholder) -> bool {
        self.0.contains(&Part::Value(wanted))
    }

    fn fixed(&self) -> Option<String> {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Value(_) => None,
            })
            .collect()
    }

    fn fill(&self, event: &OutboxEvent) -> String {
        let mut name = String::new();
        for part in &self.0 {
            name.push_str(match part {
                Part::Text(text) => text,
                Part::Value(Placeholder::AggregateType) => event.aggregate_type.as_str(),
                Part::Value(Placeholder::EventType) => event.event_type.as_str(),
                Part::Value(Placeholder::AggregateId) => event.aggregate_id.as_str(),
            });
        }
        name
    }
}

impl Part {
    fn text(text: &str) -> Result<Self, InvalidPattern> {
        if text.contains('}') { Err(InvalidPattern::LoneBrace) } else { Ok(Self::Text(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{event, event_of};

    fn route(settings: &RouteSettings) -> Route {
        Route::compile(settings, "route").unwrap()
    }

    fn problems(exchange: &str, routing_key: &str) -> Vec<String> {
        let settings = RouteSettings {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            ..RouteSettings::default()
        };
        settings.problems("route").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn placeholders_take_the_events_values() {
        let settings = RouteSettings {
            exchange: "ex-{aggregate_type}".to_owned(),
            routing_key: "{event_type}.of.{aggregate_id}".to_owned(),
            overrides: Vec::new(),
        };
        let target = route(&settings).resolve(&event_of("work-log", "a-1", "WorkLogReserved")).unwrap();
        assert_eq!(target.exchange, "ex-work-log");
        assert_eq!(target.routing_key, "WorkLogReserved.of.a-1");
        assert_eq!(target.destination.as_str(), "ex-work-log");
    }

    #[test]
    fn the_default_exchange_with_a_fixed_routing_key_is_a_route_whose_destination_is_the_queue() {
        let settings = RouteSettings { exchange: String::new(), routing_key: "jobs".to_owned(), overrides: Vec::new() };
        let target = route(&settings).resolve(&event()).unwrap();
        assert_eq!((target.exchange.as_str(), target.routing_key.as_str()), ("", "jobs"));
        assert_eq!(target.destination.as_str(), "queue jobs");
    }

    #[test]
    fn the_first_override_that_fits_counts_and_inherits_what_it_leaves_out() {
        let settings = RouteSettings {
            overrides: vec![
                RouteOverride {
                    aggregate_type: Some("work-log".to_owned()),
                    event_type: Some("Special".to_owned()),
                    exchange: Some("special".to_owned()),
                    routing_key: None,
                },
                RouteOverride {
                    aggregate_type: Some("work-log".to_owned()),
                    routing_key: Some("any".to_owned()),
                    ..RouteOverride::default()
                },
            ],
            ..RouteSettings::default()
        };
        let route = route(&settings);
        let to = |aggregate, event| {
            let target = route.resolve(&event_of(aggregate, "1", event)).unwrap();
            (target.exchange, target.routing_key)
        };
        assert_eq!(to("work-log", "Special"), ("special".to_owned(), "work-log.Special".to_owned()));
        assert_eq!(to("work-log", "Other"), ("outbox.events".to_owned(), "any".to_owned()));
        assert_eq!(to("portfolio", "Special"), ("outbox.events".to_owned(), "portfolio.Special".to_owned()));
        assert_eq!(route.fixed_exchanges(), ["outbox.events", "special"]);
    }

    #[test]
    fn a_routing_key_of_255_bytes_is_sent_and_one_of_256_is_poison() {
        let settings = |text: usize| RouteSettings {
            exchange: "x".to_owned(),
            routing_key: format!("{}{{aggregate_id}}", "k".repeat(text)),
            overrides: Vec::new(),
        };
        let event = event_of("t", &"i".repeat(100), "e");
        assert_eq!(route(&settings(155)).resolve(&event).unwrap().routing_key.len(), 255);
        let failure = route(&settings(156)).resolve(&event).unwrap_err();
        assert_eq!(failure.class(), FailureClass::Poison);
        assert_eq!(failure.reason(), "the routing key has 256 bytes; AMQP carries 255");
    }

    #[test]
    fn invalid_patterns_are_named_with_key_value_and_bound() {
        assert_eq!(
            problems("ex", "{agregate_id}"),
            ["route.routing_key is \"{agregate_id}\", but {agregate_id} is no placeholder here; there are \
                 {aggregate_type}, {event_type} and {aggregate_id}"]
        );
        assert_eq!(
            problems("{agregate_id}", "k"),
            ["route.exchange is \"{agregate_id}\", but {agregate_id} is no placeholder here; there are \
                 {aggregate_type} and {event_type}"],
            "what an exchange cannot have is not offered for it"
        );
        for text in ["{", "}", "a{b", "{{event_type}}", "a}b", "{event_type"] {
            assert_eq!(problems("ex", text).len(), 1, "{text}");
        }
        assert_eq!(problems("{aggregate_id}", "k").len(), 1);
        assert_eq!(problems("", "{aggregate_id}").len(), 1);
        assert_eq!(problems("", "").len(), 1);
        assert_eq!(problems("{x}", "{y}").len(), 2);
        assert!(problems("ex", "").is_empty(), "an empty routing key is legal for a fanout exchange");
    }

    #[test]
    fn an_override_that_fits_nothing_or_changes_nothing_is_a_problem() {
        let overrides = vec![RouteOverride::default()];
        let problems = RouteSettings { overrides, ..RouteSettings::default() }.problems("route");
        assert_eq!(problems.len(), 2);
        assert!(problems.iter().all(|problem| problem.key == "route.overrides[0]"));
    }

    #[test]
    fn an_override_reports_its_own_problems_only() {
        let overrides = vec![RouteOverride {
            event_type: Some("e".to_owned()),
            exchange: Some("{z}".to_owned()),
            ..RouteOverride::default()
        }];
        let settings = RouteSettings { routing_key: "{y}".to_owned(), overrides, ..RouteSettings::default() };
        let keys: Vec<_> = settings.problems("route").into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, ["route.routing_key", "route.overrides[0].exchange"]);
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_text_without_braces_stays_itself(text in "[^\\p{Cc}]{0,80}") {
            match Pattern::parse(&text, true) {
                Ok(pattern) if !text.contains(['{', '}']) => prop_assert_eq!(pattern.fixed(), Some(text)),
                Ok(_) => {}
                Err(_) => {
                    let has_reason = text.contains(['{', '}']) || text.len() > MAX_NAME_BYTES;
                    prop_assert!(has_reason);
                }
            }
        }

        #[test]
        fn no_resolved_name_is_longer_than_amqp_carries(id in "[a-z]{1,200}", kind in "[a-z]{1,100}") {
            let settings = RouteSettings {
                exchange: "{aggregate_type}{event_type}".to_owned(),
                routing_key: "{aggregate_type}.{event_type}.{aggregate_id}".to_owned(),
                overrides: Vec::new(),
            };
            match route(&settings).resolve(&event_of(&kind, &id, &kind)) {
                Ok(target) => prop_assert!(target.routing_key.len() <= 255 && target.exchange.len() <= 255),
                Err(failure) => prop_assert_eq!(failure.class(), FailureClass::Poison),
            }
        }
    }
}
