//! The whole system: real processes, real servers, real signals.

mod api_document;
mod command_line;
mod commands;
mod faults;
mod operations;
mod outbox_reaper_wiring;
mod relays;
mod runbooks;
mod stopping;
mod world;
