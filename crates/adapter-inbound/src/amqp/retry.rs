//! Whose fault a failed try is, and when the next one comes.
//!
//! - [`HandlerError::Reject`]: the message's. It is parked at once.
//! - [`HandlerError::Retry`] with a transient [`StoreError`] anywhere in its chain of causes: perhaps the database's. The
//!   consumer asks the database something else, the lookup that it makes before every message. If that fails too, the
//!   database is away: nothing is charged, and no message is taken until the lookup works again, however long that
//!   takes. If it works, the failure is still not charged, but counted; from the tenth one of the same message on it is
//!   charged, since the message may be what makes the database fail.
//! - Every other failure, a panic and a try that took too long: one try is charged. After the last one the message is
//!   parked.
//!
//! Tries are counted in this process. After a crash or a restart, a message starts with none.

use std::error::Error;

use application_core::{
    ports::{StoreError, with_causes},
    usecases::HandlerError,
};

/// How many failures of the store one message may meet, while the store works for others, before they are charged to it.
pub const STORE_FAULTS_FORGIVEN: u32 = 9;

/// How far a chain of causes is followed.
const LONGEST_CHAIN: usize = 32;

/// A failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The message makes no sense to the handler.
    Rejected(String),
    /// The store failed; whether it is away is not known yet.
    Store(String),
    /// Anything else.
    Charged(String),
}

impl Fault {
    pub(super) fn of(error: &HandlerError) -> Self {
        match error {
            HandlerError::Reject { reason } => Self::Rejected(reason.clone()),
            HandlerError::Retry { source } if comes_from_the_store(source.as_ref()) => Self::Store(with_causes(error)),
            HandlerError::Retry { .. } => Self::Charged(with_causes(error)),
        }
    }
}

fn comes_from_the_store(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    for _ in 0..LONGEST_CHAIN {
        let Some(error) = cause else { break };
        if error.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The failures of one message so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    tries: u32,
    store_faults: u32,
}

impl Tally {
    /// Charges one try; gives the number of tries.
    pub(super) const fn charge(&mut self) -> u32 {
        self.tries = self.tries.saturating_add(1);
        self.tries
    }

    /// Counts a failure of a store that works for others; gives the number of tries, charged if forgiveness is used up.
    pub(super) const fn forgive(&mut self) -> u32 {
        if self.store_faults >= STORE_FAULTS_FORGIVEN {
            return self.charge();
        }
        self.store_faults += 1;
        self.tries
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use application_core::ports::{BoxError, OutboxAppendError};

    use super::*;

    fn timeout() -> StoreError {
        StoreError::Timeout { limit: Duration::from_secs(1) }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the projection could not be written")]
    struct Wrapped(#[source] BoxError);

    #[test]
    fn a_transient_store_error_is_found_however_deep_it_stands() {
        let errors: [HandlerError; 3] = [
            timeout().into(),
            HandlerError::Retry { source: Box::new(Wrapped(Box::new(Wrapped(Box::new(timeout()))))) },
            OutboxAppendError::from(timeout()).into(),
        ];
        for error in errors {
            assert!(matches!(Fault::of(&error), Fault::Store(_)), "{error:?}");
        }
    }

    #[test]
    fn a_refused_statement_and_a_foreign_error_are_charged() {
        let refused = StoreError::Refused { source: "no such column".into() };
        assert!(matches!(Fault::of(&refused.into()), Fault::Charged(_)));
        let foreign = HandlerError::Retry { source: "the other service is down".into() };
        assert_eq!(
            Fault::of(&foreign),
            Fault::Charged("the message could not be handled now: the other service is down".to_owned())
        );
        let reject = HandlerError::Reject { reason: "no such portfolio".to_owned() };
        assert_eq!(Fault::of(&reject), Fault::Rejected("no such portfolio".to_owned()));
    }

    #[test]
    fn store_faults_are_forgiven_nine_times() {
        let mut tally = Tally::default();
        let tries: Vec<_> = (0..11).map(|_| tally.forgive()).collect();
        assert_eq!(tries, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(tally.charge(), 3);
    }
}
