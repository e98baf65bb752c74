//! The command line.

mod attribution;
mod describe;
mod doctor;
mod inbox;
mod many;
mod outbox;
mod output;
mod relay;
mod serve;
mod setup;
mod status;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use setup::{database, expected_versions};

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::{
    error::BootstrapError,
    settings::{Settings, SettingsFile, Sources},
    telemetry::{start_logs, start_logs_beside, traces::Traces},
};

/// A service whose changes and events are committed together and delivered at least once, in order per aggregate.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// A settings file instead of `config/<profile>.toml`.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Settings come from defaults in the binary, then config/<profile>.toml (APP_PROFILE, default local), then the environment:
APP__SECTION__KEY=value, for example APP__OUTBOUND__PUBLISHER=stdout. DATABASE_URL and AMQP_URL are honoured.

Examples:
  app migrate
  app serve
  app relay --until-drained
  app outbox status --json";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve HTTP, and run relay, reaper and consumer beside it.
    Serve,
    /// Run relay and reaper alone.
    Relay(RelayArgs),
    /// Bring the database's schema up to date.
    Migrate,
    /// Print the effective settings as TOML, secrets redacted.
    Config,
    /// Print what makes a shell complete commands and options.
    #[command(after_help = describe::COMPLETIONS_EXAMPLES)]
    Completions(describe::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands into a folder.
    #[command(after_help = describe::MAN_EXAMPLES)]
    Man(describe::ManArgs),
    /// Look at the outbox and act on its events.
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Look at what consumers have handled and parked, and act on it.
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
}

#[derive(Debug, Args)]
struct RelayArgs {
    /// Exit with 0 once nothing is due and nothing is in flight.
    #[arg(long)]
    until_drained: bool,
}

impl Cli {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// [`BootstrapError`], whose chain of causes is for the operator.
    pub async fn run(self) -> Result<ExitCode, BootstrapError> {
        let Self { config, command } = self;
        let sources = Sources::of_process(config);
        // What describes the program needs none.
        let settings = || -> Result<Settings, BootstrapError> {
            let settings = sources.load()?;
            start_logs(&settings.logs);
            Ok(settings)
        };
        let of_service = || -> Result<(Settings, Traces), BootstrapError> {
            let settings = sources.load()?;
            let (traces, spans) = Traces::start(&settings)?;
            start_logs_beside(&settings.logs, spans);
            sources.settings_file().log();
            Ok((settings, traces))
        };
        match command {
            Command::Completions(arguments) => Ok(arguments.run(Self::described())),
            Command::Man(arguments) => arguments.run(&Self::described()),
            Command::Serve => {
                let (settings, traces) = of_service()?;
                let ended = Box::pin(serve::serve(settings)).await;
                traces.stop().await;
                ended
            }
            Command::Relay(args) => {
                let (settings, traces) = of_service()?;
                let ended = Box::pin(relay::relay(settings, args.until_drained)).await;
                traces.stop().await;
                ended
            }
            Command::Migrate => setup::migrate(&settings()?).await,
            Command::Config => print_settings(&sources.settings_file(), &settings()?),
            Command::Outbox(command) => command.run(&settings()?).await,
            Command::Inbox(command) => command.run(&settings()?).await,
        }
    }

    /// The command line under the program's name, which the package's is not.
    fn described() -> clap::Command {
        Self::command().name("app").bin_name("app")
    }
}

fn print_settings(file: &SettingsFile, settings: &Settings) -> Result<ExitCode, BootstrapError> {
    output::line(format!("# {file}"));
    output::line(settings.redacted()?);
    Ok(ExitCode::SUCCESS)
}
