//! Adapters: what drives the use cases and what they are built on, and the wiring between them.
//!
//! [`register`] is the one thing that the bootstrap calls: taking the sample out means taking out that line.

pub mod consumer;
pub mod http;
pub mod postgres;

use std::{fmt, sync::Arc};

use adapter_persistence_postgres::PgTransaction;
use application_core::{
    ports::{Clock, ConsumerName, Random, UnitOfWork},
    usecases::{MessageHandler, Transactional},
};
use axum::Router;

use self::{
    consumer::PortfolioMinutesProjection,
    http::WorkLogUseCases,
    postgres::{
        PostgresIdempotencyKeyMaintenance, PostgresIdempotencyKeys, PostgresPortfolioMinutes, PostgresWorkLogs, TABLES,
    },
};
use crate::application::{
    CancelWorkLog, CleanUpIdempotencyKeys, CleanUpIdempotencyKeysUseCase, CompleteWorkLog, CreateWorkLog,
    GetPortfolioMinutes, GetWorkLog, IdempotencyKeyPolicy, ListWorkLogs, StartWorkLog, WorkLogWriter,
};

/// What the module takes from the process that it is part of.
pub struct PortfolioParts {
    /// Runs a change and its events in one transaction.
    pub transactional: Arc<Transactional<PgTransaction>>,
    /// Begins the short transactions of reads.
    pub reads: Arc<dyn UnitOfWork<Tx = PgTransaction>>,
    /// The time of changes.
    pub clock: Arc<dyn Clock>,
    /// The random part of identifiers.
    pub random: Arc<dyn Random>,
    /// How long idempotency keys are remembered.
    pub idempotency_keys: IdempotencyKeyPolicy,
}

impl fmt::Debug for PortfolioParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortfolioParts").finish_non_exhaustive()
    }
}

/// What the module brings to the process.
pub struct PortfolioModule {
    /// The module's name, for logs.
    pub name: &'static str,
    /// Routes under `/portfolios`, with answers of their own for whatever goes wrong there.
    pub routes: Router,
    /// The name under which `handler` remembers messages; stored, so that renaming it makes it handle all anew.
    pub consumer: ConsumerName,
    /// What is to be called with every message of a work log.
    pub handler: Arc<dyn MessageHandler<PgTransaction>>,
    /// Forgets old idempotency keys; to be called now and then.
    pub idempotency_keys: Arc<dyn CleanUpIdempotencyKeysUseCase>,
    /// The tables that the module needs, for readiness.
    pub tables: &'static [&'static str],
}

impl fmt::Debug for PortfolioModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortfolioModule")
            .field("name", &self.name)
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

/// Puts the module together. Here the transaction's type is named; nothing outside knows it.
#[must_use]
pub fn register(parts: PortfolioParts) -> PortfolioModule {
    let PortfolioParts { transactional, reads, clock, random, idempotency_keys } = parts;
    let work_logs = Arc::new(PostgresWorkLogs::new(Arc::clone(&reads)));
    let maintenance = Arc::new(PostgresIdempotencyKeyMaintenance::new(Arc::clone(&reads)));
    let minutes = Arc::new(PostgresPortfolioMinutes::new(reads));
    let keys = Arc::new(PostgresIdempotencyKeys);
    let writer = Arc::new(WorkLogWriter::new(transactional, Arc::<PostgresWorkLogs>::clone(&work_logs), clock, random));
    let use_cases = WorkLogUseCases {
        create: Arc::new(CreateWorkLog::new(Arc::clone(&writer), keys)),
        start: Arc::new(StartWorkLog::new(Arc::clone(&writer))),
        complete: Arc::new(CompleteWorkLog::new(Arc::clone(&writer))),
        cancel: Arc::new(CancelWorkLog::new(writer)),
        get: Arc::new(GetWorkLog::new(Arc::<PostgresWorkLogs>::clone(&work_logs))),
        list: Arc::new(ListWorkLogs::new(work_logs)),
        minutes: Arc::new(GetPortfolioMinutes::new(Arc::<PostgresPortfolioMinutes>::clone(&minutes))),
    };
    PortfolioModule {
        name: "sample-portfolio",
        routes: http::router(use_cases),
        consumer: ConsumerName::new("portfolio-minutes"),
        handler: Arc::new(PortfolioMinutesProjection::new(minutes)),
        idempotency_keys: Arc::new(CleanUpIdempotencyKeys::new(maintenance, idempotency_keys)),
        tables: TABLES,
    }
}
