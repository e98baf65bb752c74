//! Test support for this workspace and its clones.

pub mod clock;
pub mod fixtures;
pub mod in_memory;
pub mod servers;
