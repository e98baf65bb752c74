-- Events: what a transaction tells others, committed with the change that it tells of.

-- What a column takes is the core's bound (bounds.rs), held against writers in any language. A domain checks a value once,
-- when it comes in; a CHECK of the table would be evaluated again by every update of the row, and the two of the headers
-- alone make a settling update a third dearer. The names say the bound, because the error shows the name alone.
CREATE DOMAIN outbox_aggregate_type AS text
    CONSTRAINT aggregate_type_has_1_to_100_bytes CHECK (octet_length(VALUE) BETWEEN 1 AND 100)
    CONSTRAINT aggregate_type_has_no_control_character CHECK (VALUE !~ '[\u0001-\u001f\u007f-\u009f]');

CREATE DOMAIN outbox_aggregate_id AS text
    CONSTRAINT aggregate_id_has_1_to_200_bytes CHECK (octet_length(VALUE) BETWEEN 1 AND 200)
    CONSTRAINT aggregate_id_has_no_control_character CHECK (VALUE !~ '[\u0001-\u001f\u007f-\u009f]');

CREATE DOMAIN outbox_event_type AS text
    CONSTRAINT event_type_has_1_to_100_bytes CHECK (octet_length(VALUE) BETWEEN 1 AND 100)
    CONSTRAINT event_type_has_no_control_character CHECK (VALUE !~ '[\u0001-\u001f\u007f-\u009f]');

-- Whether JSON text is nested more than p_levels deep. What is no bracket, and every string, goes first; then each turn
-- takes the innermost level away.
CREATE FUNCTION outbox_json_is_deeper(p_json text, p_levels int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_brackets text := translate(regexp_replace(p_json, '(?:[^][{}"]|"(?:[^"\\]|\\.)*")+', '', 'g'), '{}', '[]');
BEGIN
    FOR v_level IN 1 .. p_levels LOOP
        EXIT WHEN v_brackets = '';
        v_brackets := replace(v_brackets, '[]', '');
    END LOOP;
    RETURN v_brackets <> '';
END $$;

-- json keeps the bytes as they were appended; jsonb would rewrite numbers, key order and duplicate keys.
-- Few payloads have an escape \u or a hundred opening brackets: the others are not looked at more closely.
CREATE DOMAIN outbox_payload AS json
    CONSTRAINT payload_has_at_most_1048576_bytes CHECK (octet_length(VALUE::text) <= 1048576)
    CONSTRAINT payload_has_at_most_100_levels CHECK (
        CASE WHEN octet_length(VALUE::text) - octet_length(replace(replace(VALUE::text, '[', ''), '{', '')) > 100
             THEN NOT outbox_json_is_deeper(VALUE::text, 100) ELSE true END)
    -- Escaped backslashes go first, since what follows them is no escape; then whole pairs.
    CONSTRAINT payload_has_no_nul_and_no_half_surrogate CHECK (
        CASE WHEN strpos(VALUE::text, '\u') > 0
             THEN regexp_replace(replace(VALUE::text, '\\', '--'), '\\u[dD][89abAB]..\\u[dD][c-fC-F]..', '', 'g')
                  !~ '\\u(0000|[dD][89a-fA-F])' ELSE true END);

-- An object whose values are all strings.
CREATE DOMAIN outbox_headers AS jsonb
    CONSTRAINT headers_have_at_most_16384_bytes CHECK (octet_length(VALUE::text) <= 16384)
    -- strict: the lax mode would look into arrays and let ["a"] pass for a string.
    CONSTRAINT headers_are_an_object_of_strings CHECK (
        jsonb_typeof(VALUE) = 'object'
        AND NOT jsonb_path_exists(VALUE, 'strict $.* ? (@.type() <> "string")', '{}', true))
    CONSTRAINT headers_have_no_empty_name CHECK (NOT VALUE ? '')
    CONSTRAINT headers_have_no_empty_idempotency_key CHECK (VALUE ->> 'idempotencyKey' IS DISTINCT FROM '')
    -- jsonb writes control characters below 0x20 as escapes, and no others but \" and \\.
    CONSTRAINT headers_have_no_control_character CHECK (VALUE::text ~ '^(?:[^\\\u007f-\u009f]|\\["\\])*$');

CREATE TABLE outbox_event (
    id              uuid        NOT NULL,
    -- Drawn under the lane's lock (see append.sql and the trigger below): the order within the aggregate.
    sequence        bigint      NOT NULL,
    lane            bigint      NOT NULL GENERATED ALWAYS AS (outbox_lane_of(aggregate_type, aggregate_id)) STORED,
    aggregate_type  outbox_aggregate_type NOT NULL,
    aggregate_id    outbox_aggregate_id   NOT NULL,
    event_type      outbox_event_type     NOT NULL,
    payload         outbox_payload NOT NULL,
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
    CONSTRAINT outbox_event_times_check CHECK (
        next_attempt_at >= timestamptz '0001-01-01 00:00:00+00' AND next_attempt_at < timestamptz '10000-01-01 00:00:00+00'
        AND published_at >= timestamptz '0001-01-01 00:00:00+00' AND published_at < timestamptz '10000-01-01 00:00:00+00'
        AND resolved_at >= timestamptz '0001-01-01 00:00:00+00' AND resolved_at < timestamptz '10000-01-01 00:00:00+00'),
    CONSTRAINT outbox_event_attempts_check CHECK (attempts >= 0),
    CONSTRAINT outbox_event_replays_check CHECK (replays >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.1);

-- The open events of a lane in order: runs, and the look for a lane's next head.
CREATE INDEX outbox_event_open ON outbox_event (lane, sequence) WHERE published_at IS NULL AND resolved_at IS NULL;
-- Cleanup by age.
CREATE INDEX outbox_event_published ON outbox_event (published_at) WHERE published_at IS NOT NULL;
-- Ordinary events never enter the next three, so that they cost an append and a settlement nothing.
-- Lists of failures, page by page: the order is that of the pages.
CREATE INDEX outbox_event_troubled ON outbox_event (status, id) WHERE status IN ('FAILED', 'DEAD');
-- The dead-letter queue, oldest first: what was resolved is kept and may be much, and is not walked over.
CREATE INDEX outbox_event_dead ON outbox_event (sequence) WHERE status = 'DEAD' AND resolved_at IS NULL;
-- Purging what was resolved, by age: what is not may be much, and is not walked over.
CREATE INDEX outbox_event_resolved ON outbox_event (resolved_at) WHERE resolved_at IS NOT NULL;

-- Any writer may append by a plain INSERT of (id, aggregate_type, aggregate_id, event_type, payload), which leaves
-- sequence NULL: the trigger locks the lane, then draws the sequence, as the append statement does.
-- A writer that appends several events should insert them ordered by lane, or two such writers can deadlock.
CREATE FUNCTION outbox_event_take_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox_lane AS l (lane, floor, due_at)
    SELECT outbox_lane_of(NEW.aggregate_type, NEW.aggregate_id), s.last_value - 1000, statement_timestamp()
      FROM outbox_event_sequence s
    ON CONFLICT (lane) DO UPDATE SET floor = l.floor WHERE false;  -- locks the row, writes nothing
    NEW.sequence := nextval('outbox_event_sequence');
    RETURN NEW;
END $$;

CREATE TRIGGER outbox_event_take_lane BEFORE INSERT ON outbox_event
FOR EACH ROW WHEN (NEW.sequence IS NULL) EXECUTE FUNCTION outbox_event_take_lane();

-- A sequence of a writer's own would be drawn without the lane's lock: the event could be overtaken, or stay without a
-- lane and never be sent. append.sql, which has locked the lanes, says so by this setting until its statement ends.
-- A restore of a whole dump creates triggers after the data. One of data alone, lanes included, sets it as well:
-- PGOPTIONS='-c outbox.lanes_are_taken=yes', or pg_restore --disable-triggers.
-- It comes before outbox_event_take_lane, which fills the column: triggers fire in the order of their names.
CREATE FUNCTION outbox_event_refuse_sequence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'outbox_event.sequence must be left out, it is %', NEW.sequence
        USING ERRCODE = 'generated_always', TABLE = 'outbox_event', COLUMN = 'sequence',
              DETAIL = 'It is drawn under the lock of the aggregate''s lane, by a trigger.',
              HINT = 'Leave the column out of the INSERT. To load a dump of data alone, set outbox.lanes_are_taken to yes.';
END $$;

CREATE TRIGGER outbox_event_refuse_sequence BEFORE INSERT ON outbox_event
FOR EACH ROW WHEN (NEW.sequence IS NOT NULL AND current_setting('outbox.lanes_are_taken', true) IS DISTINCT FROM 'yes')
EXECUTE FUNCTION outbox_event_refuse_sequence();

-- A later statement of the same transaction has taken no lanes.
CREATE FUNCTION outbox_event_forget_lanes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('outbox.lanes_are_taken', 'no', true);
    RETURN NULL;
END $$;

CREATE TRIGGER outbox_event_forget_lanes AFTER INSERT ON outbox_event
FOR EACH STATEMENT WHEN (current_setting('outbox.lanes_are_taken', true) = 'yes')
EXECUTE FUNCTION outbox_event_forget_lanes();
