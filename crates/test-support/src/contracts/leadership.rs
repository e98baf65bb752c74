//! What every leadership port must do: rules R14 and R23, case L18.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use application_core::{outbox::HolderName, ports::LeaderTerm};

use super::{
    OutboxHarness,
    bench::{AFTER_LEASE, Bench, LEASE, LONG},
};

const ROLE: &str = "outbox-maintenance";

async fn acquire<H: OutboxHarness>(bench: &Bench<H>, role: &str, holder: &str) -> Option<LeaderTerm> {
    bench.harness.leadership().acquire(role, &HolderName::new(holder), LEASE).await.expect("it is answered")
}

pub async fn one_holder_leads_at_a_time<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = acquire(&bench, ROLE, "a").await.expect("the role is vacant");
    assert_eq!((term.role.as_str(), term.holder.as_str(), term.term), (ROLE, "a", 1));
    assert_eq!(acquire(&bench, ROLE, "b").await, None);
}

pub async fn of_many_that_run_for_a_role_one_gets_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let names = ["a", "b", "c", "d", "e"];
    let terms = futures_util::future::join_all(names.map(|name| acquire(&bench, ROLE, name))).await;
    assert_eq!(terms.into_iter().flatten().count(), 1);
}

pub async fn roles_have_leaders_of_their_own<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert!(acquire(&bench, ROLE, "a").await.is_some());
    assert!(acquire(&bench, "another", "b").await.is_some());
}

pub async fn the_leader_renews_within_its_term<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = acquire(&bench, ROLE, "a").await;
    bench.harness.advance(LEASE / 2).await;
    assert_eq!(acquire(&bench, ROLE, "a").await, term);
    bench.harness.advance(LEASE / 2 + LEASE / 4).await;
    assert_eq!(acquire(&bench, ROLE, "b").await, None, "the renewal counts from when it was made");
}

pub async fn an_expired_role_passes_on_in_a_higher_term<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let old = acquire(&bench, ROLE, "a").await.expect("the role is vacant");
    bench.harness.advance(AFTER_LEASE).await;
    let new = acquire(&bench, ROLE, "b").await.expect("the role is vacant again");
    assert!(new.term > old.term);
    assert_eq!(acquire(&bench, ROLE, "a").await, None);
}

pub async fn a_leader_that_comes_back_late_gets_a_higher_term<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let old = acquire(&bench, ROLE, "a").await.expect("the role is vacant");
    bench.harness.advance(AFTER_LEASE).await;
    let new = acquire(&bench, ROLE, "a").await.expect("the role is vacant again");
    assert!(new.term > old.term);
}

pub async fn the_work_of_an_old_term_is_refused<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let old = acquire(&bench, ROLE, "a").await.expect("the role is vacant");
    bench.harness.advance(AFTER_LEASE).await;
    let new = acquire(&bench, ROLE, "b").await.expect("the role is vacant again");
    let maintenance = bench.harness.maintenance();
    assert_eq!(maintenance.clean_up(&old, LONG, 10).await.unwrap(), None);
    assert_eq!(maintenance.clean_up(&new, LONG, 10).await.unwrap(), Some(0));
    assert!(!bench.harness.leadership().resign(&old).await.unwrap());
    assert_eq!(acquire(&bench, ROLE, "c").await, None, "the new leader leads on");
}

pub async fn a_leader_that_resigns_makes_room_at_once<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let old = acquire(&bench, ROLE, "a").await.expect("the role is vacant");
    assert!(bench.harness.leadership().resign(&old).await.unwrap());
    assert!(!bench.harness.leadership().resign(&old).await.unwrap());
    let new = acquire(&bench, ROLE, "b").await.expect("the role is vacant again");
    assert!(new.term > old.term);
    assert_eq!(bench.harness.maintenance().clean_up(&old, LONG, 10).await.unwrap(), None);
}
