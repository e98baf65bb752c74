//! Which receiver gets an event, and how requests to it are signed.

use application_core::{SettingProblem, outbox::OutboxEvent};
use secrecy::SecretString;

use super::{
    address::{Address, InvalidUrl, shown},
    settings::WebhookSettings,
    signature::{InvalidSecrets, Signer},
};

/// A receiver.
#[derive(Debug, Clone)]
pub(super) struct Receiver {
    pub(super) address: Address,
    pub(super) signer: Signer,
}

/// The compiled settings.
#[derive(Debug)]
pub(super) struct Route {
    rules: Vec<Rule>,
    usual: Receiver,
}

#[derive(Debug)]
struct Rule {
    aggregate_type: Option<String>,
    event_type: Option<String>,
    receiver: Receiver,
}

impl Route {
    /// Compiles the settings.
    ///
    /// # Errors
    /// All problems at once; their keys begin with `prefix`.
    pub(super) fn compile(settings: &WebhookSettings, prefix: &str) -> Result<Self, Vec<SettingProblem>> {
        let mut problems = Vec::new();
        let address = read_address(settings.url.as_ref(), settings.allow_http, prefix, &mut problems);
        let signer = read_signer(settings.secrets.as_ref(), prefix, &mut problems);
        let usual = address.zip(signer).map(|(address, signer)| Receiver { address, signer });
        let mut rules = Vec::with_capacity(settings.overrides.len());
        for (at, entry) in settings.overrides.iter().enumerate() {
            let prefix = format!("{prefix}.overrides[{at}]");
            if entry.aggregate_type.is_none() && entry.event_type.is_none() {
                let bound = "it must name at least one of them";
                problems.push(SettingProblem::new(&*prefix, "without aggregate_type and event_type", bound));
            }
            let address = read_address(entry.url.as_ref(), settings.allow_http, &prefix, &mut problems);
            let signer = match (&entry.secrets, &usual, &address) {
                (Some(secrets), _, _) => read_signer(Some(secrets), &prefix, &mut problems),
                (None, Some(usual), Some(address)) if usual.address.destination == address.destination => {
                    Some(usual.signer.clone())
                }
                (None, Some(_), Some(_)) => {
                    let bound = "another host must have secrets of its own: whoever knows one can sign by it";
                    problems.push(SettingProblem::new(format!("{prefix}.secrets"), "missing", bound));
                    None
                }
                // What is wrong is told already.
                _ => None,
            };
            if let Some((address, signer)) = address.zip(signer) {
                let (aggregate_type, event_type) = (entry.aggregate_type.clone(), entry.event_type.clone());
                rules.push(Rule { aggregate_type, event_type, receiver: Receiver { address, signer } });
            }
        }
        match usual {
            Some(usual) if problems.is_empty() => Ok(Self { rules, usual }),
            _ => Err(problems),
        }
    }

    /// Finds who gets the event.
    pub(super) fn resolve(&self, event: &OutboxEvent) -> &Receiver {
        let fits = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        let rule = self.rules.iter().find(|rule| {
            fits(&rule.aggregate_type, event.aggregate_type.as_str())
                && fits(&rule.event_type, event.event_type.as_str())
        });
        rule.map_or(&self.usual, |rule| &rule.receiver)
    }

    /// Every receiver.
    pub(super) fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        std::iter::once(&self.usual).chain(self.rules.iter().map(|rule| &rule.receiver))
    }
}

fn read_address(
    url: Option<&SecretString>,
    allow_http: bool,
    prefix: &str,
    problems: &mut Vec<SettingProblem>,
) -> Option<Address> {
    let parsed = url.ok_or(InvalidUrl::NoUrl).and_then(|url| Address::parse(url, allow_http));
    let refuse = |invalid: InvalidUrl| {
        let value = url.map_or_else(|| "missing".to_owned(), shown);
        problems.push(SettingProblem::new(format!("{prefix}.url"), value, invalid.to_string()));
    };
    parsed.map_err(refuse).ok()
}

fn read_signer(secrets: Option<&SecretString>, prefix: &str, problems: &mut Vec<SettingProblem>) -> Option<Signer> {
    let parsed = secrets.ok_or(InvalidSecrets::Count(0)).and_then(Signer::parse);
    let refuse = |invalid: InvalidSecrets| {
        let value = match (secrets, invalid) {
            (None, _) => "missing".to_owned(),
            (Some(_), InvalidSecrets::Count(count)) => format!("{count} secrets"),
            (Some(_), InvalidSecrets::Secret(_)) => "set".to_owned(),
        };
        problems.push(SettingProblem::new(format!("{prefix}.secrets"), value, invalid.to_string()));
    };
    parsed.map_err(refuse).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::event_of, webhook::WebhookOverride};

    const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";
    const OTHER: &str = "whsec_dGhlIG9sZGVyIHNlY3JldCBvZiB0ZXN0cywgYSBsaXR0bGUgbG9uZ2Vy";

    fn other(
        aggregate_type: Option<&str>,
        event_type: Option<&str>,
        url: &str,
        secrets: Option<&str>,
    ) -> WebhookOverride {
        WebhookOverride {
            aggregate_type: aggregate_type.map(ToOwned::to_owned),
            event_type: event_type.map(ToOwned::to_owned),
            url: Some(url.into()),
            secrets: secrets.map(SecretString::from),
        }
    }

    fn compile(overrides: Vec<WebhookOverride>) -> Result<Route, Vec<String>> {
        let settings = WebhookSettings {
            url: Some("https://hooks.example.com/in".into()),
            secrets: Some(SECRET.into()),
            overrides,
            ..WebhookSettings::default()
        };
        Route::compile(&settings, "webhook").map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_first_override_that_fits_counts_and_each_host_is_a_destination() {
        let route = compile(vec![
            other(Some("work-log"), Some("Special"), "https://hooks.example.com/special", None),
            other(Some("work-log"), None, "https://other.example.com/in", Some(OTHER)),
        ])
        .unwrap();
        let to = |aggregate, event| {
            let address = &route.resolve(&event_of(aggregate, "1", event)).address;
            (address.destination.as_str().to_owned(), address.uri.path().to_owned())
        };
        let (usual, another) = ("https://hooks.example.com".to_owned(), "https://other.example.com".to_owned());
        assert_eq!(to("work-log", "Special"), (usual.clone(), "/special".to_owned()));
        assert_eq!(to("work-log", "Other"), (another, "/in".to_owned()));
        assert_eq!(to("portfolio", "Special"), (usual, "/in".to_owned()));
        assert_eq!(route.receivers().count(), 3);
    }

    #[test]
    fn a_receiver_on_the_same_host_is_signed_for_by_the_same_secret_unless_it_has_its_own() {
        let route = compile(vec![
            other(None, Some("Inherits"), "https://hooks.example.com/a", None),
            other(None, Some("Own"), "https://hooks.example.com/b", Some(OTHER)),
        ])
        .unwrap();
        let signed = |event| route.resolve(&event_of("work-log", "1", event)).signer.sign("id", "1", b"");
        assert_eq!(signed("Inherits"), signed("Usual"));
        assert_ne!(signed("Own"), signed("Usual"));
    }

    #[test]
    fn an_override_that_fits_nothing_or_leads_nowhere_or_shares_a_secret_with_another_host_is_a_problem() {
        let problems = compile(vec![
            other(None, None, "https://hooks.example.com/a", None),
            WebhookOverride { event_type: Some("Paid".to_owned()), ..WebhookOverride::default() },
            other(None, Some("Paid"), "https://other.example.com/a", None),
            other(None, Some("Paid"), "https://other.example.com/a", Some("weak")),
        ])
        .unwrap_err();
        assert_eq!(
            problems,
            [
                "webhook.overrides[0] is without aggregate_type and event_type, but it must name at least one of them",
                "webhook.overrides[1].url is missing, but it must be a URL like https://host/path",
                "webhook.overrides[2].secrets is missing, but another host must have secrets of its own: whoever knows one \
                 can sign by it",
                "webhook.overrides[3].secrets is set, but its secret number 1 must be whsec_ and then 24 to 64 bytes in \
                 base64"
            ]
        );
    }
}
