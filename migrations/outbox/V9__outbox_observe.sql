-- Observe: what users, dashboards and tests ask. The base tables are for append and relay.

-- All five statuses, and why an event is not sent yet.
CREATE VIEW outbox_event_state AS
SELECT e.id, e.sequence, e.lane, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.payload_bytes, e.headers,
       CASE WHEN in_flight.yes THEN 'IN_FLIGHT' ELSE e.status END AS status,
       e.attempts, e.created_at, e.published_at, e.last_error, e.resolved_at, e.resolution, e.replays,
       CASE WHEN in_flight.yes THEN c.holder END AS holder,
       CASE WHEN in_flight.yes THEN c.claimed_at END AS claimed_at,
       CASE WHEN in_flight.yes THEN c.lease_expires_at END AS lease_expires_at,
       l.expiries,
       CASE WHEN e.status IN ('PENDING', 'FAILED') THEN greatest(e.next_attempt_at, l.due_at) END AS due_at,
       -- the open event at the head of the lane, when that is another one
       (SELECT h.id FROM outbox_event h
         WHERE l.lane IS NOT NULL AND h.published_at IS NULL AND h.resolved_at IS NULL
           AND (h.lane, h.sequence) >= (l.lane, l.floor) AND (h.lane, h.sequence) < (e.lane, e.sequence)
         ORDER BY h.lane, h.sequence LIMIT 1) AS blocked_behind
  FROM outbox_event e
  LEFT JOIN outbox_lane l ON l.lane = e.lane AND e.published_at IS NULL AND e.resolved_at IS NULL
  LEFT JOIN outbox_claim c ON c.token = l.token
 CROSS JOIN LATERAL (SELECT c.token IS NOT NULL AND e.status <> 'DEAD'
                            AND e.sequence BETWEEN l.claimed_from AND l.claimed_through AS yes) in_flight;

-- One row for the metrics. Every count stops at p_cap (a number equal to it reads "at least"), and the oldest pending
-- event is the oldest among the heads of the p_cap / 10 longest waiting lanes. What is PENDING stands in no index: it is
-- what is open and nothing else. Where more has failed than is counted that cannot be told, and what waits in these lanes
-- stands for it: at least so many.
CREATE FUNCTION outbox_statistics(
    p_cap int DEFAULT 100000,
    OUT pending bigint, OUT in_flight bigint, OUT failed bigint, OUT dead bigint,
    OUT blocked_lanes bigint, OUT expired_claims bigint, OUT oldest_pending_at timestamptz, OUT oldest_in_flight_at timestamptz,
    OUT oldest_blocked_at timestamptz)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_open bigint;
    v_failed_in_flight bigint;
BEGIN
    SELECT count(*) INTO failed FROM (SELECT FROM outbox_event e WHERE e.status = 'FAILED' LIMIT p_cap) f;
    SELECT count(*), min(d.created_at) INTO dead, oldest_blocked_at
      FROM (SELECT e.created_at FROM outbox_event e WHERE e.status = 'DEAD' AND e.resolved_at IS NULL ORDER BY e.sequence LIMIT p_cap) d;
    SELECT coalesce(sum(f.events), 0), coalesce(sum(f.failed_before), 0) INTO in_flight, v_failed_in_flight
      FROM outbox_claim c
     CROSS JOIN LATERAL unnest(c.lanes) AS w (lane)
      JOIN outbox_lane l ON l.lane = w.lane AND l.token = c.token
     CROSS JOIN LATERAL (
           SELECT count(*) AS events, count(*) FILTER (WHERE e.status = 'FAILED') AS failed_before FROM outbox_event e
            WHERE e.published_at IS NULL AND e.resolved_at IS NULL
              AND (e.lane, e.sequence) >= (l.lane, l.claimed_from) AND (e.lane, e.sequence) <= (l.lane, l.claimed_through)) f;
    IF failed < p_cap AND dead < p_cap THEN
        SELECT count(*) INTO v_open FROM (
            SELECT FROM outbox_event e WHERE e.published_at IS NULL AND e.resolved_at IS NULL
             LIMIT p_cap + failed + dead + in_flight) o;
        pending := greatest(least(v_open - failed - dead - (in_flight - v_failed_in_flight), p_cap), 0);
    ELSE
        SELECT count(*) INTO pending FROM (
            SELECT FROM (SELECT l.lane, l.floor FROM outbox_lane l
                          WHERE l.token IS NULL AND l.due_at IS NOT NULL ORDER BY l.due_at LIMIT p_cap / 10) w
             CROSS JOIN LATERAL (
                   SELECT FROM outbox_event e
                    WHERE e.published_at IS NULL AND e.resolved_at IS NULL AND e.status = 'PENDING'
                      AND (e.lane, e.sequence) >= (w.lane, w.floor) AND (e.lane, e.sequence) <= (w.lane, 9223372036854775807)
                    ORDER BY e.lane, e.sequence LIMIT p_cap) e
             LIMIT p_cap) p;
    END IF;
    IF failed < p_cap THEN  -- otherwise it goes on reading "at least"
        failed := greatest(failed - v_failed_in_flight, 0);
    END IF;
    SELECT count(*) INTO blocked_lanes FROM (
        SELECT FROM outbox_lane l WHERE l.token IS NULL AND l.due_at IS NULL LIMIT p_cap) b;
    SELECT count(*) FILTER (WHERE c.lease_expires_at < statement_timestamp()), min(c.claimed_at)
      INTO expired_claims, oldest_in_flight_at FROM outbox_claim c;
    SELECT min(h.created_at) INTO oldest_pending_at
      FROM (SELECT l.lane, l.floor FROM outbox_lane l WHERE l.token IS NULL ORDER BY l.due_at LIMIT p_cap / 10) w
     CROSS JOIN LATERAL (
           SELECT e.created_at, e.status FROM outbox_event e
            WHERE e.published_at IS NULL AND e.resolved_at IS NULL AND (e.replays = 0 OR e.status = 'DEAD')
              AND (e.lane, e.sequence) >= (w.lane, w.floor) AND (e.lane, e.sequence) <= (w.lane, 9223372036854775807)
            ORDER BY e.lane, e.sequence LIMIT 1) h
     WHERE h.status <> 'DEAD';
END $$;

-- Which relays there are, as they say themselves: each writes its row every reports_every and removes it when it stops.
-- Nothing depends on it but who looks. One that was killed is gone for good after an hour (outbox_forget_relays).
CREATE TABLE outbox_relay (
    holder         text          NOT NULL,
    -- One life of the process: a former one of the same name removes nothing of its successor's.
    run            uuid          NOT NULL,
    version        text          NOT NULL,
    started_at     timestamptz   NOT NULL,
    seen_at        timestamptz   NOT NULL DEFAULT statement_timestamp(),
    reports_every  interval      NOT NULL,
    -- What it sends nothing to for now (the empty text: to nobody at all), why, and since when.
    paused         text[]        NOT NULL DEFAULT '{}',
    paused_reasons text[]        NOT NULL DEFAULT '{}',
    paused_since   timestamptz[] NOT NULL DEFAULT '{}',
    CONSTRAINT outbox_relay_pkey PRIMARY KEY (holder),
    CONSTRAINT outbox_relay_holder_check CHECK (octet_length(holder) BETWEEN 1 AND 200),
    CONSTRAINT outbox_relay_version_check CHECK (octet_length(version) BETWEEN 1 AND 100),
    CONSTRAINT outbox_relay_reports_every_check CHECK (reports_every > '0'),
    CONSTRAINT outbox_relay_paused_check CHECK (
        cardinality(paused) <= 20 AND cardinality(paused_reasons) = cardinality(paused)
        AND cardinality(paused_since) = cardinality(paused)
        AND octet_length(array_to_string(paused || paused_reasons, '')) <= 40000)
);

-- Enters a relay or renews its row. p_running and p_paused_for are times until now by the relay's clock.
CREATE FUNCTION outbox_report(
    p_holder text, p_run uuid, p_version text, p_running interval, p_every interval,
    p_paused text[] DEFAULT '{}', p_reasons text[] DEFAULT '{}', p_paused_for interval[] DEFAULT '{}')
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO outbox_relay AS r (holder, run, version, started_at, reports_every, paused, paused_reasons, paused_since)
    VALUES (p_holder, p_run, p_version, statement_timestamp() - p_running, p_every, p_paused, p_reasons,
            ARRAY(SELECT statement_timestamp() - f.span FROM unnest(p_paused_for) WITH ORDINALITY f (span, place) ORDER BY f.place))
    ON CONFLICT (holder) DO UPDATE
       SET run = excluded.run, version = excluded.version, seen_at = statement_timestamp(), reports_every = excluded.reports_every,
           started_at = CASE WHEN r.run = excluded.run THEN r.started_at ELSE excluded.started_at END,
           paused = excluded.paused, paused_reasons = excluded.paused_reasons, paused_since = excluded.paused_since;
END $$;

-- Removes a relay that stops; false: there is none of this run.
CREATE FUNCTION outbox_withdraw(p_holder text, p_run uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM outbox_relay r WHERE r.holder = p_holder AND r.run = p_run;
    RETURN FOUND;
END $$;

-- Deletes up to p_batch relays that are gone, three reports missed, and were seen longer ago than p_age, if the caller
-- leads. leads = false: nothing was changed.
CREATE FUNCTION outbox_forget_relays(
    p_name text, p_holder text, p_term bigint, p_age interval, p_batch int, OUT leads boolean, OUT deleted bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    deleted := 0;
    PERFORM FROM outbox_leader l
      WHERE l.name = p_name AND l.holder = p_holder AND l.term = p_term AND l.expires_at > statement_timestamp() FOR SHARE;
    leads := FOUND;
    IF leads THEN
        DELETE FROM outbox_relay r WHERE r.holder = ANY (ARRAY(
            SELECT g.holder FROM outbox_relay g
             WHERE g.seen_at < statement_timestamp() - greatest(p_age, g.reports_every * 3)
             LIMIT p_batch FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS deleted = ROW_COUNT;
    END IF;
END $$;
