//! What a request says beside its body.

use std::collections::BTreeMap;

use application_core::JsonObject;
use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{
        HeaderMap,
        header::{CONTENT_TYPE, IF_MATCH},
        request::Parts,
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use uuid::Uuid;

use super::problem::Problem;
use crate::{
    application::{InvalidPageSize, PageSize, WorkLogTarget},
    domain::{PortfolioId, Version, WorkLogId},
    ports::IdempotencyKey,
};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const TRACEPARENT: &str = "traceparent";

/// Query of `GET …/work-logs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    after: Option<Uuid>,
    limit: Option<i64>,
}

impl PageQuery {
    pub(super) fn after(&self) -> Option<WorkLogId> {
        self.after.map(WorkLogId::new)
    }

    pub(super) fn size(&self) -> Result<PageSize, InvalidPageSize> {
        self.limit.map_or(Ok(PageSize::default()), PageSize::try_new)
    }
}

/// That a request has no query: a parameter that is not heard would be missed by nobody.
pub(super) struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(said) = Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri)?;
        said.keys().next().map_or(Ok(Self), |name| Err(Problem::unknown_parameter(name)))
    }
}

/// The JSON object that a request carries.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if let Some(charset) = foreign_charset(request.headers()) {
            return Err(Problem::foreign_charset(&charset));
        }
        let Json(JsonObject(body)) = Json::<JsonObject<T>>::from_request(request, state).await?;
        Ok(Self(body))
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

/// The client's idempotency key, which a creation must have: without it a lost answer would lead to a second work log.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = values.next().ok_or_else(Problem::key_missing)?;
    // Which of several one is meant cannot be told, and a wrong guess would create a second work log.
    match values.count() {
        0 => IdempotencyKey::try_new(value).map_err(|error| Problem::key_invalid(&error)),
        more => Err(Problem::key_repeated(more + 1)),
    }
}

/// The work log of the path, at the version of `If-Match`.
pub(super) fn target(Path((portfolio, id)): Path<(Uuid, Uuid)>, headers: &HeaderMap) -> Result<WorkLogTarget, Problem> {
    Ok(WorkLogTarget {
        portfolio: PortfolioId::new(portfolio),
        id: WorkLogId::new(id),
        expected_version: expected_version(headers)?,
        traceparent: traceparent(headers),
    })
}

/// A tag that is none of ours cannot match: that is a failed precondition, not a malformed request.
fn expected_version(headers: &HeaderMap) -> Result<Option<Version>, Problem> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    // Several lines are one list, and a list is more than one tag.
    let tag = if values.next().is_none() { value.to_str().unwrap_or_default().trim() } else { "" };
    if tag == "*" {
        return Ok(None);
    }
    let number = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|text| text.parse().ok());
    match number {
        Some(number) => Ok(Some(Version::new(number))),
        None => Err(Problem::version_mismatch("If-Match takes one entity tag, as sent in ETag")),
    }
}

/// The trace context (W3C Trace Context, version 00); one that is malformed or repeated is dropped, as the standard asks.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let text = value.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else { return None };
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let set = |part: &str| part.bytes().any(|byte| byte != b'0');
    let well_formed = *version == "00" && hex(trace, 32) && set(trace) && hex(span, 16) && set(span) && hex(flags, 2);
    well_formed.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn one(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).expect("a header value");
        HeaderMap::from_iter([(HeaderName::from_static(name), value)])
    }

    fn twice(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = one(name, value);
        headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        headers
    }

    #[test]
    fn a_trace_context_is_taken_as_it_is_and_a_malformed_one_is_dropped() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(traceparent(&one(TRACEPARENT, good)).as_deref(), Some(good));
        let no_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let upper = good.to_uppercase();
        let longer = format!("{good}-x");
        for bad in
            ["", "00", no_trace, no_span, &upper, &longer, &good.replacen("00", "ff", 1), &good.replacen("0a", "", 1)]
        {
            assert_eq!(traceparent(&one(TRACEPARENT, bad)), None, "{bad}");
        }
        assert_eq!(traceparent(&HeaderMap::new()), None);
        assert_eq!(traceparent(&twice(TRACEPARENT, good)), None);
    }

    #[test]
    fn if_match_names_a_version_or_nothing_in_particular() {
        assert_eq!(expected_version(&HeaderMap::new()).expect("none"), None);
        assert_eq!(expected_version(&one("if-match", "*")).expect("any"), None);
        assert_eq!(expected_version(&one("if-match", "\"3\"")).expect("a version"), Some(Version::new(3)));
        for bad in ["3", "W/\"3\"", "\"x\"", "\"3\", \"4\"", "\"-1\"", "\""] {
            assert!(expected_version(&one("if-match", bad)).is_err(), "{bad}");
        }
        assert!(expected_version(&twice("if-match", "\"3\"")).is_err());
        assert!(expected_version(&twice("if-match", "*")).is_err());
    }
}
