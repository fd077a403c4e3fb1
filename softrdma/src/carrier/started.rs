//! What became of a request that a carrier started.

use crate::rules::requester::Outcome;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// It has ended. Others that are to be settled came before it.
    Ended(Outcome),
    /// It is with its target, among others that are told together when they are settled.
    Settles,
    /// Nothing happened: others are to be settled first, and it is to be started again.
    SettleFirst,
}

/// What became of a message that went without a lock of its target, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It does not go this way, and nothing happened.
    NotTaken,
    /// It is there. `true`: the peer may have gone to sleep meanwhile, and is to be woken.
    Done(bool),
    /// Whether it is there nobody knows yet.
    Unclear,
}
