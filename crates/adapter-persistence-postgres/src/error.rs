//! How the driver's errors become the core's.
//!
//! The driver's own errors are not kept: their `Debug` form repeats rows and connection strings (rule R29). What is kept
//! is the message, the SQLSTATE and the constraint.

use std::{error::Error, fmt, time::Duration};

use application_core::ports::{StoreError, with_causes};
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr};
use sqlx::postgres::PgSslMode;

/// For a server whose certificate was refused.
const UNTRUSTED: &str = "database.tls.ca_file names an authority of your own, and the URL's host must be a name in the \
     server's certificate";
/// For a server that has no place for this user, database and kind of connection.
const UNENCRYPTED: &str = "if the server takes no connection without TLS, set database.tls.mode to verify-full";

/// What the driver or the server said, without rows, parameters and connection strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverError {
    message: String,
    sqlstate: Option<String>,
    constraint: Option<String>,
    detail_key: Option<String>,
    way_out: Option<&'static str>,
}

impl DriverError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), sqlstate: None, constraint: None, detail_key: None, way_out: None }
    }

    /// The server's five-character code, if the server said anything.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        self.sqlstate.as_deref()
    }

    /// The constraint that was violated.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The key value of a unique violation, as in `Key (id)=(…) already exists.`
    pub(crate) fn key(&self) -> Option<&str> {
        self.detail_key.as_deref()
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (&self.sqlstate, &self.constraint) {
            (Some(code), Some(constraint)) => write!(f, " (SQLSTATE {code}, {constraint})")?,
            (Some(code), None) => write!(f, " (SQLSTATE {code})")?,
            (None, _) => {}
        }
        self.way_out.map_or(Ok(()), |way_out| write!(f, "; {way_out}"))
    }
}

impl Error for DriverError {}

impl From<&sqlx::Error> for DriverError {
    fn from(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(server) => {
                let postgres = server.try_downcast_ref::<sqlx::postgres::PgDatabaseError>();
                let sqlstate = server.code().map(std::borrow::Cow::into_owned);
                // Only a unique violation's detail is looked at: a check violation's holds the whole row.
                let detail = postgres.filter(|_| sqlstate.as_deref() == Some("23505")).and_then(|e| e.detail());
                Self {
                    message: server.message().to_owned(),
                    sqlstate,
                    constraint: server.constraint().map(ToOwned::to_owned),
                    detail_key: detail.and_then(key_of_detail),
                    way_out: None,
                }
            }
            other => Self::new(with_causes(other)),
        }
    }
}

fn key_of_detail(detail: &str) -> Option<String> {
    let (_, rest) = detail.split_once("=(")?;
    Some(rest.split_once(')')?.0.to_owned())
}

/// What kind of failure an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Timeout,
    Conflict,
    Forbidden,
    Refused,
}

fn kind_of_sqlstate(code: &str) -> Kind {
    match code {
        // serialization_failure, deadlock_detected, lock_not_available
        "40001" | "40P01" | "55P03" => Kind::Conflict,
        // query_canceled: the statement's own time limit
        "57014" => Kind::Timeout,
        // idle_in_transaction_session_timeout
        "25P03" => Kind::Unavailable,
        // insufficient_privilege
        "42501" => Kind::Forbidden,
        _ => match code.get(..2) {
            // connection exception, insufficient resources, operator intervention, system error
            Some("08" | "53" | "57" | "58") => Kind::Unavailable,
            _ => Kind::Refused,
        },
    }
}

/// Translates the driver's error; `limit` is the time that the statement was allowed.
pub(crate) fn from_sqlx(error: &sqlx::Error, limit: Duration) -> StoreError {
    translated(error, DriverError::from(error), limit)
}

/// As [`from_sqlx`] for a connection that could not be opened: if TLS may be why, it says what to set.
pub(crate) fn from_opening(error: &sqlx::Error, mode: PgSslMode, limit: Duration) -> StoreError {
    let mut driver = DriverError::from(error);
    let encrypts = !matches!(mode, PgSslMode::Disable | PgSslMode::Allow);
    driver.way_out = match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) if driver.message.contains("certificate") => Some(UNTRUSTED),
        // invalid_authorization_specification: no line of pg_hba.conf fits
        sqlx::Error::Database(_) if driver.sqlstate() == Some("28000") && !encrypts => Some(UNENCRYPTED),
        _ => None,
    };
    translated(error, driver, limit)
}

fn translated(error: &sqlx::Error, driver: DriverError, limit: Duration) -> StoreError {
    let kind = match error {
        sqlx::Error::Database(_) => driver.sqlstate().map_or(Kind::Refused, kind_of_sqlstate),
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => Kind::Unavailable,
        _ => Kind::Refused,
    };
    store_error(kind, driver, limit)
}

/// Translates the error of the entity layer.
pub(crate) fn from_orm(error: &DbErr, limit: Duration) -> StoreError {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(inner))
        | DbErr::Exec(RuntimeErr::SqlxError(inner))
        | DbErr::Query(RuntimeErr::SqlxError(inner)) => from_sqlx(inner, limit),
        DbErr::ConnectionAcquire(ConnAcquireErr::Timeout | ConnAcquireErr::ConnectionClosed) | DbErr::Conn(_) => {
            store_error(Kind::Unavailable, DriverError::new(with_causes(error)), limit)
        }
        other => store_error(Kind::Refused, DriverError::new(with_causes(other)), limit),
    }
}

/// An adapter that is asked for something while its runtime ends.
pub(crate) fn from_join(error: &tokio::task::JoinError) -> StoreError {
    StoreError::Unavailable { source: Box::new(DriverError::new(error.to_string())) }
}

fn store_error(kind: Kind, driver: DriverError, limit: Duration) -> StoreError {
    let source = Box::new(driver);
    match kind {
        Kind::Unavailable => StoreError::Unavailable { source },
        Kind::Timeout => StoreError::Timeout { limit },
        Kind::Conflict => StoreError::Conflict { source },
        Kind::Forbidden => StoreError::Forbidden { source },
        Kind::Refused => StoreError::Refused { source },
    }
}

/// The driver's words inside an error of the store.
pub(crate) fn driver_error(error: &StoreError) -> Option<&DriverError> {
    match error {
        StoreError::Unavailable { source }
        | StoreError::Conflict { source }
        | StoreError::Forbidden { source }
        | StoreError::Refused { source } => source.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_pass_by_themselves_are_transient_and_others_are_not() {
        let codes =
            ["40001", "40P01", "55P03", "57014", "57P01", "53300", "08006", "42501", "23505", "42P01", "28P01", ""];
        let kinds = codes.map(|code| (code, kind_of_sqlstate(code)));
        let expected = [
            ("40001", Kind::Conflict),
            ("40P01", Kind::Conflict),
            ("55P03", Kind::Conflict),
            ("57014", Kind::Timeout),
            ("57P01", Kind::Unavailable),
            ("53300", Kind::Unavailable),
            ("08006", Kind::Unavailable),
            ("42501", Kind::Forbidden),
            ("23505", Kind::Refused),
            ("42P01", Kind::Refused),
            ("28P01", Kind::Refused),
            ("", Kind::Refused),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn the_key_of_a_unique_violation_is_read_from_any_language() {
        assert_eq!(key_of_detail("Schlüssel »(id)=(42)« existiert bereits."), Some("42".to_owned()));
        assert_eq!(key_of_detail("nothing of the kind"), None);
    }

    #[test]
    fn a_cause_that_is_repeated_in_the_text_is_written_once() {
        let io = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let text = with_causes(&sqlx::Error::Io(io));
        assert_eq!(text.matches("connection refused").count(), 1, "{text}");
    }
}
