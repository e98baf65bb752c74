//! TLS: the server must prove who it is. Most here is about a PostgreSQL that encrypts by itself and takes no other
//! connection; a front before it stands in for servers that say something else.

use std::{path::Path, sync::OnceLock};

use adapter_persistence_postgres::{Database, DatabaseReadiness, DatabaseSettings, TlsMode, TlsSettings};
use application_core::ports::{ReadinessCheck, StoreError};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use tempfile::NamedTempFile;
use test_support::{
    servers::{self, Options, Servers, TestDatabase},
    tls::{Authority, Handshake, Identity},
};
use url::Url;

use super::support::{empty, settings_for};

/// A database on a server that encrypts by itself, and what leads there.
struct Encrypted {
    /// Names `localhost`, as the certificate does.
    url: String,
    password: String,
    authority: NamedTempFile,
    _database: TestDatabase,
}

/// The server, its certificate for `localhost`, and who signed it; one for all tests here.
fn server() -> &'static (Servers, Identity) {
    static SERVER: OnceLock<(Servers, Identity)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let identity = Authority::new().expect("an authority").certify("localhost").expect("a certificate");
        (servers::private(Options::fast().with_tls(identity.clone())), identity)
    })
}

impl Encrypted {
    async fn new(hint: &str) -> Self {
        let (servers, identity) = server();
        let nothing = async |_: String| Ok::<(), std::io::Error>(());
        let database = servers.database(hint, "nothing", nothing).await.expect("a database");
        let server = servers.postgres().await.expect("a server");
        let url = server.over_tls(database.url()).expect("a server that speaks TLS");
        let password = Url::parse(&url).expect("a URL").password().expect("a password").to_owned();
        Self { url, password, authority: identity.authority_file().expect("a file"), _database: database }
    }

    /// The same server under a name that its certificate does not hold.
    fn url_of_another_name(&self) -> String {
        self.url.replacen("@localhost:", "@127.0.0.1:", 1)
    }

    fn settings(&self, mode: TlsMode, trusted: Option<&Path>) -> DatabaseSettings {
        with_tls(&self.url, mode, trusted)
    }

    /// What the refusal of these settings says, which must not be the password.
    async fn refused(&self, settings: &DatabaseSettings) -> (StoreError, String) {
        let error = Database::connect(settings).await.expect_err("refused");
        let told = told(&error);
        let everything = format!("{told} {error:?} {settings:?} {:?}", settings.problems());
        assert!(!everything.contains(&self.password), "{everything}");
        (error, told)
    }
}

fn with_tls(url: &str, mode: TlsMode, trusted: Option<&Path>) -> DatabaseSettings {
    let tls = TlsSettings { mode, ca_file: trusted.map(Path::to_owned) };
    let settings = settings_for(url);
    // Straight to the server, also where the suite goes through a pooler.
    DatabaseSettings { tls, url: url.to_owned().into(), direct_url: None, pgbouncer: false, ..settings }
}

/// Whether the server sees the pool's connection encrypted.
async fn is_encrypted(database: &Database) -> bool {
    let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let row = database.orm().query_one_raw(Statement::from_string(DbBackend::Postgres, query)).await;
    row.expect("answered").expect("a row").try_get_by_index(0).expect("a boolean")
}

#[tokio::test]
async fn a_server_that_takes_tls_alone_is_used_under_its_name_with_the_authority_that_signed_it() {
    let server = Encrypted::new("tls_own").await;
    let settings = server.settings(TlsMode::VerifyFull, Some(server.authority.path()));
    let database = Database::connect(&settings).await.expect("connected");
    assert!(is_encrypted(&database).await);
    DatabaseReadiness::new(database).check().await.expect("ready");
}

#[tokio::test]
async fn a_server_of_another_authority_or_name_is_refused_with_what_to_set_and_without_the_password() {
    let server = Encrypted::new("tls_own_refused").await;
    let other = Authority::new().expect("another").file().expect("a file");
    for (url, trusted) in [
        (server.url.clone(), Some(other.path())),
        (server.url_of_another_name(), Some(server.authority.path())),
        // The system trusts neither.
        (server.url.clone(), None),
    ] {
        let (_, told) = server.refused(&with_tls(&url, TlsMode::VerifyFull, trusted)).await;
        assert!(told.contains("invalid peer certificate"), "{told}");
        assert!(told.contains("database.tls.ca_file") && told.contains("the URL's host"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_takes_tls_alone_refuses_a_plain_connection_by_an_error_that_names_the_way_out() {
    let server = Encrypted::new("tls_plain").await;
    let url = |mode: &str| format!("{}?sslmode={mode}", server.url);
    for settings in [
        server.settings(TlsMode::Disable, None),
        with_tls(&url("disable"), TlsMode::FromUrl, None),
        // The driver does not try TLS with it.
        with_tls(&url("allow"), TlsMode::FromUrl, None),
    ] {
        let (error, told) = server.refused(&settings).await;
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(told.contains("no encryption") && told.contains("database.tls.mode"), "{told}");
    }
}

#[tokio::test]
async fn weaker_modes_encrypt_and_verify_as_little_as_the_page_of_settings_says() {
    let server = Encrypted::new("tls_weak").await;
    let other = Authority::new().expect("another").file().expect("a file");
    let elsewhere = server.url_of_another_name();
    for (mode, trusted) in [
        ("", None),
        ("?sslmode=prefer", None),
        ("?sslmode=require", None),
        // It verifies nothing even where it is told by whom.
        ("?sslmode=require", Some(other.path())),
        // It does not look at the name.
        ("?sslmode=verify-ca", Some(server.authority.path())),
    ] {
        let settings = with_tls(&format!("{elsewhere}{mode}"), TlsMode::FromUrl, trusted);
        let database = Database::connect(&settings).await;
        assert!(is_encrypted(&database.expect(mode)).await, "{mode}");
    }
    for (mode, trusted) in [("verify-ca", other.path()), ("verify-full", server.authority.path())] {
        let url = format!("{elsewhere}?sslmode={mode}");
        let (_, told) = server.refused(&with_tls(&url, TlsMode::FromUrl, Some(trusted))).await;
        assert!(told.contains("invalid peer certificate"), "{mode}: {told}");
    }
}

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
