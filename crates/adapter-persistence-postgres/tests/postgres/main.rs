//! The adapter against a real PostgreSQL: one binary, because linking dominates the build.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests, which clippy takes for code")]

mod append;
mod claim;
mod connection;
mod contract;
mod doctor;
mod inbox;
mod leadership;
mod maintenance;
mod many_dead;
mod migrate;
mod operate;
mod pooler;
mod readiness;
mod roles;
mod search_path;
mod settle;
mod side_by_side;
mod support;
mod tls;
mod wakeup;
