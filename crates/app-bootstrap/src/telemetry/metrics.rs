//! Metrics in Prometheus's conventions; `docs/metrics.md` lists them.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use adapter_inbound::amqp::{ConsumerObserver, ConsumerSignal, ParkCause};
use adapter_persistence_postgres::Database;
use application_core::{
    outbox::{FailureClass, OutboxEventStatus},
    ports::{Availability, Clock, ConsumerName, Destination, OutboxObserver, OutboxSignal, OutboxStatistics},
};
use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::clock::SystemClock;

/// Metrics cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be recorded")]
pub struct MetricsError(#[source] metrics_exporter_prometheus::BuildError);

/// Seconds, from half a millisecond to ten minutes.
const SECONDS: [f64; 18] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

/// The class of events that went DEAD because too many leases ended on them.
const OUTLIVED_ITS_LEASES: &str = "expired";

/// Starts recording and returns what renders the page for `/metrics`.
///
/// # Errors
/// [`MetricsError`] when a recorder is installed already.
pub fn install_metrics() -> Result<PrometheusHandle, MetricsError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(MetricsError)?;
    begin_at_zero();
    Ok(handle)
}

/// Shows what alerts watch from the start: the first growth of a counter that was not there before is none to Prometheus.
fn begin_at_zero() {
    for class in FailureClass::ALL {
        counter!("outbox_publish_failures_total", "class" => class.as_str()).increment(0);
        counter!("outbox_dead_total", "class" => class.as_str()).increment(0);
    }
    counter!("outbox_dead_total", "class" => OUTLIVED_ITS_LEASES).increment(0);
    counter!("outbox_published_total").increment(0);
    counter!("outbox_stale_settlements_total").increment(0);
    counter!("outbox_expired_claims_total").increment(0);
    gauge!("outbox_clean_up_finished_timestamp_seconds").set(0.0);
}

/// Sets whether the publisher can take anything.
pub fn record_availability(availability: &Availability) {
    let available = matches!(availability, Availability::Available);
    gauge!("outbox_broker_available").set(f64::from(u8::from(available)));
}

/// Sets the gauges of the pool, which may open `most` connections.
pub fn record_pool(database: &Database, most: u32) {
    let (open, idle) = database.pool_size();
    let idle = u32::try_from(idle).unwrap_or(u32::MAX).min(open);
    for (state, connections) in [("in_use", open - idle), ("idle", idle)] {
        gauge!("database_pool_connections", "state" => state).set(f64::from(connections));
    }
    gauge!("database_pool_max_connections").set(f64::from(most));
}

/// The most destinations with a label of their own: a route may make one of every aggregate type that an event brings.
const MOST_DESTINATIONS: usize = 50;
/// What all further destinations share.
const OTHER_DESTINATIONS: &str = "other";

/// Counts and times what the relay and its helpers report.
#[derive(Debug, Default)]
pub struct OutboxMetrics {
    destinations: Mutex<BTreeSet<String>>,
}

impl OutboxMetrics {
    /// Needs [`install_metrics`] first; without it, everything is dropped.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the gauge of a destination; those beyond the first ones are counted together.
    fn breaker_changed(&self, destination: &Destination, open: bool) {
        let name = destination.as_str();
        let mut known = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(name) && known.len() < MOST_DESTINATIONS {
            known.insert(name.to_owned());
        }
        let is_known = known.contains(name);
        drop(known);
        let gauge = |label: &str| gauge!("outbox_breaker_open", "destination" => label.to_owned());
        match (is_known, open) {
            (true, open) => gauge(name).set(f64::from(u8::from(open))),
            (false, true) => gauge(OTHER_DESTINATIONS).increment(1.0),
            (false, false) => gauge(OTHER_DESTINATIONS).decrement(1.0),
        }
    }
}

impl OutboxObserver for OutboxMetrics {
    fn observe(&self, signal: &OutboxSignal<'_>) {
        match *signal {
            OutboxSignal::Claimed { events, lanes, took } => {
                let busy = if events > 0 { "true" } else { "false" };
                counter!("outbox_claims_total", "busy" => busy).increment(1);
                counter!("outbox_claimed_events_total").increment(events as u64);
                counter!("outbox_claimed_lanes_total").increment(lanes as u64);
                histogram!("outbox_claim_duration_seconds").record(took);
            }
            OutboxSignal::Confirmed { took, lag } => {
                counter!("outbox_published_total").increment(1);
                histogram!("outbox_confirm_duration_seconds").record(took);
                if let Some(lag) = lag {
                    histogram!("outbox_lag_seconds").record(lag);
                }
            }
            OutboxSignal::PublishFailed { class } => {
                counter!("outbox_publish_failures_total", "class" => class.as_str()).increment(1);
            }
            OutboxSignal::Died { class, events } => {
                counter!("outbox_dead_total", "class" => class.as_str()).increment(events as u64);
            }
            OutboxSignal::Settled { events, postponed, took } => {
                counter!("outbox_settled_events_total").increment(u64::from(events));
                counter!("outbox_postponed_lanes_total").increment(postponed as u64);
                histogram!("outbox_settle_duration_seconds").record(took);
            }
            OutboxSignal::Stale { runs } => {
                counter!("outbox_stale_settlements_total").increment(runs as u64);
            }
            OutboxSignal::BreakerChanged { destination, open } => self.breaker_changed(destination, open),
            OutboxSignal::Reaped(report) => {
                counter!("outbox_expired_claims_total").increment(u64::from(report.claims));
                counter!("outbox_expired_lanes_total").increment(u64::from(report.lanes));
                counter!("outbox_dead_total", "class" => OUTLIVED_ITS_LEASES).increment(u64::from(report.dead));
            }
            OutboxSignal::CleanedUp { events } => {
                counter!("outbox_cleaned_up_total").increment(u64::from(events));
            }
            OutboxSignal::InboxCleanedUp { records } => {
                counter!("inbox_cleaned_up_total").increment(u64::from(records));
            }
            OutboxSignal::CleanUpFinished => {
                let at = SystemClock::new().now() - time::OffsetDateTime::UNIX_EPOCH;
                gauge!("outbox_clean_up_finished_timestamp_seconds").set(at.as_seconds_f64());
            }
            OutboxSignal::Statistics(ref statistics) => record_statistics(statistics),
        }
    }
}

/// Counts idempotency keys that the retention removed.
pub fn idempotency_keys_removed(keys: u64) {
    counter!("idempotency_keys_cleaned_up_total").increment(keys);
}

fn record_statistics(statistics: &OutboxStatistics) {
    // PUBLISHED is history, not backlog: it is not counted, however large it is.
    for (status, count) in [
        (OutboxEventStatus::Pending, statistics.pending),
        (OutboxEventStatus::InFlight, statistics.in_flight),
        (OutboxEventStatus::Failed, statistics.failed),
        (OutboxEventStatus::Dead, statistics.dead),
    ] {
        gauge!("outbox_events", "status" => status.as_str().to_lowercase()).set(bounded(count));
    }
    gauge!("outbox_blocked_aggregates").set(bounded(statistics.blocked_aggregates));
    gauge!("outbox_oldest_blocked_age_seconds").set(seconds(statistics.oldest_blocked_age));
    gauge!("outbox_oldest_pending_age_seconds").set(seconds(statistics.oldest_pending_age));
    gauge!("outbox_oldest_in_flight_age_seconds").set(seconds(statistics.oldest_in_flight_age));
    gauge!("outbox_oldest_snapshot_age_seconds").set(seconds(statistics.oldest_snapshot_age));
}

fn seconds(age: Option<Duration>) -> f64 {
    age.map_or(0.0, |age| age.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "counts stop at OutboxStatistics::COUNT_LIMIT")]
const fn bounded(count: u64) -> f64 {
    count as f64
}

/// Counts and times what the consumers report.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConsumerMetrics;

impl ConsumerObserver for ConsumerMetrics {
    fn observe(&self, consumer: &ConsumerName, signal: &ConsumerSignal) {
        let consumer = consumer.as_str().to_owned();
        match *signal {
            ConsumerSignal::Applied { took, lag } => {
                counter!("inbox_applied_total", "consumer" => consumer.clone()).increment(1);
                histogram!("inbox_handling_duration_seconds", "consumer" => consumer.clone()).record(took);
                if let Some(lag) = lag {
                    histogram!("inbox_lag_seconds", "consumer" => consumer).record(lag);
                }
            }
            ConsumerSignal::Duplicate => counter!("inbox_duplicates_total", "consumer" => consumer).increment(1),
            ConsumerSignal::Unheard => counter!("inbox_unheard_total").increment(1),
            ConsumerSignal::Retried { .. } => counter!("inbox_retries_total", "consumer" => consumer).increment(1),
            ConsumerSignal::Parked { cause } => {
                counter!("inbox_parked_total", "consumer" => consumer, "cause" => cause.as_str()).increment(1);
            }
            ConsumerSignal::ParkingFailed => {
                counter!("inbox_parking_failures_total", "consumer" => consumer).increment(1);
            }
            ConsumerSignal::Unparked { messages } => {
                counter!("inbox_unparked_total", "consumer" => consumer).increment(u64::from(messages));
            }
            ConsumerSignal::StoreUnavailable => gauge!("inbox_store_available", "consumer" => consumer).set(0.0),
            ConsumerSignal::StoreAvailable => gauge!("inbox_store_available", "consumer" => consumer).set(1.0),
            ConsumerSignal::Subscribed => {
                // As in begin_at_zero.
                for cause in ParkCause::ALL {
                    let consumer = consumer.clone();
                    counter!("inbox_parked_total", "consumer" => consumer, "cause" => cause.as_str()).increment(0);
                }
                gauge!("inbox_subscribed", "consumer" => consumer).set(1.0);
            }
            ConsumerSignal::SubscriptionLost => gauge!("inbox_subscribed", "consumer" => consumer).set(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use application_core::ports::ReapReport;

    use super::*;

    /// What the page says after these reports.
    fn page(report: impl FnOnce()) -> String {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .unwrap()
            .build_recorder();
        metrics::with_local_recorder(&recorder, report);
        recorder.handle().render()
    }

    fn outbox(signals: &[OutboxSignal<'_>]) -> String {
        let metrics = OutboxMetrics::new();
        page(|| signals.iter().for_each(|signal| metrics.observe(signal)))
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }

    #[test]
    fn claims_tell_busy_ones_from_idle_ones() {
        let took = Duration::from_millis(3);
        let claimed = |events, lanes| OutboxSignal::Claimed { events, lanes, took };
        let page = outbox(&[claimed(0, 0), claimed(7, 2), claimed(1, 1)]);
        has(&page, r#"outbox_claims_total{busy="false"} 1"#);
        has(&page, r#"outbox_claims_total{busy="true"} 2"#);
        has(&page, "outbox_claimed_events_total 8");
        has(&page, "outbox_claimed_lanes_total 3");
        has(&page, "outbox_claim_duration_seconds_count 3");
        has(&page, r#"outbox_claim_duration_seconds_bucket{le="0.005"} 3"#);
    }

    #[test]
    fn a_replay_is_published_and_leaves_the_lag_alone() {
        let confirmed = |lag| OutboxSignal::Confirmed { took: Duration::from_millis(1), lag };
        let page = outbox(&[confirmed(None), confirmed(Some(Duration::from_secs(2)))]);
        has(&page, "outbox_published_total 2");
        has(&page, "outbox_lag_seconds_sum 2");
        has(&page, "outbox_lag_seconds_count 1");
    }

    #[test]
    fn failures_and_deaths_are_labelled_by_every_class() {
        for class in FailureClass::ALL {
            let page = outbox(&[OutboxSignal::PublishFailed { class }, OutboxSignal::Died { class, events: 3 }]);
            has(&page, &format!("outbox_publish_failures_total{{class=\"{class}\"}} 1"));
            has(&page, &format!("outbox_dead_total{{class=\"{class}\"}} 3"));
        }
    }

    #[test]
    fn a_snapshot_sets_one_gauge_for_each_status_but_published() {
        let statistics = OutboxStatistics {
            pending: 1,
            in_flight: 2,
            failed: 3,
            dead: 4,
            blocked_aggregates: 5,
            oldest_blocked_age: Some(Duration::from_secs(7)),
            oldest_pending_age: Some(Duration::from_millis(1_500)),
            ..OutboxStatistics::default()
        };
        let page = outbox(&[OutboxSignal::Statistics(statistics)]);
        for (status, count) in [("pending", 1), ("in_flight", 2), ("failed", 3), ("dead", 4)] {
            has(&page, &format!("outbox_events{{status=\"{status}\"}} {count}"));
        }
        assert!(!page.contains("published"), "{page}");
        has(&page, "outbox_blocked_aggregates 5");
        has(&page, "outbox_oldest_blocked_age_seconds 7");
        has(&page, "outbox_oldest_pending_age_seconds 1.5");
        has(&page, "outbox_oldest_in_flight_age_seconds 0");
    }

    #[test]
    fn a_breaker_that_closes_goes_back_to_zero() {
        let destination = Destination::new("events");
        let changed = |open| OutboxSignal::BreakerChanged { destination: &destination, open };
        has(&outbox(&[changed(true)]), r#"outbox_breaker_open{destination="events"} 1"#);
        has(&outbox(&[changed(true), changed(false)]), r#"outbox_breaker_open{destination="events"} 0"#);
    }

    #[test]
    fn destinations_beyond_the_first_fifty_share_one_label_that_counts_the_open_ones() {
        let destinations: Vec<_> = (0..60).map(|n| Destination::new(format!("events-{n}"))).collect();
        let signals =
            |open| destinations.iter().map(move |destination| OutboxSignal::BreakerChanged { destination, open });
        let opened: Vec<_> = signals(true).collect();
        let page_when_open = outbox(&opened);
        has(&page_when_open, r#"outbox_breaker_open{destination="events-49"} 1"#);
        has(&page_when_open, r#"outbox_breaker_open{destination="other"} 10"#);
        assert_eq!(page_when_open.matches("outbox_breaker_open{").count(), 51);
        let closed: Vec<_> = signals(true).chain(signals(false)).collect();
        let page_when_closed = outbox(&closed);
        has(&page_when_closed, r#"outbox_breaker_open{destination="events-0"} 0"#);
        has(&page_when_closed, r#"outbox_breaker_open{destination="other"} 0"#);
    }

    #[test]
    fn what_helpers_did_is_added_up() {
        let settled = OutboxSignal::Settled { events: 4, postponed: 1, took: Duration::from_millis(1) };
        let reaped = OutboxSignal::Reaped(ReapReport { claims: 2, lanes: 3, postponed: 0, dead: 1 });
        let page = outbox(&[
            settled.clone(),
            settled,
            reaped,
            OutboxSignal::Stale { runs: 5 },
            OutboxSignal::CleanedUp { events: 6 },
            OutboxSignal::InboxCleanedUp { records: 7 },
        ]);
        has(&page, "outbox_settled_events_total 8");
        has(&page, "outbox_postponed_lanes_total 2");
        has(&page, "outbox_expired_claims_total 2");
        has(&page, "outbox_expired_lanes_total 3");
        has(&page, r#"outbox_dead_total{class="expired"} 1"#);
        has(&page, "outbox_stale_settlements_total 5");
        has(&page, "outbox_cleaned_up_total 6");
        has(&page, "inbox_cleaned_up_total 7");
    }

    #[test]
    fn what_alerts_watch_is_there_before_anything_has_happened() {
        let page = page(begin_at_zero);
        for class in FailureClass::ALL {
            has(&page, &format!("outbox_dead_total{{class=\"{class}\"}} 0"));
            has(&page, &format!("outbox_publish_failures_total{{class=\"{class}\"}} 0"));
        }
        has(&page, "outbox_published_total 0");
        has(&page, "outbox_stale_settlements_total 0");
        has(&page, "outbox_expired_claims_total 0");
        has(&page, "outbox_clean_up_finished_timestamp_seconds 0");
    }

    #[test]
    fn a_broker_that_takes_nothing_shows_as_zero() {
        let away = Availability::Unavailable { reason: "no route".to_owned() };
        for (availability, shown) in [(Availability::Available, 1), (away, 0), (Availability::Disabled, 0)] {
            has(&page(|| record_availability(&availability)), &format!("outbox_broker_available {shown}"));
        }
    }

    #[test]
    fn a_finished_round_of_cleaning_leaves_its_time() {
        let page = outbox(&[OutboxSignal::CleanUpFinished]);
        let line = page.lines().find_map(|line| line.strip_prefix("outbox_clean_up_finished_timestamp_seconds "));
        let at: f64 = line.unwrap().parse().unwrap();
        assert!(at > 1_700_000_000.0, "{at}");
    }

    #[test]
    fn removed_idempotency_keys_are_added_up() {
        let page = page(|| [3, 0, 4].into_iter().for_each(idempotency_keys_removed));
        has(&page, "idempotency_keys_cleaned_up_total 7");
    }

    #[test]
    fn consumers_are_told_apart_and_parked_messages_by_their_cause() {
        let page = page(|| {
            for name in ["one", "two"] {
                let name = ConsumerName::new(name);
                ConsumerMetrics.observe(&name, &ConsumerSignal::Subscribed);
                ConsumerMetrics.observe(&name, &ConsumerSignal::Duplicate);
                ConsumerMetrics.observe(&name, &ConsumerSignal::Parked { cause: ParkCause::Rejected });
                ConsumerMetrics.observe(&name, &ConsumerSignal::StoreAvailable);
                ConsumerMetrics.observe(&name, &ConsumerSignal::Unheard);
            }
        });
        has(&page, "inbox_unheard_total 2");
        for name in ["one", "two"] {
            has(&page, &format!("inbox_duplicates_total{{consumer=\"{name}\"}} 1"));
            has(&page, &format!("inbox_parked_total{{consumer=\"{name}\",cause=\"rejected\"}} 1"));
            has(&page, &format!("inbox_parked_total{{consumer=\"{name}\",cause=\"undecodable\"}} 0"));
            has(&page, &format!("inbox_store_available{{consumer=\"{name}\"}} 1"));
        }
    }
}
