//! The operations HTTP: health and metrics on one listener, `/ops` on another.

use std::{sync::Arc, time::Duration};

use adapter_inbound::http::{HealthPolicy, OpsAccess, OpsParts, bind, health_router, metrics_router, ops_router};
use adapter_persistence_postgres::{Database, DatabaseReadiness, SchemaReadiness};
use application_core::ports::ReadinessCheck;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use super::{broker::Broker, listen_error};
use crate::{cli::expected_versions, error::BootstrapError, outbox_config::OutboxConfig, settings::Settings};

/// How long a request that acts on many events works at most: whoever waits sees it get on.
const BULK_TIME: Duration = Duration::from_secs(2);

pub(super) fn checks(database: &Database, broker: &Broker) -> Vec<Arc<dyn ReadinessCheck>> {
    let mut checks: Vec<Arc<dyn ReadinessCheck>> = vec![
        Arc::new(DatabaseReadiness::new(database.clone())),
        Arc::new(SchemaReadiness::new(database.clone(), expected_versions())),
    ];
    checks.extend(broker.checks());
    checks
}

/// Serves on tasks of their own, which end with the process: health must answer while everything else drains.
pub(super) async fn serve(
    settings: &Settings,
    checks: &[Arc<dyn ReadinessCheck>],
    outbox: &OutboxConfig<'_>,
    metrics: PrometheusHandle,
) -> Result<(), BootstrapError> {
    let operations = &settings.operations;
    operations.check()?;
    let forever = CancellationToken::new();
    let shown = metrics.clone();
    let failed = |setting| move |source| listen_error(setting, source);
    let server = bind("health", operations.health_listen).await.map_err(failed("operations.health_listen"))?;
    let health = health_router(checks.to_vec(), OutboxConfig::clock(), HealthPolicy::default())
        .merge(metrics_router(Arc::new(move || metrics.render())));
    tokio::spawn(server.serve(health, operations.limits(), forever.clone(), settings.service.grace));
    if let Some(listen) = operations.ops_listen {
        let server = bind("ops", listen).await.map_err(failed("operations.ops_listen"))?;
        let parts = OpsParts {
            operate: outbox.operate(),
            inbox: outbox.operate_inbox(),
            purge: Arc::new(outbox.purge()),
            doctor: Arc::new(outbox.doctor(&[])),
            payloads: operations.payloads,
            settings: settings.redacted_json()?,
            metrics: Arc::new(move || shown.render()),
            bulk_time: BULK_TIME.min(operations.request_timeout / 2),
        };
        let router = ops_router(parts, OpsAccess::new(operations.ops_token.as_ref()));
        tokio::spawn(server.serve(router, operations.limits(), forever, settings.service.grace));
    }
    Ok(())
}
