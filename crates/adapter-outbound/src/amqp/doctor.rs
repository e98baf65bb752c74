//! What the doctor looks at on the broker that events go to.

use std::{fmt, sync::Arc, time::Duration};

use application_core::ports::{Finding, OutboxCheckPort, Random, StoreError, with_causes};
use async_trait::async_trait;

use super::{OutboxMessagePublishAdapter, TopologyProblem};
use crate::settings::OutboundSettings;

/// How long saying goodbye may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Whether the broker lets us in, has the exchanges and queues that the settings name, as they declare them, and lets us
/// publish. Bindings cannot be asked for: their absence shows in events that were returned.
pub struct BrokerCheck {
    settings: OutboundSettings,
    random: Arc<dyn Random>,
}

impl BrokerCheck {
    /// Looks at the broker of these settings.
    #[must_use]
    pub fn new(settings: OutboundSettings, random: Arc<dyn Random>) -> Self {
        Self { settings, random }
    }
}

#[async_trait]
impl OutboxCheckPort for BrokerCheck {
    fn name(&self) -> &'static str {
        "broker"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        let publisher = match OutboxMessagePublishAdapter::start(&self.settings, Arc::clone(&self.random)) {
            Ok(publisher) => publisher,
            Err(error) => return Ok(vec![unusable(with_causes(&error))]),
        };
        let found = publisher.examine_topology().await;
        publisher.close(CLOSE_LIMIT).await;
        Ok(match found {
            Ok(problems) => problems.into_iter().map(finding).collect(),
            Err(error) => vec![unusable(with_causes(&error))],
        })
    }
}

fn finding(TopologyProblem { object, problem, cure }: TopologyProblem) -> Finding {
    Finding { problem, subject: object, cure }
}

fn unusable(problem: String) -> Finding {
    Finding {
        problem,
        subject: "the broker of outbound.amqp.url".to_owned(),
        cure: "start the server, or correct outbound.amqp.url (AMQP_URL): host, port, virtual host, user".to_owned(),
    }
}

impl fmt::Debug for BrokerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerCheck").field("settings", &self.settings).finish_non_exhaustive()
    }
}
