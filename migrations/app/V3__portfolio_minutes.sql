-- A projection: sums over the events of work logs that were consumed so far. It can be rebuilt from them.
CREATE TABLE portfolio_minutes (
    portfolio_id      uuid        PRIMARY KEY,
    completed_minutes bigint      NOT NULL CHECK (completed_minutes >= 0),
    reserved          bigint      NOT NULL CHECK (reserved >= 0),
    started           bigint      NOT NULL CHECK (started >= 0),
    completed         bigint      NOT NULL CHECK (completed >= 0),
    cancelled         bigint      NOT NULL CHECK (cancelled >= 0),
    updated_at        timestamptz NOT NULL DEFAULT now()
);
