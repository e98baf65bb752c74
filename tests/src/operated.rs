//! A service as operators meet it: a database of its own, and a process whose `/ops` asks for a token.

use std::error::Error;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use test_support::servers::{BrokerNames, TestDatabase, shared};

use crate::{AppEnvironment, AppProcess, tap::Tap};

/// What is wrong is for the reader of the test's output.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The operator's token.
pub const TOKEN: &str = "a-token-for-operators-0123456789";

/// A migrated database, and the environment of processes that work with it; events are published to standard output.
#[derive(Debug)]
pub struct Operated {
    environment: AppEnvironment,
    database: TestDatabase,
    // Behind what reads from them, for fields are dropped in order.
    _requests: Option<(Tap, BrokerNames)>,
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
        Ok(Self { environment, database, _requests: None, _directory: directory })
    }

    /// The same with a setting for its processes.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        Self { environment: self.environment.with(name, value), ..self }
    }

    /// The same with a queue for what a consumer is asked to do; none is there to do it.
    ///
    /// # Errors
    /// If there is no broker.
    pub async fn with_a_queue_of_requests(self) -> Outcome<Self> {
        let mut names = shared().broker_names("operated").await?;
        let (exchange, queue) = (names.exchange("events"), names.queue("work"));
        let tap = Tap::open_on(names.url(), &exchange, &queue).await?;
        let environment = self.environment.with("AMQP_URL", names.url()).with("APP__CONSUMER__QUEUE", &queue);
        Ok(Self { environment, _requests: Some((tap, names)), ..self })
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
