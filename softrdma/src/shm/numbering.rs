//! How a process chooses the numbers by which others name its queue pairs and memory keys.

use ironverbs_os::sys;

use super::error::{Error, Result};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// In order: the tables stay short.
    InOrder,
    /// At random among the free ones, as long as who is on another host is not to guess them.
    AtRandom,
}

impl Numbering {
    /// Whether numbers are chosen at random.
    #[must_use]
    pub fn is_random(self) -> bool {
        self == Numbering::AtRandom
    }
}

/// A random number below a bound, by the system's generator. The bound is small beside 2^64, so that all are
/// as likely as can be.
///
/// # Errors
/// [`Error::Os`] of `getrandom`; [`Error::OutOfBounds`] for a bound of 0.
pub(super) fn below(bound: u32) -> Result<u32> {
    sys::random()?.checked_rem(u64::from(bound)).map(|number| number as u32).ok_or(Error::OutOfBounds)
}
