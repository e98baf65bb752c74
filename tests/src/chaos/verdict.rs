//! What must hold once a round is over.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use application_core::outbox::EventId;
use sqlx::{Connection, Row};
use test_support::checker::{DeliveryChecker, DeliveryReport, DuplicateReason};
use uuid::Uuid;

use super::{
    appenders::EVENTS,
    error::ChaosError,
    fleet::{CONNECTIONS, NAMES},
    stage::{BrokerUse, Stage},
};
use crate::{eventually, tap::Seen};

/// How long everything together may take to come to rest.
const REST: Duration = Duration::from_mins(3);
/// How long after a fault its effect on the relays may last: a lease, its return, and pauses of breaker and reconnects.
const AFTERMATH: Duration = Duration::from_secs(20);
/// How much more memory than in the first rounds a process may have: a quarter of it, and this many KiB.
///
/// A process of the first rounds was often started moments before, with connections still to be made: a quarter. The
/// allocator keeps what the largest claim took, and a backlog after a fault makes claims larger: 16 MiB are two claims at
/// the bound on their bytes (`outbox.relay.max_bytes`).
const MEMORY_MARGIN: u64 = 16 * 1024;
/// The rounds that memory is compared with.
pub(crate) const FIRST_ROUNDS: usize = 3;
/// How many events that are stuck are named.
const EXAMPLES: usize = 10;

/// When a fault was, and what it allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) allows: DuplicateReason,
}

/// Faults so far: the reasons for which an event may have been delivered again.
#[derive(Debug, Default)]
pub(crate) struct Windows(pub(crate) Vec<Window>);

impl Windows {
    /// Why an event that was delivered at `first` may come again at `again`: the latest fault between the two.
    fn reason(&self, first: Instant, again: Instant) -> Option<DuplicateReason> {
        let between = |window: &&Window| window.begun <= again && window.ended + AFTERMATH >= first;
        self.0.iter().rev().find(between).map(|window| window.allows)
    }
}

/// Waits until nothing is under way any more; returns what did not come to rest in time.
pub(crate) async fn until_at_rest(stage: &Stage, answered: i64, baseline: BrokerUse) -> Vec<String> {
    let begun = Instant::now();
    let left = || REST.saturating_sub(begun.elapsed());
    let mut late = Vec::new();
    let mut note = |outcome: Result<(), String>| late.extend(outcome.err());
    note(everything_arrived(stage, answered, left()).await);
    let leases = || async { (stage.tally().await.ok()?.leftovers().await.ok()? == (0, 0)).then_some(()) };
    note(eventually("no lane and no lease left", left(), leases).await.map_err(|late| late.to_string()));
    let history = || async { (stage.history().await.ok()?.left().await.ok()? == 0).then_some(()) };
    note(eventually("all history cleaned", left(), history).await.map_err(|late| late.to_string()));
    let parked = || async {
        let lanes = stage.number("SELECT count(*) FROM outbox_inbox_parked").await.ok()?;
        (lanes == 0 && stage.topology.parked().await.ok()? == 0).then_some(())
    };
    note(eventually("no parked message", left(), parked).await.map_err(|late| late.to_string()));
    note(sessions_are_few(stage, left()).await);
    note(broker_is_as_before(stage, baseline, left()).await);
    late
}

async fn everything_arrived(stage: &Stage, answered: i64, within: Duration) -> Result<(), String> {
    let look = || async { stage.tally().await.ok()?.counts().await.ok() };
    let arrived = || async {
        let counts = look().await?;
        let delivered = i64::try_from(stage.tap.count()).ok()?;
        let events = answered * i64::from(EVENTS);
        (counts.published == counts.events && counts.applied >= events && delivered >= events).then_some(())
    };
    match eventually("every event published, delivered and applied", within, arrived).await {
        Ok(()) => Ok(()),
        Err(late) => Err(format!("{late}: {:?}, {} delivered", look().await, stage.tap.count())),
    }
}

async fn sessions_are_few(stage: &Stage, within: Duration) -> Result<(), String> {
    const OURS: &str = "SELECT count(*) FROM pg_stat_activity \
                         WHERE datname = current_database() AND application_name LIKE 'app%'";
    const IDLE: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                          AND application_name LIKE 'app%' AND state LIKE 'idle in transaction%' \
                          AND state_change < clock_timestamp() - interval '1 s'";
    let bound = i64::try_from(NAMES.len()).unwrap_or(i64::MAX) * CONNECTIONS;
    let few =
        || async { (stage.number(OURS).await.ok()? <= bound && stage.number(IDLE).await.ok()? == 0).then_some(()) };
    let what = format!("no more than {bound} database connections and none idle in a transaction");
    eventually(&what, within, few).await.map_err(|late| late.to_string())
}

async fn broker_is_as_before(stage: &Stage, baseline: BrokerUse, within: Duration) -> Result<(), String> {
    let as_before = || async {
        let now = stage.broker_use().await.ok()?;
        (now.connections <= baseline.connections && now.channels <= baseline.channels).then_some(())
    };
    match eventually("connections and channels at the broker back to the baseline", within, as_before).await {
        Ok(()) => Ok(()),
        Err(late) => Err(format!("{late}: {:?}, before {baseline:?}", stage.broker_use().await.ok())),
    }
}

/// Compares what was committed, delivered and applied since the beginning of the run.
pub(crate) async fn check(stage: &Stage, windows: &Windows, planted: bool) -> Result<DeliveryReport, ChaosError> {
    let mut seen = stage.tap.seen();
    if planted {
        plant(stage, &mut seen).await?;
    }
    let checker = DeliveryChecker::new();
    tell_deliveries(&checker, &seen, windows);
    stage.tally().await?.tell(&checker).await?;
    Ok(checker.report())
}

/// Events that nothing will send, each with the reason: what the outbox's own doctor finds, open events without a lane
/// above all.
pub(crate) async fn stuck(stage: &Stage) -> Result<Vec<String>, ChaosError> {
    const STUCK: &str = "SELECT d.problem, d.lane, e.id, e.aggregate_type || '/' || e.aggregate_id, e.status \
                           FROM outbox_doctor d LEFT JOIN outbox_event e ON e.lane = d.lane AND e.sequence = d.head \
                          ORDER BY d.lane";
    let rows = sqlx::query(STUCK).fetch_all(&mut stage.connect().await?).await?;
    let mut stuck = Vec::new();
    for row in rows.iter().take(EXAMPLES) {
        let (problem, lane): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (id, aggregate, status): (Option<Uuid>, Option<String>, Option<String>) =
            (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        stuck.push(match (id, aggregate, status) {
            (Some(id), Some(aggregate), Some(status)) => {
                format!("stuck: {problem}: lane {lane} of {aggregate}, whose first open event is {id}, {status}")
            }
            _ => format!("stuck: {problem}: lane {lane}"),
        });
    }
    if rows.len() > EXAMPLES {
        stuck.push(format!("stuck: {} lanes in all", rows.len()));
    }
    Ok(stuck)
}

/// Tells the checker what was delivered, and which repetitions have a reason.
pub(crate) fn tell_deliveries(checker: &DeliveryChecker, seen: &[Seen], windows: &Windows) {
    checker.watch_effects();
    for delivery in seen {
        checker.delivered(EventId::new(delivery.event));
    }
    for (event, reason) in explained(seen, windows) {
        checker.allow_duplicate(EventId::new(event), reason);
    }
}

/// Forgets the first delivery, removes the event of another, and adds an event without a lane, as a writer would that took
/// none: a check that finds nothing then is worth nothing.
async fn plant(stage: &Stage, seen: &mut Vec<Seen>) -> Result<(), ChaosError> {
    if let Some(forgotten) = seen.first().map(|delivery| delivery.event) {
        seen.retain(|delivery| delivery.event != forgotten);
    }
    if let Some(removed) = seen.first().map(|delivery| delivery.event) {
        let delete = "DELETE FROM outbox_event WHERE id = $1";
        sqlx::query(delete).bind(removed).execute(&mut stage.connect().await?).await?;
    }
    let mut connection = stage.connect().await?;
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT set_config('outbox.lanes_are_taken', 'yes', true)").execute(&mut *transaction).await?;
    let add = "INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
               VALUES (gen_random_uuid(), nextval('outbox_event_sequence'), 'planted', 'without-a-lane', 'Planted', '{}')";
    sqlx::query(add).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

/// The events of which every repetition has a reason, with the first reason.
fn explained(seen: &[Seen], windows: &Windows) -> HashMap<Uuid, DuplicateReason> {
    let mut first: HashMap<Uuid, Instant> = HashMap::with_capacity(seen.len());
    let (mut explained, mut unexplained) = (HashMap::new(), HashSet::new());
    for delivery in seen {
        let at = *first.entry(delivery.event).or_insert(delivery.at);
        if at == delivery.at {
            continue;
        }
        let redelivered = delivery.redelivered.then_some(DuplicateReason::BrokerRedelivery);
        match redelivered.or_else(|| windows.reason(at, delivery.at)) {
            Some(reason) => drop(explained.entry(delivery.event).or_insert(reason)),
            None => drop(unexplained.insert(delivery.event)),
        }
    }
    explained.retain(|event, _| !unexplained.contains(event));
    explained
}

/// Which processes have grown since the first rounds: `samples` has the memory of each after each round, and the last one
/// is judged.
pub(crate) fn grown(samples: &[BTreeMap<&'static str, u64>]) -> Vec<String> {
    let (first, later) = samples.split_at(samples.len().min(FIRST_ROUNDS));
    let Some(now) = later.last() else { return Vec::new() };
    let mut grown = Vec::new();
    for name in NAMES {
        let before = first.iter().filter_map(|sample| sample.get(name).copied()).max();
        if let (Some(before), Some(now)) = (before, now.get(name))
            && *now > before + before / 4 + MEMORY_MARGIN
        {
            grown.push(format!("memory of {name}: {before} KiB at most after the first rounds, {now} KiB now"));
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        time::{Duration, Instant},
    };

    use test_support::checker::DuplicateReason;
    use uuid::Uuid;

    use super::{AFTERMATH, Window, Windows, explained, grown};
    use crate::tap::Seen;

    fn seen(event: u128, at: Instant, redelivered: bool) -> Seen {
        let (event_type, aggregate) = (String::new(), String::new());
        Seen { event: Uuid::from_u128(event), event_type, aggregate, sequence: 1, at, publisher: None, redelivered }
    }

    #[test]
    fn a_repetition_needs_a_fault_near_it_or_the_brokers_word() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let windows = Windows(vec![Window { begun: at(10), ended: at(12), allows: DuplicateReason::RelayKilled }]);
        let deliveries = [
            seen(1, at(9), false),
            seen(1, at(14), false),
            seen(2, at(1), false),
            seen(2, at(2), false),
            seen(3, at(1), false),
            seen(3, at(2), true),
            seen(4, at(13) + AFTERMATH, false),
            seen(4, at(14) + AFTERMATH, false),
        ];
        let explained = explained(&deliveries, &windows);
        assert_eq!(explained.get(&Uuid::from_u128(1)), Some(&DuplicateReason::RelayKilled));
        assert_eq!(explained.get(&Uuid::from_u128(3)), Some(&DuplicateReason::BrokerRedelivery));
        assert_eq!(explained.len(), 2, "{explained:?}");
    }

    #[test]
    fn a_process_that_grows_is_named_and_one_that_does_not_is_not() {
        let sample = |first, second| BTreeMap::from([("service-1", first), ("relay-1", second)]);
        let mut samples = vec![sample(30_000, 40_000), sample(40_000, 30_000), sample(30_000, 30_000)];
        samples.push(sample(66_384, 66_385));
        assert_eq!(grown(&samples), ["memory of relay-1: 40000 KiB at most after the first rounds, 66385 KiB now"]);
        assert!(grown(&samples[..3]).is_empty(), "the first rounds are what others are compared with");
        samples.push(sample(40_000, 40_000));
        assert!(grown(&samples).is_empty(), "the round before has told of it");
    }
}
