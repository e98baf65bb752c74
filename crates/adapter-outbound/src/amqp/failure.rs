//! Whose fault a failed publish is (rule R5).

use application_core::outbox::{FailureClass, PublishFailure};
use lapin::{
    Confirmation, ErrorKind,
    protocol::{AMQPErrorKind, AMQPSoftError},
};

/// What the broker's answer to one message means. `returned` holds the broker's words if it gave this message back.
pub(super) fn outcome(
    answer: &Result<Confirmation, lapin::Error>,
    returned: Option<&str>,
    bytes: usize,
) -> Result<(), PublishFailure> {
    let failure = |class, reason: &str| Err(PublishFailure::new(class, reason));
    match (answer, returned) {
        // A return comes with an ack: the broker is done with the message, and nobody has it.
        (Ok(Confirmation::Ack(_) | Confirmation::Nack(_)), Some(text)) => failure(FailureClass::Unroutable, text),
        (Ok(Confirmation::Ack(_)), None) => Ok(()),
        (Ok(Confirmation::Nack(_)), None) => {
            failure(FailureClass::Rejected, "the broker refused the message (nack); a queue may be full")
        }
        (Ok(Confirmation::NotRequested), _) => failure(FailureClass::Unavailable, "the channel is not in confirm mode"),
        (Err(error), _) => match broker_limit(error) {
            Some(limit) if bytes > limit => too_large(bytes, limit),
            Some(_) => failure(FailureClass::Unavailable, "the channel was closed because of another message"),
            // Missing exchange, no permission, lost connection: never the fault of the messages that met it.
            None => failure(FailureClass::Unavailable, &words(error)),
        },
    }
}

/// The message is larger than may be sent.
pub(super) fn too_large(bytes: usize, limit: usize) -> Result<(), PublishFailure> {
    let reason = format!("the message has {bytes} bytes; the limit is {limit}");
    Err(PublishFailure::new(FailureClass::Poison, reason))
}

/// The broker's limit for a message, if the channel was closed because one was larger.
///
/// RabbitMQ names the limit only in its reply text, as the last number.
pub(super) fn broker_limit(error: &lapin::Error) -> Option<usize> {
    let ErrorKind::ProtocolError(protocol) = error.kind() else { return None };
    let AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) = protocol.kind() else { return None };
    let text = protocol.get_message().as_str();
    if !text.contains("message size") {
        return None;
    }
    text.split(|c: char| !c.is_ascii_digit()).rfind(|digits| !digits.is_empty())?.parse().ok()
}

/// The broker's own words if it gave any, and the client's otherwise.
pub(super) fn words(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(protocol) => protocol.get_message().to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::{AMQPError, AMQPHardError};
    use proptest::prelude::*;

    use super::*;

    fn soft(kind: AMQPSoftError, text: &str) -> lapin::Error {
        ErrorKind::ProtocolError(AMQPError::new(kind.into(), text.into())).into()
    }

    fn class(answer: &Result<Confirmation, lapin::Error>, returned: Option<&str>) -> Option<FailureClass> {
        outcome(answer, returned, 100).err().map(|failure| failure.class())
    }

    #[test]
    fn an_ack_is_success_only_if_nothing_came_back() {
        assert_eq!(class(&Ok(Confirmation::Ack(None)), None), None);
        assert_eq!(class(&Ok(Confirmation::Ack(None)), Some("NO_ROUTE")), Some(FailureClass::Unroutable));
    }

    #[test]
    fn a_nack_is_a_rejection() {
        assert_eq!(class(&Ok(Confirmation::Nack(None)), None), Some(FailureClass::Rejected));
    }

    #[test]
    fn a_confirmation_that_was_never_asked_for_is_no_success() {
        assert_eq!(class(&Ok(Confirmation::NotRequested), None), Some(FailureClass::Unavailable));
    }

    #[test]
    fn what_closes_a_channel_is_the_destinations_fault() {
        for (kind, text) in [
            (AMQPSoftError::NOTFOUND, "NOT_FOUND - no exchange 'x' in vhost '/'"),
            (AMQPSoftError::ACCESSREFUSED, "ACCESS_REFUSED - access to exchange 'x' refused"),
            (AMQPSoftError::PRECONDITIONFAILED, "PRECONDITION_FAILED - something else, 12"),
        ] {
            let failure = outcome(&Err(soft(kind, text)), None, usize::MAX).unwrap_err();
            assert_eq!((failure.class(), failure.reason()), (FailureClass::Unavailable, text));
        }
    }

    #[test]
    fn what_ends_a_connection_is_the_destinations_fault() {
        let forced = AMQPError::new(AMQPHardError::CONNECTIONFORCED.into(), "CONNECTION_FORCED - closed".into());
        for error in [
            ErrorKind::ProtocolError(forced).into(),
            ErrorKind::MissingHeartbeatError.into(),
            ErrorKind::InvalidChannelState(lapin::ChannelState::Reconnecting, "basic.publish").into(),
            lapin::Error::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
        ] {
            assert_eq!(class(&Err(error), None), Some(FailureClass::Unavailable));
        }
    }

    #[test]
    fn over_the_brokers_limit_only_the_large_message_is_poison() {
        let closed = Err(soft(
            AMQPSoftError::PRECONDITIONFAILED,
            "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000",
        ));
        let class_of = |bytes| outcome(&closed, None, bytes).unwrap_err().class();
        assert_eq!(class_of(2_000), FailureClass::Poison);
        assert_eq!(class_of(1_000), FailureClass::Unavailable);
    }

    proptest! {
        #[test]
        fn no_broker_text_breaks_the_reading_of_the_limit(text in "\\PC{0,60}") {
            let text = format!("message size {text}");
            broker_limit(&soft(AMQPSoftError::PRECONDITIONFAILED, &text));
        }
    }
}
