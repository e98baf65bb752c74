-- Operate: what a person does to one event or one aggregate type.
--
-- Each function locks the event's lane first, or creates it, and changes the event under that lock. If the lane is
-- leased, lowering its floor is enough: when the lease ends, the lane's head is looked for from the floor again.
-- Each returns false when the event is not in the state that the change starts from.

-- Locks or creates the lane of an event that is or was open, makes it due, and lets it start no later than the event.
CREATE FUNCTION outbox_open_lane(p_lane bigint, p_sequence bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_lane AS l (lane, floor, due_at) VALUES (p_lane, p_sequence, statement_timestamp())
    ON CONFLICT (lane) DO UPDATE
       SET floor = least(l.floor, excluded.floor),
           due_at = CASE WHEN l.token IS NULL THEN statement_timestamp() END,
           expiries = CASE WHEN l.token IS NULL THEN 0 ELSE l.expiries END;
END $$;

-- DEAD (resolved or not) -> PENDING, with its attempts to come again.
CREATE FUNCTION outbox_requeue(p_id uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM outbox_open_lane(e.lane, e.sequence) FROM outbox_event e WHERE e.id = p_id AND e.status = 'DEAD';
    UPDATE outbox_event e SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, resolved_at = NULL, resolution = NULL
     WHERE e.id = p_id AND e.status = 'DEAD';
    RETURN FOUND;
END $$;

-- DEAD -> DEAD and resolved: it will never be sent, and its lane goes on.
CREATE FUNCTION outbox_discard(p_id uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM outbox_open_lane(e.lane, e.sequence) FROM outbox_event e
      WHERE e.id = p_id AND e.status = 'DEAD' AND e.resolved_at IS NULL;
    UPDATE outbox_event e SET resolved_at = statement_timestamp(), resolution = 'discarded'
     WHERE e.id = p_id AND e.status = 'DEAD' AND e.resolved_at IS NULL;
    RETURN FOUND;
END $$;

-- PUBLISHED -> PENDING: sent once more, ahead of what is open in its lane.
CREATE FUNCTION outbox_replay(p_id uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM outbox_open_lane(e.lane, e.sequence) FROM outbox_event e WHERE e.id = p_id AND e.status = 'PUBLISHED';
    UPDATE outbox_event e
       SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, last_error = NULL, published_at = NULL, replays = e.replays + 1
     WHERE e.id = p_id AND e.status = 'PUBLISHED';
    RETURN FOUND;
END $$;

-- From its commit on no claim takes an event of this type; what is in flight finishes.
CREATE FUNCTION outbox_pause(p_aggregate_type text, p_reason text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_pause (aggregate_type, reason) VALUES (p_aggregate_type, p_reason) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Lifts a pause and makes due the parked lanes whose head is of that type.
-- Deleting the row waits for the claims that still saw it (they hold it FOR SHARE), so the lanes they parked are seen here.
CREATE FUNCTION outbox_resume(p_aggregate_type text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_parked bigint[];
BEGIN
    DELETE FROM outbox_pause p WHERE p.aggregate_type = p_aggregate_type;
    IF NOT FOUND THEN
        RETURN false;
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
