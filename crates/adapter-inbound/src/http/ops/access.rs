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

/// Whom `/ops` answers.
#[derive(Debug, Clone)]
pub enum OpsAccess {
    /// Whoever sends this token as `Authorization: Bearer …`.
    Token(SecretString),
    /// Whoever reaches a listener on loopback. Requests that a web page may have caused (another host's name, or an
    /// `Origin`) are refused: a browser on this machine reaches loopback on behalf of any page.
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
            Self::Loopback if !is_local(headers) => {
                let detail = "without a token, only direct requests to a loopback address are answered";
                Some(ProblemDetails::new(StatusCode::FORBIDDEN, detail).into_response())
            }
            _ => None,
        }
    }
}

pub(super) async fn check(State(access): State<Arc<OpsAccess>>, request: Request, next: Next) -> Response {
    match access.refusal(request.headers()) {
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

fn is_local(headers: &HeaderMap) -> bool {
    let host = only(headers, &HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    !headers.contains_key(ORIGIN) && is_loopback_name(without_port(host))
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
        assert!(is_local(&headers));
        headers.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_local(&headers));
        let token = SecretString::from("0123456789abcdef");
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer 0123456789abcdef"))]);
        assert!(carries(&headers, &token));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer 0123456789abcdef"));
        assert!(!carries(&headers, &token));
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
