//! A service as operators meet it: a database of its own, and a process whose `/ops` asks for a token.

use std::error::Error;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use test_support::servers::{TestDatabase, shared};

use crate::{AppEnvironment, AppProcess};

/// What is wrong is for the reader of the test's output.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The operator's token.
pub const TOKEN: &str = "a-token-for-operators-0123456789";

/// A migrated database, and the environment of processes that work with it; events are published to standard output.
#[derive(Debug)]
pub struct Operated {
    environment: AppEnvironment,
    database: TestDatabase,
    _directory: tempfile::TempDir,
}

impl Operated {
    /// A database for one test, named after it.
    ///
    /// # Errors
    /// If there is no server, or the migration fails.
    pub async fn prepare(hint: &str) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().to_owned();
        let migrate = async |url: String| match AppEnvironment::new(&path, &url, None).run(&["migrate"]).await {
            Ok((status, _)) if status.success() => Ok(()),
            Ok((_, output)) => Err(output),
            Err(error) => Err(error.to_string()),
        };
        let database = shared().database(hint, "app-migrate", migrate).await?;
        let environment = AppEnvironment::new(directory.path(), database.url(), None)
            .with("APP__OPERATIONS__OPS_TOKEN", TOKEN)
            .with("APP__OPERATIONS__PAYLOADS", "true");
        Ok(Self { environment, database, _directory: directory })
    }

    /// Runs a statement on the database.
    ///
    /// # Errors
    /// If the database refuses it.
    pub async fn execute(&self, statement: &'static str) -> Outcome {
        let mut connection = PgConnection::connect(self.database.url()).await?;
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(())
    }

    /// Starts a service, relay included.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn serve(&self) -> Outcome<AppProcess> {
        Ok(self.environment.serve("operated").await?)
    }
}
