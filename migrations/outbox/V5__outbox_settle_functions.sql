-- Settle: what a relay reports about the runs that it leased.
--
-- Acknowledge, fail and release are one statement each and share their parts: the fence, the settling of confirmed
-- events, and the return of the lanes. Order of locks: claim row, events, lanes. Lanes are taken with SKIP LOCKED, so a
-- report never waits for an appender. A lane that an appender holds is reported as postponed: its events are settled,
-- its lease stays, and the relay frees it with outbox_free_postponed (or, if the relay dies, the reaper does).

-- What acknowledge, fail, release and free_postponed answer.
CREATE TYPE outbox_settlement AS (
    stale     boolean,  -- the claim is gone or reaped: nothing was changed
    events    int,      -- events whose state was changed
    lanes     int,      -- lanes that were freed
    postponed bigint[]  -- lanes to be freed by outbox_free_postponed
);

-- The fence: locks the claim's row and returns those of the lanes that the claim still leases, or NULL if it is void.
-- Holding the row keeps the leases as they are: only the claim's own reports and the reaper end them, and both begin here.
CREATE FUNCTION outbox_fence(p_token uuid, p_lanes bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    PERFORM FROM outbox_claim c WHERE c.token = p_token AND c.reaped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT l.lane FROM outbox_lane l WHERE l.lane = ANY (p_lanes) AND l.token = p_token);
END $$;

-- Marks confirmed events of the given lanes published, or deletes them (p_delete: keep no history; halves the WAL).
CREATE FUNCTION outbox_settle_events(p_lanes bigint[], p_ids uuid[], p_delete boolean) RETURNS int
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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

-- Ends the lease of lanes that the caller has locked by an earlier statement: a lane without open events is deleted,
-- any other waits for what its head waits for: an operator (DEAD), its next attempt, or a relay, after p_delay at most.
-- Expiries belong to the head: a new head starts from zero. p_expired counts one more.
CREATE FUNCTION outbox_free_lanes(p_lanes bigint[], p_delay interval, p_expired boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
BEGIN
    WITH lane AS MATERIALIZED (
        SELECT l.lane, h.sequence AS head, h.sequence = l.claimed_from AS same_head, h.status, h.next_attempt_at
          FROM outbox_lane l
          LEFT JOIN LATERAL (
               SELECT e.sequence, e.status, e.next_attempt_at FROM outbox_event e
                WHERE e.published_at IS NULL AND e.resolved_at IS NULL
                  AND (e.lane, e.sequence) >= (l.lane, l.floor) AND (e.lane, e.sequence) <= (l.lane, 9223372036854775807)
                ORDER BY e.lane, e.sequence LIMIT 1) h ON true
         WHERE l.lane = ANY (p_lanes)
    ), emptied AS (
        DELETE FROM outbox_lane l WHERE l.lane = ANY (ARRAY(SELECT x.lane FROM lane x WHERE x.head IS NULL))
    )
    UPDATE outbox_lane l
       SET token = NULL, claimed_from = NULL, claimed_through = NULL, floor = lane.head,
           due_at = CASE WHEN lane.status <> 'DEAD' THEN greatest(lane.next_attempt_at, statement_timestamp() + p_delay) END,
           expiries = CASE WHEN NOT lane.same_head THEN 0 WHEN p_expired THEN least(l.expiries + 1, 32000) ELSE l.expiries END
      FROM lane
     WHERE l.lane = ANY (ARRAY(SELECT x.lane FROM lane x WHERE x.head IS NOT NULL)) AND lane.lane = l.lane;
END $$;

-- Frees those of the claim's lanes that nobody has locked and gives the claim up with its last lane.
-- Returns the lanes that it had to postpone.
CREATE FUNCTION outbox_end_leases(p_token uuid, p_lanes bigint[], p_delay interval, p_expired boolean DEFAULT false) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_locked bigint[] := ARRAY(SELECT l.lane FROM outbox_lane l WHERE l.lane = ANY (p_lanes) AND l.token = p_token
                                ORDER BY l.lane FOR UPDATE SKIP LOCKED);
BEGIN
    IF cardinality(v_locked) > 0 THEN
        PERFORM outbox_free_lanes(v_locked, p_delay, p_expired);
        DELETE FROM outbox_claim c WHERE c.token = p_token AND c.held <= cardinality(v_locked);
        IF NOT FOUND THEN
            UPDATE outbox_claim c SET held = c.held - cardinality(v_locked) WHERE c.token = p_token;
        END IF;
    END IF;
    IF cardinality(v_locked) = cardinality(p_lanes) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT w.lane FROM unnest(p_lanes) WITH ORDINALITY AS w (lane, position)
                  WHERE w.lane <> ALL (v_locked) ORDER BY w.position);
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
    v_leased bigint[] := outbox_fence(p_token, p_lanes);
    v_result outbox_settlement := (v_leased IS NULL, 0, 0, '{}');
BEGIN
    IF v_result.stale THEN
        RETURN v_result;
    END IF;
    IF cardinality(p_ids) > 0 THEN
        v_result.events := outbox_settle_events(v_leased, p_ids, p_delete);
    END IF;
    v_result.postponed := outbox_end_leases(p_token, v_leased, p_delay);
    v_result.lanes := cardinality(v_leased) - cardinality(v_result.postponed);
    RETURN v_result;
END $$;

-- Some event of each of these lanes failed by its own fault. p_ids is what was confirmed before it. p_failed, p_outcomes,
-- p_errors and p_delays belong together, element by element; the outcome is the relay's decision:
-- 'retry': FAILED, tried again after the delay; 'block': DEAD, the lane parks; 'skip': DEAD and resolved, the lane goes on.
CREATE FUNCTION outbox_fail(
    p_token uuid, p_lanes bigint[], p_ids uuid[], p_failed uuid[], p_outcomes text[], p_errors text[], p_delays interval[],
    p_delete boolean DEFAULT false)
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
DECLARE
    v_leased bigint[] := outbox_fence(p_token, p_lanes);
    v_result outbox_settlement := (v_leased IS NULL, 0, 0, '{}');
    v_failed int;
BEGIN
    IF NOT p_outcomes <@ ARRAY['retry', 'block', 'skip'] THEN
        RAISE EXCEPTION 'outbox_fail: unknown outcome in %', p_outcomes USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_result.stale THEN
        RETURN v_result;
    END IF;
    v_result.events := outbox_settle_events(v_leased, p_ids, p_delete);
    UPDATE outbox_event e
       SET attempts = e.attempts + 1,
           last_error = f.error,
           status = CASE f.outcome WHEN 'retry' THEN 'FAILED' ELSE 'DEAD' END,
           next_attempt_at = CASE f.outcome WHEN 'retry' THEN statement_timestamp() + f.delay END,
           resolved_at = CASE f.outcome WHEN 'skip' THEN statement_timestamp() END,
           resolution = CASE f.outcome WHEN 'skip' THEN 'skipped' END
      FROM unnest(p_failed, p_outcomes, p_errors, p_delays) AS f (id, outcome, error, delay)
     WHERE e.id = ANY (p_failed) AND f.id = e.id
       AND e.lane = ANY (v_leased) AND e.published_at IS NULL AND e.resolved_at IS NULL;
    GET DIAGNOSTICS v_failed = ROW_COUNT;
    v_result.events := v_result.events + v_failed;
    v_result.postponed := outbox_end_leases(p_token, v_leased, interval '0');
    v_result.lanes := cardinality(v_leased) - cardinality(v_result.postponed);
    RETURN v_result;
END $$;

-- Frees lanes that an earlier report postponed. It waits its turn for one of them, a quarter of a second at most, and
-- takes of the others what is free. A lane waited for in vain moves to the end of postponed, so calling again with the
-- returned array tries another one first.
CREATE FUNCTION outbox_free_postponed(p_token uuid, p_lanes bigint[], p_delay interval DEFAULT '0')
RETURNS outbox_settlement LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_leased bigint[] := outbox_fence(p_token, p_lanes);
    v_result outbox_settlement := (v_leased IS NULL, 0, 0, '{}');
    v_first bigint;
BEGIN
    IF v_result.stale THEN
        RETURN v_result;
    END IF;
    v_leased := ARRAY(SELECT w.lane FROM unnest(p_lanes) WITH ORDINALITY AS w (lane, position)
                       WHERE w.lane = ANY (v_leased) ORDER BY w.position);
    IF cardinality(v_leased) > 0 THEN
        v_first := v_leased[1];
        IF NOT outbox_wait_for_lane(v_first) THEN
            v_leased := v_leased[2:] || v_first;
        END IF;
        v_result.postponed := outbox_end_leases(p_token, v_leased, p_delay);
        v_result.lanes := cardinality(v_leased) - cardinality(v_result.postponed);
    END IF;
    RETURN v_result;
END $$;

-- Extends the lease of a claim. False: the claim is gone or reaped, and whatever it held must not be sent any more.
CREATE FUNCTION outbox_renew(p_token uuid, p_lease interval) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE outbox_claim c SET lease_expires_at = statement_timestamp() + p_lease
     WHERE c.token = p_token AND c.reaped_at IS NULL;
    RETURN FOUND;
END $$;
