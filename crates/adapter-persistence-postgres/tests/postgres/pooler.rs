//! Behind a pooler in transaction mode, which the step `pgbouncer` of `cargo xtask check` puts before the server
//! (case P46).

use application_core::ports::OutboxStorePort;

use super::support::{Fixture, empty, events, shares_processes};

#[tokio::test]
async fn everything_works_without_session_settings_and_prepared_statements() {
    let fixture = Fixture::with("pooler", |settings| settings.pgbouncer = true).await;
    fixture.append(&events("a", 2)).await;
    let claim = fixture.claim().await;
    let settled = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!(settled.events, 2);
}

/// The sign by which every fixture of such a run knows that its connections go through the pooler.
#[tokio::test]
async fn a_server_without_a_pooler_is_not_taken_for_one() {
    let direct = empty("direct").await;
    assert!(!shares_processes(direct.url()).await);
}
