-- Claim: lease lanes that are due and hand out the run of each.
--
-- These functions are VOLATILE, so every statement in them has a snapshot of its own: lanes are locked by one
-- statement, and their events are read by a later one, which sees all that was committed before the lock was granted.
-- Planner settings stand on the functions: on the session they would leak through a connection pooler.

-- Types that are paused now. The rows stay share-locked, so that a resume waits for the claims that still saw the pause
-- and finds the lanes that they park. A pause that is being lifted at this moment (its row is locked) counts as lifted.
CREATE FUNCTION outbox_paused_types() RETURNS text[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    RETURN ARRAY(SELECT p.aggregate_type FROM outbox_pause p WHERE p.resumed_at IS NULL FOR SHARE SKIP LOCKED);
END $$;

-- Leases the given lanes, which the caller has locked, and returns their runs. While a row is locked its ctid stands
-- still, and is the cheapest way back to it.
-- A run is the lane's open events from its floor up to p_run events, the first DEAD one, the first that is not yet due
-- and the first of a paused type. All runs together hold at most p_events events and p_bytes of payload, but at least
-- one event. A lane that is out of room stays due. A lane whose head is not to be sent is moved out of the way.
CREATE FUNCTION outbox_lease_lanes(
    p_token uuid, p_holder text, p_lease interval, p_rows tid[], p_lanes bigint[], p_floors bigint[], p_expiries int[],
    p_run int, p_events int, p_bytes bigint)
RETURNS TABLE (
    lane bigint, sequence bigint, id uuid, aggregate_type text, aggregate_id text, event_type text,
    payload text, headers text, attempts int, replays int, created_at timestamptz, expiries int)
LANGUAGE plpgsql VOLATILE ROWS 500
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    c_suspect_expiries CONSTANT int := 3;  -- from here on the run is the head alone: it may be what kills the relay
    v_paused text[] := outbox_paused_types();
BEGIN
    RETURN QUERY
    WITH found AS MATERIALIZED (  -- lane by lane, until p_events rows are read; no row for a lane: its columns are NULL
        SELECT w.row, w.lane, w.position, w.expiries, e.*
          FROM unnest(p_rows, p_lanes, p_floors, p_expiries) WITH ORDINALITY AS w (row, lane, floor, expiries, position)
          LEFT JOIN LATERAL (
               SELECT o.sequence, o.id, o.aggregate_type, o.aggregate_id, o.event_type, o.payload, o.payload_bytes,
                      o.headers, o.attempts, o.replays, o.created_at, o.next_attempt_at,
                      o.status = 'DEAD' OR o.aggregate_type = ANY (v_paused) AS parks,
                      coalesce(o.next_attempt_at > statement_timestamp(), false) AS waits
                 FROM outbox_event o
                WHERE o.published_at IS NULL AND o.resolved_at IS NULL
                  AND (o.lane, o.sequence) >= (w.lane, w.floor) AND (o.lane, o.sequence) <= (w.lane, 9223372036854775807)
                ORDER BY o.lane, o.sequence
                LIMIT CASE WHEN w.expiries >= c_suspect_expiries THEN 1 ELSE p_run END) e ON true
         LIMIT p_events
    ), run AS (
        SELECT f.*, bool_or(f.sequence IS NULL OR f.parks OR f.waits) OVER in_lane AS beyond, row_number() OVER in_lane = 1 AS is_head
          FROM found f WINDOW in_lane AS (PARTITION BY f.position ORDER BY f.sequence)
    ), fit AS MATERIALIZED (
        SELECT r.*, NOT r.beyond AND (r.bytes_through <= p_bytes OR r.bytes_through = r.payload_bytes) AS taken
          FROM (SELECT run.*, sum(run.payload_bytes) FILTER (WHERE NOT run.beyond)
                              OVER (ORDER BY run.position, run.sequence) AS bytes_through FROM run) r
    ), verdict AS MATERIALIZED (
        SELECT f.row, f.lane, min(f.sequence) AS head, max(f.sequence) FILTER (WHERE f.taken) AS last, bool_and(f.beyond) AS stopped,
               min(f.next_attempt_at) FILTER (WHERE f.is_head AND NOT f.parks) AS due_at  -- NULL: parked
          FROM fit f GROUP BY f.row, f.lane
    ), claim AS (
        INSERT INTO outbox_claim (token, holder, lease_expires_at, lanes, held)
        SELECT p_token, p_holder, statement_timestamp() + p_lease, array_agg(v.lane ORDER BY v.lane), count(*)
          FROM verdict v WHERE v.last IS NOT NULL HAVING count(*) > 0
    ), leased AS (
        UPDATE outbox_lane l SET token = p_token, due_at = NULL, floor = v.head, claimed_from = v.head, claimed_through = v.last
          FROM verdict v
         WHERE l.ctid = ANY (ARRAY(SELECT x.row FROM verdict x WHERE x.last IS NOT NULL)) AND v.lane = l.lane
    ), moved AS (
        UPDATE outbox_lane l SET floor = v.head, due_at = v.due_at
          FROM verdict v
         WHERE l.ctid = ANY (ARRAY(SELECT x.row FROM verdict x WHERE x.stopped AND x.head IS NOT NULL)) AND v.lane = l.lane
    ), emptied AS (
        DELETE FROM outbox_lane l WHERE l.ctid = ANY (ARRAY(SELECT x.row FROM verdict x WHERE x.head IS NULL))
    )
    SELECT f.lane, f.sequence, f.id, f.aggregate_type::text, f.aggregate_id::text, f.event_type::text, f.payload::text, f.headers::text,
           f.attempts, f.replays, f.created_at, f.expiries
      FROM fit f WHERE f.taken ORDER BY f.lane, f.sequence;
END $$;

-- The moment from which the look for due lanes starts, see outbox_due_floor. Looks at the whole index when it is time:
-- four times a second, but for no more than a twentieth of the time when dead entries make the look long. Whoever has
-- patience leaves the look to others for so much longer, and makes it only if they do not.
CREATE FUNCTION outbox_due_from(p_patience interval DEFAULT '0') RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_known outbox_due_floor;
    v_started CONSTANT timestamptz := clock_timestamp();
    v_due_from timestamptz;
BEGIN
    -- A look that lies ahead was made before the clock was set back, or by another server before a failover: what is due
    -- now would lie below it until the clock has caught up.
    SELECT f.* INTO v_known FROM outbox_due_floor f WHERE f.looked_at <= statement_timestamp() ORDER BY f.looked_at DESC LIMIT 1;
    IF v_known.next_look_at + p_patience > statement_timestamp() THEN
        RETURN v_known.due_from;
    END IF;
    SELECT l.due_at INTO v_due_from FROM outbox_lane l
     WHERE l.token IS NULL AND l.due_at <= statement_timestamp() ORDER BY l.due_at LIMIT 1;
    v_due_from := least(v_due_from, statement_timestamp() - interval '250 ms');
    INSERT INTO outbox_due_floor (looked_at, due_from, next_look_at)
    VALUES (statement_timestamp(), v_due_from,
            statement_timestamp() + greatest(interval '250 ms', 20 * (clock_timestamp() - v_started)))
    ON CONFLICT DO NOTHING;
    DELETE FROM outbox_due_floor f WHERE f.looked_at = ANY (ARRAY(
        SELECT o.looked_at FROM outbox_due_floor o WHERE o.looked_at < statement_timestamp() - interval '1 min'
         LIMIT 100 FOR UPDATE SKIP LOCKED));
    RETURN v_due_from;
END $$;

-- Claims up to p_lanes lanes that are due, longest waiting first, and never waits: lanes that are locked are passed by.
-- While it finds something, the look at the whole index of due lanes is left to outbox_claim_overdue, which relays call
-- beside it several times a second, so that an old snapshot makes few calls slow and not one in a few of these.
-- Returns no row when nothing can be sent. Lanes found to be parked, waiting or empty are put in order on the way, a few
-- rounds of them in one call, so that a crowd of them cannot hide those behind. A round after one that found nothing to
-- send reads heads alone: behind a head that stays there may be thousands of events, and p_events of them would be room
-- for few lanes. If such a round finds something, the next call takes whole runs again.
CREATE FUNCTION outbox_claim(
    p_token uuid, p_holder text, p_lease interval, p_lanes int, p_run int, p_events int, p_bytes bigint)
RETURNS TABLE (
    lane bigint, sequence bigint, id uuid, aggregate_type text, aggregate_id text, event_type text,
    payload text, headers text, attempts int, replays int, created_at timestamptz, expiries int)
LANGUAGE plpgsql VOLATILE ROWS 500
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_due_from timestamptz := outbox_due_from('2 s');
    v_known_from timestamptz;
    v_run int := p_run;
    v_rows tid[];
    v_lanes bigint[];
    v_floors bigint[];
    v_expiries int[];
BEGIN
    IF EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = '') THEN  -- everything is paused
        RETURN;
    END IF;
    FOR v_round IN 1 .. 8 LOOP
        SELECT array_agg(d.ctid), array_agg(d.lane), array_agg(d.floor), array_agg(d.expiries)
          INTO v_rows, v_lanes, v_floors, v_expiries
          FROM (SELECT l.ctid, l.lane, l.floor, l.expiries::int FROM outbox_lane l
                 WHERE l.token IS NULL AND l.due_at BETWEEN v_due_from AND statement_timestamp()
                 ORDER BY l.due_at LIMIT p_lanes FOR UPDATE SKIP LOCKED) d;
        IF v_lanes IS NULL THEN
            -- Whoever has nothing to send has time for the look: nobody else may call soon, and a lane whose append
            -- committed late would wait.
            v_known_from := v_due_from;
            v_due_from := outbox_due_from();
            EXIT WHEN v_due_from >= v_known_from;
            v_run := p_run;  -- what comes now is no part of the crowd
            CONTINUE;
        END IF;
        RETURN QUERY SELECT * FROM outbox_lease_lanes(
            p_token, p_holder, p_lease, v_rows, v_lanes, v_floors, v_expiries, v_run, p_events, p_bytes);
        EXIT WHEN FOUND;
        v_run := 1;
    END LOOP;
END $$;

-- Waits a moment for a lane that appenders hold, and says whether the lane is locked now. No error escapes.
-- The waiter stands in one queue with the appenders, so a lane that is locked nearly always is still had in turn.
CREATE FUNCTION outbox_wait_for_lane(p_lane bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' AS $$
BEGIN
    PERFORM FROM outbox_lane l WHERE l.lane = p_lane FOR UPDATE;
    RETURN FOUND;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $$;

-- Claims one lane that outbox_claim keeps passing by because appenders hold it whenever a claim looks: waits its turn
-- for a lane that has been due for longer than p_overdue. To be called beside outbox_claim, not instead of it, by
-- whoever can afford to wait (at most a second). With nothing overdue it returns at once.
-- The order is random: a lane that a long transaction holds does not hide the others.
CREATE FUNCTION outbox_claim_overdue(
    p_token uuid, p_holder text, p_lease interval, p_run int, p_events int, p_bytes bigint, p_overdue interval DEFAULT '100 ms')
RETURNS TABLE (
    lane bigint, sequence bigint, id uuid, aggregate_type text, aggregate_id text, event_type text,
    payload text, headers text, attempts int, replays int, created_at timestamptz, expiries int)
LANGUAGE plpgsql VOLATILE ROWS 500
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_due_from CONSTANT timestamptz := outbox_due_from();
    v_lane bigint;
    v_row tid;
    v_floor bigint;
    v_expiries int;
BEGIN
    IF EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = '') THEN  -- everything is paused
        RETURN;
    END IF;
    FOR v_lane IN
        SELECT w.lane FROM (SELECT l.lane FROM outbox_lane l
                             WHERE l.token IS NULL AND l.due_at BETWEEN v_due_from AND statement_timestamp() - p_overdue
                             ORDER BY l.due_at LIMIT 16) w
         ORDER BY random() LIMIT 2
    LOOP
        IF outbox_wait_for_lane(v_lane) THEN
            SELECT l.ctid, l.floor, l.expiries INTO v_row, v_floor, v_expiries FROM outbox_lane l
             WHERE l.lane = v_lane AND l.token IS NULL AND l.due_at <= statement_timestamp();
            IF FOUND THEN
                RETURN QUERY SELECT * FROM outbox_lease_lanes(
                    p_token, p_holder, p_lease, ARRAY[v_row], ARRAY[v_lane], ARRAY[v_floor], ARRAY[v_expiries], p_run, p_events, p_bytes);
            END IF;
            RETURN;  -- never waits for a second lane while it holds one
        END IF;
    END LOOP;
END $$;
