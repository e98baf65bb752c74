-- The work logs of all portfolios. The bounds are those of the domain, for writers that pass it by.
CREATE TABLE work_log (
    id              uuid        PRIMARY KEY,
    portfolio_id    uuid        NOT NULL,
    title           text        NOT NULL CHECK (char_length(title) BETWEEN 1 AND 200),
    planned_minutes integer     NOT NULL CHECK (planned_minutes BETWEEN 1 AND 1440),
    spent_minutes   integer     CHECK (spent_minutes BETWEEN 1 AND 1440),
    status          text        NOT NULL CHECK (status IN ('RESERVED', 'STARTED', 'COMPLETED', 'CANCELLED')),
    version         integer     NOT NULL CHECK (version >= 1),
    reserved_at     timestamptz NOT NULL,
    changed_at      timestamptz NOT NULL,
    CHECK ((status = 'COMPLETED') = (spent_minutes IS NOT NULL))
);

-- Pages are read by portfolio in the order of ids.
CREATE UNIQUE INDEX work_log_portfolio ON work_log (portfolio_id, id);

COMMENT ON COLUMN work_log.title IS 'May be personal: it leaves the service in no event.';
