-- Reap: return the lanes of claims whose lease ran out.

-- Kills the heads of locked lanes whose lease has now run out for the p_dead_after-th time on the same head: they may be
-- what kills the relay. DEAD, and resolved at once for aggregate types that skip. Attempts are not touched: the message
-- was not refused. Returns how many died.
CREATE FUNCTION outbox_kill_expired_heads(p_lanes bigint[], p_dead_after int, p_skip_types text[]) RETURNS int
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_heads uuid[] := ARRAY(
        SELECT h.id FROM outbox_lane l
         CROSS JOIN LATERAL (
               SELECT e.id, e.sequence, e.status FROM outbox_event e
                WHERE e.published_at IS NULL AND e.resolved_at IS NULL
                  AND (e.lane, e.sequence) >= (l.lane, l.floor) AND (e.lane, e.sequence) <= (l.lane, 9223372036854775807)
                ORDER BY e.lane, e.sequence LIMIT 1) h
         WHERE l.lane = ANY (p_lanes) AND l.expiries + 1 >= p_dead_after
           AND h.sequence = l.claimed_from AND h.status <> 'DEAD');
BEGIN
    UPDATE outbox_event e
       SET status = 'DEAD', next_attempt_at = NULL, last_error = format('lease expired %s times', p_dead_after),
           resolved_at = CASE WHEN e.aggregate_type = ANY (p_skip_types) THEN statement_timestamp() END,
           resolution = CASE WHEN e.aggregate_type = ANY (p_skip_types) THEN 'skipped' END
     WHERE e.id = ANY (v_heads);
    RETURN cardinality(v_heads);
END $$;

-- Voids up to p_claims claims whose lease has run out and returns their lanes to the due ones. Never waits for a claim
-- that is being settled or renewed: then it is not lost. Lanes that appenders hold are postponed: the voided claim's row
-- stays, and the next calls go on with it; they wait their turn for one such lane, half a second at most, before
-- they lock anything else.
CREATE FUNCTION outbox_reap(
    p_claims int, p_dead_after int DEFAULT 10, p_skip_types text[] DEFAULT '{}',
    OUT claims int, OUT lanes int, OUT postponed int, OUT dead int)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    v_claim record;
    v_leases outbox_leases;
BEGIN
    claims := 0; lanes := 0; postponed := 0; dead := 0;
    SELECT c.token, c.lanes INTO v_claim FROM outbox_claim c WHERE c.reaped_at IS NOT NULL
     ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        PERFORM outbox_wait_for_lane(w.lane)
           FROM (SELECT l.lane FROM outbox_lane l WHERE l.lane = ANY (v_claim.lanes) AND l.token = v_claim.token
                  ORDER BY random() LIMIT 1) w;
    END IF;
    FOR v_claim IN
        SELECT c.token, c.lanes, c.reaped_at FROM outbox_claim c WHERE c.lease_expires_at < statement_timestamp()
         ORDER BY c.reaped_at IS NOT NULL, c.lease_expires_at LIMIT p_claims FOR UPDATE SKIP LOCKED
    LOOP
        IF v_claim.reaped_at IS NULL THEN
            UPDATE outbox_claim c SET reaped_at = statement_timestamp() WHERE c.token = v_claim.token;
            claims := claims + 1;
        END IF;
        v_leases := outbox_lock_leases(v_claim.token, v_claim.lanes);
        dead := dead + outbox_kill_expired_heads(v_leases.lanes, p_dead_after, p_skip_types);
        PERFORM outbox_free_lanes(v_claim.token, v_leases, interval '0', p_expired => true);
        lanes := lanes + cardinality(v_leases.lanes);
        postponed := postponed + cardinality(v_leases.postponed);
        IF cardinality(v_leases.lanes || v_leases.postponed) = 0 THEN  -- its lanes are gone (truncated by hand)
            DELETE FROM outbox_claim c WHERE c.token = v_claim.token;
        END IF;
    END LOOP;
END $$;
