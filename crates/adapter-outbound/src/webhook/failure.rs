//! Whose fault a failed request is (rule R5); the table is in the module's documentation.

use application_core::outbox::{FailureClass, PublishFailure};
use hyper::{StatusCode, header::HeaderValue};

/// What the receiver's answer means.
///
/// Its body is not repeated: it may quote the request.
pub(super) fn outcome(status: StatusCode, retry_after: Option<&HeaderValue>) -> Result<(), PublishFailure> {
    if status.is_success() {
        return Ok(());
    }
    let class = class(status.as_u16());
    let mut reason = format!("the receiver answered {status}");
    if status.is_redirection() {
        reason.push_str("; redirects are not followed");
    }
    if let Some(seconds) = retry_after.and_then(seconds) {
        reason = format!("{reason}; it asks for a pause of {seconds} s");
    }
    Err(PublishFailure::new(class, reason))
}

/// The request could not be made, or was not answered.
pub(super) fn unavailable(reason: impl AsRef<str>) -> PublishFailure {
    PublishFailure::new(FailureClass::Unavailable, reason)
}

/// The event cannot be sent at all.
pub(super) fn poison(reason: impl AsRef<str>) -> PublishFailure {
    PublishFailure::new(FailureClass::Poison, reason)
}

const fn class(status: u16) -> FailureClass {
    match status {
        401 | 408 | 429 | 502..=504 => FailureClass::Unavailable,
        300..=399 | 404 | 410 => FailureClass::Unroutable,
        413 | 431 => FailureClass::Poison,
        _ => FailureClass::Rejected,
    }
}

/// A pause in seconds; a date is not told.
fn seconds(retry_after: &HeaderValue) -> Option<u32> {
    retry_after.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, retry_after: Option<&'static str>) -> PublishFailure {
        let retry_after = retry_after.map(HeaderValue::from_static);
        outcome(StatusCode::from_u16(status).unwrap(), retry_after.as_ref()).unwrap_err()
    }

    #[test]
    fn every_status_has_the_class_of_the_table() {
        for status in (100..=999).filter(|status| !(200..=299).contains(status)) {
            let expected = match status {
                401 | 408 | 429 | 502 | 503 | 504 => FailureClass::Unavailable,
                300..=399 | 404 | 410 => FailureClass::Unroutable,
                413 | 431 => FailureClass::Poison,
                _ => FailureClass::Rejected,
            };
            assert_eq!(failure(status, None).class(), expected, "{status}");
        }
        for status in 200..=299 {
            assert_eq!(outcome(StatusCode::from_u16(status).unwrap(), None), Ok(()), "{status}");
        }
    }

    #[test]
    fn the_reason_tells_the_status_and_the_pause_that_is_asked_for_and_no_other_text() {
        assert_eq!(failure(422, None).reason(), "the receiver answered 422 Unprocessable Entity");
        assert_eq!(
            failure(429, Some("120")).reason(),
            "the receiver answered 429 Too Many Requests; it asks for a pause of 120 s"
        );
        assert_eq!(failure(503, Some("tomorrow")).reason(), "the receiver answered 503 Service Unavailable");
        assert_eq!(
            failure(307, None).reason(),
            "the receiver answered 307 Temporary Redirect; redirects are not followed"
        );
    }
}
