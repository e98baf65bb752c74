-- Which idempotency keys were used, for which request and with which result. The key counts within its portfolio.
CREATE TABLE work_log_idempotency (
    portfolio_id   uuid        NOT NULL,
    key            text        NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 128),
    request_digest bytea       NOT NULL CHECK (octet_length(request_digest) = 32),
    result         jsonb       NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (portfolio_id, key)
);

-- Retention by age.
CREATE INDEX work_log_idempotency_created ON work_log_idempotency (created_at);

COMMENT ON COLUMN work_log_idempotency.request_digest IS 'SHA-256: the request itself may be personal.';
COMMENT ON COLUMN work_log_idempotency.created_at IS 'A row is deleted when http.idempotency_key_retention is over: no client tries again by then.';
