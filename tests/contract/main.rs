//! Contracts between parts: what only several of them together can break, and what code, SQL and docs must agree upon.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests, which clippy takes for code")]

mod claim_work;
mod cost;
mod documentation;
mod event_documents;
mod event_payload_pii_contract;
mod events_program;
mod lane_protocol;
mod monitoring;
mod outages;
mod outbox_append_transactional_contract;
mod outbox_message_publish_adapter;
mod outbox_publisher_leader_election_contract;
mod outbox_reaper;
mod outbox_reaper_wiring;
mod outbox_row_lifecycle_contract;
mod outbox_status_registry_contract;
mod outbox_store_adapter;
mod payload_fidelity;
mod plans;
mod postgres;
mod random;
mod refusals;
mod relay;
