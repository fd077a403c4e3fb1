//! What RDMA says: pure functions and state machines without clock, I/O or globals.
//!
//! | file | what |
//! |---|---|
//! | [`verbs`] | the vocabulary, numbered as in `infiniband/verbs.h` |
//! | [`qp`] | states, their changes and what each does to the queues |
//! | [`request`], [`requester`] | the send queue: what is accepted, checked, tried again, completed, flushed |
//! | [`receive`], [`completion`] | receive requests and completions, as the program sees them |
//! | [`responder`] | what a target does with a request |
//! | [`keys`], [`timers`] | checks of memory keys and windows; encoded times |
#![forbid(unsafe_code)]

pub mod completion;
pub mod keys;
pub mod qp;
pub mod receive;
pub mod request;
pub mod requester;
pub mod responder;
pub mod timers;
pub mod verbs;
