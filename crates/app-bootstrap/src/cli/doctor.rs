//! `app outbox doctor`: what is wrong, and the cure.

use std::process::ExitCode;

use adapter_persistence_postgres::OutboxRole;
use application_core::{ports::Finding, usecases::Diagnosis};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{attribution::AttributionArgs, outbox::rows_table, output, setup};
use crate::{error::BootstrapError, settings::Settings, words::counted};

pub(super) const EXAMPLES: &str = "\
Examples:
  app outbox doctor
  app outbox doctor --process serve --json
  app outbox doctor --repair --reason 'restored from a dump'

It looks at the database, the broker and the settings, and changes nothing without --repair. A repair compares the lanes
with the open events first; where all are right it touches none and leaves no record.
What it is at is told by a line of the log, if logs.filter lets it through.
Where the database has the roles of migrations/roles, the rights of those are looked at that its user is a member of, or
that --process needs.";

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    by: AttributionArgs,
    /// Look at the rights that this process needs with these settings, instead of those of the user's own roles.
    #[arg(long)]
    process: Option<ProcessName>,
    /// First build the lanes anew from the open events, if they are wrong; refused while a relay holds a lease.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A process that stays.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProcessName {
    /// `app serve`
    Serve,
    /// `app relay`
    Relay,
}

impl ProcessName {
    fn roles(self, settings: &Settings) -> Vec<OutboxRole> {
        match self {
            Self::Relay => vec![OutboxRole::Relay],
            Self::Serve if settings.consumer.enabled => {
                vec![OutboxRole::Appender, OutboxRole::Relay, OutboxRole::Consumer]
            }
            Self::Serve => vec![OutboxRole::Appender, OutboxRole::Relay],
        }
    }
}

impl DoctorArgs {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode, BootstrapError> {
        let roles = self.process.map(|process| process.roles(settings)).unwrap_or_default();
        let doctor = setup::outbox_as_it_is(settings).await?.doctor(&roles);
        let repair = self.repair.then(|| self.by.attribution());
        let lanes = match repair {
            Some(by) => Some(doctor.repair_lanes(&by).await.map_err(BootstrapError::Repair)?),
            None => None,
        };
        let diagnoses = doctor.examine().await;
        let findings: Vec<_> = diagnoses.iter().flat_map(findings).collect();
        let unseen: Vec<_> = diagnoses.iter().filter(|diagnosis| diagnosis.forbidden).map(|it| it.check).collect();
        let code = ExitCode::from(u8::from(!findings.is_empty()));
        if self.json {
            output::line(json!({ "rebuiltLanes": lanes, "findings": findings, "notLookedAt": unseen }).to_string());
            return Ok(code);
        }
        if let Some(lanes) = lanes {
            let right = if lanes == 0 { ": they are as the open events say" } else { "" };
            output::line(format!("{} rebuilt{right}", counted(lanes, "lane")));
        }
        output::line(rows_table(&Value::Array(findings)));
        if !unseen.is_empty() {
            output::line(format!("not looked at, which is an operator's right: {}", unseen.join(", ")));
        }
        Ok(code)
    }
}

fn findings(diagnosis: &Diagnosis) -> Vec<Value> {
    let value = |finding: &Finding| {
        json!({
            "check": diagnosis.check,
            "problem": finding.problem,
            "subject": finding.subject,
            "cure": finding.cure,
        })
    };
    diagnosis.findings.iter().map(value).collect()
}
