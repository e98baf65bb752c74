//! Requests that no route can read: a path or query that is badly escaped, or a body in a content coding.

use std::str;

use axum::{
    extract::Request,
    http::{
        HeaderValue, StatusCode, Uri,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING},
    },
    response::{IntoResponse, Response},
};
use hyper::body::Body as _;

use super::problem_details::ProblemDetails;

const IDENTITY: &str = "identity";
/// The most characters of a header that an answer repeats.
const MOST_REPEATED: usize = 40;

/// Why no route gets to see the request; none: one may.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    if let Some(detail) = badly_escaped(request.uri()) {
        return Some(ProblemDetails::new(StatusCode::BAD_REQUEST, detail).into_response());
    }
    let coding = coding(request)?;
    let detail = format!("the body has the content coding {coding:?}, only {IDENTITY} is accepted");
    let problem = ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
    // RFC 9110, section 15.5.16.
    Some(([(ACCEPT_ENCODING, HeaderValue::from_static(IDENTITY))], problem).into_response())
}

/// The first content coding of the body that is not `identity`; what is said of no body at all does not matter.
fn coding(request: &Request) -> Option<String> {
    if request.body().is_end_stream() {
        return None;
    }
    let is_foreign = |coding: &&str| !coding.is_empty() && !coding.eq_ignore_ascii_case(IDENTITY);
    let mut lines = request.headers().get_all(CONTENT_ENCODING).iter();
    lines.find_map(|line| {
        let line = String::from_utf8_lossy(line.as_bytes());
        let foreign = line.split(',').map(str::trim).find(is_foreign)?;
        Some(foreign.chars().take(MOST_REPEATED).collect())
    })
}

/// What is wrong with the escapes: taken as they are, or for a replacement character, they would mean something else.
fn badly_escaped(uri: &Uri) -> Option<String> {
    [("path", uri.path()), ("query", uri.query().unwrap_or_default())].into_iter().find_map(|(part, text)| {
        match unescaped(text.as_bytes()) {
            Ok(bytes) => {
                str::from_utf8(&bytes).is_err().then(|| format!("the {part} is not UTF-8 when it is unescaped"))
            }
            Err(offset) => Some(format!("the {part} has a % at byte {offset} without two hexadecimal digits")),
        }
    })
}

/// The bytes that a percent-encoded text means; otherwise the place of the first `%` that escapes nothing.
fn unescaped(text: &[u8]) -> Result<Vec<u8>, usize> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    loop {
        match rest {
            [] => return Ok(bytes),
            [b'%', after @ ..] => {
                let (value, after) = escaped(after).ok_or(text.len() - rest.len())?;
                bytes.push(value);
                rest = after;
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
}

fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(*high)? * 16 + digit(*low)?, rest))
}
