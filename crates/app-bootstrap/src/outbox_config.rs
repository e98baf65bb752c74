//! The outbox, put together: ports bound to adapters, use cases, and the loops that call them.

use std::{sync::Arc, time::Duration};

use adapter_inbound::amqp::{AmqpUnparkAdapter, ConsumerCheck};
use adapter_outbound::{JwePayloadCipher, PublisherKind, amqp::BrokerCheck};
use adapter_persistence_postgres::{
    AutovacuumCheck, ClockCheck, Database, IndexCheck, LaneCheck, OutboxEventRepository, OutboxReaper, OutboxRole,
    OutboxStoreAdapter, PermissionCheck, PgTransaction, PostgresInbox, PostgresLeadership,
    PostgresOutboxClaimRepository, PostgresUnitOfWork, RoutingCheck, SchemaCheck, ServerSettingsCheck, SnapshotCheck,
};
use application_core::{
    outbox::{HolderName, InvalidBackoff},
    ports::{
        Clock, MessagePublishPort, OutboxCheckPort, OutboxObserver, PayloadCipherPort, Random, UnitOfWork, WakeupPort,
    },
    usecases::{
        CleanUpOutboxUseCase, ExamineOutboxUseCase, ObserveOutboxUseCase, OperateInboxUseCase, OperateOutboxUseCase,
        OperatePorts, PublishPendingOutboxEventsUseCase, PurgeOutboxUseCase, ReapOutboxUseCase, Transactional,
    },
};

use crate::{
    cli::expected_versions,
    clock::{SystemClock, SystemRandom},
    scheduler::{MaintenanceLeader, OutboxRelayScheduler, RelayReporter},
    settings::{ContradictionCheck, Settings},
    telemetry::{OutboxMetrics, traces},
    wakeup::RelayWakeup,
};

/// A transaction that is open for longer keeps more dead rows than the outbox needs.
const LONGEST_SNAPSHOT: Duration = Duration::from_mins(5);
/// Clocks that are further apart make ages in logs and metrics of two processes contradict each other.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The parts of the outbox over one database; each method makes one of the things that run.
#[derive(Debug)]
pub struct OutboxConfig<'a> {
    settings: &'a Settings,
    database: Database,
    wakeup: RelayWakeup,
    holder: HolderName,
}

impl<'a> OutboxConfig<'a> {
    /// Binds the parts to a database and to whatever wakes the relay. Relay and leader of one such configuration hold
    /// their leases under one name, which no other configuration has.
    #[must_use]
    pub fn new(settings: &'a Settings, database: Database, wakeup: RelayWakeup) -> Self {
        Self { settings, database, wakeup, holder: settings.service.holder(&SystemRandom) }
    }

    /// The process's clock.
    #[must_use]
    pub fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    /// The process's randomness.
    #[must_use]
    pub fn random() -> Arc<dyn Random> {
        Arc::new(SystemRandom)
    }

    /// Encrypts and decrypts the personal fields of events, for the contexts that have some.
    #[must_use]
    pub fn payload_cipher(settings: &Settings) -> Arc<dyn PayloadCipherPort> {
        Arc::new(JwePayloadCipher::new(&settings.encryption))
    }

    /// Begins transactions.
    #[must_use]
    pub fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = PgTransaction>> {
        Arc::new(PostgresUnitOfWork::new(self.database.clone()))
    }

    /// Runs a change and its events in one transaction, and wakes the relay.
    #[must_use]
    pub fn transactional(&self) -> Arc<Transactional<PgTransaction>> {
        let outbox = traces::append(self.settings, self.repository());
        Arc::new(Transactional::new(self.unit_of_work(), outbox, self.wakeup_port()))
    }

    /// The inbox of this process's consumers.
    #[must_use]
    pub fn inbox(&self) -> Arc<PostgresInbox> {
        Arc::new(PostgresInbox::new(self.database.clone()))
    }

    /// The relay's workers.
    ///
    /// # Errors
    /// [`InvalidBackoff`], which the settings' check reports beforehand.
    pub fn relay(&self, publisher: Arc<dyn MessagePublishPort>) -> Result<Arc<OutboxRelayScheduler>, InvalidBackoff> {
        let outbox = &self.settings.outbox;
        let policy = outbox.publish_policy(self.holder.clone(), self.settings.confirm_timeout())?;
        let claims = PostgresOutboxClaimRepository::new(self.database.clone()).on_publish(outbox.retention.on_publish);
        let call_limit = self.settings.database.statement_timeout + self.settings.database.client_margin * 4;
        let use_case = Arc::new(PublishPendingOutboxEventsUseCase::new(
            Arc::new(OutboxStoreAdapter::new(Arc::new(claims), call_limit)),
            traces::publisher(self.settings, publisher),
            Self::clock(),
            Self::random(),
            Self::observer(),
            policy,
        ));
        let reporter = RelayReporter::new(
            self.repository(),
            Arc::clone(&use_case),
            Self::random(),
            self.holder.clone(),
            outbox.relay.report_every,
        );
        let (wakeup, random) = (self.wakeup.clone(), Self::random());
        let relay = OutboxRelayScheduler::new(use_case, self.statistics(), wakeup, random, outbox.relay_schedule());
        Ok(Arc::new(relay.reporting(reporter)))
    }

    /// Returns expired leases.
    #[must_use]
    pub fn reaper(&self) -> Arc<ReapOutboxUseCase> {
        let request = self.settings.outbox.reap_request();
        Arc::new(ReapOutboxUseCase::new(self.maintenance(), Self::observer(), request))
    }

    /// Takes the figures.
    #[must_use]
    pub fn statistics(&self) -> Arc<ObserveOutboxUseCase> {
        Arc::new(ObserveOutboxUseCase::new(self.repository(), Self::observer()))
    }

    /// Leads maintenance when it is elected.
    #[must_use]
    pub fn maintenance_leader(&self) -> MaintenanceLeader {
        let outbox = &self.settings.outbox;
        let clean_up = CleanUpOutboxUseCase::new(
            self.maintenance(),
            self.inbox(),
            self.repository(),
            Self::observer(),
            outbox.clean_up_policy(),
        );
        MaintenanceLeader::new(
            Arc::new(PostgresLeadership::new(self.database.clone())),
            Arc::new(clean_up),
            self.holder.clone(),
            outbox.maintenance_schedule(),
        )
    }

    /// Shows the outbox and acts on its events.
    #[must_use]
    pub fn operate(&self) -> Arc<OperateOutboxUseCase> {
        let operate = OperatePorts {
            operations: self.repository(),
            audit: self.repository(),
            pause: self.repository(),
            holders: self.repository(),
            registry: self.repository(),
            statistics: self.repository(),
            wakeup: self.wakeup_port(),
        };
        Arc::new(OperateOutboxUseCase::new(operate).on_publish(self.settings.outbox.retention.on_publish))
    }

    /// Shows what consumers have parked, lets them forget what they have handled, and asks them to handle it again.
    #[must_use]
    pub fn operate_inbox(&self) -> Arc<OperateInboxUseCase> {
        let consumer = &self.settings.consumer;
        let requests = AmqpUnparkAdapter::new(consumer.clone());
        Arc::new(OperateInboxUseCase::new(self.inbox(), Arc::new(requests)).unordered(consumer.unordered))
    }

    /// Removes history for an operator.
    #[must_use]
    pub fn purge(&self) -> PurgeOutboxUseCase {
        PurgeOutboxUseCase::new(self.maintenance())
    }

    /// Looks for what must not be; a further check is a further line here. The user of the database needs these roles, or,
    /// without any, those that it is a member of.
    #[must_use]
    pub fn doctor(&self, roles: &[OutboxRole]) -> ExamineOutboxUseCase {
        let repository = self.repository();
        let database = || self.database.clone();
        let pool = self.settings.database.pool.max_connections;
        let mut checks: Vec<Arc<dyn OutboxCheckPort>> = vec![
            Arc::new(ContradictionCheck::new(self.settings)),
            Arc::new(SchemaCheck::new(database(), expected_versions())),
            Arc::new(PermissionCheck::new(database()).needing(roles)),
            Arc::new(IndexCheck::new(database())),
            Arc::new(LaneCheck::new(repository.as_ref().clone())),
            Arc::new(AutovacuumCheck::new(database())),
            Arc::new(SnapshotCheck::new(database(), LONGEST_SNAPSHOT)),
            Arc::new(ClockCheck::new(database(), Self::clock(), CLOCK_TOLERANCE)),
            Arc::new(ServerSettingsCheck::new(database(), pool)),
            Arc::new(RoutingCheck::new(database())),
        ];
        checks.extend(self.broker_checks());
        ExamineOutboxUseCase::new(checks, repository)
    }

    /// The broker's, as far as this process publishes and consumes.
    fn broker_checks(&self) -> Vec<Arc<dyn OutboxCheckPort>> {
        let Settings { outbound, consumer, .. } = self.settings;
        let mut checks: Vec<Arc<dyn OutboxCheckPort>> = Vec::new();
        let publishes = outbound.publisher == PublisherKind::Amqp;
        if publishes {
            checks.push(Arc::new(BrokerCheck::new(outbound.clone(), Self::random())));
        }
        if consumer.enabled {
            let topology = &outbound.amqp.topology;
            let declared = topology.queue.iter().chain(&topology.parking_queue).cloned();
            let declared = if publishes && topology.declare { declared.collect() } else { Vec::new() };
            checks.push(Arc::new(ConsumerCheck::new(consumer.clone(), declared)));
        }
        checks
    }

    fn repository(&self) -> Arc<OutboxEventRepository> {
        Arc::new(OutboxEventRepository::new(self.database.clone()))
    }

    fn maintenance(&self) -> Arc<OutboxReaper> {
        Arc::new(OutboxReaper::new(self.database.clone()))
    }

    fn wakeup_port(&self) -> Arc<dyn WakeupPort> {
        Arc::new(self.wakeup.clone())
    }

    fn observer() -> Arc<dyn OutboxObserver> {
        Arc::new(OutboxMetrics::new())
    }
}
