//! Names of one run's own on a broker, and the removal of what was declared under them.

use lapin::{
    Connection, ConnectionProperties,
    options::{ExchangeDeleteOptions, QueueDeleteOptions},
};

use super::{database::identifier, error::ServersError, random, removal};

/// Exchanges and queues of one run in the virtual host of the broker's URL, under names that nobody else has.
///
/// Dropping it deletes them, whatever they hold; [`BrokerNames::remove`] also says what went wrong. Nothing else on the
/// broker is touched, so that it may be a broker of the caller's. A SIGKILL leaves them.
#[derive(Debug)]
pub struct BrokerNames {
    url: String,
    prefix: String,
    exchanges: Vec<String>,
    queues: Vec<String>,
    removed: bool,
}

impl BrokerNames {
    pub(crate) fn new(url: &str, hint: &str) -> Result<Self, ServersError> {
        let prefix = format!("t_{}_{}", identifier(hint), random::token()?);
        Ok(Self { url: url.to_owned(), prefix, exchanges: Vec::new(), queues: Vec::new(), removed: false })
    }

    /// The broker's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What all names begin with, for example `t_demo_8f2c41d09be37a65`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A name for an exchange, which is deleted at the end if it was declared.
    pub fn exchange(&mut self, name: &str) -> String {
        let name = format!("{}.{name}", self.prefix);
        self.exchanges.push(name.clone());
        name
    }

    /// A name for a queue, which is deleted at the end if it was declared.
    pub fn queue(&mut self, name: &str) -> String {
        let name = format!("{}.{name}", self.prefix);
        self.queues.push(name.clone());
        name
    }

    /// Deletes now what was declared; waits for it, for ten seconds at most.
    ///
    /// # Errors
    /// [`ServersError::Broker`] or [`ServersError::TimedOut`]: something may be left.
    pub fn remove(mut self) -> Result<(), ServersError> {
        self.delete()
    }

    fn delete(&mut self) -> Result<(), ServersError> {
        self.removed = true;
        let (exchanges, queues) = (std::mem::take(&mut self.exchanges), std::mem::take(&mut self.queues));
        if exchanges.is_empty() && queues.is_empty() {
            return Ok(());
        }
        let (url, action) = (self.url.clone(), format!("delete the exchanges and queues {}.*", self.prefix));
        removal::finish(&action.clone(), move || async move {
            delete_all(&url, &exchanges, &queues).await.map_err(|source| ServersError::Broker { action, source })
        })
    }
}

impl Drop for BrokerNames {
    fn drop(&mut self) {
        if !self.removed
            && let Err(error) = self.delete()
        {
            // A broker that has ended took them with it.
            tracing::warn!(prefix = self.prefix, error = error.chain(), "not deleted");
        }
    }
}

/// Deletes what there is; the first refusal is told once all were tried. What is missing is no refusal.
async fn delete_all(url: &str, exchanges: &[String], queues: &[String]) -> Result<(), lapin::Error> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let mut outcome = Ok(());
    // A channel for each, as a refusal closes it; kept, as a channel that is dropped is closed by the client meanwhile,
    // and the end of the connection would find it neither open nor closed.
    let mut channels = Vec::new();
    for queue in queues {
        let channel = connection.create_channel().await?;
        let deleted = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await;
        outcome = outcome.and(deleted.map(drop));
        channels.push(channel);
    }
    for exchange in exchanges {
        let channel = connection.create_channel().await?;
        let deleted = channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await;
        outcome = outcome.and(deleted);
        channels.push(channel);
    }
    connection.close(200, "deleted".into()).await?;
    outcome
}
