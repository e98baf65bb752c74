//! Least privilege: each part of the system does its work with the rights of its role, and can do nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{
    AutovacuumCheck, Database, DriverError, History, IndexCheck, LaneCheck, ListenWakeup, Migration, NotifyWakeup,
    OutboxEventRepository, OutboxReaper, OutboxStoreAdapter, PostgresInbox, PostgresLeadership,
    PostgresOutboxClaimRepository, PostgresUnitOfWork, SchemaCheck, SchemaReadiness, ServerSettingsCheck,
    SnapshotCheck, WakeupSettings, check_sequence,
};
use application_core::{
    inbox::ParkedAggregate,
    outbox::{
        AggregateId, AggregateType, ClaimRequest, ClaimScope, FailedOutcome, FailedRun, HolderName, NewOutboxEvent,
        OnPublish, OutboxEventStatus, SettledHistory, bounds::MAX_PAYLOAD_DEPTH,
    },
    ports::{
        ConsumerName, EventFilter, FirstSeen, InboxMaintenancePort, InboxOperationsPort, InboxPort, LeaderTerm,
        LeadershipPort, OutboxAppendError, OutboxAppendPort, OutboxAuditPort, OutboxCheckPort, OutboxHoldersPort,
        OutboxMaintenancePort, OutboxOperationsPort, OutboxPausePort, OutboxStatisticsPort, OutboxStorePort,
        ParkingPort, PauseScope, ReadinessCheck, ReapRequest, RelayRegistryPort, RelayReport, StoreError, UnitOfWork,
        WakeupPort,
    },
};
use sqlx::{Connection, PgConnection, Row};
use test_support::operate::{OperateOne, tester};

use super::{
    operate::{kill_head, publish_all},
    search_path::{IN_FRONT, plant_hostile_schema, rows_of_the_hostile_schema},
    support::{
        Claim, Fixture, Sql, confirmed, empty, event, event_of, fresh_id, ids, migrate_all, request, settings_for,
        wait_until,
    },
};

const ROLES: &str = include_str!("../../../../migrations/roles/roles.sql");
const GRANTS: &str = include_str!("../../../../migrations/roles/grants.sql");
const PAGE: &str = include_str!("../../../../docs/security.md");

pub(crate) const GROUPS: [&str; 5] = ["appender", "relay", "consumer", "operator", "reader"];

/// What nobody but the owner may use: the operators' functions and the triggers do.
const OWNERS_ALONE: [&str; 6] = [
    "outbox_audit_id_seq",
    "outbox_event_forget_lanes()",
    "outbox_event_refuse_sequence()",
    "outbox_event_take_lane()",
    "outbox_open_lanes()",
    "outbox_record()",
];

const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// A migrated database with a table of the business, and the rights given to roles that this test alone has: they are named
/// after its database, and go with it.
pub(crate) struct World {
    pub(crate) fixture: Fixture,
}

impl World {
    pub(crate) async fn new(hint: &str) -> Self {
        let fixture = Fixture::new(hint).await;
        let mut sql = fixture.sql().await;
        sql.execute("CREATE TABLE invoice (id int); CREATE TABLE app_schema_history (version int)").await;
        choose_prefix(&mut sql, fixture.name()).await;
        sql.execute(ROLES).await;
        sql.execute(GRANTS).await;
        Self { fixture }
    }

    async fn login(&self, role: &str) -> Login {
        Login::new(&mut self.fixture.sql().await, self.fixture.name(), self.fixture.url(), role).await
    }
}

async fn choose_prefix(sql: &mut Sql, database: &str) {
    sql.execute(&format!("SET outbox.role_prefix = '{database}_'")).await;
}

/// A process whose user is a member of one role, and the parts of the adapter in it.
struct Login {
    url: String,
    database: Database,
    events: OutboxEventRepository,
    store: OutboxStoreAdapter,
    work: PostgresUnitOfWork,
    reaper: OutboxReaper,
    inbox: PostgresInbox,
    leadership: PostgresLeadership,
}

impl Login {
    async fn new(admin: &mut Sql, name: &str, url: &str, role: &str) -> Self {
        Self::at(&create_login(admin, name, url, role).await).await
    }

    async fn at(url: &str) -> Self {
        let database = Database::connect(&settings_for(url)).await.expect("a pool");
        let repository = Arc::new(PostgresOutboxClaimRepository::new(database.clone()));
        Self {
            url: url.to_owned(),
            events: OutboxEventRepository::new(database.clone()),
            store: OutboxStoreAdapter::new(repository, Duration::from_secs(40)),
            work: PostgresUnitOfWork::new(database.clone()),
            reaper: OutboxReaper::new(database.clone()),
            inbox: PostgresInbox::new(database.clone()),
            leadership: PostgresLeadership::new(database.clone()),
            database,
        }
    }

    async fn sql(&self) -> Sql {
        connect(&self.url).await
    }

    async fn append(&self, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        let mut tx = self.work.begin().await?;
        self.events.append(&mut tx, events).await?;
        Ok(self.work.commit(tx).await?)
    }

    async fn claim(&self, request: ClaimRequest) -> Claim {
        let runs = self.store.claim(&request).await.expect("claimed");
        Claim { token: request.token, runs }
    }

    /// The row of a relay in the registry, from its report to its withdrawal.
    async fn reports_and_withdraws(&self, holder: &HolderName, term: &LeaderTerm) {
        let report = RelayReport {
            holder: holder.clone(),
            run: fresh_id().as_uuid(),
            version: "1".to_owned(),
            running: Duration::ZERO,
            every: Duration::from_secs(1),
            paused: vec![],
        };
        self.events.report(&report).await.expect("reported");
        assert_eq!(self.events.forget_gone(term, Duration::from_hours(1), 10).await.expect("asked"), Some(0));
        assert!(self.events.withdraw(holder, report.run).await.expect("withdrawn"));
    }

    /// Each statement is refused for want of a right.
    async fn is_refused(&self, statements: &[&str]) {
        let mut sql = self.sql().await;
        for statement in statements {
            let error = sql.try_execute(statement).await.expect_err(statement);
            let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
            assert_eq!(code.as_deref(), Some(INSUFFICIENT_PRIVILEGE), "{statement}: {error}");
        }
    }
}

async fn connect(url: &str) -> Sql {
    Sql(PgConnection::connect(url).await.expect("connected"))
}

/// Makes a user that is a member of the role; returns the URL by which it logs in.
async fn create_login(admin: &mut Sql, name: &str, url: &str, role: &str) -> String {
    const PASSWORD: &str = "of-a-test";
    let login = format!("{name}_login_{role}");
    admin.execute(&format!("CREATE ROLE {login} LOGIN PASSWORD '{PASSWORD}' IN ROLE {name}_{role}")).await;
    let mut url = url::Url::parse(url).expect("the database's URL");
    url.set_username(&login).expect("a URL with a host");
    url.set_password(Some(PASSWORD)).expect("a URL with a host");
    url.into()
}

fn is_for_want_of_a_right(error: &StoreError) -> bool {
    let StoreError::Forbidden { source } = error else { return false };
    source.downcast_ref::<DriverError>().and_then(DriverError::sqlstate) == Some(INSUFFICIENT_PRIVILEGE)
}

#[tokio::test]
async fn an_appender_appends_and_may_do_nothing_else() {
    let world = World::new("appender").await;
    let appender = world.login("appender").await;
    // What the table's constraints look at more closely, by a function of theirs.
    let bushy = format!("[{}\"\\u00e9\"]", "[],".repeat(MAX_PAYLOAD_DEPTH + 1));
    let bushy = NewOutboxEvent::draft_raw(fresh_id(), ("order", "c"), "OrderPlaced", bushy).build().expect("valid");
    let first = [event("a"), event("b"), bushy];
    appender.append(&first).await.expect("appended");
    let second = [event("a")];
    appender.append(&second).await.expect("appended to a lane that is there");
    let twice = appender.append(&first[1..2]).await.expect_err("a duplicate");
    assert!(matches!(twice, OutboxAppendError::Duplicate { id } if id == first[1].id()), "{twice:?}");
    let plain = fresh_id();
    let insert = format!(
        "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('{plain}', 'order', 'a', 'OrderPlaced', '{{}}')"
    );
    appender.sql().await.execute(&insert).await;

    appender
        .is_refused(&[
            "SELECT payload FROM outbox_event",
            "SELECT headers FROM outbox_event",
            "SELECT status FROM outbox_event",
            "SELECT id FROM outbox_event_state",
            "UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp()",
            "UPDATE outbox_event SET payload = '1'",
            "DELETE FROM outbox_event",
            "TRUNCATE outbox_event",
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, status) \
             VALUES (gen_random_uuid(), 'order', 'a', 'OrderPlaced', '1', 'DEAD')",
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
             VALUES (gen_random_uuid(), 'order', 'a', 'OrderPlaced', '1', '2000-01-01')",
            "UPDATE outbox_lane SET due_at = NULL",
            "UPDATE outbox_lane SET token = gen_random_uuid(), claimed_from = 1, claimed_through = 2",
            "DELETE FROM outbox_lane",
            "SELECT setval('outbox_event_sequence', 1)",
            "SELECT outbox_claim(gen_random_uuid(), 'h', '1 min', 10, 10, 10, 1000)",
            "SELECT outbox_acknowledge(gen_random_uuid(), '{}', '{}')",
            "SELECT outbox_requeue('{}', 'tester')",
            "SELECT outbox_pause('', 'tester')",
            "INSERT INTO outbox_pause (aggregate_type, operator) VALUES ('', 'tester')",
            "INSERT INTO outbox_inbox (consumer, event_id) VALUES ('c', gen_random_uuid())",
            "SELECT id FROM outbox_audit",
            "SELECT id FROM invoice",
            "CREATE TABLE mine (id int)",
        ])
        .await;
    let claimed = world.fixture.claim().await;
    let of_a = claimed.runs.iter().find(|run| run.events.len() == 3).expect("the run of a");
    let in_order: Vec<_> = of_a.events.iter().map(|event| event.id).collect();
    assert_eq!(in_order, [first[0].id(), second[0].id(), plain]);
    assert_eq!(claimed.ids().len(), 5);
    world.fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_relay_claims_settles_reaps_leads_and_cleans_up_and_touches_no_table_of_the_business() {
    let world = World::new("relay").await;
    let (fixture, relay) = (&world.fixture, world.login("relay").await);
    fixture.append(&["sent", "fails", "dies", "passed", "back"].map(event)).await;
    let claim = relay.claim(request()).await;
    assert_eq!(claim.runs.len(), 5);
    let run_of = |aggregate: &str| {
        let run = claim.runs.iter().find(|run| run.events[0].aggregate_id.as_str() == aggregate);
        run.expect("claimed").clone()
    };
    assert!(relay.store.renew(claim.token, Duration::from_mins(1)).await.expect("renewed"));

    // An appender holds the lane while it is settled, so that it is freed later.
    let mut appending = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut appending, &[event("sent")]).await.expect("appended");
    let sent = confirmed(&run_of("sent"), 1);
    let settled = relay.store.acknowledge(claim.token, std::slice::from_ref(&sent)).await.expect("settled");
    assert_eq!((settled.events, settled.postponed.as_slice()), (1, &[sent.lane][..]));
    fixture.work.commit(appending).await.expect("committed");
    let rest = confirmed(&run_of("sent"), 0);
    assert_eq!(relay.store.acknowledge(claim.token, &[rest]).await.expect("freed").freed, 1);

    let outcomes = [
        ("fails", FailedOutcome::Retry { after: Duration::from_hours(1) }),
        ("dies", FailedOutcome::Block),
        ("passed", FailedOutcome::Skip),
    ];
    let failed = outcomes.map(|(aggregate, outcome)| FailedRun {
        run: confirmed(&run_of(aggregate), 0),
        failed: run_of(aggregate).events[0].id,
        outcome,
        error: "no".to_owned(),
    });
    assert_eq!(relay.store.fail(claim.token, &failed).await.expect("settled").events, 3);
    let back = [confirmed(&run_of("back"), 0)];
    assert_eq!(relay.store.release(claim.token, &back, Duration::ZERO).await.expect("released").freed, 1);

    // Long overdue, and with it everything that a look at due lanes remembers.
    let overdue = "UPDATE outbox_lane SET due_at = due_at - interval '1 h' WHERE due_at < statement_timestamp(); \
         DELETE FROM outbox_due_floor";
    fixture.sql().await.execute(overdue).await;
    let claim = relay.claim(ClaimRequest { scope: ClaimScope::Overdue, ..request() }).await;
    assert_eq!(claim.runs.len(), 1);
    let reap = |skip_types| ReapRequest { max_claims: 10, dead_after_expiries: 2, skip_types };
    fixture.expire(claim.token).await;
    assert_eq!(relay.reaper.reap(&reap(vec![])).await.expect("reaped").lanes, 1);
    let claim = relay.claim(request()).await;
    fixture.expire(claim.token).await;
    let skip = vec![AggregateType::try_new("order").expect("valid")];
    assert_eq!(relay.reaper.reap(&reap(skip)).await.expect("reaped").dead, 1);

    // While a type is paused a claim locks the pause's row; without history it deletes what it settles.
    fixture.append(&[event_of("held", "1"), event_of("order", "gone")]).await;
    let held = PauseScope::Type(AggregateType::try_new("held").expect("valid"));
    assert!(fixture.events.pause(&held, &tester()).await.expect("paused"));
    let repository = PostgresOutboxClaimRepository::new(relay.database.clone()).on_publish(OnPublish::Delete);
    let without_history = OutboxStoreAdapter::new(Arc::new(repository), Duration::from_secs(40));
    loop {
        let claim = relay.claim(request()).await;
        if claim.runs.is_empty() {
            break;
        }
        without_history.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    }
    let states = "SELECT string_agg(status, ' ' ORDER BY status COLLATE \"C\") FROM outbox_event_state";
    assert_eq!(
        fixture.sql().await.one::<String>(states).await,
        "DEAD DEAD DEAD FAILED PENDING PUBLISHED",
        "the one held back, the one sent, one of each failure, one that died of its leases; what was sent last is gone"
    );

    fixture.sql().await.execute("INSERT INTO outbox_inbox VALUES ('c', gen_random_uuid(), '2000-01-01')").await;
    let holder = HolderName::new("relay");
    let term = relay.leadership.acquire("m", &holder, Duration::from_mins(1)).await.expect("asked").expect("vacant");
    assert_eq!(relay.reaper.clean_up(&term, Duration::ZERO, 10).await.expect("cleaned"), Some(1));
    assert_eq!(relay.inbox.clean_up(&term, Duration::from_hours(1), 10).await.expect("cleaned"), Some(1));
    relay.reports_and_withdraws(&holder, &term).await;
    assert!(relay.leadership.resign(&term).await.expect("resigned"));
    assert_eq!(relay.events.statistics().await.expect("taken").failed, 1);
    fixture.assert_lanes_are_sound().await;

    relay
        .is_refused(&[
            "SELECT id FROM invoice",
            "INSERT INTO invoice VALUES (1)",
            "UPDATE invoice SET id = 2",
            "DELETE FROM invoice",
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES (gen_random_uuid(), 'order', 'a', 'OrderPlaced', '1')",
            "UPDATE outbox_event SET payload = '1'",
            "UPDATE outbox_event SET headers = '{}'",
            "UPDATE outbox_event SET aggregate_id = 'another'",
            "UPDATE outbox_event SET sequence = 1",
            "UPDATE outbox_event SET replays = 0",
            "TRUNCATE outbox_event",
            "SELECT nextval('outbox_event_sequence')",
            "INSERT INTO outbox_pause (aggregate_type, operator) VALUES ('', 'relay')",
            "UPDATE outbox_pause SET aggregate_type = 'another'",
            "DELETE FROM outbox_pause",
            "INSERT INTO outbox_inbox (consumer, event_id) VALUES ('c', gen_random_uuid())",
            "SELECT consumer FROM outbox_inbox_parked",
            "SELECT id FROM outbox_audit",
            "SELECT outbox_requeue('{}', 'tester')",
            "SELECT outbox_discard('{}', 'tester')",
            "SELECT outbox_replay('{}', 'tester')",
            "SELECT outbox_purge('published', '0', 1, 'tester')",
            "SELECT outbox_repair_lanes('tester')",
            "CREATE TABLE mine (id int)",
        ])
        .await;
}

#[tokio::test]
async fn a_relay_and_an_appender_wake_each_other() {
    let world = World::new("waking").await;
    let (relay, appender) = (world.login("relay").await, world.login("appender").await);
    let heard = Arc::new(AtomicBool::new(false));
    let signal = Arc::clone(&heard);
    let settings = WakeupSettings::default();
    let listener =
        ListenWakeup::start(&relay.database, settings.clone(), move || signal.store(true, Ordering::Relaxed));
    wait_until("it listens", || listener.is_connected()).await;
    heard.store(false, Ordering::Relaxed);
    let notifier = NotifyWakeup::start(&appender.database, settings);
    notifier.wake();
    wait_until("the call is heard", || heard.load(Ordering::Relaxed)).await;
}

#[tokio::test]
async fn a_consumer_records_and_parks_and_sees_no_event() {
    let world = World::new("consumer").await;
    let consumer = world.login("consumer").await;
    let (name, id) = (ConsumerName::new("c"), fresh_id());
    for expected in [FirstSeen::Yes, FirstSeen::No] {
        let mut tx = consumer.work.begin().await.expect("begun");
        assert_eq!(consumer.inbox.record(&mut tx, &name, id).await.expect("recorded"), expected);
        consumer.work.commit(tx).await.expect("committed");
    }
    let parked = ParkedAggregate {
        aggregate_type: AggregateType::try_new("order").expect("valid"),
        aggregate_id: AggregateId::try_new("42").expect("valid"),
        event: id,
        reason: "no".to_owned(),
    };
    let (kind, aggregate) = (&parked.aggregate_type, &parked.aggregate_id);
    consumer.inbox.park(&name, &parked).await.expect("parked");
    assert_eq!(consumer.inbox.parked(&name, kind, aggregate).await.expect("read"), Some(parked.clone()));
    assert!(consumer.inbox.unpark(&name, kind, aggregate).await.expect("let through"));
    consumer
        .is_refused(&[
            "SELECT id FROM outbox_event",
            "SELECT id FROM outbox_event_state",
            "SELECT lane FROM outbox_lane",
            "SELECT event_id FROM outbox_inbox",
            "UPDATE outbox_inbox SET consumer = 'another'",
            "DELETE FROM outbox_inbox",
            "INSERT INTO outbox_inbox (consumer, event_id, processed_at) VALUES ('c', gen_random_uuid(), '2000-01-01')",
            "UPDATE outbox_inbox_parked SET reason = ''",
            "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES (gen_random_uuid(), 'order', 'a', 'OrderPlaced', '1')",
            "SELECT outbox_claim(gen_random_uuid(), 'h', '1 min', 10, 10, 10, 1000)",
            "SELECT outbox_statistics()",
            "SELECT id FROM invoice",
        ])
        .await;
}

/// Everything that a list, a status or the doctor shows.
async fn sees_states_and_figures(login: &Login) {
    let one = login.events.list(&EventFilter { limit: 1, ..EventFilter::default() }).await.expect("listed").events;
    assert!(login.events.find(one[0].id).await.expect("read").is_some());
    for status in OutboxEventStatus::ALL {
        let filter = EventFilter {
            status: Some(status),
            aggregate_type: Some(AggregateType::try_new("order").expect("valid")),
            aggregate_id: Some(AggregateId::try_new("a").expect("valid")),
            older_than: Some(Duration::ZERO),
            unresolved: true,
            limit: 10,
            ..EventFilter::default()
        };
        login.events.list(&filter).await.expect("listed");
    }
    assert_eq!(login.events.blocked(10).await.expect("listed").len(), 1);
    assert_eq!(login.events.statistics().await.expect("taken").dead, 1);
    login.events.pauses().await.expect("listed");
    login.events.relays().await.expect("listed");
    login.events.registered().await.expect("listed");
    login.events.leaders().await.expect("listed");
    let database = || login.database.clone();
    let checks: [Box<dyn OutboxCheckPort>; 6] = [
        Box::new(LaneCheck::new(login.events.clone())),
        Box::new(SchemaCheck::new(database(), vec![(History::Outbox, 1)])),
        Box::new(IndexCheck::new(database())),
        Box::new(AutovacuumCheck::new(database())),
        Box::new(SnapshotCheck::new(database(), Duration::from_hours(1))),
        Box::new(ServerSettingsCheck::new(database(), 1)),
    ];
    for check in checks {
        let name = check.name();
        assert!(check.look().await.is_ok(), "{name} cannot look");
    }
}

#[tokio::test]
async fn a_reader_sees_states_and_figures_and_no_payload_and_changes_nothing() {
    let world = World::new("reader").await;
    let (fixture, reader) = (&world.fixture, world.login("reader").await);
    fixture.append(&[event("a"), event("a")]).await;
    let dead = kill_head(fixture).await;
    sees_states_and_figures(&reader).await;
    let content = reader.events.content(dead).await.expect_err("refused");
    assert!(is_for_want_of_a_right(&content), "{content:?}");
    let act = reader.events.requeue(dead).await.expect_err("refused");
    assert!(is_for_want_of_a_right(&act), "{act:?}");
    let audit = reader.events.audit(None, 10).await.expect_err("refused");
    assert!(is_for_want_of_a_right(&audit), "{audit:?}");
    reader
        .is_refused(&[
            "SELECT payload FROM outbox_event",
            "SELECT headers FROM outbox_event",
            "SELECT payload FROM outbox_event_state",
            "SELECT headers FROM outbox_event_state",
            "UPDATE outbox_event SET status = 'PENDING'",
            "DELETE FROM outbox_event",
            "UPDATE outbox_lane SET due_at = NULL",
            "DELETE FROM outbox_claim",
            "DELETE FROM outbox_pause",
            "SELECT outbox_pause('', 'tester')",
            "SELECT outbox_lead('m', 'h', '1 min')",
            "SELECT consumer FROM outbox_inbox_parked",
            "SELECT id FROM invoice",
        ])
        .await;
    assert_eq!(fixture.status(dead).await, "DEAD");
}

#[tokio::test]
async fn an_operator_acts_by_what_leaves_a_record_and_by_nothing_else() {
    let world = World::new("operator").await;
    let (fixture, operator) = (&world.fixture, world.login("operator").await);
    fixture.append(&[event("a"), event("a")]).await;
    let dead = kill_head(fixture).await;
    sees_states_and_figures(&operator).await;
    assert!(operator.events.requeue(dead).await.expect("acted"));
    assert_eq!(kill_head(fixture).await, dead);
    assert!(operator.events.discard(dead).await.expect("acted"));
    let sent = publish_all(fixture).await[0];
    assert!(operator.events.replay(sent).await.expect("acted"));
    let everything = PauseScope::Everything;
    assert!(operator.events.pause(&everything, &tester()).await.expect("acted"));
    assert!(operator.events.resume(&everything, &tester()).await.expect("acted"));
    fixture.sql().await.execute("DELETE FROM outbox_lane").await;
    assert_eq!(operator.events.repair_lanes(&tester()).await.expect("acted"), 1);
    assert_eq!(operator.reaper.purge(SettledHistory::Resolved, Duration::ZERO, 10, &tester()).await.expect("acted"), 1);
    let audit = operator.events.audit(None, 10).await.expect("read");
    let actions: Vec<_> = audit.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["requeue", "discard", "replay", "pause", "resume", "repair", "purge"]);
    assert!(audit.iter().all(|entry| entry.by == tester()));

    let name = ConsumerName::new("c");
    fixture.sql().await.execute(&format!("INSERT INTO outbox_inbox (consumer, event_id) VALUES ('c', '{sent}')")).await;
    assert_eq!(operator.inbox.forget(&name, &[sent], &tester()).await.expect("forgotten"), 1);
    let (kind, aggregate) = (AggregateType::from_stored("order"), AggregateId::from_stored("a"));
    let mark = format!("INSERT INTO outbox_inbox_parked VALUES ('d', 'order', 'a', '{sent}', 'broken')");
    fixture.sql().await.execute(&mark).await;
    let recorded = operator.inbox.record_unpark(&kind, &aggregate, None, false, &tester()).await;
    assert_eq!(recorded.expect("recorded"), 1);
    let audit = operator.events.audit(None, 2).await.expect("read");
    let actions: Vec<_> = audit.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["forget", "unpark"]);
    assert_eq!(operator.inbox.list_parked(&name, 10).await.expect("listed"), []);

    let content = operator.events.content(sent).await.expect_err("refused");
    assert!(is_for_want_of_a_right(&content), "{content:?}");
    operator
        .is_refused(&[
            "SELECT payload FROM outbox_event",
            "SELECT payload FROM outbox_event_state",
            "UPDATE outbox_event SET status = 'PENDING'",
            "DELETE FROM outbox_event",
            "UPDATE outbox_lane SET due_at = statement_timestamp()",
            "DELETE FROM outbox_claim",
            "INSERT INTO outbox_pause (aggregate_type, operator) VALUES ('', 'tester')",
            "DELETE FROM outbox_pause",
            "INSERT INTO outbox_audit (operator, action, affected) VALUES ('another', 'purge', 1)",
            "UPDATE outbox_audit SET operator = 'another'",
            "DELETE FROM outbox_audit",
            "DELETE FROM outbox_inbox",
            "DELETE FROM outbox_inbox_parked",
            "DELETE FROM outbox_relay",
            "TRUNCATE outbox_audit",
            "SELECT outbox_record('another', NULL, 'purge', 1)",
            "SELECT outbox_open_lanes('{}')",
            "SELECT outbox_claim(gen_random_uuid(), 'h', '1 min', 10, 10, 10, 1000)",
            "ALTER FUNCTION outbox_requeue SECURITY INVOKER",
            "SELECT id FROM invoice",
        ])
        .await;
}

#[tokio::test]
async fn an_operator_cannot_put_a_table_of_its_own_in_the_place_of_the_audit() {
    let world = World::new("shadow").await;
    let mut operator = world.login("operator").await.sql().await;
    operator.execute("CREATE TEMP TABLE outbox_audit (LIKE public.outbox_audit INCLUDING ALL)").await;
    operator.execute("GRANT ALL ON outbox_audit TO PUBLIC").await;
    operator.execute("SET search_path = pg_temp, public; SELECT public.outbox_pause('', 'tester')").await;
    let audit = world.fixture.events.audit(None, 10).await.expect("read");
    assert_eq!(audit.len(), 1);
    assert_eq!(operator.one::<i64>("SELECT count(*) FROM pg_temp.outbox_audit").await, 0);
}

#[tokio::test]
async fn an_operator_cannot_change_what_runs_with_the_owners_rights_by_a_schema_in_front_of_the_others() {
    let world = World::new("front").await;
    let fixture = &world.fixture;
    fixture.append(&[event("a"), event("a")]).await;
    let dead = kill_head(fixture).await;
    let mut admin = fixture.sql().await;
    plant_hostile_schema(&mut admin).await;
    let mut operator = world.login("operator").await.sql().await;
    operator.execute(IN_FRONT).await;
    for call in [
        format!("SELECT public.outbox_requeue('{{{dead}}}', 'tester')"),
        "SELECT public.outbox_pause('', 'tester')".to_owned(),
        "SELECT public.outbox_resume('', 'tester')".to_owned(),
    ] {
        operator.execute(&call).await;
    }
    admin.execute("DELETE FROM public.outbox_lane").await;
    operator.execute("SELECT public.outbox_repair_lanes('tester')").await;
    assert_eq!(fixture.status(dead).await, "PENDING");
    let audit = fixture.events.audit(None, 10).await.expect("read");
    let actions: Vec<_> = audit.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["requeue", "pause", "resume", "repair"]);
    assert_eq!(rows_of_the_hostile_schema(&mut admin).await, 0);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_member_of_any_role_finds_out_that_it_is_ready() {
    let world = World::new("ready").await;
    for role in GROUPS {
        let login = world.login(role).await;
        let expected = vec![(History::Outbox, 1)];
        SchemaReadiness::new(login.database.clone(), expected).check().await.unwrap_or_else(|e| panic!("{role}: {e}"));
        check_sequence(&login.database).await.unwrap_or_else(|e| panic!("{role}: {e}"));
        login.sql().await.execute("SELECT max(version) FROM app_schema_history").await;
    }
}

#[tokio::test]
async fn the_owner_migrates_and_gives_the_rights_in_a_schema_of_its_own_without_being_a_superuser() {
    let place = empty("owner").await;
    let name = place.name();
    let mut admin = connect(place.url()).await;
    choose_prefix(&mut admin, name).await;
    admin.execute("CREATE SCHEMA billing; SET search_path = billing").await;
    admin.execute(ROLES).await;
    let url_of = async |admin: &mut Sql, role: &str| {
        let url = create_login(admin, name, place.url(), role).await;
        admin.execute(&format!("ALTER ROLE {name}_login_{role} SET search_path = billing")).await;
        url
    };
    let owner = url_of(&mut admin, "owner").await;
    admin.execute(&format!("ALTER ROLE {name}_login_owner SET role = {name}_owner")).await;
    let application = [Migration::unapplied("V1__invoice", "CREATE TABLE invoice (id int)").expect("a name")];
    migrate_all(&owner, &application).await.expect("migrated");
    let strangers = format!(
        "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'billing'::regnamespace AND relowner <> '{name}_owner'::regrole) \
              + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'billing'::regnamespace AND proowner <> '{name}_owner'::regrole)"
    );
    assert_eq!(admin.one::<i64>(&strangers).await, 0);

    let mut sql = connect(&owner).await;
    choose_prefix(&mut sql, name).await;
    sql.execute(GRANTS).await;
    let given = rights(&mut admin, name).await;
    assert!(given.len() > 50, "{given:?}");
    sql.execute(GRANTS).await;
    admin.execute(ROLES).await;
    assert_eq!(rights(&mut admin, name).await, given, "a second run changes nothing");

    let one = event("a");
    let url = url_of(&mut admin, "appender").await;
    Login::at(&url).await.append(std::slice::from_ref(&one)).await.expect("appended");
    let url = url_of(&mut admin, "relay").await;
    let relay = Login::at(&url).await;
    let claim = relay.claim(request()).await;
    assert_eq!(claim.ids(), ids(&[one]));
    relay.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    let url = url_of(&mut admin, "operator").await;
    assert!(Login::at(&url).await.events.pause(&PauseScope::Everything, &tester()).await.expect("acted"));
}

#[tokio::test]
async fn what_was_granted_by_hand_is_taken_back() {
    let world = World::new("taken").await;
    let mut admin = world.fixture.sql().await;
    choose_prefix(&mut admin, world.fixture.name()).await;
    let given = rights(&mut admin, world.fixture.name()).await;
    let name = world.fixture.name();
    admin
        .execute(&format!(
            "GRANT ALL ON outbox_event, outbox_audit TO {name}_reader, PUBLIC; GRANT UPDATE (payload) ON outbox_event TO {name}_relay; \
             GRANT EXECUTE ON FUNCTION outbox_requeue, outbox_record TO PUBLIC"
        ))
        .await;
    assert_ne!(rights(&mut admin, name).await, given);
    admin.execute(GRANTS).await;
    assert_eq!(rights(&mut admin, name).await, given);
}

#[tokio::test]
async fn rights_are_not_given_where_the_functions_of_operators_would_run_as_a_superuser() {
    let fixture = Fixture::new("superuser").await;
    let mut sql = fixture.sql().await;
    assert!(sql.one::<bool>("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").await, "as tests log in");
    choose_prefix(&mut sql, fixture.name()).await;
    let error = sql.try_execute(GRANTS).await.expect_err("refused");
    assert!(error.to_string().contains("belongs to a superuser"), "{error}");
}

#[tokio::test]
async fn a_prefix_that_would_need_quotes_is_refused() {
    let fixture = Fixture::new("quotes").await;
    let mut sql = fixture.sql().await;
    let roles = "SELECT count(*) FROM pg_roles WHERE strpos(rolname, 'x\"') > 0 OR rolname LIKE 'Upper%'";
    for prefix in ["x\"; DROP TABLE outbox_event; --", "x'); DROP TABLE outbox_event; --", "Upper_", "1_", "a b"] {
        sql.execute(&format!("SET outbox.role_prefix = '{}'", prefix.replace('\'', "''"))).await;
        let error = sql.try_execute(ROLES).await.expect_err(prefix);
        let said = format!("outbox.role_prefix must be lower-case letters, digits and underscores, it is {prefix}");
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(sql.one::<i64>(roles).await, 0);
        assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event").await, 0, "the table is there");
    }
}

#[tokio::test]
async fn a_prefix_that_is_too_long_or_taken_by_a_user_is_refused() {
    let fixture = Fixture::new("prefix").await;
    let name = fixture.name();
    let mut sql = fixture.sql().await;
    sql.execute(&format!("SET outbox.role_prefix = '{}'", "x".repeat(56))).await;
    let error = sql.try_execute(ROLES).await.expect_err("refused");
    assert!(error.to_string().contains("outbox.role_prefix has 56 bytes, at most 55"), "{error}");
    choose_prefix(&mut sql, name).await;
    sql.execute(&format!("CREATE ROLE {name}_relay LOGIN")).await;
    let error = sql.try_execute(ROLES).await.expect_err("refused");
    assert!(error.to_string().contains(&format!("the role {name}_relay can log in")), "{error}");
    let made = format!("SELECT count(*) FROM pg_roles WHERE starts_with(rolname, '{name}_')");
    assert_eq!(sql.one::<i64>(&made).await, 1, "nothing was made");
}

/// Of each role and object what the role may do there; a right that holds for some columns ends in `(`.
pub(crate) type Rights = BTreeMap<(String, String), BTreeSet<String>>;

/// Everything that the catalog says of the outbox, the owner's own rights left out.
pub(crate) async fn rights(sql: &mut Sql, name: &str) -> Rights {
    let statement = format!(
        "WITH place AS (SELECT relnamespace AS id FROM pg_class WHERE oid = 'outbox_event'::regclass) \
         SELECT coalesce(replace(r.rolname, '{name}_', ''), 'PUBLIC')::text, x.object, x.privilege FROM ( \
           SELECT c.relname::text, a.grantee, a.privilege_type \
             FROM pg_class c JOIN place p ON p.id = c.relnamespace, aclexplode(c.relacl) a \
           UNION ALL \
           SELECT c.relname::text, a.grantee, a.privilege_type || ' (' \
             FROM pg_class c JOIN place p ON p.id = c.relnamespace JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a \
           UNION ALL \
           SELECT f.proname::text || '()', a.grantee, a.privilege_type \
             FROM pg_proc f JOIN place p ON p.id = f.pronamespace, aclexplode(f.proacl) a \
         ) x (object, grantee, privilege) LEFT JOIN pg_roles r ON r.oid = x.grantee \
         WHERE r.rolname IS DISTINCT FROM '{name}_owner'"
    );
    let mut rights = Rights::new();
    for row in sql.rows(&statement).await {
        rights.entry((row.get(0), row.get(1))).or_default().insert(row.get(2));
    }
    rights
}

/// What the page says: under a heading for each role a table `object | right | why`.
fn documented() -> Rights {
    let mut rights = Rights::new();
    let mut roles: Vec<&str> = Vec::new();
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            roles = match heading.strip_prefix("`outbox_").and_then(|rest| rest.strip_suffix('`')) {
                Some(role) => vec![role],
                None if heading == "All of them" => GROUPS.to_vec(),
                None => Vec::new(),
            };
        }
        let cells: Vec<&str> = line.split('|').collect();
        let codes = |cell: usize| cells[cell].split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect::<Vec<_>>();
        if roles.is_empty() || cells.len() != 5 || codes(2).is_empty() {
            continue;
        }
        assert!(!cells[3].trim().is_empty(), "{line} does not say why");
        for object in codes(1) {
            for role in &roles {
                let all = rights.entry(((*role).to_owned(), object.clone())).or_default();
                all.extend(codes(2).iter().map(|right| match right.split_once('(') {
                    Some((right, _)) => format!("{right}("),
                    None => right.clone(),
                }));
            }
        }
    }
    rights
}

#[tokio::test]
async fn the_page_tells_every_right_that_is_given_and_no_table_or_function_is_forgotten() {
    let world = World::new("page").await;
    let mut sql = world.fixture.sql().await;
    let given = rights(&mut sql, world.fixture.name()).await;
    let documented = documented();
    for (key, right) in &given {
        assert_eq!(documented.get(key), Some(right), "{key:?} as the page has it");
    }
    for key in documented.keys() {
        assert!(given.contains_key(key), "{key:?} is on the page alone");
    }
    let made = "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'S') AND starts_with(relname, 'outbox_') \
         UNION ALL SELECT proname || '()' FROM pg_proc WHERE starts_with(proname, 'outbox_')";
    let objects: BTreeSet<&str> = given.keys().map(|(_, object)| object.as_str()).chain(OWNERS_ALONE).collect();
    let forgotten: Vec<String> = sql
        .rows(made)
        .await
        .iter()
        .map(|row| row.get(0))
        .filter(|name: &String| !objects.contains(name.as_str()))
        .collect();
    assert_eq!(forgotten, Vec::<String>::new(), "who may use it?");
    for (role, object) in given.keys() {
        assert!(!OWNERS_ALONE.contains(&object.as_str()), "{role} may use {object}");
    }
}
