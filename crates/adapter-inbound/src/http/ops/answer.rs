//! What the handlers of `/ops` share: reading what came, and saying what went wrong.

use std::{collections::BTreeMap, error::Error};

use application_core::{
    JsonObject,
    outbox::{EventId, InvalidEventId},
    ports::{StoreError, with_causes},
    usecases::{ManyFailed, OperateError},
};
use axum::{
    Json,
    extract::{
        FromRequest, FromRequestParts, Path, Query, Request,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts},
};
use serde::de::DeserializeOwned;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::http::problem_details::ProblemDetails;

pub(super) type Answer<T> = Result<T, ProblemDetails>;
/// The event that the path of a request names.
pub(super) type Named = Result<Path<String>, PathRejection>;

pub(super) const DEFAULT_LIMIT: u32 = 100;
pub(super) const MAX_LIMIT: u32 = 1_000;
/// The most characters of a name or value that an answer repeats.
const MOST_REPEATED: usize = 100;

pub(super) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Answer<T> {
    query.map(|Query(query)| query).map_err(|error| bad_request(error.body_text()))
}

/// That a request has no query: what is said and not heard would be missed by nobody.
pub(super) struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let said: BTreeMap<String, String> = query(Query::try_from_uri(&parts.uri))?;
        match said.keys().next() {
            None => Ok(Self),
            Some(name) => Err(bad_request(format!("unknown parameter {:?}, this path takes none", repeated(name)))),
        }
    }
}

/// The body of a change. A web page can send a form or text to any address without asking, but not JSON.
pub(super) struct Change<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Change<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        if let Some(charset) = foreign_charset(request.headers()) {
            let detail = format!("the body has the charset {:?}, only utf-8 is accepted", repeated(&charset));
            return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        match Json::<JsonObject<T>>::from_request(request, state).await {
            Ok(Json(JsonObject(body))) => Ok(Self(body)),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                let detail = "a change is a JSON object with the content type application/json";
                Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
            }
            Err(JsonRejection::BytesRejection(error)) => Err(ProblemDetails::new(error.status(), error.body_text())),
            Err(error) => Err(bad_request(error.body_text())),
        }
    }
}

/// A charset of the content type that is not UTF-8: JSON has no other, so a text in another would be read wrongly.
fn foreign_charset(headers: &HeaderMap) -> Option<String> {
    headers.get_all(CONTENT_TYPE).iter().find_map(|value| {
        let parameters = value.to_str().ok()?.split(';').skip(1);
        let mut named = parameters.filter_map(|parameter| parameter.split_once('='));
        let (_, charset) = named.find(|(name, charset)| {
            name.trim().eq_ignore_ascii_case("charset") && !unquoted(charset).eq_ignore_ascii_case("utf-8")
        })?;
        Some(unquoted(charset).to_owned())
    })
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}

fn repeated(text: &str) -> String {
    text.chars().take(MOST_REPEATED).collect()
}

pub(super) fn id_in_path(named: Named) -> Answer<EventId> {
    let Path(id) = named.map_err(|error| bad_request(error.body_text()))?;
    event_id(&id)
}

pub(super) fn event_id(text: &str) -> Answer<EventId> {
    text.parse().map_err(|error: InvalidEventId| bad_request(error.to_string()))
}

pub(super) fn limit(limit: Option<u32>) -> Answer<u32> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(bad_request(format!("limit is {other}, it must be 1 to {MAX_LIMIT}"))),
    }
}

pub(super) fn optional<T, E: std::fmt::Display>(
    name: &str,
    text: Option<String>,
    parse: impl FnOnce(String) -> Result<T, E>,
) -> Answer<Option<T>> {
    text.map(parse).transpose().map_err(|error| bad_request(format!("{name}: {error}")))
}

/// A time of RFC 3339.
pub(super) fn time(name: &str, text: Option<String>) -> Answer<Option<OffsetDateTime>> {
    optional(name, text, |text| {
        let told = repeated(&text);
        OffsetDateTime::parse(&text, &Rfc3339)
            .map_err(|_unshown| format!("{told:?} is no time, it must be one such as 2026-01-02T03:04:05Z"))
    })
}

pub(super) fn bad_request(detail: impl Into<String>) -> ProblemDetails {
    ProblemDetails::new(StatusCode::BAD_REQUEST, detail)
}

/// The store's own words go to the log, not to the client.
pub(super) fn failed(error: &(dyn Error + 'static), source: &StoreError) -> ProblemDetails {
    let status =
        if source.is_transient() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
    tracing::error!(error = with_causes(error), "an operator's request failed");
    ProblemDetails::new(status, format!("{error}: {source}"))
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
pub(super) fn problem(error: OperateError) -> ProblemDetails {
    match &error {
        OperateError::NotFound { .. } | OperateError::HistoryNotKept { .. } => {
            ProblemDetails::new(StatusCode::NOT_FOUND, error.to_string())
        }
        OperateError::EmptyRange { .. } => ProblemDetails::new(StatusCode::BAD_REQUEST, error.to_string()),
        OperateError::NotAllowed { .. } | OperateError::RangeNotKept | OperateError::HistoryGone { .. } => {
            ProblemDetails::new(StatusCode::CONFLICT, error.to_string())
        }
        OperateError::Store { source } => failed(&error, source),
    }
}

/// A change of many events that failed midway: how many were changed, and how to go on behind them.
pub(super) fn midway(failed: ManyFailed, takes_after: bool) -> ProblemDetails {
    let ManyFailed { events, next, source } = failed;
    let problem = problem(source);
    // What cannot be asked for as it is goes on nowhere.
    if problem.status().is_client_error() {
        return problem;
    }
    let go_on = match next {
        Some(next) if takes_after => format!("the same request goes on with \"after\": \"{next}\""),
        _ => "the same request can be made again".to_owned(),
    };
    problem.and(&format!("events changed before it failed: {events}; {go_on}"))
}
