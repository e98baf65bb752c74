//! Several reapers at once; the suite of reaping and cleaning runs in the adapter's own tests.

use std::time::Duration;

use application_core::ports::{OutboxMaintenancePort, ReapRequest};
use test_support::fixtures::Events;

use super::postgres::Postgres;

#[tokio::test]
async fn an_expired_claim_is_returned_once_however_many_reapers_look() {
    let postgres = Postgres::fresh().await;
    let series = Events::new();
    for n in 0..10 {
        postgres.append_all(&series.many_of(&format!("a{n}"), 1)).await;
        postgres.claim().await;
    }
    postgres.advance(Duration::from_mins(2)).await;
    let request = ReapRequest { max_claims: 4, dead_after_expiries: 10, skip_types: Vec::new() };
    let reapers: Vec<_> = (0..4)
        .map(|_| {
            let (maintenance, request) = (postgres.maintenance(), request.clone());
            tokio::spawn(async move {
                let mut returned = (0, 0);
                for _ in 0..4 {
                    let report = maintenance.reap(&request).await.expect("reaped");
                    returned = (returned.0 + report.claims, returned.1 + report.lanes);
                }
                returned
            })
        })
        .collect();
    let mut total = (0, 0);
    for reaper in reapers {
        let (claims, lanes) = reaper.await.expect("the reaper ends");
        total = (total.0 + claims, total.1 + lanes);
    }
    assert_eq!(total, (10, 10));
    let expiries: Vec<i16> = postgres.sql().await.column("SELECT expiries FROM outbox_lane").await;
    assert_eq!(expiries, [1; 10]);
}
