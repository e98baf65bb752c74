-- Inbox: which events a consumer has had its effects of, recorded in the transaction of these effects.
CREATE TABLE outbox_inbox (
    consumer     text        NOT NULL,
    event_id     uuid        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_inbox_pkey PRIMARY KEY (consumer, event_id),
    CONSTRAINT outbox_inbox_consumer_check CHECK (octet_length(consumer) BETWEEN 1 AND 100)
);

-- Retention by age.
CREATE INDEX outbox_inbox_processed ON outbox_inbox (processed_at);

-- Aggregates whose event a consumer could not handle: later events of the same aggregate wait behind it.
CREATE TABLE outbox_inbox_parked (
    consumer       text        NOT NULL,
    aggregate_type text        NOT NULL,
    aggregate_id   text        NOT NULL,
    event_id       uuid        NOT NULL,
    reason         text        NOT NULL,
    parked_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT outbox_inbox_parked_pkey PRIMARY KEY (consumer, aggregate_type, aggregate_id),
    CONSTRAINT outbox_inbox_parked_consumer_check CHECK (octet_length(consumer) BETWEEN 1 AND 100)
);
