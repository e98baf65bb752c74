//! The bounds of an event, once in code.
//!
//! The domains of the table's columns repeat them for writers in other languages; a property test compares the two
//! (`the_table_takes_what_the_core_takes_and_nothing_else`, rule R8).

/// Longest `aggregate_type`, in bytes.
pub const MAX_AGGREGATE_TYPE_BYTES: usize = 100;
/// Longest `aggregate_id`, in bytes.
pub const MAX_AGGREGATE_ID_BYTES: usize = 200;
/// Longest `event_type`, in bytes.
pub const MAX_EVENT_TYPE_BYTES: usize = 100;
/// Largest payload, in bytes of JSON text: far below RabbitMQ's default message limit of 128 MiB.
pub const MAX_PAYLOAD_BYTES: usize = 1_048_576;
/// Deepest nesting of a payload: what a recursive reader with a limit of 128 still reads inside an envelope.
pub const MAX_PAYLOAD_DEPTH: usize = 100;
/// Largest headers, in bytes of the JSON object as `jsonb` writes it, with a space after each colon and comma.
pub const MAX_HEADERS_BYTES: usize = 16_384;
/// Longest name of an operator, in bytes.
pub const MAX_OPERATOR_BYTES: usize = 100;
/// Longest reason of an operator, in bytes.
pub const MAX_REASON_BYTES: usize = 500;
/// Longest `last_error`, in bytes.
pub const MAX_ERROR_BYTES: usize = 1_000;
