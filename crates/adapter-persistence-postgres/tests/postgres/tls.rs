//! TLS: the server must prove who it is.

use adapter_persistence_postgres::{Database, DatabaseReadiness, DatabaseSettings, TlsMode, TlsSettings};
use application_core::ports::{ReadinessCheck, StoreError};
use tempfile::NamedTempFile;
use test_support::tls::{Authority, Handshake};
use url::Url;

use super::support::{empty, settings_for};

/// Settings for the server behind TLS, under the name `localhost`.
async fn settings(url: &str, front: Option<(&Authority, &str)>, trusted: Option<&NamedTempFile>) -> DatabaseSettings {
    let mut url = Url::parse(url).expect("a URL");
    let target = format!("{}:{}", url.host_str().expect("a host"), url.port().unwrap_or(5_432));
    if let Some((authority, name)) = front {
        let front = authority.front(name, &target, Handshake::OnRequest).await.expect("a front");
        url.set_port(Some(front.port())).expect("a port");
        url.set_host(Some("localhost")).expect("a host");
    }
    let tls = TlsSettings { mode: TlsMode::VerifyFull, ca_file: trusted.map(|file| file.path().to_owned()) };
    DatabaseSettings { tls, ..settings_for(url.as_str()) }
}

#[tokio::test]
async fn a_database_with_a_certificate_of_the_given_authority_is_used() {
    let database = empty("tls").await;
    let authority = Authority::new().expect("an authority");
    let file = authority.file().expect("a file");
    let settings = settings(database.url(), Some((&authority, "localhost")), Some(&file)).await;
    let connected = Database::connect(&settings).await.expect("connected");
    DatabaseReadiness::new(connected).check().await.expect("ready");
}

#[tokio::test]
async fn a_database_that_cannot_prove_its_name_is_refused() {
    let database = empty("tls_refused").await;
    let (authority, other) = (Authority::new().expect("one"), Authority::new().expect("another"));
    let (file, other_file) = (authority.file().expect("a file"), other.file().expect("a file"));
    let password = Url::parse(database.url()).expect("a URL").password().expect("a password").to_owned();
    for (front, trusted, expected) in [
        (Some((&authority, "localhost")), Some(&other_file), "certificate"),
        (Some((&authority, "elsewhere.example")), Some(&file), "certificate"),
        // The system trusts neither.
        (Some((&authority, "localhost")), None, "certificate"),
        // Nothing is sent to a server that does not encrypt.
        (None, Some(&file), "TLS"),
    ] {
        let settings = settings(database.url(), front, trusted).await;
        let error = Database::connect(&settings).await.expect_err("refused");
        let told = told(&error);
        assert!(told.contains(expected) && !told.contains(&password), "{told}");
    }
}

fn told(error: &StoreError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
