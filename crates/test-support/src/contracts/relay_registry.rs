//! What every list of relays must do.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::HolderName,
    ports::{Destination, LeaderTerm, PausedDestination, RegisteredRelay, RelayReport, StoreError},
};
use uuid::Uuid;

use super::{
    OutboxHarness,
    bench::{Bench, LONG},
};

const EVERY: Duration = Duration::from_secs(10);

fn report(holder: &str, run: u128) -> RelayReport {
    RelayReport {
        holder: HolderName::new(holder),
        run: Uuid::from_u128(run),
        version: "1.2.3".to_owned(),
        running: Duration::from_secs(60),
        every: EVERY,
        paused: Vec::new(),
    }
}

async fn reported<H: OutboxHarness>(bench: &Bench<H>, report: &RelayReport) {
    bench.harness.registry().report(report).await.expect("it is entered");
}

async fn registered<H: OutboxHarness>(bench: &Bench<H>) -> Vec<RegisteredRelay> {
    bench.harness.registry().registered().await.expect("the list is read")
}

async fn term<H: OutboxHarness>(bench: &Bench<H>) -> LeaderTerm {
    let leader = HolderName::new("leader");
    bench.harness.leadership().acquire("upkeep", &leader, LONG).await.expect("asked").expect("vacant")
}

pub async fn a_relay_that_reports_is_listed_by_name_without_a_lease<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert_eq!(registered(&bench).await, []);
    reported(&bench, &report("b", 2)).await;
    reported(&bench, &report("a", 1)).await;
    let relays = registered(&bench).await;
    let seen: Vec<_> = relays.iter().map(|r| (r.holder.as_str(), r.version.as_str(), r.gone)).collect();
    assert_eq!(seen, [("a", "1.2.3", false), ("b", "1.2.3", false)]);
    assert!(relays.iter().all(|r| r.running >= Duration::from_secs(60) && r.silent < EVERY), "{relays:?}");
    assert!(relays.iter().all(|r| r.paused.is_empty()), "{relays:?}");
}

pub async fn a_relay_that_misses_three_reports_is_gone_until_it_reports_again<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    reported(&bench, &report("a", 1)).await;
    bench.harness.advance(EVERY * 2).await;
    let relay = registered(&bench).await.remove(0);
    assert!(!relay.gone && relay.silent >= EVERY * 2, "{relay:?}");
    bench.harness.advance(EVERY + Duration::from_millis(1)).await;
    assert!(registered(&bench).await[0].gone);
    reported(&bench, &report("a", 1)).await;
    let relay = registered(&bench).await.remove(0);
    assert!(!relay.gone && relay.silent < EVERY, "{relay:?}");
}

pub async fn the_interval_of_each_relay_decides_when_it_is_gone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    reported(&bench, &report("often", 1)).await;
    reported(&bench, &RelayReport { every: LONG, ..report("seldom", 2) }).await;
    bench.harness.advance(EVERY * 4).await;
    let gone: Vec<_> = registered(&bench).await.iter().map(|relay| relay.gone).collect();
    assert_eq!(gone, [true, false]);
}

pub async fn what_a_relay_pauses_is_listed_with_reason_and_age_until_it_reports_without<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let pause = |destination: Option<&str>, seconds| PausedDestination {
        destination: destination.map(Destination::new),
        reason: "unavailable: \"it's {away}\", 고장\\".to_owned(),
        paused_for: Duration::from_secs(seconds),
    };
    let pauses = vec![pause(None, 300), pause(Some("a,b"), 200), pause(Some("orders"), 100)];
    reported(&bench, &RelayReport { paused: pauses.clone(), ..report("a", 1) }).await;
    reported(&bench, &report("b", 2)).await;
    let relays = registered(&bench).await;
    assert_eq!(relays[1].paused, []);
    let listed = &relays[0].paused;
    let names = |all: &[PausedDestination]| -> Vec<_> {
        all.iter().map(|p| (p.destination.clone(), p.reason.clone())).collect()
    };
    assert_eq!(names(listed), names(&pauses));
    let ages = |told: Duration| told..told + EVERY;
    assert!(
        listed.iter().zip(&pauses).all(|(seen, told)| ages(told.paused_for).contains(&seen.paused_for)),
        "{listed:?}"
    );
    reported(&bench, &report("a", 1)).await;
    assert_eq!(registered(&bench).await[0].paused, []);
}

pub async fn a_relay_that_withdraws_is_not_listed_and_a_former_run_withdraws_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let (holder, registry) = (HolderName::new("a"), bench.harness.registry());
    reported(&bench, &report("a", 1)).await;
    reported(&bench, &RelayReport { running: Duration::ZERO, ..report("a", 2) }).await;
    assert!(!registry.withdraw(&holder, Uuid::from_u128(1)).await.expect("asked"));
    let relays = registered(&bench).await;
    assert!(relays[0].running < Duration::from_secs(60), "the start of its successor: {relays:?}");
    assert!(registry.withdraw(&holder, Uuid::from_u128(2)).await.expect("asked"));
    assert_eq!(registered(&bench).await, []);
}

pub async fn what_breaks_a_bound_is_refused<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let pause = PausedDestination { destination: None, reason: String::new(), paused_for: Duration::ZERO };
    for broken in [
        report("", 1),
        report(&"x".repeat(201), 1),
        RelayReport { version: "x".repeat(101), ..report("a", 1) },
        RelayReport { every: Duration::ZERO, ..report("a", 1) },
        RelayReport { paused: vec![pause; PausedDestination::MOST + 1], ..report("a", 1) },
    ] {
        let refused = bench.harness.registry().report(&broken).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?} of {broken:?}");
    }
    assert_eq!(registered(&bench).await, []);
}

pub async fn relays_that_are_gone_for_long_are_forgotten_in_batches_and_others_are_not<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for holder in ["a", "b", "c"] {
        reported(&bench, &report(holder, 1)).await;
    }
    reported(&bench, &RelayReport { every: LONG, ..report("seldom", 1) }).await;
    bench.harness.advance(EVERY * 6).await;
    reported(&bench, &report("alive", 1)).await;
    let (term, registry) = (term(&bench).await, bench.harness.registry());
    assert_eq!(registry.forget_gone(&term, EVERY * 12, 10).await.expect("asked"), Some(0));
    assert_eq!(registry.forget_gone(&term, EVERY * 5, 2).await.expect("asked"), Some(2));
    assert_eq!(registry.forget_gone(&term, EVERY * 5, 2).await.expect("asked"), Some(1));
    let left: Vec<_> = registered(&bench).await.into_iter().map(|relay| relay.holder).collect();
    assert_eq!(left, [HolderName::new("alive"), HolderName::new("seldom")]);
}

pub async fn who_does_not_lead_forgets_no_relay<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    reported(&bench, &report("a", 1)).await;
    bench.harness.advance(EVERY * 6).await;
    let old = LeaderTerm { term: 7, ..term(&bench).await };
    assert_eq!(bench.harness.registry().forget_gone(&old, EVERY, 10).await.expect("asked"), None);
    assert_eq!(registered(&bench).await.len(), 1);
}
