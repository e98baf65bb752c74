-- Settle: what a relay reports about the runs that it leased.
--
-- Acknowledge, fail and release are one statement each and share their parts: take the leases (fence and locks), settle
-- the confirmed events, free the lanes. Order of locks: claim row, lanes in lane order, events. Lanes are taken with
-- SKIP LOCKED, so a report never waits for an appender. A lane that an appender holds is reported as postponed: its
-- events are settled, its lease stays, and the relay frees it with outbox_free_postponed (or the reaper does, if the
-- relay dies first).
--
-- A report may come twice: the relay repeats it when its answer was lost. The claim knows which lanes it settled before,
-- and settles none of them again: their events may have been replayed or requeued since, and an attempt is charged once.

-- What acknowledge, fail, release and free_postponed answer.
CREATE TYPE outbox_settlement AS (
    stale     boolean,  -- the claim is gone or reaped: nothing was changed
    events    int,      -- events whose state was changed
    lanes     int,      -- lanes that were freed
    postponed bigint[], -- lanes to be freed by outbox_free_postponed
    repeated  boolean   -- an earlier report settled some of the lanes: this one counts no event of theirs
);

-- The answer to a report of a claim that is gone.
CREATE FUNCTION outbox_stale() RETURNS outbox_settlement LANGUAGE sql IMMUTABLE
RETURN (true, 0, 0, '{}', false)::outbox_settlement;

-- Leases that a report has taken hold of.
CREATE TYPE outbox_leases AS (
    lanes     bigint[],  -- lanes that are leased by the claim, and locked now
    rows      tid[],     -- their rows: while a row is locked its ctid stands still, and is the cheapest way back to it
    floors    bigint[],
    postponed bigint[],  -- lanes that are leased by the claim, and locked by somebody else
    settled   bigint[]   -- lanes of the claim that an earlier report settled
);

-- Locks those of the lanes that the claim leases and nobody else has locked.
-- The caller holds the claim's row, which keeps its leases as they are: only the claim's own reports and the reaper end
-- leases, and both begin by locking it. So the lanes that are locked by somebody else are still the claim's.
CREATE FUNCTION outbox_lock_leases(p_token uuid, p_lanes bigint[]) RETURNS outbox_leases
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_leases outbox_leases;
BEGIN
    SELECT coalesce(array_agg(k.lane), '{}'), array_agg(k.ctid), array_agg(k.floor), '{}', '{}' INTO v_leases
      FROM (SELECT l.lane, l.ctid, l.floor FROM outbox_lane l WHERE l.lane = ANY (p_lanes) AND l.token = p_token
             ORDER BY l.lane FOR UPDATE SKIP LOCKED) k;
    IF cardinality(v_leases.lanes) < cardinality(p_lanes) THEN
        v_leases.postponed := ARRAY(  -- in the order of p_lanes
            SELECT w.lane FROM unnest(p_lanes) WITH ORDINALITY AS w (lane, position)
             WHERE w.lane <> ALL (v_leases.lanes)
               AND (SELECT l.token FROM outbox_lane l WHERE l.lane = w.lane) = p_token
             ORDER BY w.position);
    END IF;
    RETURN v_leases;
END $$;

-- The fence, and then the locks: NULL if the claim is gone or reaped.
CREATE FUNCTION outbox_take_leases(p_token uuid, p_lanes bigint[]) RETURNS outbox_leases LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_settled bigint[];
    v_leases outbox_leases;
BEGIN
    SELECT c.settled INTO v_settled FROM outbox_claim c WHERE c.token = p_token AND c.reaped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_leases := outbox_lock_leases(p_token, p_lanes);
    IF cardinality(v_settled) > 0 OR cardinality(v_leases.lanes || v_leases.postponed) < cardinality(p_lanes) THEN
        v_leases.settled := ARRAY(  -- also those that it freed: they were the claim's, and are not any more
            SELECT w.lane FROM unnest(p_lanes) AS w (lane)
             WHERE w.lane = ANY (v_settled)
                OR w.lane <> ALL (v_leases.lanes || v_leases.postponed)
                   AND w.lane = ANY ((SELECT c.lanes FROM outbox_claim c WHERE c.token = p_token)::bigint[]));
    END IF;
    RETURN v_leases;
END $$;

-- The lanes whose events a report settles: those that are leased, and were not settled before. Remembers those of them
-- that are postponed; the others are freed by the report.
CREATE FUNCTION outbox_lanes_to_settle(p_token uuid, p_leases outbox_leases) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_lanes bigint[] := p_leases.lanes || p_leases.postponed;
BEGIN
    IF cardinality(p_leases.settled) > 0 THEN
        v_lanes := ARRAY(SELECT w.lane FROM unnest(v_lanes) AS w (lane) WHERE w.lane <> ALL (p_leases.settled));
    END IF;
    IF cardinality(p_leases.postponed) > 0 THEN
        UPDATE outbox_claim c
           SET settled = c.settled || ARRAY(SELECT w.lane FROM unnest(p_leases.postponed) AS w (lane) WHERE w.lane <> ALL (c.settled))
         WHERE c.token = p_token;
    END IF;
    RETURN v_lanes;
END $$;

-- Marks confirmed events of the given lanes published, or deletes them (p_delete: keep no history; halves the WAL).
CREATE FUNCTION outbox_settle_events(p_lanes bigint[], p_ids uuid[], p_delete boolean) RETURNS int
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_events int;
BEGIN
    IF p_delete THEN
        DELETE FROM outbox_event e
         WHERE e.id = ANY (p_ids) AND e.lane = ANY (p_lanes) AND e.published_at IS NULL AND e.resolved_at IS NULL;
    ELSE
        UPDATE outbox_event e SET status = 'PUBLISHED', published_at = statement_timestamp()
         WHERE e.id = ANY (p_ids) AND e.lane = ANY (p_lanes) AND e.published_at IS NULL AND e.resolved_at IS NULL;
    END IF;
    GET DIAGNOSTICS v_events = ROW_COUNT;
    RETURN v_events;
END $$;

-- Ends the leases on lanes that an earlier statement locked: a lane without open events is deleted; any other waits for
-- what its head waits for: an operator (DEAD), its next attempt, or a relay, once p_delay is over.
-- Expiries belong to the head: a new head starts from zero. p_expired counts one more.
-- The claim goes with its last lane.
CREATE FUNCTION outbox_free_lanes(p_token uuid, p_leases outbox_leases, p_delay interval, p_expired boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET enable_mergejoin = off AS $$
DECLARE
    v_freed CONSTANT int := cardinality(p_leases.lanes);
    v_touched int;
BEGIN
    IF v_freed = 0 THEN
        RETURN;
    END IF;
    WITH lane AS MATERIALIZED (
        SELECT w.row, w.lane, head.*
          FROM unnest(p_leases.rows, p_leases.lanes, p_leases.floors) AS w (row, lane, floor)
          LEFT JOIN LATERAL (
               SELECT e.sequence, e.status, e.next_attempt_at FROM outbox_event e
                WHERE e.published_at IS NULL AND e.resolved_at IS NULL
                  AND (e.lane, e.sequence) >= (w.lane, w.floor) AND (e.lane, e.sequence) <= (w.lane, 9223372036854775807)
                ORDER BY e.lane, e.sequence LIMIT 1) head ON true
    ), emptied AS (
        DELETE FROM outbox_lane l WHERE l.ctid = ANY (ARRAY(SELECT x.row FROM lane x WHERE x.sequence IS NULL))
        RETURNING 1
    ), waiting AS (
        UPDATE outbox_lane l
           SET token = NULL, claimed_from = NULL, claimed_through = NULL, floor = lane.sequence,
               due_at = CASE WHEN lane.status <> 'DEAD' THEN greatest(lane.next_attempt_at, statement_timestamp() + p_delay) END,
               expiries = CASE WHEN lane.sequence <> l.claimed_from THEN 0
                               WHEN p_expired THEN least(l.expiries + 1, 32000) ELSE l.expiries END
          FROM lane
         WHERE l.ctid = ANY (ARRAY(SELECT x.row FROM lane x WHERE x.sequence IS NOT NULL)) AND lane.lane = l.lane
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM emptied) + (SELECT count(*) FROM waiting) INTO v_touched;
    IF v_touched <> v_freed THEN
        RAISE EXCEPTION 'outbox_free_lanes: % of % lanes of claim % touched', v_touched, v_freed, p_token;
    END IF;
    DELETE FROM outbox_claim c WHERE c.token = p_token AND c.held <= v_freed;
    IF NOT FOUND THEN
        UPDATE outbox_claim c SET held = c.held - v_freed WHERE c.token = p_token;
    END IF;
END $$;

-- The runs of these lanes are confirmed to their ends: p_ids are all their events.
CREATE FUNCTION outbox_acknowledge(p_token uuid, p_lanes bigint[], p_ids uuid[], p_delete boolean DEFAULT false)
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The same work; the two names say what the relay means, and an acknowledged lane is due at once.
    RETURN outbox_release(p_token, p_lanes, p_ids, interval '0', p_delete);
END $$;

-- Gives lanes back before their runs are through (shutdown, destination unavailable). p_ids is what was confirmed of
-- them, the front of each run, and may be empty. What is left is due after p_delay; attempts stay as they are.
CREATE FUNCTION outbox_release(p_token uuid, p_lanes bigint[], p_ids uuid[], p_delay interval, p_delete boolean DEFAULT false)
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_leases CONSTANT outbox_leases := outbox_take_leases(p_token, p_lanes);
    v_events int;
BEGIN
    IF v_leases IS NULL THEN
        RETURN outbox_stale();
    END IF;
    v_events := outbox_settle_events(outbox_lanes_to_settle(p_token, v_leases), p_ids, p_delete);
    PERFORM outbox_free_lanes(p_token, v_leases, p_delay);
    RETURN (false, v_events, cardinality(v_leases.lanes), v_leases.postponed, cardinality(v_leases.settled) > 0)::outbox_settlement;
END $$;

-- Records the failures of events of the given lanes; see outbox_fail.
CREATE FUNCTION outbox_fail_events(
    p_lanes bigint[], p_failed uuid[], p_outcomes text[], p_errors text[], p_delays interval[]) RETURNS int
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET enable_mergejoin = off AS $$
DECLARE
    v_events int;
BEGIN
    UPDATE outbox_event e
       SET attempts = e.attempts + 1,
           last_error = f.error,
           status = CASE f.outcome WHEN 'retry' THEN 'FAILED' ELSE 'DEAD' END,
           next_attempt_at = CASE f.outcome WHEN 'retry' THEN statement_timestamp() + f.delay END,
           resolved_at = CASE f.outcome WHEN 'skip' THEN statement_timestamp() END,
           resolution = CASE f.outcome WHEN 'skip' THEN 'skipped' END
      FROM unnest(p_failed, p_outcomes, p_errors, p_delays) AS f (id, outcome, error, delay)
     WHERE e.id = ANY (p_failed) AND f.id = e.id
       AND e.lane = ANY (p_lanes) AND e.published_at IS NULL AND e.resolved_at IS NULL;
    GET DIAGNOSTICS v_events = ROW_COUNT;
    RETURN v_events;
END $$;

-- Some event of each of these lanes failed by its own fault. p_ids is what was confirmed before it. p_failed, p_outcomes,
-- p_errors and p_delays belong together, element by element; the outcome is the relay's decision:
-- 'retry': FAILED, tried again after the delay; 'block': DEAD, the lane parks; 'skip': DEAD and resolved, the lane goes on.
CREATE FUNCTION outbox_fail(
    p_token uuid, p_lanes bigint[], p_ids uuid[], p_failed uuid[], p_outcomes text[], p_errors text[], p_delays interval[],
    p_delete boolean DEFAULT false)
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_leases CONSTANT outbox_leases := outbox_take_leases(p_token, p_lanes);
    v_lanes bigint[];
    v_events int;
BEGIN
    IF NOT p_outcomes <@ ARRAY['retry', 'block', 'skip'] THEN
        RAISE EXCEPTION 'outbox_fail: unknown outcome in %', p_outcomes USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_leases IS NULL THEN
        RETURN outbox_stale();
    END IF;
    v_lanes := outbox_lanes_to_settle(p_token, v_leases);
    v_events := outbox_settle_events(v_lanes, p_ids, p_delete)
              + outbox_fail_events(v_lanes, p_failed, p_outcomes, p_errors, p_delays);
    PERFORM outbox_free_lanes(p_token, v_leases, interval '0');
    RETURN (false, v_events, cardinality(v_leases.lanes), v_leases.postponed, cardinality(v_leases.settled) > 0)::outbox_settlement;
END $$;

-- Frees lanes that an earlier report postponed. It waits its turn for the first of them, half a second at most,
-- and takes of the others what is free. A lane waited for in vain moves to the end of postponed, so calling again with
-- the returned array tries another one first.
CREATE FUNCTION outbox_free_postponed(p_token uuid, p_lanes bigint[], p_delay interval DEFAULT '0')
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_leases outbox_leases;
BEGIN
    PERFORM FROM outbox_claim c WHERE c.token = p_token AND c.reaped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN outbox_stale();
    END IF;
    IF outbox_wait_for_lane(p_lanes[1]) THEN
        v_leases := outbox_lock_leases(p_token, p_lanes);
    ELSE
        v_leases := outbox_lock_leases(p_token, p_lanes[2:] || p_lanes[1]);
    END IF;
    PERFORM outbox_free_lanes(p_token, v_leases, p_delay);
    RETURN (false, 0, cardinality(v_leases.lanes), v_leases.postponed, false)::outbox_settlement;
END $$;

-- Extends the lease of a claim. False: the claim is gone or reaped, and whatever it held must not be sent any more.
CREATE FUNCTION outbox_renew(p_token uuid, p_lease interval) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE outbox_claim c SET lease_expires_at = statement_timestamp() + p_lease
     WHERE c.token = p_token AND c.reaped_at IS NULL;
    RETURN FOUND;
END $$;
