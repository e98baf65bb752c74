//! `app migrate`, and what several commands set up.

use std::{process::ExitCode, time::Duration};

use adapter_persistence_postgres::{
    Database, History, MigrateError, Migration, check_sequence, migrate as apply, newest_version, outbox_migrations,
    schema_version,
};

use super::output;
use crate::{error::BootstrapError, migrations, outbox_config::OutboxConfig, settings::Settings, wakeup::RelayWakeup};

/// How long a migrator waits for another one.
const LOCK_WAIT: Duration = Duration::from_mins(2);

/// The application's migrations, embedded in the binary.
pub(crate) fn application_migrations() -> Vec<Migration> {
    migrations::migrations::runner().get_migrations().clone()
}

/// The versions that this binary needs at least.
pub(crate) fn expected_versions() -> Vec<(History, i32)> {
    vec![
        (History::Outbox, newest_version(&outbox_migrations())),
        (History::Application, newest_version(&application_migrations())),
    ]
}

pub(super) async fn migrate(settings: &Settings) -> Result<ExitCode, BootstrapError> {
    let report = apply(&settings.database, &application_migrations(), LOCK_WAIT)
        .await
        .map_err(|error| migrate_error(settings, error))?;
    for migration in &report.applied {
        output::line(format!("applied {migration}"));
    }
    for (history, version) in &report.ahead {
        output::line(format!("{history} is at version {version}, newer than this binary; nothing was changed there"));
    }
    if report.applied.is_empty() {
        output::line("nothing to apply");
    }
    Ok(ExitCode::SUCCESS)
}

fn migrate_error(settings: &Settings, error: MigrateError) -> BootstrapError {
    match error {
        source @ MigrateError::Store { .. } => {
            let direct = settings.database.direct_url.is_some();
            let settings = if direct { "`database.direct_url`" } else { "`database.url` (DATABASE_URL)" };
            BootstrapError::Unreachable { settings, source }
        }
        other => other.into(),
    }
}

/// Connects, and refuses a schema that is older than this binary.
pub(crate) async fn database(settings: &Settings) -> Result<Database, BootstrapError> {
    let database = Database::connect(&settings.database).await.map_err(BootstrapError::Database)?;
    for (history, expected) in expected_versions() {
        let actual = schema_version(&database, history).await.map_err(BootstrapError::Database)?.unwrap_or(0);
        if actual < expected {
            return Err(BootstrapError::SchemaBehind { history, actual, expected });
        }
    }
    check_sequence(&database).await?;
    Ok(database)
}

/// The outbox for the doctor, who is to look at a schema that is behind as well.
pub(super) async fn outbox_as_it_is(settings: &Settings) -> Result<OutboxConfig<'_>, BootstrapError> {
    let database = Database::connect(&settings.database).await.map_err(BootstrapError::Database)?;
    Ok(OutboxConfig::new(settings, database, RelayWakeup::local()))
}

/// The outbox for one command; other processes find out by themselves what it changed.
pub(super) async fn outbox(settings: &Settings) -> Result<OutboxConfig<'_>, BootstrapError> {
    Ok(OutboxConfig::new(settings, database(settings).await?, RelayWakeup::local()))
}
