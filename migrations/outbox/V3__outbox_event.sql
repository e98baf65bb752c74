-- Events: what a transaction tells others, committed with the change that it tells of.

-- An object whose values are all strings. A domain checks a value once, when it comes in; a CHECK of the table would be
-- evaluated again by every update of the row, and these two are what makes a settling update a third dearer.
CREATE DOMAIN outbox_headers AS jsonb
    CONSTRAINT outbox_event_headers_size_check CHECK (octet_length(VALUE::text) <= 16384)
    -- strict: the lax mode would look into arrays and let ["a"] pass for a string.
    CONSTRAINT outbox_event_headers_check CHECK (
        jsonb_typeof(VALUE) = 'object'
        AND NOT jsonb_path_exists(VALUE, 'strict $.* ? (@.type() <> "string")', '{}', true));

CREATE TABLE outbox_event (
    id              uuid        NOT NULL,
    -- Drawn under the lane's lock (see append.sql and the trigger below): the order within the aggregate.
    sequence        bigint      NOT NULL,
    lane            bigint      NOT NULL GENERATED ALWAYS AS (outbox_lane_of(aggregate_type, aggregate_id)) STORED,
    aggregate_type  text        NOT NULL,
    aggregate_id    text        NOT NULL,
    event_type      text        NOT NULL,
    -- json keeps the bytes as they were appended; jsonb would rewrite numbers, key order and duplicate keys.
    payload         json        NOT NULL,
    -- Lets a claim bound its bytes without reading the payload.
    payload_bytes   int         NOT NULL GENERATED ALWAYS AS (octet_length(payload::text)) STORED,
    headers         outbox_headers NOT NULL DEFAULT '{}',
    -- IN_FLIGHT is not stored: it is a lease on the lane. The view outbox_event_state shows all five.
    status          text        NOT NULL DEFAULT 'PENDING',
    attempts        int         NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    published_at    timestamptz,
    last_error      text,
    resolved_at     timestamptz,
    resolution      text,
    replays         int         NOT NULL DEFAULT 0,
    CONSTRAINT outbox_event_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_event_status_check CHECK (status IN ('PENDING', 'FAILED', 'PUBLISHED', 'DEAD')),
    CONSTRAINT outbox_event_published_check CHECK ((status = 'PUBLISHED') = (published_at IS NOT NULL)),
    CONSTRAINT outbox_event_resolution_check CHECK (resolution IN ('skipped', 'discarded')),
    CONSTRAINT outbox_event_resolved_check CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
    CONSTRAINT outbox_event_resolved_dead_check CHECK (resolved_at IS NULL OR status = 'DEAD'),
    -- Infinity and years outside the calendar would make clients fail that read the row.
    CONSTRAINT outbox_event_created_at_check CHECK (
        created_at >= timestamptz '0001-01-01 00:00:00+00' AND created_at < timestamptz '10000-01-01 00:00:00+00'),
    CONSTRAINT outbox_event_attempts_check CHECK (attempts >= 0),
    CONSTRAINT outbox_event_replays_check CHECK (replays >= 0),
    CONSTRAINT outbox_event_aggregate_type_check CHECK (octet_length(aggregate_type) BETWEEN 1 AND 100),
    CONSTRAINT outbox_event_aggregate_id_check CHECK (octet_length(aggregate_id) BETWEEN 1 AND 200),
    CONSTRAINT outbox_event_event_type_check CHECK (octet_length(event_type) BETWEEN 1 AND 100),
    CONSTRAINT outbox_event_payload_check CHECK (payload_bytes <= 1048576)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.1);

-- The open events of a lane in order: runs, and the look for a lane's next head.
CREATE INDEX outbox_event_open ON outbox_event (lane, sequence) WHERE published_at IS NULL AND resolved_at IS NULL;
-- Cleanup by age.
CREATE INDEX outbox_event_published ON outbox_event (published_at) WHERE published_at IS NOT NULL;
-- Lists of failures and the dead-letter queue. Ordinary events never enter it.
CREATE INDEX outbox_event_troubled ON outbox_event (status, sequence) WHERE status IN ('FAILED', 'DEAD');

-- Any writer may append by a plain INSERT of (id, aggregate_type, aggregate_id, event_type, payload), which leaves
-- sequence NULL: the trigger locks the lane, then draws the sequence, as the append statement does.
-- A writer that appends several events should insert them ordered by lane, or two such writers can deadlock.
CREATE FUNCTION outbox_event_take_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox_lane AS l (lane, floor, due_at)
    SELECT outbox_lane_of(NEW.aggregate_type, NEW.aggregate_id), s.last_value, statement_timestamp()
      FROM outbox_event_sequence s
    ON CONFLICT (lane) DO UPDATE SET floor = l.floor WHERE false;  -- locks the row, writes nothing
    NEW.sequence := nextval('outbox_event_sequence');
    RETURN NEW;
END $$;

CREATE TRIGGER outbox_event_take_lane BEFORE INSERT ON outbox_event
FOR EACH ROW WHEN (NEW.sequence IS NULL) EXECUTE FUNCTION outbox_event_take_lane();
