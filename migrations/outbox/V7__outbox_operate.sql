-- Operate: what a person does to events and aggregate types, and the record of it.

-- As in outbox_event: the core's bounds (bounds.rs), and names that say them.
CREATE DOMAIN outbox_operator AS text
    CONSTRAINT operator_has_1_to_100_bytes CHECK (octet_length(VALUE) BETWEEN 1 AND 100)
    CONSTRAINT operator_has_no_control_character CHECK (VALUE !~ '[\u0001-\u001f\u007f-\u009f]');

CREATE DOMAIN outbox_reason AS text
    CONSTRAINT reason_has_1_to_500_bytes CHECK (octet_length(VALUE) BETWEEN 1 AND 500)
    CONSTRAINT reason_has_no_control_character CHECK (VALUE !~ '[\u0001-\u001f\u007f-\u009f]');

-- Who changed what, when and why. A row is written by the function that makes the change, in the same transaction, and
-- only if anything changed. Nothing removes rows: there is one for each batch of an operator's commands.
CREATE TABLE outbox_audit (
    id             bigint          NOT NULL GENERATED ALWAYS AS IDENTITY,
    acted_at       timestamptz     NOT NULL DEFAULT statement_timestamp(),
    operator       outbox_operator NOT NULL,
    reason         outbox_reason,
    action         text            NOT NULL,
    -- Of a pause or a resume; the empty text is everything.
    aggregate_type text,
    -- The events that were changed, as far as the action changes single ones.
    events         uuid[]          NOT NULL DEFAULT '{}',
    -- Events, lanes or pauses that were changed.
    affected       bigint          NOT NULL,
    CONSTRAINT outbox_audit_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_audit_action_check CHECK (
        action IN ('requeue', 'discard', 'replay', 'pause', 'resume', 'purge', 'repair')),
    CONSTRAINT outbox_audit_affected_check CHECK (affected > 0)
);

-- What was done to one event.
CREATE INDEX outbox_audit_events ON outbox_audit USING gin (events);

CREATE FUNCTION outbox_record(
    p_operator text, p_reason text, p_action text, p_affected bigint, p_events uuid[] DEFAULT '{}', p_aggregate_type text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_audit (operator, reason, action, affected, events, aggregate_type)
    SELECT p_operator, p_reason, p_action, p_affected, p_events, p_aggregate_type WHERE p_affected > 0;
END $$;

-- Each of the next three functions takes the events that are in the state that the change starts from, locks their lanes in
-- order, or creates them, and changes the events under these locks. If a lane is leased, lowering its floor is enough:
-- when the lease ends, the lane's head is looked for from the floor again. Each returns the events that it changed.

-- Locks or creates the lanes of events that are or were open, makes them due, and lets them start no later than the events.
CREATE FUNCTION outbox_open_lanes(p_events uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_first record;
BEGIN
    FOR v_first IN
        SELECT e.lane, min(e.sequence) AS sequence FROM outbox_event e WHERE e.id = ANY (p_events) GROUP BY e.lane ORDER BY e.lane
    LOOP
        INSERT INTO outbox_lane AS l (lane, floor, due_at) VALUES (v_first.lane, v_first.sequence, statement_timestamp())
        ON CONFLICT (lane) DO UPDATE
           SET floor = least(l.floor, excluded.floor),
               due_at = CASE WHEN l.token IS NULL THEN statement_timestamp() END,
               expiries = CASE WHEN l.token IS NULL THEN 0 ELSE l.expiries END;
    END LOOP;
END $$;

-- DEAD (resolved or not) -> PENDING, with its attempts to come again.
CREATE FUNCTION outbox_requeue(p_events uuid[], p_operator text, p_reason text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_events uuid[] := ARRAY(SELECT e.id FROM outbox_event e WHERE e.id = ANY (p_events) AND e.status = 'DEAD');
BEGIN
    PERFORM outbox_open_lanes(v_events);
    WITH changed AS (
        UPDATE outbox_event e SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, resolved_at = NULL, resolution = NULL
         WHERE e.id = ANY (v_events) AND e.status = 'DEAD' RETURNING e.id
    ) SELECT ARRAY(SELECT c.id FROM changed c) INTO v_events;
    PERFORM outbox_record(p_operator, p_reason, 'requeue', cardinality(v_events), v_events);
    RETURN QUERY SELECT unnest(v_events);
END $$;

-- DEAD -> DEAD and resolved: it will never be sent, and its lane goes on.
CREATE FUNCTION outbox_discard(p_events uuid[], p_operator text, p_reason text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_events uuid[] := ARRAY(
        SELECT e.id FROM outbox_event e WHERE e.id = ANY (p_events) AND e.status = 'DEAD' AND e.resolved_at IS NULL);
BEGIN
    PERFORM outbox_open_lanes(v_events);
    WITH changed AS (
        UPDATE outbox_event e SET resolved_at = statement_timestamp(), resolution = 'discarded'
         WHERE e.id = ANY (v_events) AND e.status = 'DEAD' AND e.resolved_at IS NULL RETURNING e.id
    ) SELECT ARRAY(SELECT c.id FROM changed c) INTO v_events;
    PERFORM outbox_record(p_operator, p_reason, 'discard', cardinality(v_events), v_events);
    RETURN QUERY SELECT unnest(v_events);
END $$;

-- PUBLISHED -> PENDING: sent once more, ahead of what is open in its lane.
CREATE FUNCTION outbox_replay(p_events uuid[], p_operator text, p_reason text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_events uuid[] := ARRAY(SELECT e.id FROM outbox_event e WHERE e.id = ANY (p_events) AND e.status = 'PUBLISHED');
BEGIN
    PERFORM outbox_open_lanes(v_events);
    WITH changed AS (
        UPDATE outbox_event e
           SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, last_error = NULL, published_at = NULL, replays = e.replays + 1
         WHERE e.id = ANY (v_events) AND e.status = 'PUBLISHED' RETURNING e.id
    ) SELECT ARRAY(SELECT c.id FROM changed c) INTO v_events;
    PERFORM outbox_record(p_operator, p_reason, 'replay', cardinality(v_events), v_events);
    RETURN QUERY SELECT unnest(v_events);
END $$;

-- From its commit on no claim takes an event of this type (the empty text: of any); what is in flight finishes.
CREATE FUNCTION outbox_pause(p_aggregate_type text, p_operator text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_pause (aggregate_type, operator, reason) VALUES (p_aggregate_type, p_operator, p_reason)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox_record(p_operator, p_reason, 'pause', 1, p_aggregate_type => p_aggregate_type);
    RETURN true;
END $$;

-- Lifts a pause and makes due the parked lanes whose head is of that type. The pause of everything has parked none.
-- Deleting the row waits for the claims that still saw it (they hold it FOR SHARE), so the lanes they parked are seen here.
CREATE FUNCTION outbox_resume(p_aggregate_type text, p_operator text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_parked bigint[];
BEGIN
    DELETE FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM outbox_record(p_operator, p_reason, 'resume', 1, p_aggregate_type => p_aggregate_type);
    IF p_aggregate_type = '' THEN
        RETURN true;
    END IF;
    v_parked := ARRAY(
        SELECT l.lane FROM outbox_lane l
         CROSS JOIN LATERAL (
               SELECT e.aggregate_type, e.status FROM outbox_event e
                WHERE e.published_at IS NULL AND e.resolved_at IS NULL
                  AND (e.lane, e.sequence) >= (l.lane, l.floor) AND (e.lane, e.sequence) <= (l.lane, 9223372036854775807)
                ORDER BY e.lane, e.sequence LIMIT 1) h
         WHERE l.token IS NULL AND l.due_at IS NULL AND h.aggregate_type = p_aggregate_type AND h.status <> 'DEAD'
         ORDER BY l.lane FOR UPDATE OF l);
    UPDATE outbox_lane l SET due_at = statement_timestamp()
     WHERE l.lane = ANY (v_parked) AND l.token IS NULL AND l.due_at IS NULL;
    RETURN true;
END $$;
