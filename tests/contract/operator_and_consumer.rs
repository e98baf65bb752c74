//! The suites of the ports that operators, dashboards and consumers use, against PostgreSQL.

use test_support::{inbox_contract, outbox_operations_contract, outbox_statistics_contract};

use super::postgres::Postgres;

outbox_operations_contract!(Postgres);
outbox_statistics_contract!(Postgres);
inbox_contract!(Postgres);
