//! Connections to the broker: made within a time limit, named, and without passwords in their errors.

use std::{io, time::Duration};

use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, tcp::OwnedTLSConfig, uri::AMQPScheme};

use super::settings::ConsumerSettings;

/// For a connection that ended before the broker had said a word of AMQP.
const TLS_PORT: &str = "if this is the broker's port for TLS, the URL must begin with amqps://";

/// Why the broker could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AmqpError {
    /// The address cannot be read.
    #[error("the broker's address cannot be read: {reason}")]
    Address {
        /// Why, without the address.
        reason: String,
    },
    /// The file with the trusted certificates cannot be read.
    #[error("the certificates in {path} cannot be read")]
    Certificates {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The broker did not answer in time.
    #[error("the broker did not answer within {limit:?} while {step}")]
    Timeout {
        /// What was being done.
        step: &'static str,
        /// The time allowed.
        limit: Duration,
    },
    /// The broker refused, or the connection broke.
    #[error("the broker failed while {step}")]
    Broker {
        /// What was being done.
        step: &'static str,
        /// The client library's error.
        #[source]
        source: lapin::Error,
    },
    /// There is no connection, and TLS may be why.
    #[error("the broker failed while connecting; {way_out}")]
    Tls {
        /// What to set.
        way_out: &'static str,
        /// The client library's error.
        #[source]
        source: lapin::Error,
    },
    /// The broker gave a message back: no queue takes it.
    #[error("queue {queue} does not take the message: {reason}")]
    Returned {
        /// The queue.
        queue: String,
        /// The broker's words.
        reason: String,
    },
    /// The broker did not take responsibility for a message.
    #[error("the broker did not confirm the message for queue {queue}")]
    NotConfirmed {
        /// The queue.
        queue: String,
    },
}

/// What a session's connection is for; part of its name at the broker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Consume,
    Park,
    Unpark,
    Examine,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Consume => "consume",
            Self::Park => "park",
            Self::Unpark => "unpark",
            Self::Examine => "examine",
        }
    }
}

/// Connects anew; nothing recovers by itself, because a recovered channel would hide that deliveries were requeued.
pub(crate) async fn connect(settings: &ConsumerSettings, purpose: Purpose) -> Result<Connection, AmqpError> {
    let uri = settings.uri().map_err(|reason| AmqpError::Address { reason })?;
    let encrypts = uri.scheme == AMQPScheme::AMQPS;
    let tls = match &settings.ca_certificates {
        None => OwnedTLSConfig::default(),
        Some(path) => {
            let pem = std::fs::read_to_string(path)
                .map_err(|source| AmqpError::Certificates { path: path.display().to_string(), source })?;
            OwnedTLSConfig { cert_chain: Some(pem), ..OwnedTLSConfig::default() }
        }
    };
    let name = format!("{} ({})", settings.name, purpose.as_str());
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let runtime = lapin::runtime::default_runtime().map_err(broker("starting the client"))?;
    let connecting = Connection::connect_uri_with_config(uri, properties, tls, runtime);
    within(settings.connect_timeout, "connecting", connecting).await.map_err(|error| match error {
        AmqpError::Broker { step, source } => match way_out(&source, encrypts) {
            Some(way_out) => AmqpError::Tls { way_out, source },
            None => AmqpError::Broker { step, source },
        },
        other => other,
    })
}

/// What to set if TLS is why there is no connection: the client's own words do not tell.
fn way_out(error: &lapin::Error, encrypts: bool) -> Option<&'static str> {
    let said = error.to_string();
    match error.kind() {
        ErrorKind::IOError(_) if encrypts && said.contains("certificate") => Some(
            "consumer.ca_certificates names an authority of your own, and the URL's host must be a name in the \
             broker's certificate",
        ),
        ErrorKind::IOError(_) if encrypts && said.contains("InvalidContentType") => {
            Some("the broker speaks no TLS at this port, as an amqps:// URL asks for")
        }
        // An alert of TLS is no frame of AMQP; the connection may end before it is read.
        ErrorKind::ParsingError(_) if !encrypts => Some(TLS_PORT),
        ErrorKind::IOError(io) if !encrypts && is_cut_off(io.kind()) => Some(TLS_PORT),
        _ => None,
    }
}

fn is_cut_off(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// Opens a channel.
pub(crate) async fn channel(connection: &Connection, limit: Duration) -> Result<Channel, AmqpError> {
    within(limit, "opening a channel", connection.create_channel()).await
}

/// Waits for one answer of the broker.
pub(crate) async fn within<T>(
    limit: Duration,
    step: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, AmqpError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(result) => result.map_err(broker(step)),
        Err(_) => Err(AmqpError::Timeout { step, limit }),
    }
}

fn broker(step: &'static str) -> impl Fn(lapin::Error) -> AmqpError {
    move |source| AmqpError::Broker { step, source }
}
