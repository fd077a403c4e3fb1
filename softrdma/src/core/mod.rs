//! The protocol: pure functions and state machines without clock, I/O or globals.
//!
//! | file | what |
//! |---|---|
//! | [`verbs`] | the vocabulary, numbered as in `infiniband/verbs.h` |
//! | [`shared`] | the words that several processes write, behind the trait [`Memory`](shared::Memory) |
//! | [`transport`] | locks and bells, and the loop that runs a transaction |
//! | [`deliver`], [`claim`] | the transactions: complete a receive request; take one from a shared receive queue |
//! | [`repair`] | what to do when the owner of a lock died within one |
//! | [`receive`], [`completion`] | entries of the rings and the owner's side: post, poll, arm |
#![forbid(unsafe_code)]

pub mod claim;
pub mod completion;
pub mod deliver;
pub mod receive;
pub mod repair;
pub mod shared;
pub mod transport;
pub mod verbs;
