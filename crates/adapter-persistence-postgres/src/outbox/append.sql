-- Append: all events of one unit of work, in one statement, sent when the unit of work commits.
--
-- $1 uuid[] ids, $2 text[] aggregate types, $3 text[] aggregate ids, $4 text[] event types, $5 text[] payloads (JSON),
-- $6 text[] headers (JSON objects of strings). Returns id and sequence, in array order.
--
-- Lanes are locked in lane order, so two appends cannot deadlock. DO UPDATE ... WHERE false locks a lane that exists
-- without writing a new version of its row (a hot aggregate leaves no dead rows behind), and inserts one that does not.
-- The count over "locked" ends only when every lane is locked; only then is the first sequence drawn.
-- A lane that is created starts at a floor read before its lock: every event appended under the lock lies above. While
-- PostgreSQL logs a sequence ahead, a reader sees a last_value that is 32 too large: hence the distance.
-- The table takes sequences from nobody who has not said that the lanes are taken (outbox_event_refuse_sequence).
-- An id that exists is a unique_violation (23505), never swallowed.
WITH event AS MATERIALIZED (
    SELECT e.*, outbox_lane_of(e.aggregate_type, e.aggregate_id) AS lane
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
           WITH ORDINALITY AS e (id, aggregate_type, aggregate_id, event_type, payload, headers, position)
), locked AS (
    INSERT INTO outbox_lane AS l (lane, floor, due_at)
    SELECT d.lane, (SELECT s.last_value - 1000 FROM outbox_event_sequence s), statement_timestamp()
      FROM (SELECT DISTINCT event.lane FROM event) d
     ORDER BY d.lane
    ON CONFLICT (lane) DO UPDATE SET floor = l.floor WHERE false
    RETURNING 1
)
INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload, headers)
SELECT o.id, nextval('outbox_event_sequence'), o.aggregate_type, o.aggregate_id, o.event_type, o.payload::json, o.headers::jsonb
  FROM (SELECT event.* FROM event CROSS JOIN (SELECT count(*), set_config('outbox.lanes_are_taken', 'yes', true) FROM locked) barrier ORDER BY event.position OFFSET 0) o
RETURNING id, sequence;
