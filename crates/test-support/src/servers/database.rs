//! A database for each test, copied from a template that is migrated once per server.

use std::error::Error;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{env, error::ServersError, random, removal};

/// What PostgreSQL says to a user who lacks a right.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// A database of one test. Dropping it drops the database, and the roles that are named after it (`<name>_…`), unless
/// `KEEP_DB` is set.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    admin_url: String,
    removed: bool,
}

impl TestDatabase {
    /// The database's name, for example `t_claim_8f2c41d09be37a65`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of this database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connects to this database outside of any pool.
    ///
    /// # Errors
    /// [`ServersError::Database`] if the server refuses.
    pub async fn connect(&self) -> Result<PgConnection, ServersError> {
        PgConnection::connect(&self.url).await.map_err(ServersError::database(format!("connect to {}", self.name)))
    }

    /// Drops it now, as dropping the value does, and says what went wrong; waits for ten seconds at most.
    ///
    /// # Errors
    /// [`ServersError::Database`] or [`ServersError::TimedOut`]: the database may be left.
    pub fn remove(mut self) -> Result<(), ServersError> {
        self.delete()
    }

    fn delete(&mut self) -> Result<(), ServersError> {
        self.removed = true;
        if env::is_set(env::KEEP_DB) {
            tracing::warn!(database = self.name, "kept");
            return Ok(());
        }
        let (url, name) = (self.admin_url.clone(), self.name.clone());
        removal::finish(&format!("drop the database {name}"), move || async move { drop_database(&url, &name).await })
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if !self.removed
            && let Err(error) = self.delete()
        {
            // A server that a fault test has stopped takes its databases with it.
            tracing::warn!(database = self.name, error = error.chain(), "not dropped");
        }
    }
}

/// Creates an empty database.
///
/// # Cancellation
/// Drops the database, unless the server was about to create it at that moment: await the end.
pub(crate) async fn create_empty(admin_url: &str, hint: &str) -> Result<TestDatabase, ServersError> {
    let name = format!("t_{}_{}", identifier(hint), random::token()?);
    let url = with_database(admin_url, &name)?;
    let mut admin = connect(admin_url).await?;
    // Before the statement, whose answer may be lost.
    let database = TestDatabase { name, url, admin_url: admin_url.to_owned(), removed: false };
    // Not template1, which the caller's own server may have filled with something.
    create_database(&mut admin, &database.name, "template0").await?;
    Ok(database)
}

/// Creates a database as a copy of the template that belongs to the fingerprint.
///
/// # Cancellation
/// May leave a half-made template or a database behind; the former is replaced, the latter goes with the server.
pub(crate) async fn create<F, E>(
    admin_url: &str,
    hint: &str,
    fingerprint: &str,
    migrate: F,
) -> Result<TestDatabase, ServersError>
where
    F: AsyncFnOnce(String) -> Result<(), E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let template = template(admin_url, fingerprint, migrate).await?;
    let name = format!("t_{}_{}", identifier(hint), random::token()?);
    let mut admin = connect(admin_url).await?;
    create_database(&mut admin, &name, &template).await?;
    tracing::info!(database = name, "test database");
    let url = with_database(admin_url, &name)?;
    Ok(TestDatabase { name, url, admin_url: admin_url.to_owned(), removed: false })
}

/// The name of the template, which is made if the server does not hold it yet.
///
/// Threads and processes that share a server are kept apart by an advisory lock on their common maintenance database. A
/// template gets its name only once it is complete, so that a killed process leaves none that is half migrated.
async fn template<F, E>(admin_url: &str, fingerprint: &str, migrate: F) -> Result<String, ServersError>
where
    F: AsyncFnOnce(String) -> Result<(), E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let key = hash(fingerprint);
    let template = format!("test_template_{key:016x}");
    let mut admin = connect(admin_url).await?;
    if exists(&mut admin, &template).await? {
        return Ok(template);
    }
    sqlx::query("SELECT pg_advisory_lock($1)")
        .bind(key.cast_signed())
        .execute(&mut admin)
        .await
        .map_err(ServersError::database("lock the template"))?;
    // Released by the end of this connection, whatever happens below.
    if exists(&mut admin, &template).await? {
        return Ok(template);
    }
    let draft = format!("{template}_draft");
    let step = |statement: String| (statement, format!("prepare the template {template}"));
    let (drop_draft, action) = step(format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)"));
    execute(&mut admin, drop_draft.clone(), action).await?;
    // Not template1, which the caller's own server may have filled with something.
    create_database(&mut admin, &draft, "template0").await?;
    if let Err(error) = migrate(with_database(admin_url, &draft)?).await {
        let (statement, action) = step(drop_draft);
        execute(&mut admin, statement, action).await?;
        return Err(ServersError::Template { template, source: error.into() });
    }
    // No connection may be left to what is renamed or copied; the migrator's pool may still be closing its own.
    for statement in [
        format!("ALTER DATABASE {draft} WITH ALLOW_CONNECTIONS false"),
        format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{draft}'"),
        format!("ALTER DATABASE {draft} RENAME TO {template}"),
    ] {
        let (statement, action) = step(statement);
        execute(&mut admin, statement, action).await?;
    }
    Ok(template)
}

async fn connect(admin_url: &str) -> Result<PgConnection, ServersError> {
    PgConnection::connect(admin_url).await.map_err(ServersError::database("connect as administrator"))
}

async fn exists(admin: &mut PgConnection, name: &str) -> Result<bool, ServersError> {
    sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(name)
        .fetch_one(admin)
        .await
        .map_err(ServersError::database("look for the template"))
}

async fn create_database(admin: &mut PgConnection, name: &str, template: &str) -> Result<(), ServersError> {
    let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
    let Err(source) = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *admin).await else {
        return Ok(());
    };
    let action = format!("create the database {name}");
    if source.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() != Some(INSUFFICIENT_PRIVILEGE)
    {
        return Err(ServersError::Database { action, source });
    }
    let role = sqlx::query_scalar("SELECT quote_ident(current_user)").fetch_one(admin).await;
    Err(ServersError::MayNotCreate { role: role.map_err(ServersError::database(action))?, source })
}

/// The statement is ours; the names in it are hashes or went through [`identifier`].
async fn execute(admin: &mut PgConnection, statement: String, action: String) -> Result<(), ServersError> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(admin).await.map(drop).map_err(ServersError::database(action))
}

async fn drop_database(admin_url: &str, name: &str) -> Result<(), ServersError> {
    let mut admin = connect(admin_url).await?;
    let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    execute(&mut admin, statement, format!("drop the database {name}")).await?;
    // Roles belong to the whole server. What they owned and might do went with the database.
    let statement = format!(
        "DO $$ DECLARE v_role name; BEGIN \
           FOR v_role IN SELECT rolname FROM pg_roles WHERE starts_with(rolname, '{name}_') LOOP \
             EXECUTE format('DROP ROLE %I', v_role); \
           END LOOP; \
         END $$"
    );
    execute(&mut admin, statement, format!("drop the roles of {name}")).await
}

fn with_database(admin_url: &str, name: &str) -> Result<String, ServersError> {
    let mut url = url::Url::parse(admin_url).map_err(|_unreadable| ServersError::Setting {
        name: "DATABASE_URL",
        value: "(not shown)".to_owned(),
        expected: "a URL such as postgres://user:password@host:5432/postgres",
    })?;
    url.set_path(name);
    // It would win over the path: what is meant for our database would go into the caller's.
    let kept: Vec<_> =
        url.query_pairs().filter(|(key, _)| key != "dbname").map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
    if kept.is_empty() {
        url.set_query(None);
    } else if kept.len() < url.query_pairs().count() {
        url.query_pairs_mut().clear().extend_pairs(kept);
    }
    Ok(url.into())
}

/// Lower-case letters, digits and underscores, at most thirty: a part of a name that needs no quotes.
pub(crate) fn identifier(hint: &str) -> String {
    hint.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' })
        .take(30)
        .collect()
}

/// FNV-1a: the same in every build, which the standard library's hash does not promise.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{identifier, with_database};

    #[test]
    fn a_hint_becomes_a_name_without_quotes() {
        assert_eq!(identifier("Claim: two \"relays\""), "claim__two__relays_");
        assert_eq!(identifier(&"x".repeat(99)).len(), 30);
    }

    #[test]
    fn only_the_database_of_a_url_changes() {
        let url = with_database("postgres://u:p@h:1/postgres?sslmode=disable", "t_a").unwrap();
        assert_eq!(url, "postgres://u:p@h:1/t_a?sslmode=disable");
        let url = with_database("postgres://u@h/own?sslmode=disable&dbname=own", "t_a").unwrap();
        assert_eq!(url, "postgres://u@h/t_a?sslmode=disable");
    }
}
