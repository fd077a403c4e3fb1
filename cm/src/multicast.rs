//! Joins of multicast groups.

use crate::address::Address;

/// A join.
pub(crate) struct Join {
    pub id: u32,
    pub uid: u64,
    pub address: Address,
    pub events_reported: u32,
}
