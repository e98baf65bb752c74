//! The sample, put together.

use std::{pin::pin, sync::Arc};

use application_core::{ports::StoreError, usecases::StopSignal};
use sample_portfolio::{
    adapter::{PortfolioParts, register},
    application::{CleanUpIdempotencyKeysUseCase, IdempotencyKeyPolicy},
    integration_events::CATALOGUE,
};
use tokio_util::sync::CancellationToken;

use super::{BoundedContext, Chore, Context, Handler};
use crate::{outbox_config::OutboxConfig, settings::Settings, telemetry::idempotency_keys_removed};

pub(super) const CONTEXT: Context = Context { register: context, events: CATALOGUE };

fn context(settings: &Settings, outbox: &OutboxConfig<'_>) -> BoundedContext {
    let module = register(PortfolioParts {
        transactional: outbox.transactional(),
        reads: outbox.unit_of_work(),
        clock: OutboxConfig::clock(),
        random: OutboxConfig::random(),
        idempotency_keys: IdempotencyKeyPolicy {
            retention: settings.http.idempotency_key_retention,
            batch: settings.outbox.retention.batch,
        },
    });
    let keys = module.idempotency_keys;
    // In every process that serves: batches of several processes pass each other by, no leader is needed.
    let forget_old_keys = Chore {
        name: "idempotency keys",
        every: settings.outbox.retention.every,
        work: Box::new(move |cancel| Box::pin(forget_old_keys(Arc::clone(&keys), cancel))),
    };
    BoundedContext {
        name: module.name,
        routes: module.routes,
        tables: module.tables,
        handler: Some(Handler { name: module.consumer, handler: module.handler }),
        chores: vec![forget_old_keys],
    }
}

async fn forget_old_keys(
    keys: Arc<dyn CleanUpIdempotencyKeysUseCase>,
    cancel: CancellationToken,
) -> Result<(), StoreError> {
    let stop = StopSignal::new();
    let mut work = pin!(keys.execute(&stop));
    let removed = tokio::select! {
        removed = &mut work => removed?,
        () = cancel.cancelled() => {
            stop.set();
            work.await?
        }
    };
    if removed > 0 {
        idempotency_keys_removed(removed);
        tracing::info!(removed, "old idempotency keys are forgotten");
    }
    Ok(())
}
