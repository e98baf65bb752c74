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

-- Who has parked an aggregate, whichever consumer: outbox_record_unpark.
CREATE INDEX outbox_inbox_parked_aggregate ON outbox_inbox_parked (aggregate_type, aggregate_id);

-- What a person does to them leaves a record, as what is done to events does (outbox_audit).

-- Lets a consumer forget events, so that a replay of them has its effect again. Returns those that were recorded.
CREATE FUNCTION outbox_forget(p_consumer text, p_events uuid[], p_operator text, p_reason text DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_events uuid[];
BEGIN
    WITH gone AS (
        DELETE FROM outbox_inbox i WHERE i.consumer = p_consumer AND i.event_id = ANY (p_events) RETURNING i.event_id
    ) SELECT ARRAY(SELECT g.event_id FROM gone g) INTO v_events;
    PERFORM outbox_record(p_operator, p_reason, 'forget', cardinality(v_events), v_events, p_consumer => p_consumer);
    RETURN QUERY SELECT unnest(v_events);
END $$;

-- Records that a person asks for the parked messages of an aggregate to be handled, or for one of them to be given up
-- (p_discarded). The messages are the broker's: this comes first, so that nothing is asked for without a record. Returns for
-- how many consumers the aggregate is parked; 0: nothing is recorded, and there is nothing to ask for. p_unmarked: messages
-- may be parked without a mark for their aggregate, so that this cannot tell, and takes it for one. p_consumer: whose message
-- is given up; nobody in particular: those of all.
CREATE FUNCTION outbox_record_unpark(
    p_aggregate_type text, p_aggregate_id text, p_discarded uuid, p_operator text, p_reason text DEFAULT NULL,
    p_unmarked boolean DEFAULT false, p_consumer text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_parked bigint;
BEGIN
    SELECT count(*) INTO v_parked FROM outbox_inbox_parked p
     WHERE p.aggregate_type = p_aggregate_type AND p.aggregate_id = p_aggregate_id;
    IF p_unmarked THEN
        v_parked := greatest(v_parked, 1);
    END IF;
    PERFORM outbox_record(
        p_operator, p_reason, CASE WHEN p_discarded IS NULL THEN 'unpark' ELSE 'discard_parked' END, v_parked,
        array_remove(ARRAY[p_discarded], NULL), p_aggregate_type, p_aggregate_id, p_consumer);
    RETURN v_parked;
END $$;
