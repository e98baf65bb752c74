-- Lanes: the queue of one aggregate.
--
-- A lane exists exactly while its aggregate has open events (neither published nor resolved). The append locks the
-- lane's row before it draws sequence numbers and keeps the lock to the end of its transaction, so that within an
-- aggregate the order of sequence is the order of commit, and whoever holds the lock misses no uncommitted event.
-- A relay leases lanes, not events: an event row is written once when appended and once when settled.

-- CACHE 1 and NO CYCLE are promises that the order rests upon: a cached block would be handed out behind the lock.
CREATE SEQUENCE outbox_event_sequence AS bigint CACHE 1 NO CYCLE;

-- The lane of an aggregate. Two aggregates whose hashes collide share a lane: they are merely ordered together.
CREATE FUNCTION outbox_lane_of(p_aggregate_type text, p_aggregate_id text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(p_aggregate_id, hashtextextended(p_aggregate_type, 0));

CREATE TABLE outbox_lane (
    lane            bigint      NOT NULL,
    -- No open event of the lane lies below: a run starts here and walks no index entries of settled events.
    floor           bigint      NOT NULL,
    -- When a relay may claim the lane. NULL: leased, or parked behind a DEAD or paused head until an operator acts.
    due_at          timestamptz,
    -- The claim that leases the lane, and the run of events that it took.
    token           uuid,
    claimed_from    bigint,
    claimed_through bigint,
    -- Leases that ran out on the event that is the lane's head now.
    expiries        smallint    NOT NULL DEFAULT 0,
    CONSTRAINT outbox_lane_pkey PRIMARY KEY (lane),
    CONSTRAINT outbox_lane_lease_check CHECK (
        (token IS NULL) = (claimed_from IS NULL) AND (token IS NULL) = (claimed_through IS NULL)
        AND (token IS NULL OR due_at IS NULL))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- Leased lanes stay out of this index: under an old snapshot the dead entries of lanes that come and go would be
-- met again by every poll. Parked lanes stay in it, at its end (NULLS LAST), where only an operator's listing looks.
CREATE INDEX outbox_lane_due ON outbox_lane (due_at) WHERE token IS NULL;

-- Where the look for due lanes starts. Claimed lanes leave dead entries at the front of outbox_lane_due, and an old
-- snapshot keeps all of them: without this, every poll would walk them again. Rows are only inserted, one for each look
-- at the whole index (four a second at most), so no claim waits for another, and a frozen one holds nobody up.
CREATE TABLE outbox_due_floor (
    looked_at    timestamptz NOT NULL,
    -- At looked_at no lane was due before this moment.
    due_from     timestamptz NOT NULL,
    -- Lanes that became visible below due_from (their append committed more than 250 ms later) wait until then, and two
    -- seconds longer while every claim finds others and nobody claims what is overdue.
    next_look_at timestamptz NOT NULL,
    CONSTRAINT outbox_due_floor_pkey PRIMARY KEY (looked_at)
);
