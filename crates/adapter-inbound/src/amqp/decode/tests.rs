//! Decode tests.
