//! Published events sent again by the range, and history deleted.

use application_core::{
    outbox::SettledHistory,
    ports::{LeaderTerm, OutboxMaintenancePort, ReapReport, ReapRequest},
};

use super::*;

#[tokio::test]
async fn published_events_of_a_range_are_counted_or_sent_again_and_the_answer_says_where_it_goes_on() {
    let filter = r#"{"aggregateType":"order","aggregateId":"42","eventType":"OrderPlaced","from":"FROM","to":"FROM",
        "publishedFrom":"2026-01-02T03:04:05Z","publishedUntil":"2026-01-02T04:00:00+00:00"}"#;
    let filter = filter.replace("FROM", ID);
    for dry_run in [true, false] {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_published_gone_until().returning(|| Ok(None));
        operations.expect_list().times(1).returning(|filter| {
            assert_eq!(filter.status, Some(OutboxEventStatus::Published));
            assert_eq!(filter.aggregate_type.as_ref().map(AggregateType::as_str), Some("order"));
            assert_eq!(filter.aggregate_id.as_ref().map(AggregateId::as_str), Some("42"));
            assert_eq!(filter.event_type.as_ref().map(EventType::as_str), Some("OrderPlaced"));
            assert_eq!(filter.published_from, Some(datetime!(2026-01-02 03:04:05 UTC)));
            assert_eq!(filter.published_until, Some(datetime!(2026-01-02 04:00:00 UTC)));
            assert_eq!((filter.from, filter.to, filter.after), (Some(id()), Some(id()), Some(id())));
            Ok(page(3, None))
        });
        operations.expect_act().times(usize::from(!dry_run)).returning(|action, ids, by| {
            assert_eq!((action, by.operator.as_str()), (EventAction::Replay, "zoe"));
            Ok(ids.to_vec())
        });
        let body = format!(r#"{{"filter":{filter},"after":"{ID}","by":"zoe","dryRun":{dry_run}}}"#);
        let answered = ask(operations, "POST", "/ops/outbox/replay", &body).await;
        let expected = json!({ "action": "replay", "events": 3, "dryRun": dry_run, "interrupted": false });
        assert_eq!((answered.status, answered.body), (StatusCode::OK, expected));
    }
}

#[tokio::test]
async fn a_replay_that_fails_midway_says_how_many_events_were_sent_again_and_where_it_goes_on() {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_published_gone_until().returning(|| Ok(None));
    operations.expect_list().returning(|_| Ok(page(3, Some(id()))));
    let mut batches = 0;
    operations.expect_act().times(2).returning(move |_, ids, _| {
        batches += 1;
        if batches == 1 {
            return Ok(ids.to_vec());
        }
        Err(StoreError::Unavailable { source: "password of db.internal".into() })
    });
    let body = r#"{"filter":{"aggregateType":"order"}}"#;
    let answered = ask(operations, "POST", "/ops/outbox/replay", body).await;
    let said = format!("events changed before it failed: 3; the same request goes on with \"after\": \"{ID}\"");
    assert_problem(&answered, 503, &said);
    assert!(!answered.body.to_string().contains("password"));
}

#[tokio::test]
async fn a_range_that_reaches_behind_what_is_kept_is_a_conflict_and_one_without_a_beginning_is_told_of_it() {
    let replay = async |filter: &str| {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_published_gone_until().returning(|| Ok(Some(datetime!(2026-01-02 03:04:05 UTC))));
        operations.expect_list().returning(|_| Ok(page(3, None)));
        operations.expect_act().returning(|_, ids, _| Ok(ids.to_vec()));
        ask(operations, "POST", "/ops/outbox/replay", &format!(r#"{{"filter":{filter}}}"#)).await
    };
    let refused = replay(r#"{"publishedFrom":"2026-01-01T00:00:00Z"}"#).await;
    let said = "published_from is 2026-01-01T00:00:00Z, but published events are gone until 2026-01-02T03:04:05Z: \
         what is replayed must lie behind that";
    assert_problem(&refused, 409, said);
    let whole = replay(r#"{"publishedFrom":"2026-01-03T00:00:00Z"}"#).await;
    assert_eq!((whole.status, whole.body.get("historyGoneUntil")), (StatusCode::OK, None));
    let rest = replay(r#"{"aggregateType":"order"}"#).await;
    assert_eq!((rest.status, &rest.body["historyGoneUntil"]), (StatusCode::OK, &json!("2026-01-02T03:04:05Z")));
}

/// As many as a request may name are one batch, which alone keeps the order of their aggregates.
#[tokio::test]
async fn published_events_that_are_named_are_sent_again_in_one_batch() {
    let ids: Vec<_> = (0..200).map(|n| format!("0198c5a0-0000-7000-8000-{n:012}")).collect();
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids.to_vec()));
    let body = json!({ "events": ids }).to_string();
    let answered = ask(operations, "POST", "/ops/outbox/replay", &body).await;
    assert_eq!((answered.status, &answered.body["events"]), (StatusCode::OK, &json!(200)), "{}", answered.body);
}

/// Published events without an end; one that was resolved.
struct EndlessHistory;

#[async_trait]
impl OutboxMaintenancePort for EndlessHistory {
    async fn reap(&self, _: &ReapRequest) -> Result<ReapReport, StoreError> {
        Ok(ReapReport::default())
    }

    async fn clean_up(&self, _: &LeaderTerm, _: Duration, _: u32) -> Result<Option<u32>, StoreError> {
        Ok(None)
    }

    async fn purge(
        &self,
        history: SettledHistory,
        age: Duration,
        batch: u32,
        by: &Attribution,
    ) -> Result<u32, StoreError> {
        assert_eq!((age, by.operator.as_str()), (Duration::from_secs(90), "zoe"));
        tokio::task::yield_now().await;
        Ok(if history == SettledHistory::Published { batch } else { 1 })
    }

    async fn count_purgeable(&self, history: SettledHistory, age: Duration) -> Result<u64, StoreError> {
        assert_eq!(age, Duration::from_secs(90));
        Ok(if history == SettledHistory::Published { OutboxStatistics::COUNT_LIMIT } else { 1 })
    }
}

async fn purge(body: &str) -> Answered {
    let purge = Arc::new(PurgeOutboxUseCase::new(Arc::new(EndlessHistory)));
    let parts = OpsParts { purge, bulk_time: Duration::ZERO, ..parts(MockOutboxOperationsPort::new()) };
    let request = Request::post("/ops/outbox/purge").header("host", "localhost");
    let request = request.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_owned())).unwrap();
    send(ops_router(parts, OpsAccess::Loopback), request).await
}

fn answer(events: u64, dry_run: bool, at_least: bool) -> Value {
    json!({ "events": events, "dryRun": dry_run, "atLeast": at_least, "interrupted": false })
}

#[tokio::test]
async fn history_is_counted_or_deleted_by_age_and_the_answer_says_whether_there_is_more() {
    let resolved = purge(r#"{"olderThanSeconds":90,"only":"resolved","by":"zoe"}"#).await;
    assert_eq!((resolved.status, resolved.body), (StatusCode::OK, answer(1, false, false)));
    let counted = purge(r#"{"olderThanSeconds":90,"only":"resolved","dryRun":true}"#).await;
    assert_eq!(counted.body, answer(1, true, false));
    let counted = purge(r#"{"olderThanSeconds":90,"dryRun":true}"#).await;
    assert_eq!(counted.body, answer(OutboxStatistics::COUNT_LIMIT + 1, true, true));
}

#[tokio::test]
async fn a_purge_answers_that_it_was_interrupted_when_its_time_is_over() {
    let answered = purge(r#"{"olderThanSeconds":90,"by":"zoe"}"#).await;
    assert_eq!((answered.status, &answered.body["interrupted"]), (StatusCode::OK, &json!(true)), "{}", answered.body);
    assert!(answered.body["events"].as_u64().is_some_and(|events| events >= 1_000), "{}", answered.body);
}

#[tokio::test]
async fn a_purge_that_the_store_refuses_is_a_problem_without_its_own_words() {
    let mut maintenance = MockOutboxMaintenancePort::new();
    maintenance
        .expect_purge()
        .returning(|_, _, _, _| Err(StoreError::Unavailable { source: "password of db.internal".into() }));
    let purge = Arc::new(PurgeOutboxUseCase::new(Arc::new(maintenance)));
    let parts = OpsParts { purge, ..parts(MockOutboxOperationsPort::new()) };
    let request = Request::post("/ops/outbox/purge").header("host", "localhost");
    let request = request.header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(r#"{"olderThanSeconds":90}"#)).unwrap();
    let answered = send(ops_router(parts, OpsAccess::Loopback), request).await;
    let said = "the database cannot be reached; events changed before it failed: 0; the same request can be made again";
    assert_problem(&answered, 503, said);
    assert!(!answered.body.to_string().contains("password"));
}
