//! The module on a real PostgreSQL: what its transactions promise, seen through its routes and its consumer.

mod atomicity;
mod idempotency;
mod projection;
mod repositories;
mod routes;
mod world;
