//! The handlers of `/ops/inbox`: what a consumer has parked, and what it is to handle again.

use application_core::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, GiveUp, with_causes},
    usecases::{OfConsumer, OperateInboxError},
};
use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Shared,
    answer::{Answer, Change, NoQuery, bad_request, failed, limit, optional, query},
    change::{attribution, named_ids},
    openapi::required_events_schema,
};
use crate::http::problem_details::ProblemDetails;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ParkedQuery {
    /// The consumer's name. 1 to 100 bytes of UTF-8.
    #[param(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    consumer: String,
    /// How many; 100 if nothing is said.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// Which events a consumer is to forget.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetRequest {
    /// The consumer's name. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    consumer: String,
    /// These events.
    #[schema(schema_with = required_events_schema)]
    events: Vec<String>,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// Which aggregate's parked messages are to be handled.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct UnparkRequest {
    /// The aggregate's type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_type: String,
    /// The aggregate. 1 to 200 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_id: String,
    /// Give this event's message up instead of handling it: the copies of all consumers, unless `consumer` names one.
    #[schema(format = "uuid")]
    discard: Option<String>,
    /// Whose copy of the discarded event alone is given up; only together with `discard`. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    consumer: Option<String>,
    /// Ask even if no consumer has parked the aggregate: what lies in the parking queue may have lost its mark, by a restore
    /// of the database for example. It is handled behind what was handled meanwhile.
    #[serde(default)]
    unmarked: bool,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// What a consumer has forgotten.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForgottenView {
    /// Of the events that were named, how many the consumer had handled.
    forgotten: u64,
    /// Left out unless nothing is recorded under the consumer's name, which may be mistyped: the names that have records.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    known_consumers: Option<Vec<String>>,
}

/// What a consumer was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UnparkView {
    /// Whether the running consumer was asked.
    asked: bool,
    /// For how many consumers the aggregate is parked; where consumers are unordered, and with `unmarked`, at least one.
    aggregates: u64,
}

/// What a consumer has parked, longest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ParkedView {
    items: Vec<ParkedAggregateView>,
    /// Left out unless nothing is recorded under the consumer's name, which may be mistyped: the names that have records.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    known_consumers: Option<Vec<String>>,
}

/// An aggregate whose messages wait behind one that could not be handled.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ParkedAggregateView {
    aggregate_type: String,
    aggregate_id: String,
    /// The event whose message could not be handled.
    #[schema(format = "uuid")]
    event: String,
    reason: String,
}

impl From<ParkedAggregate> for ParkedAggregateView {
    fn from(parked: ParkedAggregate) -> Self {
        Self {
            aggregate_type: parked.aggregate_type.to_string(),
            aggregate_id: parked.aggregate_id.to_string(),
            event: parked.event.to_string(),
            reason: parked.reason,
        }
    }
}

/// Aggregates whose messages a consumer has parked, longest first.
#[utoipa::path(get, path = "/ops/inbox/parked", tag = "inbox", params(ParkedQuery),
    responses((status = 200, description = "the aggregates", body = ParkedView)))]
pub(super) async fn parked(
    State(parts): State<Shared>,
    asked: Result<Query<ParkedQuery>, QueryRejection>,
) -> Answer<Json<ParkedView>> {
    let asked = query(asked)?;
    let (consumer, limit) = (consumer(asked.consumer)?, limit(asked.limit)?);
    let OfConsumer { found, known_instead } = parts.inbox.parked(&consumer, limit).await.map_err(problem)?;
    let items = found.into_iter().map(ParkedAggregateView::from).collect();
    Ok(Json(ParkedView { items, known_consumers: known_instead }))
}

/// Lets a consumer forget events, so that a replay of them has its effect again.
#[utoipa::path(post, path = "/ops/inbox/forget", tag = "inbox", request_body = ForgetRequest,
    responses((status = 200, description = "how many events", body = ForgottenView)))]
pub(super) async fn forget(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<ForgetRequest>,
) -> Answer<Json<ForgottenView>> {
    let (consumer, events) = (consumer(request.consumer)?, named_ids(&request.events)?);
    let by = attribution(request.by, request.reason)?;
    let forgotten = parts.inbox.forget(&consumer, &events, &by).await.map_err(problem)?;
    let OfConsumer { found: forgotten, known_instead } = forgotten;
    Ok(Json(ForgottenView { forgotten, known_consumers: known_instead }))
}

/// Asks the running consumer to handle an aggregate's parked messages again, in order. It is recorded, then asked for; the
/// consumer acts on it when its turn comes. Where no consumer has parked the aggregate, nothing is recorded or asked for,
/// unless `unmarked` is said.
#[utoipa::path(post, path = "/ops/inbox/unpark", tag = "inbox", request_body = UnparkRequest,
    responses((status = 200, description = "whether it was asked for; the list of what is parked shows when it is done",
        body = UnparkView)))]
pub(super) async fn unpark(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<UnparkRequest>,
) -> Answer<Json<UnparkView>> {
    let aggregate_type = AggregateType::try_new(request.aggregate_type);
    let aggregate_type = aggregate_type.map_err(|error| bad_request(format!("aggregateType: {error}")))?;
    let aggregate_id = AggregateId::try_new(request.aggregate_id);
    let aggregate_id = aggregate_id.map_err(|error| bad_request(format!("aggregateId: {error}")))?;
    let discard = optional("discard", request.discard, |text| text.parse::<EventId>())?;
    let consumer = request.consumer.map(consumer).transpose()?;
    let discard = match (discard, consumer) {
        (Some(event), consumer) => Some(GiveUp { event, consumer }),
        (None, None) => None,
        (None, Some(_)) => return Err(bad_request("consumer is said without discard")),
    };
    let by = attribution(request.by, request.reason)?;
    let asked = parts.inbox.unpark(&aggregate_type, &aggregate_id, discard, request.unmarked, &by).await;
    let aggregates = asked.map_err(problem)?;
    Ok(Json(UnparkView { asked: aggregates > 0, aggregates }))
}

fn consumer(name: String) -> Answer<ConsumerName> {
    ConsumerName::try_new(name).map_err(|error| bad_request(format!("consumer: {error}")))
}

/// Why the broker could not be asked goes to the log: the words of the client library, or the path of a file here.
#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn problem(error: OperateInboxError) -> ProblemDetails {
    match &error {
        OperateInboxError::Store { source } => failed(&error, source),
        OperateInboxError::Unpark(_) => {
            tracing::error!(error = with_causes(&error), "a consumer could not be asked to handle what it has parked");
            ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, "the consumer could not be asked; the log says why")
        }
    }
}
