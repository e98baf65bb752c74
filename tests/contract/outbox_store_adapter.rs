//! Claims of many relays at once; the store's suite runs in the adapter's own tests.

use std::collections::BTreeSet;

use test_support::fixtures::Events;

use super::postgres::{Postgres, confirmed, request};

#[tokio::test]
async fn claims_of_many_relays_at_once_share_no_lane_and_leave_none() {
    let postgres = Postgres::fresh().await;
    let series = Events::new();
    let events: Vec<_> = (0..120).map(|n| series.of(format!("a{}", n % 40)).build()).collect();
    postgres.append_all(&events).await;
    let relays: Vec<_> = (0..6)
        .map(|_| {
            let store = postgres.store();
            tokio::spawn(async move {
                let mut met = Vec::new();
                loop {
                    let mut request = request();
                    request.max_lanes = 3;
                    let runs = store.claim(&request).await.expect("claimed");
                    if runs.is_empty() {
                        return met;
                    }
                    met.extend(runs.iter().map(|run| run.lane));
                    // Half of the claims stand while the others go on.
                    if met.len() % 2 == 0 {
                        store.acknowledge(request.token, &confirmed(&runs, usize::MAX)).await.expect("settled");
                    }
                }
            })
        })
        .collect();
    let mut lanes = Vec::new();
    for relay in relays {
        lanes.extend(relay.await.expect("the relay ends"));
    }
    assert_eq!(lanes.len(), 40, "every lane is handed out, and none twice");
    assert_eq!(lanes.iter().collect::<BTreeSet<_>>().len(), 40);
}
