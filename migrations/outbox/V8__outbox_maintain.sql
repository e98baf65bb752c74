-- Maintain: the leader's lease, cleanup, and the repair of lanes.

CREATE TABLE outbox_leader (
    name       text        NOT NULL,
    holder     text        NOT NULL,
    term       bigint      NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT outbox_leader_pkey PRIMARY KEY (name)
);

-- Takes or renews the leadership called p_name. Returns the term, which grows with each change of leader, or NULL when
-- somebody else leads.
CREATE FUNCTION outbox_lead(p_name text, p_holder text, p_lease interval) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_term bigint;
BEGIN
    INSERT INTO outbox_leader AS l (name, holder, term, expires_at)
    VALUES (p_name, p_holder, 1, statement_timestamp() + p_lease)
    ON CONFLICT (name) DO UPDATE
       SET holder = excluded.holder, expires_at = excluded.expires_at,
           term = l.term + CASE WHEN l.holder = excluded.holder AND l.expires_at > statement_timestamp() THEN 0 ELSE 1 END
     WHERE l.holder = excluded.holder OR l.expires_at <= statement_timestamp()
    RETURNING l.term INTO v_term;
    RETURN v_term;
END $$;

-- Gives the leadership up before it runs out.
CREATE FUNCTION outbox_resign(p_name text, p_holder text, p_term bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE outbox_leader l SET expires_at = statement_timestamp()
     WHERE l.name = p_name AND l.holder = p_holder AND l.term = p_term AND l.expires_at > statement_timestamp();
    RETURN FOUND;
END $$;

-- Until when published history is gone, by the last confirm of each event: of what was published later, cleanup and purge have
-- deleted nothing. One row, or none: they have deleted nothing at all. What is deleted when it is published is not told of.
CREATE TABLE outbox_retention (
    only_row   boolean     NOT NULL DEFAULT true,
    gone_until timestamptz NOT NULL,
    CONSTRAINT outbox_retention_pkey PRIMARY KEY (only_row),
    CONSTRAINT outbox_retention_only_row_check CHECK (only_row)
);

-- Deletes up to p_batch events that were published longer ago than p_age, oldest first. Open events never go.
-- deleted_through is where the next batch begins (p_from): it does not walk again over what earlier batches deleted, which
-- an old snapshot may keep in the index.
CREATE FUNCTION outbox_delete_published(
    p_age interval, p_batch int, p_from timestamptz, OUT deleted bigint, OUT deleted_through timestamptz)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    WITH old AS MATERIALIZED (
        SELECT e.id, e.published_at FROM outbox_event e
         WHERE e.published_at IS NOT NULL AND e.published_at < statement_timestamp() - p_age
           AND e.published_at >= coalesce(p_from, '-infinity')
         ORDER BY e.published_at LIMIT p_batch FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM outbox_event e WHERE e.id = ANY (ARRAY(SELECT old.id FROM old)) RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), (SELECT max(old.published_at) FROM old) INTO deleted, deleted_through;
    INSERT INTO outbox_retention AS r (gone_until) SELECT deleted_through WHERE deleted_through IS NOT NULL
    ON CONFLICT (only_row) DO UPDATE SET gone_until = excluded.gone_until WHERE r.gone_until < excluded.gone_until;
END $$;

-- Deletes a batch of published events, as outbox_delete_published does, if the caller leads.
-- DEAD events, resolved or not, are an operator's (outbox_purge). leads = false: nothing was changed.
CREATE FUNCTION outbox_cleanup(
    p_name text, p_holder text, p_term bigint, p_retention interval, p_batch int, p_from timestamptz DEFAULT NULL,
    OUT leads boolean, OUT deleted bigint, OUT deleted_through timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    deleted := 0;
    PERFORM FROM outbox_leader l
      WHERE l.name = p_name AND l.holder = p_holder AND l.term = p_term AND l.expires_at > statement_timestamp() FOR SHARE;
    leads := FOUND;
    IF leads THEN
        SELECT d.deleted, d.deleted_through INTO deleted, deleted_through
          FROM outbox_delete_published(p_retention, p_batch, p_from) d;
    END IF;
END $$;

-- Deletes up to p_batch events of one kind of history that is older than p_age, oldest first: an operator's command.
-- p_kind: 'published', or 'resolved' (DEAD events that were discarded or skipped, by the time of that). Open events never go.
-- deleted_through is where the next batch begins (p_from), as for outbox_delete_published; resolved events have none.
CREATE FUNCTION outbox_purge(
    p_kind text, p_age interval, p_batch int, p_operator text, p_reason text DEFAULT NULL, p_from timestamptz DEFAULT NULL,
    OUT deleted bigint, OUT deleted_through timestamptz)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF p_kind = 'published' THEN
        SELECT d.deleted, d.deleted_through INTO deleted, deleted_through
          FROM outbox_delete_published(p_age, p_batch, p_from) d;
    ELSE
        DELETE FROM outbox_event e WHERE e.id = ANY (ARRAY(
            SELECT o.id FROM outbox_event o
             WHERE o.resolved_at IS NOT NULL AND o.resolved_at < statement_timestamp() - p_age
             ORDER BY o.resolved_at LIMIT p_batch FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS deleted = ROW_COUNT;
    END IF;
    PERFORM outbox_record(p_operator, p_reason, 'purge', deleted);
END $$;

-- Builds all lanes anew from the open events, unless each is as these say: there, not leased, with its head in reach, and
-- due no later than that. Refused while a lease is alive: the relays must be stopped, or an event could be sent by two of
-- them. Appends may go on; they wait for it. Returns the number of lanes that were built or taken away; 0: none was touched.
CREATE FUNCTION outbox_repair_lanes(p_operator text, p_reason text DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_idle bigint;
    v_lanes bigint;
BEGIN
    LOCK TABLE outbox_lane, outbox_claim, outbox_due_floor IN ACCESS EXCLUSIVE MODE;  -- after this every event appended before is visible
    IF EXISTS (SELECT FROM outbox_claim c WHERE c.reaped_at IS NULL AND c.lease_expires_at > statement_timestamp()) THEN
        RAISE EXCEPTION 'outbox_repair_lanes: a relay holds a lease' USING ERRCODE = 'object_in_use',
            HINT = 'Stop the relays, wait until their leases have run out, and call again.';
    END IF;
    IF NOT EXISTS (SELECT FROM outbox_lane l WHERE l.token IS NOT NULL) AND NOT EXISTS (
        SELECT FROM (
            SELECT DISTINCT ON (e.lane) e.lane, e.sequence, e.status, e.aggregate_type, e.next_attempt_at
              FROM outbox_event e WHERE e.published_at IS NULL AND e.resolved_at IS NULL
             ORDER BY e.lane, e.sequence) h
          LEFT JOIN outbox_lane l ON l.lane = h.lane
         WHERE l.lane IS NULL OR l.floor > h.sequence
            OR h.status <> 'DEAD' AND l.due_at > greatest(h.next_attempt_at, statement_timestamp())
            OR h.status <> 'DEAD' AND l.due_at IS NULL
               AND NOT EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = h.aggregate_type)) THEN
        RETURN 0;
    END IF;
    SELECT count(*) INTO v_idle FROM outbox_lane l
     WHERE NOT EXISTS (
           SELECT FROM outbox_event e WHERE e.published_at IS NULL AND e.resolved_at IS NULL AND e.lane = l.lane);
    TRUNCATE outbox_lane, outbox_claim, outbox_due_floor;
    INSERT INTO outbox_lane (lane, floor, due_at)
    SELECT DISTINCT ON (e.lane) e.lane, e.sequence,
           CASE WHEN e.status <> 'DEAD' THEN greatest(e.next_attempt_at, statement_timestamp()) END
      FROM outbox_event e WHERE e.published_at IS NULL AND e.resolved_at IS NULL
     ORDER BY e.lane, e.sequence;
    GET DIAGNOSTICS v_lanes = ROW_COUNT;
    v_lanes := v_lanes + v_idle;
    PERFORM outbox_record(p_operator, p_reason, 'repair', v_lanes);
    RETURN v_lanes;
END $$;

-- What must not exist. Reads all open events: for the doctor command and for tests, not for dashboards.
CREATE VIEW outbox_doctor AS
WITH head AS (
    SELECT DISTINCT ON (e.lane) e.lane, e.sequence, e.status, e.aggregate_type FROM outbox_event e
     WHERE e.published_at IS NULL AND e.resolved_at IS NULL ORDER BY e.lane, e.sequence
)
SELECT CASE WHEN l.lane IS NULL THEN 'open events without a lane'
            WHEN h.sequence < l.floor THEN 'an open event below the floor of its lane'
            WHEN l.token IS NOT NULL AND c.token IS NULL THEN 'a leased lane without its claim'
            WHEN l.token IS NULL AND l.due_at IS NULL AND h.status <> 'DEAD' AND NOT EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = h.aggregate_type)
                 THEN 'a parked lane whose head is neither DEAD nor paused' END AS problem,
       coalesce(h.lane, l.lane) AS lane, h.sequence AS head
  FROM head h
  FULL JOIN outbox_lane l ON l.lane = h.lane
  LEFT JOIN outbox_claim c ON c.token = l.token
 WHERE l.lane IS NULL OR h.sequence < l.floor OR l.token IS NOT NULL AND c.token IS NULL
    OR l.token IS NULL AND l.due_at IS NULL AND h.status <> 'DEAD' AND NOT EXISTS (SELECT FROM outbox_pause p WHERE p.aggregate_type = h.aggregate_type);
