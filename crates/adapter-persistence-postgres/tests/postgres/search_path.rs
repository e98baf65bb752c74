//! What our functions' names mean does not depend on the session that calls them.

use sqlx::Row;

use super::support::{Fixture, Sql, fresh_id};

/// A schema with a table for each of our tables, and functions and operators that lie or fail, to be searched before
/// everything else.
const HOSTILE: &str = "CREATE SCHEMA hostile; \
     DO $$ \
     DECLARE \
         v_name text; \
         v_types text; \
     BEGIN \
         FOR v_name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND starts_with(relname, 'outbox_') LOOP \
             EXECUTE format('CREATE TABLE hostile.%I (LIKE public.%I)', v_name, v_name); \
         END LOOP; \
         FOR v_name, v_types IN \
             SELECT p.proname, oidvectortypes(p.proargtypes) FROM pg_proc p \
              WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, 'outbox_') \
         LOOP \
             EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS bigint LANGUAGE plpgsql AS $f$ \
                             BEGIN RAISE EXCEPTION ''the hostile %% was called'', %L; END $f$', v_name, v_types, v_name); \
         END LOOP; \
         FOREACH v_name IN ARRAY ARRAY['bigint', 'text', 'uuid', 'timestamptz', 'int'] LOOP \
             EXECUTE format('CREATE FUNCTION hostile.never(%1$s, %1$s) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN false; \
                             CREATE OPERATOR hostile.= (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = hostile.never); \
                             CREATE OPERATOR hostile.<= (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = hostile.never); \
                             CREATE OPERATOR hostile.<> (LEFTARG = %1$s, RIGHTARG = %1$s, FUNCTION = hostile.never)', v_name); \
         END LOOP; \
     END $$; \
     CREATE FUNCTION hostile.statement_timestamp() RETURNS timestamptz LANGUAGE sql RETURN timestamptz '2000-01-01'; \
     CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql RETURN timestamptz '2000-01-01'; \
     CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql RETURN 1; \
     CREATE FUNCTION hostile.set_config(text, text, boolean) RETURNS text LANGUAGE sql RETURN 'yes'; \
     CREATE FUNCTION hostile.cardinality(uuid[]) RETURNS int LANGUAGE sql RETURN 0; \
     GRANT USAGE ON SCHEMA hostile TO PUBLIC; \
     GRANT ALL ON ALL TABLES IN SCHEMA hostile TO PUBLIC";

/// Looks for everything in that schema first.
pub(crate) const IN_FRONT: &str = "SET search_path = hostile, pg_catalog, public";

pub(crate) async fn plant_hostile_schema(sql: &mut Sql) {
    sql.execute(HOSTILE).await;
}

/// Rows that were written to the tables of that schema.
pub(crate) async fn rows_of_the_hostile_schema(sql: &mut Sql) -> i64 {
    let tables = "SELECT 'SELECT sum(n)::bigint FROM (' || string_agg(format('SELECT count(*) n FROM hostile.%I', relname), ' UNION ALL ') \
         || ') x' FROM pg_class WHERE relkind = 'r' AND relnamespace = 'hostile'::regnamespace";
    let count: String = sql.one(tables).await;
    sql.one(&count).await
}

#[tokio::test]
async fn every_function_says_where_its_names_are_looked_up_or_has_them_settled() {
    let fixture = Fixture::new("search-path").await;
    let open = "SELECT p.proname::text FROM pg_proc p \
         WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, 'outbox_') AND p.prosqlbody IS NULL \
           AND NOT 'search_path=public, pg_temp' = ANY (coalesce(p.proconfig, '{}'))";
    let open: Vec<String> = fixture.sql().await.rows(open).await.iter().map(|row| row.get(0)).collect();
    assert_eq!(open, Vec::<String>::new());
}

#[tokio::test]
async fn a_hostile_schema_in_front_of_the_others_changes_nothing_of_what_the_functions_do() {
    let fixture = Fixture::new("hostile").await;
    let mut session = fixture.sql().await;
    plant_hostile_schema(&mut session).await;
    session.execute(IN_FRONT).await;
    let id = fresh_id();
    let insert = format!(
        "INSERT INTO public.outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('{id}', 'order', 'a', 'e', '[[1]]')"
    );
    session.execute(&insert).await;
    fixture.assert_lanes_are_sound().await;
    let deep = "SELECT public.outbox_json_is_deeper('[[[1]]]', 2), public.outbox_json_is_deeper('[[1]]', 2)";
    let deep = session.rows(deep).await;
    assert_eq!((deep[0].get::<bool, _>(0), deep[0].get::<bool, _>(1)), (true, false));

    let token = fresh_id();
    let claim = format!("SELECT lane FROM public.outbox_claim('{token}', 'relay', '1 min', 10, 10, 10, 1000)");
    let lane: i64 = session.one(&claim).await;
    let failed = format!(
        "SELECT events FROM public.outbox_fail('{token}', '{{{lane}}}', '{{}}', '{{{id}}}', '{{block}}', '{{no}}', '{{0}}')"
    );
    assert_eq!(session.one::<i32>(&failed).await, 1);
    assert_eq!(fixture.status(id).await, "DEAD");
    for action in ["discard", "requeue"] {
        session.execute(&format!("SELECT public.outbox_{action}('{{{id}}}', 'tester')")).await;
    }
    assert_eq!(fixture.status(id).await, "PENDING");
    assert_eq!(session.one::<i64>(&claim.replace(&token.to_string(), &fresh_id().to_string())).await, lane);

    let mut other = fixture.sql().await;
    assert_eq!(rows_of_the_hostile_schema(&mut other).await, 0);
    assert_eq!(other.one::<i64>("SELECT count(*) FROM outbox_audit").await, 2);
    fixture.assert_lanes_are_sound().await;
}
