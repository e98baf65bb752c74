//! The whole system: real processes, real servers, real signals.

mod api_document;
mod command_line;
mod commands;
mod contexts;
mod demo;
mod doctor;
mod faults;
mod inbox_over_http;
mod operations;
mod operators;
mod outbox_reaper_wiring;
mod pages;
mod relays;
mod runbooks;
mod sample_routes;
mod stopping;
mod tls;
mod traces;
mod world;
