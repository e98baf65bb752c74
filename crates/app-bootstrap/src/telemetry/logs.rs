//! Structured logs on standard error.

use std::io::IsTerminal;

use adapter_outbound::amqp::{LOG_DIRECTIVE, QUIET_DIRECTIVE};
use application_core::SettingProblem;
use serde::{Deserialize, Serialize};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

/// Something that looks at the process's spans and events, through a filter of its own.
pub(crate) type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    #[default]
    Text,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: LogFormat,
    /// Directives such as `info,adapter_outbound=debug`.
    pub filter: String,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::default(), filter: "info".to_owned() }
    }
}

impl LogSettings {
    /// Everything that is wrong.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let Err(error) = EnvFilter::try_new(&self.filter) else { return Vec::new() };
        let bound = format!("it must be directives such as info,adapter_outbound=debug ({error})");
        vec![SettingProblem::new("filter", format!("{:?}", self.filter), bound)]
    }
}

/// Starts logging; a second call changes nothing.
pub fn start_logs(settings: &LogSettings) {
    start_logs_beside(settings, None);
}

/// Starts logging, with something else beside it that sees spans whatever the filter of the logs says.
pub(crate) fn start_logs_beside(settings: &LogSettings, other: Option<SpanLayer>) {
    // The first keeps the AMQP client's repetitions out unless they are asked for. The last holds whatever was asked for:
    // the client would log returned messages with their content (rule R29).
    let filter = format!("{QUIET_DIRECTIVE},{},{LOG_DIRECTIVE}", settings.filter);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines: SpanLayer = match settings.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.boxed(),
    };
    let mut layers: Vec<SpanLayer> = vec![lines.with_filter(filter).boxed()];
    layers.extend(other);
    // An error means that a test or an embedding program has set up logging already.
    let _ = tracing_subscriber::registry().with(layers).try_init();
}
