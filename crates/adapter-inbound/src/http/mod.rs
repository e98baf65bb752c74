//! The operations HTTP.
