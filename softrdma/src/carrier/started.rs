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
