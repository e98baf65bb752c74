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
    -- Of a pause or a resume; the empty text is everything. Of an unparking with the aggregate's id.
    aggregate_type text,
    aggregate_id   text,
    -- Whose records were forgotten, or whose parked message alone was given up.
    consumer       text,
    -- The events that were changed, as far as the action changes single ones.
    events         uuid[]          NOT NULL DEFAULT '{}',
    -- Events, lanes, pauses, records of the inbox or aggregates that were changed.
    affected       bigint          NOT NULL,
    CONSTRAINT outbox_audit_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_audit_action_check CHECK (
        action IN ('requeue', 'discard', 'replay', 'pause', 'resume', 'purge', 'repair', 'forget', 'unpark', 'discard_parked')),
    CONSTRAINT outbox_audit_affected_check CHECK (affected > 0)
);

-- What was done to one event.
CREATE INDEX outbox_audit_events ON outbox_audit USING gin (events);

CREATE FUNCTION outbox_record(
    p_operator text, p_reason text, p_action text, p_affected bigint, p_events uuid[] DEFAULT '{}', p_aggregate_type text DEFAULT NULL,
    p_aggregate_id text DEFAULT NULL, p_consumer text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_audit (operator, reason, action, affected, events, aggregate_type, aggregate_id, consumer)
    SELECT p_operator, p_reason, p_action, p_affected, p_events, p_aggregate_type, p_aggregate_id, p_consumer WHERE p_affected > 0;
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

-- DEAD -> PENDING, with its attempts to come again. p_resolved: also what was discarded or skipped, as whoever names an
-- event may want. Whoever took a list of what is unresolved does not: an event that was resolved since is left alone, which
-- only the look under the lane's lock can tell.
CREATE FUNCTION outbox_requeue(
    p_events uuid[], p_operator text, p_reason text DEFAULT NULL, p_resolved boolean DEFAULT true) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_events uuid[] := ARRAY(
        SELECT e.id FROM outbox_event e
         WHERE e.id = ANY (p_events) AND e.status = 'DEAD' AND (p_resolved OR e.resolved_at IS NULL));
BEGIN
    PERFORM outbox_open_lanes(v_events);
    WITH changed AS (
        UPDATE outbox_event e SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, resolved_at = NULL, resolution = NULL
         WHERE e.id = ANY (v_events) AND e.status = 'DEAD' AND (p_resolved OR e.resolved_at IS NULL) RETURNING e.id
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
-- A type whose resume is not finished yet is paused anew. False: it is paused. Such a row is not even locked: a claim takes
-- a pause that is locked for one that is being lifted (outbox_paused_types).
CREATE FUNCTION outbox_pause(p_aggregate_type text, p_operator text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    LOOP  -- once more if the pause that was met goes meanwhile
        INSERT INTO outbox_pause (aggregate_type, operator, reason) VALUES (p_aggregate_type, p_operator, p_reason)
        ON CONFLICT (aggregate_type) DO NOTHING;
        EXIT WHEN FOUND;
        UPDATE outbox_pause p
           SET paused_at = statement_timestamp(), operator = p_operator, reason = p_reason, resumed_at = NULL
         WHERE p.aggregate_type = p_aggregate_type AND p.resumed_at IS NOT NULL;
        EXIT WHEN FOUND;
        IF EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type AND p.resumed_at IS NULL) THEN
            RETURN false;
        END IF;
    END LOOP;
    PERFORM outbox_record(p_operator, p_reason, 'pause', 1, p_aggregate_type => p_aggregate_type);
    RETURN true;
END $$;

-- Lifts a pause. The pause of everything has parked no lane and goes; that of a type stays on record, without effect, until
-- outbox_wake_parked has been through all lanes. False: there is none.
-- Locking the row waits for the claims that still saw the pause (they hold it FOR SHARE), so the lanes that they parked
-- are seen afterwards, and no further one is parked.
CREATE FUNCTION outbox_resume(p_aggregate_type text, p_operator text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_pause outbox_pause;
BEGIN
    SELECT p.* INTO v_pause FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_aggregate_type = '' THEN
        DELETE FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type;
    ELSIF v_pause.resumed_at IS NOT NULL THEN
        RETURN true;  -- an earlier resume was interrupted: it is recorded, and goes on
    ELSE
        UPDATE outbox_pause p SET resumed_at = statement_timestamp() WHERE p.aggregate_type = p_aggregate_type;
    END IF;
    PERFORM outbox_record(p_operator, p_reason, 'resume', 1, p_aggregate_type => p_aggregate_type);
    RETURN true;
END $$;

-- Looks at up to p_lanes lanes behind p_after (NULL: from the first) and makes due those that are parked with a head of a
-- type that was resumed. Returns the last lane that was looked at, or NULL when there is nothing left to look at, or to
-- resume; then the pause is gone. Each call is a short transaction of its own, whatever the number of lanes.
CREATE FUNCTION outbox_wake_parked(p_aggregate_type text, p_after bigint, p_lanes int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_seen bigint[];
    v_parked bigint[];
BEGIN
    PERFORM FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type AND p.resumed_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;  -- paused anew, or done by somebody else
    END IF;
    v_seen := ARRAY(
        SELECT l.lane FROM outbox_lane l WHERE p_after IS NULL OR l.lane > p_after ORDER BY l.lane LIMIT p_lanes);
    v_parked := ARRAY(
        SELECT l.lane FROM outbox_lane l
         CROSS JOIN LATERAL (
               SELECT e.aggregate_type, e.status FROM outbox_event e
                WHERE e.published_at IS NULL AND e.resolved_at IS NULL
                  AND (e.lane, e.sequence) >= (l.lane, l.floor) AND (e.lane, e.sequence) <= (l.lane, 9223372036854775807)
                ORDER BY e.lane, e.sequence LIMIT 1) h
         WHERE l.lane = ANY (v_seen) AND l.token IS NULL AND l.due_at IS NULL
           AND h.aggregate_type = p_aggregate_type AND h.status <> 'DEAD'
         ORDER BY l.lane FOR UPDATE OF l);
    UPDATE outbox_lane l SET due_at = statement_timestamp()
     WHERE l.lane = ANY (v_parked) AND l.token IS NULL AND l.due_at IS NULL;
    IF cardinality(v_seen) < p_lanes THEN
        DELETE FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type AND p.resumed_at IS NOT NULL;
        RETURN NULL;
    END IF;
    RETURN v_seen[p_lanes];
END $$;
