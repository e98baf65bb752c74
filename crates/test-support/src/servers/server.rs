//! One server that was obtained, and how it ends.

use std::{fmt, marker::PhantomData, time::Duration};

use super::{
    control::ServerControl,
    error::ServersError,
    host::Host,
    ready::{Look, Unmet, until},
    service::{Program, Service},
    supervisor::Supervisor,
    way::Way,
};

/// One server. Dropping it stops and removes it if it was started for this value.
pub struct Server<S> {
    url: String,
    way: Way,
    host: Option<Host>,
    supervisor: Option<Supervisor>,
    tls_port: Option<u16>,
    kind: PhantomData<S>,
}

impl<S: Service> Server<S> {
    pub(crate) fn new(url: String, way: Way, host: Option<Host>, supervisor: Option<Supervisor>) -> Self {
        Self { url, way, host, supervisor, tls_port: None, kind: PhantomData }
    }

    pub(crate) fn with_tls_port(mut self, port: Option<u16>) -> Self {
        self.tls_port = port;
        self
    }

    /// The URL with the credentials of an administrator.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of a database or a virtual host of this server, made one for clients that encrypt and verify: it names
    /// `localhost` and the port for TLS. `None` without [`Options::with_tls`](super::Options::with_tls).
    #[must_use]
    pub fn over_tls(&self, url: &str) -> Option<String> {
        let mut url = url::Url::parse(url).ok()?;
        url.set_host(Some("localhost")).ok()?;
        url.set_port(Some(self.tls_port?)).ok()?;
        Some(url.as_str().replacen("amqp://", "amqps://", 1))
    }

    /// The way by which it was obtained; [`Way::Url`] too if a surrounding run provisioned it.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
    }

    /// What stops, starts and pauses it.
    ///
    /// # Errors
    /// [`ServersError::NotControllable`] if it was given by its URL.
    pub fn control(&self) -> Result<ServerControl<S>, ServersError> {
        let host = self.host.clone().ok_or(ServersError::NotControllable { server: S::NAME })?;
        Ok(ServerControl::new(host, self.url.clone()))
    }

    /// One line for people, without secrets.
    #[must_use]
    pub fn describe(&self) -> String {
        let place = self.host.as_ref().map_or_else(|| "a server of yours".to_owned(), Host::describe);
        format!("{}: {place}, {}", S::NAME, redacted(&self.url))
    }

    pub(crate) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Lets go of the server: it stays until its host is removed.
    pub(crate) fn detach(&mut self) -> Result<(), ServersError> {
        self.supervisor.take().map_or(Ok(()), Supervisor::detach)
    }
}

impl<S: Service> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("server", &S::NAME)
            .field("url", &redacted(&self.url))
            .field("way", &self.way)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Waits until the server accepts a connection; gives up early if it ends.
pub(crate) async fn wait_until_ready<P: Program>(
    url: &str,
    host: Option<&Host>,
    within: Duration,
) -> Result<(), ServersError> {
    let ready = until(within, async || match P::probe(url).await {
        Ok(()) => Look::Done(()),
        Err(refusal) => match host {
            Some(host) if host.has_ended().await => {
                Look::Never(ServersError::EndedAtStart { server: P::NAME, log: host.log_tail().await })
            }
            _ => Look::NotYet(refusal),
        },
    });
    ready.await.map_err(|unmet| match unmet {
        Unmet::Never(error) => error,
        Unmet::Late(source) => ServersError::NotReady { server: P::NAME, within, source },
    })
}

/// The URL without its password.
pub(crate) fn redacted(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut url) => {
            if url.password().is_some() {
                // Fails only for URLs that cannot have a password.
                let _unchanged = url.set_password(Some("***"));
            }
            url.into()
        }
        Err(_not_a_url) => "an unreadable URL".to_owned(),
    }
}
