//! Multicast groups: which queue pairs are in which.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::carrier::near::multicast::Table;
use crate::rules::verbs::QpType;
use crate::shm::addresses::is_group;

use super::{Device, Error, QueuePair, Result};

/// The own memberships.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Made with the first.
    table: Mutex<Option<Table>>,
}

impl Device {
    /// Puts a datagram queue pair into a group (`ibv_attach_mcast`). Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another kind of queue pair or an address that is no group's; [`Error::NoMemory`]
    /// at the limits.
    pub fn attach_multicast(&self, qp: &QueuePair, gid: &[u8; 16]) -> Result<()> {
        if qp.qp_type() != QpType::Ud || !is_group(gid) {
            return Err(Error::Invalid("queue pair or address of a multicast group"));
        }
        let mut table = self.groups.table.lock().unwrap_or_else(PoisonError::into_inner);
        let table = match &mut *table {
            Some(table) => table,
            none => none.insert(Table::new(&self.endpoint)?),
        };
        if table.add(&self.endpoint, qp.index(), gid)? {
            qp.groups.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Takes a queue pair out of a group.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not in it.
    pub fn detach_multicast(&self, qp: &QueuePair, gid: &[u8; 16]) -> Result<()> {
        let mut table = self.groups.table.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = match &mut *table {
            Some(table) => table.remove(&self.endpoint, qp.index(), gid)?,
            None => false,
        };
        if !removed {
            return Err(Error::Invalid("not in this group"));
        }
        qp.groups.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }
}
