//! Contracts between parts: the same tests for every adapter of a port, and what code, SQL and docs must agree upon.
