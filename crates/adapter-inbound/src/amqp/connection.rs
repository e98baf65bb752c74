//! Connections to the broker: made within a time limit, named, and without passwords in their errors.

use std::time::Duration;

use lapin::{Channel, Connection, ConnectionProperties, tcp::OwnedTLSConfig};

use super::settings::ConsumerSettings;

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
        source: std::io::Error,
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
    within(settings.connect_timeout, "connecting", connecting).await
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
