//! What carries the requests of a queue pair to their targets.
//!
//! | file | what |
//! |---|---|
//! | [`wr`] | a send request, borrowed from whoever posts it |
//! | [`initiator`] | who sends |
//! | [`near`] | to other processes of this folder, and to the own one |
//!
//! A peer is an address (GID) and a number. What a number means inside is the carrier's own.

pub mod initiator;
pub mod near;
pub mod wr;
