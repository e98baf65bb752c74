//! The URL of a receiver, and what of it may be shown.

use std::fmt;

use application_core::{hides_credentials, ports::Destination};
use hyper::Uri;
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

/// Why a URL cannot be used; never holds the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidUrl {
    #[error("it must be a URL like https://host/path")]
    NoUrl,
    #[error("its scheme must be https")]
    Scheme,
    #[error("its scheme must be https: http is for hosts that are this machine, unless allow_http is set")]
    PlainHttp,
    #[error("it must hold neither user nor password: the signature says who sends")]
    Credentials,
    #[error("it must not have a fragment, which is never sent")]
    Fragment,
}

/// Where a request goes. `Debug` shows the destination alone: path and query may be as good as a password.
#[derive(Clone)]
pub(super) struct Address {
    /// Scheme, host and port: what fails as one.
    pub(super) destination: Destination,
    /// The whole URL.
    pub(super) uri: Uri,
    /// Whether the receiver must prove who it is.
    pub(super) encrypted: bool,
}

impl Address {
    pub(super) fn parse(secret: &SecretString, allow_http: bool) -> Result<Self, InvalidUrl> {
        let url = Url::parse(secret.expose_secret()).map_err(|_unspecific| InvalidUrl::NoUrl)?;
        let encrypted = match url.scheme() {
            "https" => true,
            "http" if allow_http || is_this_machine(&url) => false,
            "http" => return Err(InvalidUrl::PlainHttp),
            _ => return Err(InvalidUrl::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl::Credentials);
        }
        if url.fragment().is_some() {
            return Err(InvalidUrl::Fragment);
        }
        let uri = url.as_str().parse::<Uri>().map_err(|_unspecific| InvalidUrl::NoUrl)?;
        Ok(Self { destination: Destination::new(url.origin().ascii_serialization()), uri, encrypted })
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.destination.as_str()).finish()
    }
}

/// Scheme, host and port of a URL; what is none is not shown at all, for nobody knows where a password in it would be.
pub(super) fn shown(secret: &SecretString) -> String {
    // These URLs take a backslash for a slash.
    let text = secret.expose_secret().replace('\\', "/");
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && !hides_credentials(&text) => {
            let rest = if url.path() == "/" && url.query().is_none() { "" } else { "/***" };
            format!("{}{rest}", url.origin().ascii_serialization())
        }
        _ => "(not shown)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(url: &str) -> Result<Address, InvalidUrl> {
        Address::parse(&SecretString::from(url), false)
    }

    fn shown_of(url: &str) -> String {
        shown(&SecretString::from(url))
    }

    #[test]
    fn the_destination_is_scheme_host_and_port_and_the_whole_url_is_sent() {
        for (url, destination, path) in [
            ("https://hooks.example.com/in?key=1", "https://hooks.example.com", "/in?key=1"),
            ("https://HOOKS.example.com:443", "https://hooks.example.com", "/"),
            ("https://hooks.example.com:8443/a", "https://hooks.example.com:8443", "/a"),
            ("http://[::1]:80/a", "http://[::1]", "/a"),
            ("http://127.0.0.2:8080/a b", "http://127.0.0.2:8080", "/a%20b"),
            ("http://hooks.localhost/", "http://hooks.localhost", "/"),
        ] {
            let address = parse(url).unwrap();
            assert_eq!(address.destination.as_str(), destination, "{url}");
            assert_eq!(address.uri.path_and_query().unwrap().as_str(), path, "{url}");
            assert_eq!(address.encrypted, url.starts_with("https"), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_reason() {
        for (url, expected) in [
            ("hooks.example.com/in", InvalidUrl::NoUrl),
            ("https://", InvalidUrl::NoUrl),
            ("https://h:99999/", InvalidUrl::NoUrl),
            ("ftp://hooks.example.com/in", InvalidUrl::Scheme),
            ("http://hooks.example.com/in", InvalidUrl::PlainHttp),
            ("http://10.0.0.1/in", InvalidUrl::PlainHttp),
            ("http://localhost.example.com/in", InvalidUrl::PlainHttp),
            ("https://user@hooks.example.com/in", InvalidUrl::Credentials),
            ("https://:word@hooks.example.com/in", InvalidUrl::Credentials),
            ("https://hooks.example.com/in#part", InvalidUrl::Fragment),
        ] {
            assert_eq!(parse(url).unwrap_err(), expected, "{url}");
        }
        assert!(Address::parse(&SecretString::from("http://hooks.example.com/in"), true).is_ok());
    }

    #[test]
    fn path_and_query_are_not_shown() {
        assert_eq!(shown_of("https://hooks.example.com/T0/hush?key=hush"), "https://hooks.example.com/***");
        assert_eq!(shown_of("https://hooks.example.com?key=hush"), "https://hooks.example.com/***");
        assert_eq!(shown_of("https://hooks.example.com:8443/"), "https://hooks.example.com:8443");
        for url in
            ["https://u:4711#hush@h/v", "https://u:4711?hush@h", "https://u:4711/hush@h", "https://u:4711\\hush@h"]
        {
            assert_eq!(shown_of(url), "(not shown)", "{url}");
        }
        let debug = format!("{:?}", parse("https://hooks.example.com/hush").unwrap());
        assert!(!debug.contains("hush"), "{debug}");
    }

    proptest! {
        #[test]
        fn no_text_that_is_taken_for_a_url_shows_its_password(text in "\\PC{0,40}", password in "[a-z]{12}") {
            for url in [
                format!("https://u:{password}@{text}"),
                format!("https://h/{text}{password}"),
                format!("https:u:{password}"),
            ] {
                prop_assert!(!shown_of(&url).contains(&password) || text.contains(&password), "{url}");
            }
        }
    }
}
