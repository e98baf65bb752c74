//! Leadership: one leader at a time, terms that grow.

use std::time::Duration;

use adapter_persistence_postgres::PostgresLeadership;
use application_core::{outbox::HolderName, ports::LeadershipPort};

use super::support::Fixture;

const LEASE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn leadership_passes_when_it_is_resigned_or_runs_out_and_each_leader_has_a_term_of_its_own() {
    let fixture = Fixture::new("lead").await;
    let leadership = PostgresLeadership::new(fixture.database.clone());
    let (one, two) = (HolderName::new("one"), HolderName::new("two"));
    let first = leadership.acquire("r", &one, LEASE).await.expect("asked").expect("vacant");
    assert_eq!(leadership.acquire("r", &two, LEASE).await.expect("asked"), None);
    assert_eq!(leadership.acquire("r", &one, LEASE).await.expect("asked"), Some(first.clone()), "renewed, same term");
    assert!(leadership.acquire("another", &two, LEASE).await.expect("asked").is_some(), "roles are apart");

    assert!(leadership.resign(&first).await.expect("asked"));
    assert!(!leadership.resign(&first).await.expect("asked"), "over already");
    let second = leadership.acquire("r", &two, LEASE).await.expect("asked").expect("vacant");
    assert!(second.term > first.term);
    assert!(!leadership.resign(&first).await.expect("asked"), "an old term ends nothing");

    fixture.sql().await.execute("UPDATE outbox_leader SET expires_at = statement_timestamp() WHERE name = 'r'").await;
    let third = leadership.acquire("r", &one, LEASE).await.expect("asked").expect("expired");
    assert!(third.term > second.term);
}

#[tokio::test]
async fn of_many_candidates_at_once_one_leads() {
    let fixture = Fixture::new("many").await;
    let candidates = (0..8).map(|n| {
        let leadership = PostgresLeadership::new(fixture.database.clone());
        tokio::spawn(
            async move { leadership.acquire("r", &HolderName::new(format!("c{n}")), LEASE).await.expect("asked") },
        )
    });
    let mut leaders = 0;
    for candidate in candidates.collect::<Vec<_>>() {
        leaders += usize::from(candidate.await.expect("ended").is_some());
    }
    assert_eq!(leaders, 1);
}
