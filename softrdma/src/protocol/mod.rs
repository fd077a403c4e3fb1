//! The protocol: pure functions and state machines without clock, I/O or globals.
//!
//! | file | what |
//! |---|---|
//! | [`verbs`] | the vocabulary, numbered as in `infiniband/verbs.h` |
//! | [`shared`] | the words that several processes write, behind the trait [`Memory`](shared::Memory) |
//! | [`transport`] | locks and bells, and the loop that runs a transaction |
//! | [`qp`] | states, their changes and what each does to the queues |
//! | [`request`], [`requester`] | the send queue: what is accepted, checked, tried again, completed, flushed |
//! | [`responder`], [`respond`] | what a target does with a request; the order in which it is done |
//! | [`keys`], [`timers`] | checks of memory keys and windows; encoded times |
//! | [`deliver`], [`claim`], [`flush`], [`breaks`] | the transactions: complete, take, flush, break |
//! | [`burst`] | many small messages of one sender in one transaction |
//! | [`direct`] | small messages of a connected queue pair without a lock |
//! | [`fence`] | a queue moved away from a holder that lives and does not go on |
//! | [`repair`] | what to do when the owner of a lock died within one |
//! | [`receive`], [`completion`] | entries of the rings and the owner's side: post, poll, arm |
#![forbid(unsafe_code)]

pub mod breaks;
pub mod burst;
pub mod claim;
pub mod completion;
pub mod deliver;
pub mod direct;
pub mod fence;
pub mod flush;
pub mod keys;
pub mod qp;
pub mod receive;
pub mod repair;
pub mod request;
pub mod requester;
pub mod respond;
pub mod responder;
pub mod shared;
pub mod timers;
pub mod transport;
pub mod verbs;
