//! Where traces go.

use std::time::Duration;

use application_core::{SettingProblem, setting_duration::readable};
use serde::{Deserialize, Serialize};
use url::Url;

const MAX_NAME_BYTES: usize = 100;
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What the process tells about itself beside logs and metrics.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetrySettings {
    /// Traces.
    pub otlp: OtlpSettings,
}

/// The export of traces by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpSettings {
    /// The collector: `http://host:port`, to which `/v1/traces` is added; none: no traces. Only a binary that is built with
    /// the feature `otlp` takes it.
    pub endpoint: Option<String>,
    /// What traces call this service; 1 to 100 bytes without control characters.
    pub service_name: String,
    /// The share of the traces that begin in this process and are exported; 0 to 1. Of a trace that begins elsewhere, its
    /// begin decides.
    pub sample_ratio: f64,
    /// How long an export may take, and how long a stop waits for the last one; 100 ms to 30 s.
    #[serde(with = "crate::setting_duration")]
    pub timeout: Duration,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self { endpoint: None, service_name: "app".to_owned(), sample_ratio: 1.0, timeout: Duration::from_secs(5) }
    }
}

impl TelemetrySettings {
    /// Everything that is wrong.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let problems = self.otlp.problems(cfg!(feature = "otlp"));
        problems.into_iter().map(|problem| problem.within("otlp")).collect()
    }
}

impl OtlpSettings {
    /// Everything that is wrong in a binary that can export traces, or cannot.
    fn problems(&self, can_export: bool) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if let Some(endpoint) = &self.endpoint {
            if !can_export {
                let bound = "this binary cannot export traces: build it with the feature `otlp`, or leave the key out";
                problems.push(SettingProblem::new("endpoint", "set", bound));
            } else if let Err(bound) = collector(endpoint) {
                // What stands before an @ or in a query may be secret.
                let is_secret = endpoint.contains(['@', '?', '#']);
                let shown = if is_secret { "a URL that is not shown".to_owned() } else { format!("{endpoint:?}") };
                problems.push(SettingProblem::new("endpoint", shown, bound));
            }
        }
        let name = &self.service_name;
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let bound = format!("it must be 1 to {MAX_NAME_BYTES} bytes without control characters");
            problems.push(SettingProblem::new("service_name", format!("{name:?}"), bound));
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            problems.push(SettingProblem::new("sample_ratio", self.sample_ratio, "it must be 0 to 1"));
        }
        if !(SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&self.timeout) {
            let bound = format!("it must be {} to {}", readable(SHORTEST_TIMEOUT), readable(LONGEST_TIMEOUT));
            problems.push(SettingProblem::new("timeout", readable(self.timeout), bound));
        }
        problems
    }
}

/// Where spans are sent to.
///
/// # Errors
/// What the endpoint must be.
pub(super) fn collector(endpoint: &str) -> Result<String, String> {
    let url =
        Url::parse(endpoint).map_err(|error| format!("it must be a URL such as http://localhost:4318 ({error})"))?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if url.scheme() != "http" || !url.has_host() || !is_plain || url.fragment().is_some() {
        return Err("it must be http://host:port without user, query and fragment: \
                    TLS and passwords are for a collector beside the process to add"
            .to_owned());
    }
    Ok(format!("{}/v1/traces", url.as_str().trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoint: &str) -> OtlpSettings {
        OtlpSettings { endpoint: Some(endpoint.to_owned()), ..OtlpSettings::default() }
    }

    #[test]
    fn an_endpoint_that_the_binary_has_no_use_for_is_refused_and_not_ignored() {
        let problems = at("http://localhost:4318").problems(false);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.key, "endpoint");
        assert!(problem.to_string().contains("build it with the feature `otlp`"), "{problem}");
        assert_eq!(OtlpSettings::default().problems(false), []);
        assert_eq!(at("http://localhost:4318").problems(true), []);
    }

    #[test]
    fn an_endpoint_is_a_plain_http_url_and_no_secret_of_it_is_told() {
        for (endpoint, sent_to) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://collector/", "http://collector/v1/traces"),
            ("http://[::1]:4318/of/tenant/", "http://[::1]:4318/of/tenant/v1/traces"),
        ] {
            assert_eq!(collector(endpoint).as_deref(), Ok(sent_to));
        }
        for endpoint in [
            "",
            "localhost:4318",
            "https://host",
            "http://user:hush@host",
            "http://h/?key=hush",
            "http://h/#x",
            "grpc://h",
        ] {
            let problems = at(endpoint).problems(true);
            let [problem] = problems.as_slice() else { panic!("{endpoint}: {problems:?}") };
            assert_eq!(problem.key, "endpoint");
            assert!(!problem.to_string().contains("hush"), "{problem}");
        }
    }

    #[test]
    fn every_problem_of_the_export_is_found_under_its_key() {
        let settings = OtlpSettings {
            endpoint: None,
            service_name: "a\n".to_owned(),
            sample_ratio: 1.1,
            timeout: Duration::from_mins(1),
        };
        let keys: Vec<_> = settings.problems(true).into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, ["service_name", "sample_ratio", "timeout"]);
        let no_number = OtlpSettings { sample_ratio: f64::NAN, ..OtlpSettings::default() };
        assert_eq!(no_number.problems(true).len(), 1);
        assert_eq!(OtlpSettings::default().problems(true), []);
    }
}
