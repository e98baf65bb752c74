//! Telling the list of relays that this one is there.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use application_core::{
    outbox::HolderName,
    ports::{Random, RelayRegistryPort, RelayReport, StoreError, with_causes},
    usecases::PublishPendingOutboxEventsUseCase,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::outage::Outage;

/// Reports at intervals with jitter while the relay runs, and withdraws at its end. What fails is tried again at the
/// next interval: the relay does its work without.
pub struct RelayReporter {
    registry: Arc<dyn RelayRegistryPort>,
    relay: Arc<PublishPendingOutboxEventsUseCase>,
    random: Arc<dyn Random>,
    holder: HolderName,
    run: Uuid,
    every: Duration,
    outage: Outage,
}

impl RelayReporter {
    /// Reports about this relay under the holder's name; a new run each time.
    #[must_use]
    pub fn new(
        registry: Arc<dyn RelayRegistryPort>,
        relay: Arc<PublishPendingOutboxEventsUseCase>,
        random: Arc<dyn Random>,
        holder: HolderName,
        every: Duration,
    ) -> Self {
        let (high, low) = (random.next_u64(), random.next_u64());
        let run = (u128::from(high) << 64) | u128::from(low);
        let run = uuid::Builder::from_random_bytes(run.to_be_bytes()).into_uuid();
        Self { registry, relay, random, holder, run, every, outage: Outage::default() }
    }

    /// Reports at once, and then until the relay has ended.
    ///
    /// # Cancellation
    /// Dropping the call leaves the entry, which counts as gone when its reports are missed.
    pub async fn run(self, ended: CancellationToken) {
        let started = Instant::now();
        tracing::info!(holder = %self.holder, "the relay holds its leases under this name");
        // A database that does not answer must not hold up the end.
        while let Some(reported) = ended.run_until_cancelled(self.report(started.elapsed())).await {
            self.note(&reported);
            let wait = self.every.mul_f64(0.9 + 0.2 * self.random.next_unit());
            tokio::select! {
                () = ended.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        if let Err(error) = self.registry.withdraw(&self.holder, self.run).await {
            tracing::warn!(error = with_causes(&error), "the relay stays listed until its reports are missed");
        }
    }

    async fn report(&self, running: Duration) -> Result<(), StoreError> {
        let (holder, run, every) = (self.holder.clone(), self.run, self.every);
        let (version, paused) = (env!("CARGO_PKG_VERSION").to_owned(), self.relay.paused());
        self.registry.report(&RelayReport { holder, run, version, running, every, paused }).await
    }

    fn note(&self, reported: &Result<(), StoreError>) {
        match reported {
            Ok(()) if self.outage.ends() => tracing::info!("the relay is listed again"),
            Ok(()) => {}
            Err(error) if self.outage.begins() => {
                tracing::warn!(error = with_causes(error), "the relay could not enter itself in the list of relays");
            }
            Err(error) => tracing::debug!(error = with_causes(error), "the relay is still not listed"),
        }
    }
}

impl fmt::Debug for RelayReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayReporter").field("holder", &self.holder).finish_non_exhaustive()
    }
}
