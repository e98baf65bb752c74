//! A place of its own on the broker for each test.

use super::{RabbitMq, database::identifier, error::ServersError, rabbitmq::USER, random, server::Server};

/// A place on the broker that no other test uses.
///
/// On a broker that we control it is a virtual host; on one given by its URL, where we may create none, it is the URL's
/// own virtual host. Names made by [`TestVhost::name`] are unique either way: use them and a test works on both.
///
/// It is not removed when it is dropped: a virtual host goes with the throwaway broker. On a broker of the caller's,
/// declare what you need as exclusive or auto-delete, or delete it.
#[derive(Debug)]
pub struct TestVhost {
    url: String,
    prefix: String,
    isolated: bool,
}

impl TestVhost {
    /// The URL, virtual host included.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A unique name for an exchange or a queue.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// True if the test has a virtual host to itself.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolated
    }

    pub(crate) async fn create(server: &Server<RabbitMq>, hint: &str) -> Result<Self, ServersError> {
        let prefix = format!("t_{}_{}", identifier(hint), random::token()?);
        let Ok(control) = server.control() else {
            return Ok(Self { url: server.url().to_owned(), prefix, isolated: false });
        };
        // One call where `add_vhost` and `set_permissions` would each start an Erlang machine of their own.
        let all = "<<\".*\">>";
        let expression = format!(
            "rabbit_vhost:add(<<\"{prefix}\">>, <<\"{USER}\">>), \
             rabbit_auth_backend_internal:set_permissions(<<\"{USER}\">>, <<\"{prefix}\">>, {all}, {all}, {all}, <<\"{USER}\">>)."
        );
        control.ctl(&["eval", &expression]).await?;
        let mut url = url::Url::parse(server.url()).map_err(|_unreadable| ServersError::Setting {
            name: "AMQP_URL",
            value: "(not shown)".to_owned(),
            expected: "a URL such as amqp://user:password@host:5672/%2f",
        })?;
        url.set_path(&prefix);
        Ok(Self { url: url.into(), prefix, isolated: true })
    }
}
