//! What the machine calls an open of the device.

/// A channel: one open of the device. Numbers are never used twice in one [`Manager`](crate::Manager).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File(pub u64);
