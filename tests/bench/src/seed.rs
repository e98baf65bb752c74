//! Backlogs: many events at once, appended by one transaction that is committed when everything else is ready.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{error::BenchError, stage::execute};

/// The aggregate type of all events here.
pub(crate) const AGGREGATE_TYPE: &str = "bench";
/// Bytes of an event's payload unless a benchmark is about them.
pub(crate) const PAYLOAD_BYTES: usize = 300;

/// How events are spread over aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Ten events an aggregate; a thousand aggregates take turns.
    TenEach,
    /// Every event its own aggregate.
    OneEach,
    /// The k-th aggregate gets a share in proportion to 1/k, of as many aggregates as a tenth of the events.
    Zipf,
    /// One aggregate.
    Hot,
    /// A thousand aggregates take turns, each behind a DEAD head that an operator has to settle.
    Gated,
}

impl Shape {
    /// The aggregate of event `i` (from 1) of `events`, as SQL.
    fn aggregate(self, events: usize) -> String {
        match self {
            Self::TenEach => {
                let turn = (events / 10).clamp(1, 1_000);
                format!("'t-' || ((i - 1) / {} * {turn} + (i - 1) % {turn})", turn * 10)
            }
            Self::OneEach => "'o-' || i".to_owned(),
            // A density of 1/k is a logarithm that is even.
            Self::Zipf => format!("'z-' || floor(power({}, random()))::bigint", (events / 10).max(2)),
            Self::Hot => "'hot'".to_owned(),
            Self::Gated => "'g-' || i % 1000".to_owned(),
        }
    }
}

/// How large payloads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// This many bytes.
    Bytes(usize),
    /// Close to the largest that an event may have, of text that does not compress.
    Largest,
}

impl Payload {
    fn sql(self) -> String {
        match self {
            Self::Bytes(bytes) => format!("'{{\"filler\":\"{}\"}}'", "x".repeat(bytes.saturating_sub(13))),
            Self::Largest => "'{\"filler\":\"' || (SELECT string_agg(md5(i || '-' || g), '') \
                 FROM generate_series(1, 32767) g) || '\"}'"
                .to_owned(),
        }
    }
}

/// Events that are inserted and not yet committed: nobody sees them.
pub(crate) struct Backlog {
    connection: PgConnection,
    events: usize,
}

impl Backlog {
    /// Inserts the events. Their ids are alike to `UUIDv7`, their lanes are due in the order of their first events.
    pub(crate) async fn insert(
        database_url: &str,
        shape: Shape,
        events: usize,
        payload: Payload,
    ) -> Result<Self, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        let aggregate = shape.aggregate(events);
        let payload = payload.sql();
        let gate = match shape {
            Shape::Gated => {
                "UPDATE outbox_event SET status = 'DEAD', attempts = 3, last_error = 'bench' \
                  WHERE sequence IN (SELECT floor FROM outbox_lane);"
            }
            _ => "",
        };
        let statements = format!(
            "BEGIN; SELECT setseed(0.5); SET LOCAL outbox.lanes_are_taken = 'yes'; \
             INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
             SELECT (lpad(to_hex(1893456000000 + first + i), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'))::uuid, \
                    nextval('outbox_event_sequence'), '{AGGREGATE_TYPE}', s.aggregate, 'Benched', s.payload::json \
               FROM (SELECT i, {aggregate} AS aggregate, {payload} AS payload \
                       FROM generate_series(1, {events}) i ORDER BY i OFFSET 0) s, \
                    (SELECT last_value AS first FROM outbox_event_sequence OFFSET 0) q; \
             INSERT INTO outbox_lane (lane, floor, due_at) \
             SELECT lane, min(sequence), statement_timestamp() - interval '1 min' + min(sequence) * interval '1 us' \
               FROM outbox_event WHERE published_at IS NULL AND resolved_at IS NULL GROUP BY lane \
                 ON CONFLICT DO NOTHING; \
             {gate} ANALYZE outbox_event; ANALYZE outbox_lane"
        );
        execute(&mut connection, statements).await?;
        Ok(Self { connection, events })
    }

    /// Commits, wakes the relays, and returns the database's time just after the commit, in seconds. The commit flushes the
    /// log of the whole backlog, which is then no part of what is measured.
    pub(crate) async fn commit(mut self) -> Result<f64, BenchError> {
        execute(&mut self.connection, "COMMIT".to_owned()).await?;
        let committed = figure(&mut self.connection, "SELECT extract(epoch FROM clock_timestamp())::float8").await?;
        // An idle relay has looked a moment ago and would look at what was due before then only a quarter of a second later.
        let wake = "DELETE FROM outbox_due_floor; SELECT pg_notify('outbox_wakeup', '')";
        execute(&mut self.connection, wake.to_owned()).await?;
        Ok(committed)
    }

    pub(crate) const fn events(&self) -> usize {
        self.events
    }
}

/// Adds as many events as were taken away, ten an aggregate, all of which take turns, to be claimed behind those that wait
/// already. No statistics are taken: the others are as before.
pub(crate) async fn refill(connection: &mut PgConnection, events: usize) -> Result<(), BenchError> {
    let (payload, turn) = (Payload::Bytes(PAYLOAD_BYTES).sql(), (events / 10).max(1));
    let statements = format!(
        "BEGIN; SET LOCAL outbox.lanes_are_taken = 'yes'; \
         WITH fresh AS ( \
             INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
             SELECT (lpad(to_hex(1893456000000 + s.n), 12, '0') || '70008' || lpad(to_hex(s.n), 15, '0'))::uuid, s.n, \
                    '{AGGREGATE_TYPE}', 'f-' || s.first || '-' || (s.i - 1) % {turn}, 'Benched', {payload}::json \
               FROM (SELECT i, nextval('outbox_event_sequence') AS n, first \
                       FROM (SELECT last_value AS first FROM outbox_event_sequence OFFSET 0) q, \
                            generate_series(1, {events}) i OFFSET 0) s \
             RETURNING lane, sequence) \
         INSERT INTO outbox_lane (lane, floor, due_at) \
         SELECT lane, min(sequence), statement_timestamp() - interval '1 min' + min(sequence) * interval '1 us' \
           FROM fresh GROUP BY lane; \
         COMMIT"
    );
    execute(connection, statements).await
}

/// Adds history: events that were published long ago, in transactions of at most half a million.
pub(crate) async fn retain(database_url: &str, events: usize) -> Result<(), BenchError> {
    const AT_ONCE: usize = 500_000;
    let mut connection = PgConnection::connect(database_url).await?;
    execute(&mut connection, "SET synchronous_commit = off".to_owned()).await?;
    let payload = Payload::Bytes(PAYLOAD_BYTES).sql();
    let mut left = events;
    while left > 0 {
        let now = left.min(AT_ONCE);
        let statement = format!(
            "BEGIN; SET LOCAL outbox.lanes_are_taken = 'yes'; \
             INSERT INTO outbox_event \
                    (id, sequence, aggregate_type, aggregate_id, event_type, payload, status, created_at, published_at) \
             SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, n, \
                    '{AGGREGATE_TYPE}', 'r-' || n / 10, 'Benched', {payload}::json, 'PUBLISHED', \
                    statement_timestamp() - interval '1 day', statement_timestamp() - interval '1 day' + n * interval '1 us' \
               FROM (SELECT nextval('outbox_event_sequence') AS n FROM generate_series(1, {now}) OFFSET 0) s; \
             COMMIT"
        );
        execute(&mut connection, statement).await?;
        left -= now;
    }
    Ok(())
}

/// A number that a query of ours answers.
pub(crate) async fn count(connection: &mut PgConnection, query: &str) -> Result<i64, BenchError> {
    Ok(sqlx::query(AssertSqlSafe(query.to_owned())).fetch_one(connection).await?.try_get(0)?)
}

/// As [`count`], for a number with a fraction.
pub(crate) async fn figure(connection: &mut PgConnection, query: &str) -> Result<f64, BenchError> {
    Ok(sqlx::query(AssertSqlSafe(query.to_owned())).fetch_one(connection).await?.try_get(0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_bytes_they_were_asked_for() {
        let sql = Payload::Bytes(300).sql();
        assert_eq!(sql.trim_matches('\'').len(), 300);
    }

    #[test]
    fn a_small_backlog_has_fewer_aggregates_that_take_turns() {
        assert_eq!(Shape::TenEach.aggregate(200), "'t-' || ((i - 1) / 200 * 20 + (i - 1) % 20)");
        assert_eq!(Shape::TenEach.aggregate(100_000), "'t-' || ((i - 1) / 10000 * 1000 + (i - 1) % 1000)");
    }
}
