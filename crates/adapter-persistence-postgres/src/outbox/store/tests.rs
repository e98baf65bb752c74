//! The store over a repository that answers as it is told.

use std::sync::Mutex;

use super::*;

/// Answers each call with the next of its answers, and counts the calls.
#[derive(Default)]
struct Scripted {
    claims: Mutex<Vec<Result<Vec<ClaimedRow>, StoreError>>>,
    settlements: Mutex<Vec<Result<SettlementRow, StoreError>>>,
    calls: Mutex<Vec<&'static str>>,
    silent: bool,
}

impl Scripted {
    async fn answer<T>(
        &self,
        call: &'static str,
        answers: &Mutex<Vec<Result<T, StoreError>>>,
    ) -> Result<T, StoreError> {
        self.calls.lock().expect("whole").push(call);
        if self.silent {
            std::future::pending::<()>().await;
        }
        answers.lock().expect("whole").remove(0)
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("whole").clone()
    }
}

#[async_trait]
impl OutboxClaimRepository for Scripted {
    async fn claim(&self, _: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError> {
        self.answer("claim", &self.claims).await
    }

    async fn claim_overdue(&self, _: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError> {
        self.answer("claim_overdue", &self.claims).await
    }

    async fn acknowledge(&self, _: Uuid, _: &[i64], _: &[Uuid]) -> Result<SettlementRow, StoreError> {
        self.answer("acknowledge", &self.settlements).await
    }

    async fn fail(&self, _: Uuid, _: &[i64], _: &[Uuid], _: &[FailureRow]) -> Result<SettlementRow, StoreError> {
        self.answer("fail", &self.settlements).await
    }

    async fn release(&self, _: Uuid, _: &[i64], _: &[Uuid], _: Duration) -> Result<SettlementRow, StoreError> {
        self.answer("release", &self.settlements).await
    }

    async fn free_postponed(&self, _: Uuid, _: &[i64]) -> Result<SettlementRow, StoreError> {
        self.answer("free_postponed", &self.settlements).await
    }

    async fn renew(&self, _: Uuid, _: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }
}

fn conflict() -> StoreError {
    StoreError::Conflict { source: "deadlock detected".into() }
}

fn settled(events: i32, lanes: i32, postponed: &[i64]) -> SettlementRow {
    SettlementRow { stale: false, events, lanes, postponed: postponed.to_vec(), repeated: false }
}

fn store_over(repository: Scripted) -> (OutboxStoreAdapter, Arc<Scripted>) {
    let repository = Arc::new(repository);
    let store = OutboxStoreAdapter::new(Arc::<Scripted>::clone(&repository), Duration::from_secs(10));
    (store, repository)
}

fn settling(answers: Vec<Result<SettlementRow, StoreError>>) -> (OutboxStoreAdapter, Arc<Scripted>) {
    store_over(Scripted { settlements: Mutex::new(answers), ..Scripted::default() })
}

fn token() -> LeaseToken {
    LeaseToken::new(Uuid::from_u128(1))
}

/// Runs with so many confirmed events each, in lanes 0, 1, ….
fn runs_of(confirmed: &[u128]) -> Vec<ConfirmedRun> {
    (0..)
        .zip(confirmed)
        .map(|(lane, count)| ConfirmedRun {
            lane: LaneId(lane),
            confirmed: (0..*count).map(|n| EventId::new(Uuid::from_u128(n))).collect(),
        })
        .collect()
}

fn row(lane: i64, sequence: i64) -> ClaimedRow {
    ClaimedRow {
        lane,
        sequence,
        id: Uuid::from_u128(sequence.unsigned_abs().into()),
        aggregate_type: "order".to_owned(),
        aggregate_id: lane.to_string(),
        event_type: "OrderPlaced".to_owned(),
        payload: application_core::outbox::Payload::from_stored("1"),
        headers: r#"{"a": "b"}"#.to_owned(),
        attempts: 2,
        replays: 1,
        created_at_micros: 1_000_001,
        age_micros: -5,
    }
}

fn a_request() -> ClaimRequest {
    ClaimRequest {
        token: token(),
        scope: ClaimScope::Due,
        holder: application_core::outbox::HolderName::new("h"),
        lease: Duration::from_secs(1),
        max_lanes: 1,
        max_run: 1,
        max_events: 1,
        max_bytes: 1,
    }
}

#[tokio::test]
async fn rows_become_the_runs_of_their_lanes_in_order() {
    let rows = vec![row(-3, 5), row(-3, 7), row(4, 1)];
    let (store, _) = store_over(Scripted { claims: Mutex::new(vec![Ok(rows)]), ..Scripted::default() });
    let runs = store.claim(&a_request()).await.expect("claimed");
    let shape: Vec<_> =
        runs.iter().map(|run| (run.lane.0, run.events.iter().map(|e| e.sequence.0).collect())).collect();
    assert_eq!(shape, [(-3, vec![5, 7]), (4, vec![1])]);
    let event = &runs[0].events[0];
    assert_eq!((event.attempts, event.replays, event.headers.get("a")), (2, 1, Some("b")));
    assert_eq!(event.created_at.unix_timestamp_nanos(), 1_000_001_000);
    assert_eq!(event.age_at_claim, Duration::ZERO, "an event from the future is no older than nothing");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_names_its_column() {
    let broken = ClaimedRow { attempts: -1, ..row(1, 1) };
    let (store, _) = store_over(Scripted { claims: Mutex::new(vec![Ok(vec![broken])]), ..Scripted::default() });
    let error = store.claim(&a_request()).await.expect_err("should be refused");
    assert!(error.to_string().starts_with("outbox_event.attempts of "), "{error}");
}

#[tokio::test]
async fn a_transaction_that_lost_is_tried_again_and_no_other_error_is() {
    let (store, repository) = settling(vec![Err(conflict()), Err(conflict()), Ok(settled(1, 1, &[]))]);
    let settlement = store.acknowledge(token(), &runs_of(&[1])).await.expect("settled");
    assert_eq!((settlement.events, repository.calls().len()), (1, 3));

    let (store, repository) = settling((0..10).map(|_| Err(conflict())).collect());
    let error = store.acknowledge(token(), &runs_of(&[1])).await.expect_err("lost for good");
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    assert_eq!(repository.calls().len(), 4);

    let limit = Duration::from_secs(5);
    let (store, repository) = settling(vec![Err(StoreError::Timeout { limit })]);
    store.acknowledge(token(), &runs_of(&[1])).await.expect_err("timed out");
    assert_eq!(repository.calls().len(), 1);
}

#[tokio::test]
async fn a_repository_that_does_not_answer_is_given_up() {
    let limit = Duration::from_millis(1);
    let store = OutboxStoreAdapter::new(Arc::new(Scripted { silent: true, ..Scripted::default() }), limit);
    let error = store.claim(&a_request()).await.expect_err("given up");
    assert!(matches!(error, StoreError::Timeout { limit: met } if met == limit), "{error:?}");
}

#[tokio::test]
async fn a_settlement_that_changed_another_number_of_rows_is_an_error_unless_the_claim_is_gone() {
    let refused = async |answer: SettlementRow| {
        let (store, _) = settling(vec![Ok(answer)]);
        store.acknowledge(token(), &runs_of(&[2, 1])).await
    };
    refused(settled(3, 2, &[])).await.expect("all there");
    refused(settled(3, 1, &[7])).await.expect("one postponed");
    for wrong in [settled(2, 2, &[]), settled(4, 2, &[]), settled(3, 1, &[]), settled(3, 2, &[7])] {
        let answer = refused(wrong.clone()).await;
        assert!(matches!(answer, Err(StoreError::RowsAffected { .. })), "{wrong:?}: {answer:?}");
    }
    let gone = SettlementRow { stale: true, ..SettlementRow::default() };
    assert!(refused(gone).await.expect("no error").stale);
    let again = SettlementRow { repeated: true, ..settled(0, 1, &[7]) };
    assert_eq!(refused(again).await.expect("the first report counted").freed, 1);
}

#[tokio::test]
async fn a_failure_counts_as_one_event_beside_the_confirmed_ones() {
    let failed: Vec<FailedRun> = runs_of(&[1, 0])
        .into_iter()
        .map(|run| FailedRun {
            run,
            failed: EventId::new(Uuid::from_u128(9)),
            outcome: FailedOutcome::Skip,
            error: "no".to_owned(),
        })
        .collect();
    let (store, _) = settling(vec![Ok(settled(3, 2, &[])), Ok(settled(1, 2, &[]))]);
    store.fail(token(), &failed).await.expect("one confirmed and two failed");
    store.fail(token(), &failed).await.expect_err("the failures are missing");
}

#[tokio::test]
async fn an_acknowledgement_without_events_frees_what_was_postponed() {
    let (store, repository) = settling(vec![Ok(settled(0, 1, &[5])), Ok(settled(1, 1, &[])), Ok(settled(0, 1, &[]))]);
    let settlement = store.acknowledge(token(), &runs_of(&[0, 0])).await.expect("freed");
    assert_eq!(settlement.postponed, [LaneId(5)]);
    store.acknowledge(token(), &runs_of(&[1])).await.expect("settled");
    store.release(token(), &runs_of(&[0]), Duration::ZERO).await.expect("released");
    assert_eq!(repository.calls(), ["free_postponed", "acknowledge", "release"]);
}

#[tokio::test]
async fn the_scope_chooses_the_statement() {
    let claims = Mutex::new(vec![Ok(vec![]), Ok(vec![])]);
    let (store, repository) = store_over(Scripted { claims, ..Scripted::default() });
    store.claim(&ClaimRequest { scope: ClaimScope::Overdue, ..a_request() }).await.expect("claimed");
    store.claim(&a_request()).await.expect("claimed");
    assert_eq!(repository.calls(), ["claim_overdue", "claim"]);
}
