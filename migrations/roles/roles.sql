-- Roles: a group for each part of the system, without login and without password. A team makes its logins members.
--
-- Run it before the first migration, or later, as somebody who may create roles and owns the schema (a superuser, or the
-- database's owner with CREATEROLE). A second run changes nothing. `grants.sql` then says what each role may do.
--
-- It works in the first schema of search_path. Roles belong to the whole cluster, and a member of outbox_relay is one for
-- every outbox there: a second outbox needs a prefix of its own.
--   PGOPTIONS='-c search_path=billing -c outbox.role_prefix=billing_outbox_' psql "$ADMIN_URL" -f migrations/roles/roles.sql
DO $$
DECLARE
    c_longest CONSTANT int := 63 - octet_length('appender');
    v_prefix CONSTANT text := coalesce(nullif(current_setting('outbox.role_prefix', true), ''), 'outbox_');
    v_owner CONSTANT text := v_prefix || 'owner';
    v_schema CONSTANT oid := (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema());
    v_role text;
    v_object record;
BEGIN
    IF octet_length(v_prefix) > c_longest THEN
        RAISE EXCEPTION 'outbox.role_prefix has % bytes, at most % are possible', octet_length(v_prefix), c_longest
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- It is quoted wherever it stands; a name that needs quotes is a mistake, or somebody's attempt.
    IF v_prefix !~ '^[a-z_][a-z0-9_]*$' THEN
        RAISE EXCEPTION 'outbox.role_prefix must be lower-case letters, digits and underscores, it is %', v_prefix
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOREACH v_role IN ARRAY ARRAY['owner', 'appender', 'relay', 'consumer', 'operator', 'reader'] LOOP
        v_role := v_prefix || v_role;
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = v_role) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- somebody else's run has made it meanwhile
        END;
        IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = v_role AND (r.rolcanlogin OR r.rolsuper OR r.rolbypassrls)) THEN
            RAISE EXCEPTION 'the role % can log in or passes by rights: it is no group', v_role
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Choose another outbox.role_prefix.';
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), v_role);
    END LOOP;
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO %I', current_schema(), v_owner);
    -- Before PostgreSQL 15 everybody may create objects in public, and so put them in the way of the owner's functions.
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());

    -- What was migrated before, by somebody else: the functions of operators run with the rights of their owner.
    FOR v_object IN
        SELECT format('TABLE %s', c.oid::regclass) AS name FROM pg_class c
         WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p', 'v', 'S')
           AND (starts_with(c.relname, 'outbox_') OR c.relname = 'app_schema_history')
           AND c.relowner <> v_owner::regrole
           -- The sequence of an identity column goes with its table.
           AND NOT EXISTS (SELECT FROM pg_depend d
                            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
         UNION ALL
        SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
         WHERE p.pronamespace = v_schema AND starts_with(p.proname, 'outbox_') AND p.proowner <> v_owner::regrole
         UNION ALL
        SELECT format('TYPE %s', t.oid::regtype) FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
         WHERE t.typnamespace = v_schema AND starts_with(t.typname, 'outbox_') AND t.typowner <> v_owner::regrole
           AND (t.typtype = 'd' OR c.relkind = 'c')
    LOOP
        EXECUTE format('ALTER %s OWNER TO %I', v_object.name, v_owner);
    END LOOP;
END $$;
