//! Test support for this workspace and its clones.

pub mod servers;
