//! Words that processes share: the queues in a target's memory, and the transactions that change them.
//!
//! | file | what |
//! |---|---|
//! | [`shared`] | the words that several processes write, behind the trait [`Memory`](shared::Memory) |
//! | [`transaction`] | what a transaction is: steps that each change one word |
//! | [`transport`] | locks and bells, and the loop that carries a transaction through |
//! | [`respond`] | what a target does with a request, in the order in which it is done |
//! | [`plain`] | the same of a send where nothing stands in its way |
//! | [`deliver`], [`claim`], [`flush`], [`breaks`] | the transactions: complete, take, flush, break |
//! | [`burst`] | many small messages of one sender in one transaction |
//! | [`direct`] | small messages of a connected queue pair without a lock |
//! | `fence` | a queue moved away from a holder that lives and does not go on |
//! | [`repair`] | what to do when the owner of a lock died within one |
//! | [`receive`], [`completion`] | entries of the rings; arming a completion queue |
#![forbid(unsafe_code)]

pub mod breaks;
pub mod burst;
pub mod claim;
pub mod completion;
pub mod deliver;
pub mod direct;
pub(crate) mod fence;
pub mod flush;
pub mod plain;
pub mod receive;
pub mod repair;
pub mod respond;
pub mod shared;
pub mod transaction;
pub mod transport;
