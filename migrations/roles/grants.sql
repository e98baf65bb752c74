-- Grants: what each role of `roles.sql` may do. docs/security.md explains the table.
--
-- Run it after every migration, before the processes of the new release start, as the owner (or a superuser). It takes all
-- rights away and gives those below, in one transaction: a second run changes nothing, and nobody sees a moment between.
--   PGOPTIONS='-c search_path=billing -c outbox.role_prefix=billing_outbox_' psql "$OWNER_URL" -f migrations/roles/grants.sql
DO $$
DECLARE
    v_prefix CONSTANT text := coalesce(nullif(current_setting('outbox.role_prefix', true), ''), 'outbox_');
    v_schema CONSTANT regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'outbox_event'::regclass);
    v_roles text;
    v_object text;
    v_right record;
BEGIN
    IF EXISTS (SELECT FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = 'outbox_event'::regclass AND r.rolsuper) THEN
        RAISE EXCEPTION 'the outbox belongs to a superuser, and the functions of operators would run as one'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Run roles.sql, which gives it to its owner.';
    END IF;

    SELECT string_agg(format('%I', v_prefix || name), ', ') INTO v_roles
      FROM unnest(ARRAY['appender', 'relay', 'consumer', 'operator', 'reader']) name;
    FOR v_object IN
        SELECT format('%s %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass) FROM pg_class c
         WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p', 'v', 'S') AND starts_with(c.relname, 'outbox_')
         UNION ALL
        SELECT format('FUNCTION %s', p.oid::regprocedure) FROM pg_proc p
         WHERE p.pronamespace = v_schema AND starts_with(p.proname, 'outbox_')
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, %s', v_object, v_roles);
    END LOOP;

    FOR v_right IN
        SELECT role, r.rights, r.object
          FROM (VALUES
            -- Every process looks at start, and for readiness, which migrations there are.
            ('appender relay consumer operator reader', 'SELECT (version)', 'TABLE outbox_schema_history'),
            ('appender relay consumer operator reader', 'SELECT (version)', 'TABLE app_schema_history'),

            -- The append: a lane is locked by an upsert that changes nothing, and the event's other columns have their defaults.
            ('appender', 'INSERT (id, sequence, aggregate_type, aggregate_id, event_type, payload, headers), SELECT (id, sequence)',
                         'TABLE outbox_event'),
            ('appender', 'INSERT (lane, floor, due_at), SELECT (lane, floor), UPDATE (floor)', 'TABLE outbox_lane'),
            ('appender', 'SELECT, USAGE', 'SEQUENCE outbox_event_sequence'),
            ('appender', 'EXECUTE', 'FUNCTION outbox_lane_of, outbox_json_is_deeper'),

            -- The relay: claim, publish, settle, reap, clean up, lead, watch. What an event says it may read, and not change.
            ('relay', 'SELECT, UPDATE (status, attempts, next_attempt_at, published_at, last_error, resolved_at, resolution), DELETE',
                      'TABLE outbox_event'),
            ('relay', 'SELECT, UPDATE, DELETE', 'TABLE outbox_lane'),
            ('relay', 'SELECT, INSERT, UPDATE, DELETE', 'TABLE outbox_claim'),
            -- Locking a row (FOR UPDATE, FOR SHARE) asks for the right to update some column of it.
            ('relay', 'SELECT, INSERT, UPDATE (next_look_at), DELETE', 'TABLE outbox_due_floor'),
            ('relay', 'SELECT, UPDATE (paused_at)', 'TABLE outbox_pause'),
            ('relay', 'SELECT, UPDATE (processed_at), DELETE', 'TABLE outbox_inbox'),
            ('relay', 'SELECT, INSERT, UPDATE', 'TABLE outbox_leader, outbox_retention'),
            ('relay', 'SELECT, INSERT, UPDATE, DELETE', 'TABLE outbox_relay'),
            ('relay', 'EXECUTE', 'FUNCTION outbox_claim, outbox_claim_overdue, outbox_due_from, outbox_lease_lanes, '
                                 'outbox_paused_types, outbox_wait_for_lane'),
            ('relay', 'EXECUTE', 'FUNCTION outbox_acknowledge, outbox_fail, outbox_fail_events, outbox_free_lanes, '
                                 'outbox_free_postponed, outbox_lock_leases, outbox_release, outbox_renew, '
                                 'outbox_lanes_to_settle, outbox_settle_events, outbox_stale, outbox_take_leases'),
            ('relay', 'EXECUTE', 'FUNCTION outbox_reap, outbox_kill_expired_heads, outbox_cleanup, outbox_delete_published, '
                                 'outbox_lead, outbox_resign'),
            ('relay', 'EXECUTE', 'FUNCTION outbox_statistics'),
            ('relay', 'EXECUTE', 'FUNCTION outbox_report, outbox_withdraw, outbox_forget_relays'),

            -- The consumer: which events it has handled, in the transaction of their effects, and which it has parked.
            ('consumer', 'INSERT (consumer, event_id)', 'TABLE outbox_inbox'),
            ('consumer', 'SELECT, INSERT (consumer, aggregate_type, aggregate_id, event_id, reason), DELETE', 'TABLE outbox_inbox_parked'),

            -- Lists and figures, without payload and headers.
            ('operator reader', 'SELECT (id, sequence, lane, aggregate_type, aggregate_id, event_type, payload_bytes, status, '
                                'attempts, next_attempt_at, created_at, published_at, last_error, resolved_at, resolution, replays)',
                                'TABLE outbox_event'),
            ('operator reader', 'SELECT (id, sequence, lane, aggregate_type, aggregate_id, event_type, payload_bytes, status, '
                                'attempts, created_at, published_at, last_error, resolved_at, resolution, replays, '
                                'holder, claimed_at, lease_expires_at, expiries, due_at, blocked_behind)', 'TABLE outbox_event_state'),
            ('operator reader', 'SELECT', 'TABLE outbox_lane, outbox_claim, outbox_leader, outbox_pause, outbox_relay, outbox_doctor, '
                                          'outbox_retention'),
            ('operator reader', 'EXECUTE', 'FUNCTION outbox_lane_of, outbox_statistics'),

            -- The operator changes events by the functions that leave a record, and by nothing else.
            ('operator', 'EXECUTE', 'FUNCTION outbox_requeue, outbox_discard, outbox_replay, outbox_pause, outbox_resume, '
                                    'outbox_wake_parked, outbox_purge, outbox_repair_lanes, outbox_forget, outbox_record_unpark'),
            ('operator', 'SELECT', 'TABLE outbox_audit'),
            ('operator', 'SELECT', 'TABLE outbox_inbox, outbox_inbox_parked')
          ) r (roles, rights, object)
         CROSS JOIN LATERAL string_to_table(r.roles, ' ') role
         WHERE r.object <> 'TABLE app_schema_history' OR to_regclass('app_schema_history') IS NOT NULL
    LOOP
        EXECUTE format('GRANT %s ON %s TO %I', v_right.rights, v_right.object, v_prefix || v_right.role);
    END LOOP;

    -- They run with the owner's rights, so that an operator has none on the tables and no change goes unrecorded. Where
    -- names are looked up is fixed: a caller's own objects are not found.
    FOREACH v_object IN ARRAY ARRAY[
        'outbox_requeue', 'outbox_discard', 'outbox_replay', 'outbox_pause', 'outbox_resume',
        'outbox_wake_parked', 'outbox_purge', 'outbox_repair_lanes', 'outbox_forget', 'outbox_record_unpark']
    LOOP
        EXECUTE format('ALTER FUNCTION %s.%I SECURITY DEFINER SET search_path = %s, pg_temp', v_schema, v_object, v_schema);
    END LOOP;
END $$;
