//! Where the broker is and how it proves who it is.

use std::{fmt, io};

use lapin::{
    tcp::{RustlsConnector, RustlsConnectorConfig},
    uri::{AMQPScheme, AMQPUri},
};
use rustls_pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::settings::AmqpSettings;
use crate::setup::{OutboundSetupError, read_certificates};
use application_core::{SettingProblem, hides_credentials};

/// Why a URL cannot be used; never holds the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidUrl {
    #[error("it must be a URL like amqp://user:password@host:5672/vhost")]
    NoUrl,
    #[error("its scheme must be amqp or amqps")]
    Scheme,
    #[error("it must name a host")]
    NoHost,
    #[error("its path must be one virtual host, with a slash in its name written as %2f")]
    Path,
    #[error("it must not have a query: heartbeat and time-outs are settings of their own")]
    Query,
}

/// The broker's address with credentials, and whom to trust. `Debug` shows neither user nor password.
#[derive(Clone)]
pub(super) struct Endpoint {
    uri: AMQPUri,
    trust: Trust,
}

#[derive(Clone)]
enum Trust {
    System,
    These(Vec<CertificateDer<'static>>),
}

impl Endpoint {
    /// Reads the URL alone, trusting the system's certificate authorities.
    pub(super) fn parse(secret: &SecretString) -> Result<Self, InvalidUrl> {
        let text = secret.expose_secret();
        let url = Url::parse(text).map_err(|_unspecific| InvalidUrl::NoUrl)?;
        if !matches!(url.scheme(), "amqp" | "amqps") {
            return Err(InvalidUrl::Scheme);
        }
        if url.cannot_be_a_base() {
            return Err(InvalidUrl::NoUrl);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidUrl::Query);
        }
        let host = match url.host() {
            Some(Host::Domain("")) | None => return Err(InvalidUrl::NoHost),
            // The client would take an IPv6 address for no host at all, and go to localhost.
            Some(Host::Ipv6(address)) => Some(address.to_string()),
            Some(_) => None,
        };
        let path = url.path().strip_prefix('/').unwrap_or_default();
        if path.contains('/') {
            return Err(InvalidUrl::Path);
        }
        // The client's own text would quote the URL.
        let mut uri: AMQPUri = text.parse().map_err(|_quotes_the_url: String| InvalidUrl::NoUrl)?;
        if let Some(host) = host {
            uri.authority.host = host;
        }
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        Ok(Self { uri, trust: Trust::System })
    }

    /// Reads URL and certificate authorities.
    pub(super) fn of(settings: &AmqpSettings) -> Result<Self, OutboundSetupError> {
        let mut endpoint = Self::parse(&settings.url).map_err(|invalid| {
            OutboundSetupError::Settings(vec![SettingProblem::new(
                "amqp.url",
                redacted(&settings.url),
                invalid.to_string(),
            )])
        })?;
        if let Some(path) = &settings.ca_file {
            endpoint.trust = Trust::These(read_certificates(path)?);
        }
        let heartbeat = u16::try_from(settings.heartbeat.as_secs()).unwrap_or(u16::MAX);
        endpoint.uri.query.heartbeat = Some(heartbeat);
        Ok(endpoint)
    }

    pub(super) fn uri(&self) -> AMQPUri {
        self.uri.clone()
    }

    pub(super) fn vhost(&self) -> &str {
        &self.uri.vhost
    }

    /// The TLS client, if the URL asks for TLS. Verification cannot be switched off.
    pub(super) fn tls(&self) -> io::Result<Option<RustlsConnector>> {
        if self.uri.scheme == AMQPScheme::AMQP {
            return Ok(None);
        }
        let config = match &self.trust {
            Trust::System => RustlsConnectorConfig::new_with_native_certs()?,
            Trust::These(certificates) => {
                let mut config = RustlsConnectorConfig::default();
                config.add_parsable_certificates(certificates.clone());
                config
            }
        };
        config.connector_with_no_client_auth().map(Some)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = &self.uri.authority;
        write!(f, "{}://{}:{} vhost {:?}", self.uri.scheme, authority.host, authority.port, self.uri.vhost)
    }
}

/// The URL without its password; what is no URL is not shown at all, for nobody knows where a password in it would be.
pub(super) fn redacted(secret: &SecretString) -> String {
    match Url::parse(secret.expose_secret()) {
        Ok(mut url) if !url.cannot_be_a_base() && !hides_credentials(secret.expose_secret()) => {
            if url.password().is_some() && url.set_password(Some("***")).is_err() {
                return "(not shown)".to_owned();
            }
            url.set_query(None);
            url.set_fragment(None);
            url.into()
        }
        _ => "(not shown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(url: &str) -> Result<AMQPUri, InvalidUrl> {
        Endpoint::parse(&SecretString::from(url)).map(|endpoint| endpoint.uri)
    }

    #[test]
    fn credentials_and_virtual_host_are_decoded() {
        let uri = parse("amqps://us%40er:p%2fw@broker.example/%2fprod").unwrap();
        assert_eq!(uri.scheme, AMQPScheme::AMQPS);
        assert_eq!(uri.authority.userinfo.username, "us@er");
        assert_eq!(uri.authority.userinfo.password, "p/w");
        assert_eq!((uri.authority.host.as_str(), uri.authority.port), ("broker.example", 5671));
        assert_eq!(uri.vhost, "/prod");
    }

    #[test]
    fn without_a_path_the_virtual_host_is_the_default_one() {
        for url in ["amqp://host", "amqp://host/", "amqp://host/%2f"] {
            assert_eq!(parse(url).unwrap().vhost, "/", "{url}");
        }
    }

    #[test]
    fn an_ipv6_address_is_kept_and_does_not_become_localhost() {
        assert_eq!(parse("amqp://[2001:db8::1]:5672/v").unwrap().authority.host, "2001:db8::1");
        assert_eq!(parse("amqp://127.0.0.2:5672/v").unwrap().authority.host, "127.0.0.2");
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_reason() {
        assert_eq!(parse("no url"), Err(InvalidUrl::NoUrl));
        assert_eq!(parse("amqp:host"), Err(InvalidUrl::NoUrl));
        assert_eq!(parse("https://host"), Err(InvalidUrl::Scheme));
        assert_eq!(parse("amqp:///v"), Err(InvalidUrl::NoHost));
        assert_eq!(parse("amqp://host/a/b"), Err(InvalidUrl::Path));
        assert_eq!(parse("amqp://host/v?heartbeat=5"), Err(InvalidUrl::Query));
    }

    #[test]
    fn a_file_without_certificates_is_refused_at_start() {
        let settings = |path: &str| AmqpSettings { ca_file: Some(path.into()), ..AmqpSettings::default() };
        let missing = Endpoint::of(&settings("/nonexistent/ca.pem"));
        assert!(matches!(missing, Err(OutboundSetupError::CaFile { .. })), "{missing:?}");
        let no_pem = Endpoint::of(&settings(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
        assert!(matches!(no_pem, Err(OutboundSetupError::NoCertificate { .. })), "{no_pem:?}");
    }

    proptest! {
        #[test]
        fn no_text_that_is_taken_for_a_url_shows_its_password(text in "\\PC{0,40}", password in "[a-z]{12}") {
            for url in [format!("amqp://u:{password}@{text}"), format!("{text}:{password}"), format!("amqp:u:{password}")] {
                let secret = SecretString::from(url);
                let shown = redacted(&secret);
                if let Ok(endpoint) = Endpoint::parse(&secret) {
                    let debug = format!("{endpoint:?}");
                    prop_assert!(!debug.contains(&password) || text.contains(&password));
                    // Beyond the authority stand host, port and virtual host, which are no secrets.
                    let credential = format!(":{password}@");
                    prop_assert!(!shown.contains(&credential));
                }
            }
        }
    }
}
