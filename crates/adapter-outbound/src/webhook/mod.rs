//! Webhooks: each event is one signed `POST` to the URL that its types lead to.
//!
//! # Request
//! The body is the event in the form of the settings ([`crate::envelope`]). Three headers follow the scheme of Standard
//! Webhooks: `webhook-id` is the event's id, by which a receiver recognises a redelivery; `webhook-timestamp` is when this
//! attempt was made, in seconds since 1970; `webhook-signature` holds a signature for each secret of the settings, so that
//! secrets can be changed without a gap. Signed are id, time and body, and no other header.
//!
//! What travels in headers over AMQP does so here under the same names, attributes of CloudEvents under `ce-`. Their
//! values are percent-encoded: space, `"`, `%` and whatever is not visible ASCII. `traceparent`, `tracestate` and
//! `baggage` go as they are.
//!
//! # Classes
//! An answer or its absence, and whose fault it is (rule R5):
//!
//! | met | class | why |
//! | --- | --- | --- |
//! | 200 to 299 | confirmed | the receiver has taken responsibility |
//! | no connection (refused, unknown name, certificate), connection lost, no answer in time, no HTTP | *unavailable* | it says nothing about the event |
//! | 401 | *unavailable* | secret and receiver do not fit; no event is to blame |
//! | 408, 429, 502, 503, 504 | *unavailable* | the receiver, or what stands before it, cannot take anything now |
//! | 300 to 399 | *unroutable* | nobody takes it at this URL; a redirect is not followed, for it would lead the signature elsewhere |
//! | 404, 410 | *unroutable* | nobody takes it at this URL |
//! | 413, 431 | *poison* | body or headers are over the receiver's limit |
//! | any other 4xx or 5xx | *rejected* | it may be this event or all of them |
//!
//! 500 is no outage by itself: one event that the receiver stumbles over would pause its host for all others, for ever.
//! As *rejected* it is judged by what becomes of the others ([`application_core::outbox::Breaker`]): while none is
//! confirmed, nothing is charged and the host pauses.
//!
//! The port has no way to say how long a destination should pause: what a receiver asks for in `retry-after` is told in
//! the reason of the failure, and the pauses are the breaker's own.

mod address;
mod client;
mod failure;
mod message;
mod publisher;
mod route;
mod settings;
mod signature;

pub use self::{
    message::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP},
    publisher::WebhookOutboxMessagePublisher,
    settings::{WebhookOverride, WebhookSettings},
};
