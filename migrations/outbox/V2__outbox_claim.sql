-- Claims: the lease on a set of lanes, and its fence.
--
-- One narrow row for each claim. Renewal touches this row alone, never the lanes, which an appender may have locked.
-- Whoever settles or reaps locks this row first: it is the fence.
CREATE TABLE outbox_claim (
    token            uuid        NOT NULL,
    holder           text        NOT NULL,
    claimed_at       timestamptz NOT NULL DEFAULT statement_timestamp(),
    lease_expires_at timestamptz NOT NULL,
    -- All lanes that the claim took, and how many of them it still holds; the row goes with the last one.
    lanes            bigint[]    NOT NULL,
    held             int         NOT NULL,
    -- Lanes that it still holds, for appenders had them locked, but whose events it has settled.
    settled          bigint[]    NOT NULL DEFAULT '{}',
    -- Set by the reaper: the token is void. The row outlives this moment only while lanes of it are locked by appenders.
    reaped_at        timestamptz,
    CONSTRAINT outbox_claim_pkey PRIMARY KEY (token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Random 64-bit numbers do not compress; out of line they are not copied by a renewal.
ALTER TABLE outbox_claim ALTER COLUMN lanes SET STORAGE EXTERNAL;

-- What an operator has paused. A run ends at the first event of a paused type; a lane whose head is of a paused type parks
-- until the type is resumed.
CREATE TABLE outbox_pause (
    -- The empty text, which is no type, pauses everything: then no claim takes anything, and no lane needs to park.
    aggregate_type text        NOT NULL,
    paused_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    operator       text        NOT NULL,
    reason         text,
    -- Set by a resume: no claim sees the pause any more. The row goes when all lanes that the pause parked are woken.
    resumed_at     timestamptz,
    CONSTRAINT outbox_pause_pkey PRIMARY KEY (aggregate_type)
);
