//! The protocol: pure functions and state machines without clock, I/O or globals.
#![forbid(unsafe_code)]
