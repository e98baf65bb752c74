//! The module on a real PostgreSQL: what its transactions promise, seen through its routes and its consumer.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests, which clippy takes for code")]

mod atomicity;
mod idempotency;
mod projection;
mod repositories;
mod routes;
mod world;
