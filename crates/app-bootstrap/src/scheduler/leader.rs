//! Maintenance that one process at a time leads.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use application_core::{
    outbox::HolderName,
    ports::{LeaderTerm, LeadershipPort, StoreError, with_causes},
    usecases::{CleanUpOutboxUseCase, CleanUpReport, StopSignal},
};
use tokio_util::sync::CancellationToken;

use crate::outage::Outage;

/// The proof that this process leads: a term, and until when it may be believed without asking again.
///
/// The database checks the term in every maintenance transaction, so that a leader whose clock or lease went wrong
/// changes nothing; the deadline only saves it the attempt.
#[derive(Debug, Clone)]
pub struct OutboxLeaderElectionToken {
    term: LeaderTerm,
    believed_until: Instant,
}

impl OutboxLeaderElectionToken {
    /// The term to present to the database.
    #[must_use]
    pub const fn term(&self) -> &LeaderTerm {
        &self.term
    }

    /// Whether the lease still runs by this process's monotonic clock.
    #[must_use]
    pub fn is_current(&self) -> bool {
        Instant::now() < self.believed_until
    }
}

/// When the leader works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceSchedule {
    /// How long a term is held without renewal.
    pub lease: Duration,
    /// How often history is cleaned.
    pub clean_up_every: Duration,
}

/// Stands for election, cleans up while it leads, resigns when the process stops.
pub struct MaintenanceLeader {
    leadership: Arc<dyn LeadershipPort>,
    clean_up: Arc<CleanUpOutboxUseCase>,
    holder: HolderName,
    schedule: MaintenanceSchedule,
    election: Outage,
    cleaning: Outage,
}

impl MaintenanceLeader {
    /// The role that is led.
    pub const ROLE: &'static str = "outbox-maintenance";

    /// Puts the parts together.
    #[must_use]
    pub fn new(
        leadership: Arc<dyn LeadershipPort>,
        clean_up: Arc<CleanUpOutboxUseCase>,
        holder: HolderName,
        schedule: MaintenanceSchedule,
    ) -> Self {
        let (election, cleaning) = (Outage::default(), Outage::default());
        Self { leadership, clean_up, holder, schedule, election, cleaning }
    }

    /// Runs until the process stops.
    pub async fn run(self, cancel: CancellationToken) {
        let stop = StopSignal::new();
        let mut token: Option<OutboxLeaderElectionToken> = None;
        let mut cleaned: Option<Instant> = None;
        while !cancel.is_cancelled() {
            token = self.stand_for_election(token).await;
            if let Some(current) = token.as_ref().filter(|token| token.is_current())
                && cleaned.is_none_or(|at| at.elapsed() >= self.schedule.clean_up_every)
            {
                cleaned = self.clean_up(current, &stop, &cancel).await.then(Instant::now);
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(self.schedule.lease / 3) => {}
            }
        }
        if let Some(token) = token
            && let Err(error) = self.leadership.resign(token.term()).await
        {
            tracing::warn!(error = with_causes(&error), "the term ends by its lease");
        }
    }

    async fn stand_for_election(&self, before: Option<OutboxLeaderElectionToken>) -> Option<OutboxLeaderElectionToken> {
        let asked = Instant::now();
        let answer = self.leadership.acquire(Self::ROLE, &self.holder, self.schedule.lease).await;
        if answer.is_ok() && self.election.ends() {
            tracing::info!("the election of a leader works again");
        }
        match answer {
            Ok(Some(term)) => {
                if before.as_ref().is_none_or(|token| token.term != term) {
                    let (holder, term) = (self.holder.as_str(), term.term);
                    tracing::info!(holder, term, "this process leads the maintenance of the outbox");
                }
                Some(OutboxLeaderElectionToken { term, believed_until: asked + self.schedule.lease })
            }
            Ok(None) => None,
            Err(error) => {
                log_failure(&self.election, &error);
                before.filter(OutboxLeaderElectionToken::is_current)
            }
        }
    }

    /// Cleans until done or until a third of the lease has passed; then the term is renewed first. Says whether it is done.
    async fn clean_up(&self, token: &OutboxLeaderElectionToken, stop: &StopSignal, cancel: &CancellationToken) -> bool {
        let slice = StopSignal::new();
        let work = self.clean_up.run_once(token.term(), &slice);
        tokio::pin!(work);
        let report = tokio::select! {
            report = &mut work => report,
            () = cancel.cancelled() => { slice.set(); stop.set(); work.await }
            () = tokio::time::sleep(self.schedule.lease / 3) => { slice.set(); work.await }
        };
        if report.is_ok() && self.cleaning.ends() {
            tracing::info!("cleaning works again");
        }
        match report {
            Ok(CleanUpReport::Done { removed }) => {
                tracing::info!(removed, "history is cleaned up");
                true
            }
            Ok(CleanUpReport::Interrupted { removed }) => {
                tracing::debug!(removed, "cleaning goes on");
                false
            }
            Err(error) => {
                log_failure(&self.cleaning, &error);
                false
            }
        }
    }
}

fn log_failure(outage: &Outage, error: &StoreError) {
    if outage.begins() {
        tracing::error!(error = with_causes(error), "maintenance failed");
    } else {
        tracing::debug!(error = with_causes(error), "maintenance failed again");
    }
}

impl fmt::Debug for MaintenanceLeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaintenanceLeader").field("holder", &self.holder).finish_non_exhaustive()
    }
}
