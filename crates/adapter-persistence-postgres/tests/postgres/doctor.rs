//! The doctor: each misconfiguration is planted, found with its cure, and mended by it.

use std::{sync::Arc, time::Duration};

use adapter_persistence_postgres::{
    AutovacuumCheck, ClockCheck, Database, History, IndexCheck, LaneCheck, OutboxEventRepository, OutboxRole,
    PermissionCheck, RoutingCheck, SchemaCheck, ServerSettingsCheck, SnapshotCheck, newest_version, outbox_migrations,
};
use application_core::ports::{Clock, Finding, OutboxCheckPort, StoreError};
use sqlx::Row;
use test_support::clock::FakeClock;

use super::{
    roles::{GROUPS, World, rights},
    support::{Fixture, event_of, settings_for},
};

async fn look(check: &dyn OutboxCheckPort) -> Vec<Finding> {
    check.look().await.expect("looked")
}

/// The subjects of what was found.
async fn subjects(check: &dyn OutboxCheckPort) -> Vec<String> {
    look(check).await.into_iter().map(|finding| finding.subject).collect()
}

#[tokio::test]
async fn a_schema_that_is_behind_or_incomplete_is_found() {
    let fixture = Fixture::new("schema").await;
    let newest = newest_version(&outbox_migrations());
    let check = |version| SchemaCheck::new(fixture.database.clone(), vec![(History::Outbox, version)]);
    assert_eq!(look(&check(newest)).await, []);
    let behind = look(&check(newest + 1)).await;
    assert!(behind[0].problem.contains("is at version") && behind[0].cure.contains("app migrate"), "{behind:?}");
    fixture.sql().await.execute("DROP FUNCTION outbox_due_from CASCADE").await;
    let broken = look(&check(newest)).await;
    assert!(broken[0].problem.contains("outbox_due_from()"), "{broken:?}");
}

#[tokio::test]
async fn an_index_that_is_missing_or_invalid_is_found_and_no_index_is_forgotten() {
    let fixture = Fixture::new("indexes").await;
    let check = IndexCheck::new(fixture.database.clone());
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    let made = "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         WHERE starts_with(c.relname, 'outbox_') AND c.relname <> 'outbox_schema_history' \
           AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY 1";
    let made: Vec<String> = sql.rows(made).await.iter().map(|row| row.get(0)).collect();
    sql.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_lane_due'::regclass").await;
    let found = look(&check).await;
    assert_eq!(found[0].cure, "REINDEX INDEX CONCURRENTLY outbox_lane_due");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    for index in &made {
        sql.execute(&format!("DROP INDEX {index}")).await;
    }
    assert_eq!(subjects(&check).await, made);
}

#[tokio::test]
async fn a_table_that_autovacuum_passes_by_is_found_and_the_cure_mends_it() {
    let fixture = Fixture::new("autovacuum").await;
    let check = AutovacuumCheck::new(fixture.database.clone());
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    sql.execute("ALTER TABLE outbox_lane SET (autovacuum_enabled = off)").await;
    let found = look(&check).await;
    assert_eq!((found.len(), found[0].subject.as_str()), (1, "outbox_lane"), "{found:?}");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    sql.execute("ALTER TABLE outbox_claim RESET (autovacuum_vacuum_threshold)").await;
    let found = look(&check).await;
    assert_eq!(found[0].subject, "outbox_claim");
    assert!(found[0].problem.contains("threshold"), "{found:?}");
}

#[tokio::test]
async fn a_transaction_that_stays_open_is_found_with_its_session() {
    let fixture = Fixture::new("snapshots").await;
    let check = |longest| SnapshotCheck::new(fixture.database.clone(), longest);
    let mut sql = fixture.sql().await;
    assert_eq!(look(&check(Duration::from_hours(1))).await, []);
    sql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_lane").await;
    let session: i32 = sql.one("SELECT pg_backend_pid()").await;
    assert_eq!(look(&check(Duration::from_hours(1))).await, [], "it is young");
    let found = look(&check(Duration::ZERO)).await;
    let held: Vec<_> = found.iter().filter(|finding| finding.subject.contains(&session.to_string())).collect();
    assert_eq!(held.len(), 1, "{found:?}");
    assert!(held[0].cure.contains(&format!("pg_terminate_backend({session})")), "{held:?}");
    sql.execute("ROLLBACK").await;
    let found = look(&check(Duration::ZERO)).await;
    assert!(!found.iter().any(|finding| finding.subject.contains(&session.to_string())), "{found:?}");
}

#[tokio::test]
async fn clocks_that_are_apart_are_found_with_direction() {
    let fixture = Fixture::new("clock").await;
    let there: time::OffsetDateTime = fixture.sql().await.one("SELECT clock_timestamp()").await;
    let clock = |at| -> Arc<dyn Clock> { Arc::new(FakeClock::at(at)) };
    let hour = Duration::from_hours(1);
    let check = |at| ClockCheck::new(fixture.database.clone(), clock(at), Duration::from_mins(30));
    assert_eq!(look(&check(there)).await, []);
    let (ahead, behind) = (look(&check(there - hour)).await, look(&check(there + hour)).await);
    assert!(ahead[0].problem.contains("s ahead of this process's"), "{ahead:?}");
    assert!(behind[0].problem.contains("s behind this process's"), "{behind:?}");
}

#[tokio::test]
async fn settings_that_contradict_what_is_promised_are_found() {
    let fixture = Fixture::new("settings").await;
    let check = |database: &Database, pool| ServerSettingsCheck::new(database.clone(), pool);
    assert_eq!(look(&check(&fixture.database, 10)).await, []);
    assert_eq!(subjects(&check(&fixture.database, 100_000)).await, ["database.pool.max_connections"]);
    let set = format!(
        "ALTER DATABASE \"{0}\" SET synchronous_commit = off; ALTER DATABASE \"{0}\" SET default_transaction_read_only = on",
        fixture.name()
    );
    fixture.sql().await.execute(&set).await;
    let database = Database::connect(&fixture.settings).await.expect("a pool");
    let mut found = subjects(&check(&database, 10)).await;
    found.sort();
    assert_eq!(found, ["default_transaction_read_only", "synchronous_commit"]);
}

#[tokio::test]
async fn a_permission_that_is_missing_is_found_no_relation_is_forgotten_and_the_cures_grant_all() {
    let fixture = Fixture::new("permissions").await;
    let mut sql = fixture.sql().await;
    let role = format!("role_of_{}", fixture.name());
    sql.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
    let mut url = url::Url::parse(fixture.url()).expect("a URL");
    url.set_username(&role).and_then(|()| url.set_password(Some("secret"))).expect("a URL with a user");
    let database = Database::connect(&settings_for(url.as_str())).await.expect("connected");
    let check = PermissionCheck::new(database.clone());
    let found = look(&check).await;
    let made = "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'S') AND starts_with(relname, 'outbox_') \
         AND relname <> 'outbox_audit_id_seq' ORDER BY 1";
    let made: Vec<String> = sql.rows(made).await.iter().map(|row| row.get(0)).collect();
    let missing: Vec<_> = made.iter().filter(|name| !found.iter().any(|finding| finding.subject == **name)).collect();
    assert!(missing.is_empty() && made.len() > 10, "{missing:?}");
    for Finding { cure, .. } in &found {
        sql.execute(cure).await;
    }
    assert_eq!(look(&check).await, []);
    sql.execute("REVOKE EXECUTE ON FUNCTION outbox_lead FROM PUBLIC").await;
    let found = look(&check).await;
    assert!(found.len() == 1 && found[0].subject.starts_with("outbox_lead("), "{found:?}");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    database.close().await;
    sql.execute(&format!("DROP OWNED BY {role}")).await;
    sql.execute(&format!("DROP ROLE {role}")).await;
}

/// A user of its own, made by `CREATE ROLE … LOGIN` with this behind it, and the check as it looks.
async fn check_of(world: &World, user: &str, more: &str) -> (PermissionCheck, Database) {
    let user = format!("{}_{user}", world.fixture.name());
    let mut sql = world.fixture.sql().await;
    sql.execute(&format!("CREATE ROLE {user} LOGIN PASSWORD 'secret' {more}")).await;
    let mut url = url::Url::parse(world.fixture.url()).expect("a URL");
    url.set_username(&user).and_then(|()| url.set_password(Some("secret"))).expect("a URL with a user");
    let database = Database::connect(&settings_for(url.as_str())).await.expect("connected");
    (PermissionCheck::new(database.clone()), database)
}

/// `IN ROLE` with the outbox's roles of these names.
fn members_of(world: &World, roles: &[&str]) -> String {
    let roles: Vec<_> = roles.iter().map(|role| format!("{}_{role}", world.fixture.name())).collect();
    format!("IN ROLE {}", roles.join(", "))
}

#[tokio::test]
async fn members_of_the_roles_lack_nothing_and_nor_does_the_owner() {
    let world = World::new("members").await;
    let mut users: Vec<Vec<&str>> = GROUPS.iter().map(|role| vec![*role]).collect();
    users.extend([vec!["owner"], vec!["appender", "relay", "consumer"], GROUPS.to_vec()]);
    for (n, roles) in users.iter().enumerate() {
        let (check, _) = check_of(&world, &format!("login_{n}"), &members_of(&world, roles)).await;
        assert_eq!(look(&check).await, [], "{roles:?}");
    }
    let superuser = PermissionCheck::new(world.fixture.database.clone());
    assert_eq!(look(&superuser.needing(&OutboxRole::ALL)).await, []);
}

#[tokio::test]
async fn what_a_role_lacks_is_found_and_the_cures_give_what_the_script_gave() {
    let world = World::new("lacking").await;
    let (mut sql, name) = (world.fixture.sql().await, world.fixture.name());
    let mut given = rights(&mut sql, name).await;
    given.retain(|(who, _), _| GROUPS.contains(&who.as_str()));
    for role in GROUPS {
        let (check, _) = check_of(&world, &format!("login_{role}"), &members_of(&world, &[role])).await;
        for objects in ["TABLES", "SEQUENCES", "FUNCTIONS"] {
            sql.execute(&format!("REVOKE ALL ON ALL {objects} IN SCHEMA public FROM {name}_{role}")).await;
        }
        let found = look(&check).await;
        let lacked = given.keys().filter(|(who, _)| who == role).count();
        assert_eq!(found.len(), lacked, "{role} lacks something on each of its objects: {found:#?}");
        assert!(found.iter().all(|finding| finding.problem.starts_with(&format!("the role {name}_{role} lacks "))));
        for Finding { cure, .. } in &found {
            sql.execute(cure).await;
        }
        assert_eq!(look(&check).await, [], "{role}");
    }
    let mut given_again = rights(&mut sql, name).await;
    given_again.retain(|(who, _), _| GROUPS.contains(&who.as_str()));
    assert_eq!(given_again, given, "no more and no less");
}

#[tokio::test]
async fn one_column_that_a_role_lacks_is_found_by_its_name() {
    let world = World::new("column").await;
    let (mut sql, name) = (world.fixture.sql().await, world.fixture.name());
    let (check, _) = check_of(&world, "login", &members_of(&world, &["relay"])).await;
    sql.execute(&format!("REVOKE UPDATE (last_error) ON outbox_event FROM {name}_relay")).await;
    let found = look(&check).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cure, format!("GRANT UPDATE (last_error) ON TABLE outbox_event TO {name}_relay"));
}

#[tokio::test]
async fn a_role_that_a_process_needs_and_its_user_has_not_got_is_found_and_the_cure_gives_it() {
    let world = World::new("needed").await;
    let (mut sql, name) = (world.fixture.sql().await, world.fixture.name());
    let (check, _) = check_of(&world, "login", &members_of(&world, &["appender"])).await;
    assert_eq!(look(&check).await, []);
    let check = check.needing(&[OutboxRole::Appender, OutboxRole::Relay, OutboxRole::Consumer]);
    let found = look(&check).await;
    let named: Vec<_> = found.iter().map(|finding| finding.subject.clone()).collect();
    assert_eq!(named, [format!("{name}_consumer"), format!("{name}_relay")], "{found:?}");
    assert_eq!(found[1].cure, format!("GRANT {name}_relay TO {name}_login"));
    for Finding { cure, .. } in &found {
        sql.execute(cure).await;
    }
    assert_eq!(look(&check).await, []);
}

#[tokio::test]
async fn a_member_that_does_not_inherit_is_found_and_the_cure_lets_it() {
    let world = World::new("inherit").await;
    let more = format!("NOINHERIT {}", members_of(&world, &["relay"]));
    let (check, _) = check_of(&world, "login", &more).await;
    let found = look(&check).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].cure.contains("INHERIT"), "{found:?}");
    world.fixture.sql().await.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
}

#[tokio::test]
async fn a_user_that_is_a_member_of_no_role_is_found_once_with_the_roles_that_there_are() {
    let world = World::new("nobody").await;
    let name = world.fixture.name();
    let (check, _) = check_of(&world, "login", "").await;
    let found = look(&check).await;
    assert_eq!((found.len(), found[0].subject.as_str()), (1, format!("{name}_login").as_str()), "{found:?}");
    for role in GROUPS {
        assert!(found[0].cure.contains(&format!("{name}_{role}")), "{found:?}");
    }
}

#[tokio::test]
async fn a_look_that_a_role_has_no_right_to_is_forbidden_and_no_failure() {
    let world = World::new("forbidden").await;
    let (_, database) = check_of(&world, "login", &members_of(&world, &["appender"])).await;
    let lanes = LaneCheck::new(OutboxEventRepository::new(database.clone())).look().await;
    assert!(matches!(lanes, Err(StoreError::Forbidden { .. })), "{lanes:?}");
    let routing = RoutingCheck::new(database).look().await;
    assert!(matches!(routing, Err(StoreError::Forbidden { .. })), "{routing:?}");
}

#[tokio::test]
async fn returned_events_are_found_by_kind_until_they_are_resolved() {
    let fixture = Fixture::new("routing").await;
    let check = RoutingCheck::new(fixture.database.clone());
    fixture.append(&[event_of("order", "a"), event_of("order", "b"), event_of("invoice", "c")]).await;
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    sql.execute("UPDATE outbox_event SET status = 'FAILED', attempts = 1, last_error = 'unroutable: NO_ROUTE'").await;
    sql.execute("UPDATE outbox_event SET last_error = 'rejected: full' WHERE aggregate_id = 'b'").await;
    let found = look(&check).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|finding| finding.problem == "1 event was returned: no queue is bound for it"),
        "{found:?}"
    );
    sql.execute(
        "UPDATE outbox_event SET status = 'DEAD', resolved_at = statement_timestamp(), resolution = 'discarded'",
    )
    .await;
    assert_eq!(look(&check).await, []);
}
