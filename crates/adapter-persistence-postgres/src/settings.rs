//! Settings of the database connection, with all their problems at once.

use std::{path::PathBuf, time::Duration};

use application_core::{SettingProblem, hides_credentials, setting_duration::readable};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// How to reach PostgreSQL, and how long anything may take there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSettings {
    /// `postgres://user:password@host:port/database?sslmode=…&sslrootcert=…`
    #[serde(serialize_with = "redacted")]
    pub url: SecretString,
    /// The way past a pooler, for what needs a session: migrations and LISTEN. Default: `url`.
    #[serde(serialize_with = "redacted_option")]
    pub direct_url: Option<SecretString>,
    /// What the server shows in `pg_stat_activity`, with the purpose added to sessions of their own; 1 to 50 bytes.
    pub application_name: String,
    /// Encryption of the connection.
    pub tls: TlsSettings,
    /// The connections kept.
    pub pool: PoolSettings,
    /// The time allowed to each statement of the relay, of maintenance and of operators; 100 ms to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub statement_timeout: Duration,
    /// The time allowed to each statement of a business transaction; 100 ms to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub transaction_statement_timeout: Duration,
    /// How much later than the server the client gives up: then the connection is discarded (case S63); 50 ms to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub client_margin: Duration,
    /// The longest wait for a row's or table's lock; 10 ms to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub lock_timeout: Duration,
    /// The longest that a transaction may wait for this process before the server ends it; 100 ms to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub idle_in_transaction_timeout: Duration,
    /// The URL leads to `PgBouncer` in transaction mode: nothing is set for a session, no statement is kept prepared.
    /// Statements with parameters then work in transactions of the unit of work alone.
    pub pgbouncer: bool,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            url: SecretString::from("postgres://localhost/app"),
            direct_url: None,
            application_name: "app".to_owned(),
            tls: TlsSettings::default(),
            pool: PoolSettings::default(),
            statement_timeout: Duration::from_secs(5),
            transaction_statement_timeout: Duration::from_secs(10),
            client_margin: Duration::from_millis(500),
            lock_timeout: Duration::from_secs(3),
            idle_in_transaction_timeout: Duration::from_secs(30),
            pgbouncer: false,
        }
    }
}

/// The connections that a pool keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSettings {
    /// The most connections at once; 2 to 1,000.
    pub max_connections: u32,
    /// Connections that are kept open when nothing is to do; at most `max_connections`.
    pub min_connections: u32,
    /// The longest wait for a connection; 100 ms to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub acquire_timeout: Duration,
    /// After how long an unused connection is closed; 1 s or more.
    #[serde(with = "crate::setting_duration")]
    pub idle_timeout: Duration,
    /// After how long any connection is replaced; 1 s or more.
    #[serde(with = "crate::setting_duration")]
    pub max_lifetime: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            max_connections: 10,
            min_connections: 0,
            acquire_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(10),
            max_lifetime: Duration::from_mins(30),
        }
    }
}

/// Encryption of the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// Whether to encrypt and what to verify.
    pub mode: TlsMode,
    /// A file of PEM certificates to trust besides the system's; only where certificates are verified.
    pub ca_file: Option<PathBuf>,
}

/// Whether to encrypt and what to verify.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// What the URL's `sslmode` says; without one: encrypted if the server can, but not verified.
    /// `require` verifies nothing either, and `allow` never encrypts.
    #[default]
    FromUrl,
    /// Never encrypted.
    Disable,
    /// Encrypted; the server's certificate and name are verified.
    VerifyFull,
}

impl DatabaseSettings {
    /// Every problem of the settings; none: they can be used.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        check_url(&mut problems, "url", &self.url);
        if let Some(url) = &self.direct_url {
            check_url(&mut problems, "direct_url", url);
        }
        if self.application_name.is_empty() || self.application_name.len() > 50 {
            problems.push(SettingProblem::new(
                "application_name",
                format!("{:?}", self.application_name),
                "1 to 50 bytes are needed",
            ));
        }
        if let Some(file) = &self.tls.ca_file {
            let value = file.display().to_string();
            if self.tls.mode == TlsMode::Disable {
                problems.push(SettingProblem::new("tls.ca_file", value, "it needs tls.mode verify-full or from-url"));
            } else if let Err(error) = std::fs::File::open(file) {
                problems.push(SettingProblem::new("tls.ca_file", value, format!("it cannot be read ({error})")));
            } else if self.verifies_nothing() {
                let bound = "it is used only with tls.mode verify-full, or sslmode verify-full or verify-ca in the URL";
                problems.push(SettingProblem::new("tls.ca_file", value, bound));
            }
        }
        self.check_numbers(&mut problems);
        problems
    }

    /// Whether no connection looks at the server's certificate. A URL that cannot be used is a problem of its own.
    fn verifies_nothing(&self) -> bool {
        let unverified = |url: &SecretString| {
            read_url(url).is_ok_and(|url| !matches!(url.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull))
        };
        self.tls.mode == TlsMode::FromUrl && unverified(&self.url) && self.direct_url.as_ref().is_none_or(unverified)
    }

    fn check_numbers(&self, problems: &mut Vec<SettingProblem>) {
        let millis = Duration::from_millis;
        let longest = Duration::from_mins(10);
        let forever = Duration::from_hours(24 * 365);
        let durations = [
            ("statement_timeout", self.statement_timeout, millis(100), longest),
            ("transaction_statement_timeout", self.transaction_statement_timeout, millis(100), longest),
            ("client_margin", self.client_margin, millis(50), Duration::from_mins(1)),
            ("lock_timeout", self.lock_timeout, millis(10), longest),
            ("idle_in_transaction_timeout", self.idle_in_transaction_timeout, millis(100), Duration::from_hours(1)),
            ("pool.acquire_timeout", self.pool.acquire_timeout, millis(100), Duration::from_mins(1)),
            ("pool.idle_timeout", self.pool.idle_timeout, Duration::from_secs(1), forever),
            ("pool.max_lifetime", self.pool.max_lifetime, Duration::from_secs(1), forever),
        ];
        for (key, actual, least, most) in durations {
            check_duration(problems, key, actual, least, most);
        }
        let pool = &self.pool;
        if !(2..=1_000).contains(&pool.max_connections) {
            problems.push(SettingProblem::new(
                "pool.max_connections",
                pool.max_connections.to_string(),
                "2 to 1000 are allowed",
            ));
        }
        if pool.min_connections > pool.max_connections {
            let bound = format!("at most {} (pool.max_connections) is allowed", pool.max_connections);
            let problem = SettingProblem::new("pool.min_connections", pool.min_connections, bound);
            problems.push(problem.bounded_by("pool.max_connections"));
        }
    }

    /// The URL for what needs a session of its own.
    pub(crate) fn direct(&self) -> &SecretString {
        self.direct_url.as_ref().unwrap_or(&self.url)
    }
}

pub(crate) fn check_duration(
    problems: &mut Vec<SettingProblem>,
    key: &'static str,
    actual: Duration,
    least: Duration,
    most: Duration,
) {
    if !(least..=most).contains(&actual) {
        let bound = format!("it must be {} to {}", readable(least), readable(most));
        problems.push(SettingProblem::new(key, readable(actual), bound));
    }
}

/// The parameters of a URL that the driver knows. It passes over any other one, and logs its value, which may be a secret.
const PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

fn is_known(parameter: &str) -> bool {
    PARAMETERS.contains(&parameter) || parameter.starts_with("options[") && parameter.ends_with(']')
}

fn check_url(problems: &mut Vec<SettingProblem>, key: &'static str, secret: &SecretString) {
    if let Err(bound) = read_url(secret) {
        problems.push(SettingProblem::new(key, masked(secret), bound));
    }
}

/// What the driver makes of the URL; otherwise what it must be, without a word of it that may be secret.
pub(crate) fn read_url(secret: &SecretString) -> Result<PgConnectOptions, String> {
    let url = url::Url::parse(secret.expose_secret())
        .map_err(|error| format!("it must be a URL such as postgres://user:password@host:5432/database ({error})"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(format!("its scheme must be postgres, not {}", url.scheme()));
    }
    if url.fragment().is_some() {
        return Err("it must have no #, which is written %23 in a user's name or password".to_owned());
    }
    if url.query_pairs().any(|(parameter, _)| !is_known(&parameter)) {
        return Err(format!("its parameters must be of these: {}, options[…]", PARAMETERS.join(", ")));
    }
    url.as_str().parse().map_err(|error: sqlx::Error| format!("it cannot be used ({error})"))
}

/// A URL that can be shown: scheme, host, port and path; no user, no password, no parameters.
#[must_use]
pub fn masked(secret: &SecretString) -> String {
    match url::Url::parse(secret.expose_secret()) {
        Ok(url) if url.has_host() && !hides_credentials(secret.expose_secret()) => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://***@{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
        }
        _ => "***".to_owned(),
    }
}

fn redacted<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(url))
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn redacted_option<S: Serializer>(url: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(masked).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> DatabaseSettings {
        DatabaseSettings { url: SecretString::from(url), ..DatabaseSettings::default() }
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(DatabaseSettings::default().problems(), []);
    }

    #[test]
    fn all_problems_are_reported_at_once_with_key_value_and_bound() {
        let mut bad = settings("mysql://u:secret@h/db");
        bad.statement_timeout = Duration::ZERO;
        bad.pool.max_connections = 1;
        bad.pool.min_connections = 5;
        bad.tls = TlsSettings { mode: TlsMode::Disable, ca_file: Some("ca.pem".into()) };
        let texts: Vec<String> = bad.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "url is mysql://***@h/db, but its scheme must be postgres, not mysql",
                "tls.ca_file is ca.pem, but it needs tls.mode verify-full or from-url",
                "statement_timeout is 0s, but it must be 100ms to 10m",
                "pool.max_connections is 1, but 2 to 1000 are allowed",
                "pool.min_connections is 5, but at most 1 (pool.max_connections) is allowed",
            ]
        );
    }

    #[test]
    fn a_file_of_certificates_by_which_nothing_is_verified_is_a_problem() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let problems = |mode, query: &str, direct: Option<&str>| {
            let direct_url = direct.map(|query| SecretString::from(format!("postgres://h/db{query}")));
            let tls = TlsSettings { mode, ca_file: Some(file.path().to_owned()) };
            let settings = DatabaseSettings { direct_url, tls, ..settings(&format!("postgres://h/db{query}")) };
            settings.problems().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for query in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=allow", "?sslmode=disable"] {
            let found = problems(TlsMode::FromUrl, query, None);
            assert!(found.len() == 1 && found[0].starts_with("tls.ca_file is "), "{query}: {found:?}");
            assert_eq!(problems(TlsMode::VerifyFull, query, None), Vec::<String>::new(), "{query}");
            assert_eq!(problems(TlsMode::FromUrl, query, Some("?sslmode=verify-ca")), Vec::<String>::new(), "{query}");
        }
        for query in ["?sslmode=verify-ca", "?sslmode=verify-full"] {
            assert_eq!(problems(TlsMode::FromUrl, query, None), Vec::<String>::new(), "{query}");
        }
    }

    #[test]
    fn a_file_of_certificates_that_cannot_be_read_is_a_problem() {
        let tls = TlsSettings { mode: TlsMode::VerifyFull, ca_file: Some("no/such/file.pem".into()) };
        let bad = DatabaseSettings { tls, ..DatabaseSettings::default() };
        let texts: Vec<String> = bad.problems().iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("tls.ca_file is no/such/file.pem, but it cannot be read"), "{texts:?}");
    }

    #[test]
    fn a_password_is_shown_neither_by_debug_nor_by_a_problem() {
        for url in ["postgres://u:hunter2@h/db?sslmode=nonsense", "hunter2", "postgres://u:hunter2@h:99999/db"] {
            let bad = settings(url);
            let shown = format!("{bad:?} {:?}", bad.problems());
            assert!(!shown.contains("hunter2"), "{shown}");
            assert_eq!(bad.problems().len(), 1, "{url}");
        }
    }

    #[test]
    fn a_url_that_its_password_breaks_up_is_not_shown_in_parts() {
        for url in
            ["postgres://u:4711#hunter2@h/db", "postgres://u:4711?hunter2@h/db", "postgres://u:4711/hunter2@h/db"]
        {
            let bad = settings(url);
            let told = format!("{bad:?} {:?} {}", bad.problems(), serde_json::to_string(&bad).expect("written"));
            assert!(!told.contains("hunter2") && !told.contains("4711"), "{told}");
        }
        assert_eq!(settings("postgres://u:4711#hunter2@h/db").problems().len(), 1);
    }

    #[test]
    fn a_parameter_that_the_driver_does_not_know_is_refused_and_not_told() {
        let bad = settings("postgres://u@h/db?sslmode=require&sslpassword=hunter2");
        let texts: Vec<String> = bad.problems().iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("url is postgres://***@h/db, but its parameters must be of these: "), "{texts:?}");
        assert!(!texts[0].contains("hunter2"), "{texts:?}");
        let refused = crate::Database::connect_lazy(&bad).expect_err("refused");
        assert!(!format!("{refused} {refused:?}").contains("hunter2"), "{refused:?}");
        let good = settings("postgres://u:p@h/db?sslmode=disable&options[search_path]=billing&application_name=a");
        assert_eq!(good.problems(), []);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text = serde_json::from_str::<DatabaseSettings>(r#"{"pool": {"max_conections": 3}}"#);
        assert!(text.expect_err("refused").to_string().contains("max_conections"));
    }
}
