//! Who is an operator: whoever knows the token, or, without one, whoever is on this machine.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::http::problem_details::ProblemDetails;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whom `/ops` answers.
#[derive(Debug, Clone)]
pub enum OpsAccess {
    /// Whoever sends this token as `Authorization: Bearer …`.
    Token(SecretString),
    /// Whoever reaches a listener on loopback. Requests that a foreign web page may have caused (another host's name, or
    /// an `Origin` that is not this listener's) are refused: a browser on this machine reaches loopback on behalf of any
    /// page.
    Loopback,
}

impl OpsAccess {
    /// By the token, if there is one.
    #[must_use]
    pub fn new(token: Option<&SecretString>) -> Self {
        token.map_or(Self::Loopback, |token| Self::Token(token.clone()))
    }

    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        match self {
            Self::Token(token) if !carries(headers, token) => {
                let problem = ProblemDetails::new(StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong");
                let mut response = problem.into_response();
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Some(response)
            }
            Self::Loopback if !is_addressed_locally(headers) || !is_of_this_origin(headers) => Some(not_local()),
            _ => None,
        }
    }

    /// Of the page itself, which holds no data: a link may lead to it, but no name that somebody else's server answers for.
    fn refusal_of_page(&self, headers: &HeaderMap) -> Option<Response> {
        let refused = matches!(self, Self::Loopback) && !is_addressed_locally(headers);
        refused.then(not_local)
    }
}

fn not_local() -> Response {
    let detail = "without a token, only direct requests to a loopback address are answered";
    ProblemDetails::new(StatusCode::FORBIDDEN, detail).into_response()
}

pub(super) async fn check(State(access): State<Arc<OpsAccess>>, request: Request, next: Next) -> Response {
    match access.refusal(request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

pub(super) async fn check_page(State(access): State<Arc<OpsAccess>>, request: Request, next: Next) -> Response {
    match access.refusal_of_page(request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

/// Takes the same time however many bytes of the token are right; its length is no secret.
fn carries(headers: &HeaderMap, token: &SecretString) -> bool {
    let value = only(headers, &AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let Some((scheme, given)) = value.split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.ct_eq(token.expose_secret().as_bytes()))
}

/// A header that came once: what is meant by several cannot be told.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    only(headers, name).and_then(|value| value.to_str().ok())
}

fn is_addressed_locally(headers: &HeaderMap) -> bool {
    is_loopback_name(without_port(text(headers, &HOST).unwrap_or_default()))
}

/// A browser says where a request comes from: from this listener's own page, or from nobody's.
fn is_of_this_origin(headers: &HeaderMap) -> bool {
    let host = text(headers, &HOST).unwrap_or_default();
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|rest| rest.eq_ignore_ascii_case(host));
    let origin = !headers.contains_key(ORIGIN) || text(headers, &ORIGIN).is_some_and(own);
    let site = |site: &str| matches!(site, "same-origin" | "none");
    origin && (!headers.contains_key(FETCH_SITE) || text(headers, &FETCH_SITE).is_some_and(site))
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_is_repeated_lets_nobody_in() {
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        assert!(is_addressed_locally(&headers));
        headers.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_addressed_locally(&headers));
        let token = SecretString::from("0123456789abcdef");
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer 0123456789abcdef"))]);
        assert!(carries(&headers, &token));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer 0123456789abcdef"));
        assert!(!carries(&headers, &token));
    }

    #[test]
    fn only_this_listeners_own_page_is_of_this_origin() {
        let asks = |origin: Option<&'static str>, site: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:9091"))]);
            headers.extend(origin.map(|value| (ORIGIN, HeaderValue::from_static(value))));
            headers.extend(site.map(|value| (FETCH_SITE, HeaderValue::from_static(value))));
            is_of_this_origin(&headers)
        };
        assert!(
            asks(None, None) && asks(Some("http://localhost:9091"), Some("same-origin")) && asks(None, Some("none"))
        );
        for origin in ["http://evil.example", "null", "", "https://localhost:9091", "http://localhost:9092", "http://"]
        {
            assert!(!asks(Some(origin), None), "{origin}");
        }
        assert!(!asks(None, Some("cross-site")) && !asks(None, Some("same-site")) && !asks(None, Some("")));
        let mut twice = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        twice.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        twice.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(!is_of_this_origin(&twice));
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:9091", "127.0.0.1:9091", "127.3.2.1", "[::1]:9091", "[::1]"] {
            assert!(is_loopback_name(without_port(host)), "{host}");
        }
        for host in ["", "evil.example:9091", "localhost.evil.example", "10.0.0.1", "[::2]:1", "127.0.0.1.evil", "::1"]
        {
            assert!(!is_loopback_name(without_port(host)), "{host}");
        }
    }
}
