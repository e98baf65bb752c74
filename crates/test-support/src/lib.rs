//! Test support for this workspace and its clones.

pub mod checker;
pub mod clock;
pub mod contracts;
pub mod corpus;
pub mod documents;
pub mod fixtures;
pub mod in_memory;
pub mod operate;
pub mod servers;
pub mod tls;
pub mod webhook;
