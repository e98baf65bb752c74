//! The contexts as they run, each in a file below: `cargo xtask new aggregate` and `new consumer` write one.

mod portfolio;
