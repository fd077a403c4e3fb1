//! The number of a channel, which commands, ids and actions name.

/// A channel: one open of the device. Numbers are never used twice in one manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File(pub u64);
