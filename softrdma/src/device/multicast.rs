//! Multicast groups: which queue pairs are in which.
//!
//! Where other hosts are reached, the process joins the groups that its queue pairs are in, at the interfaces
//! of its addresses on the network. Members on the sender's host have what is sent through shared memory.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::carrier::far::addresses::MOST;
use crate::carrier::far::datagram::Arrived;
use crate::carrier::far::network::Network;
use crate::carrier::near::multicast::Table;
use crate::carrier::near::target::Target;
use crate::rules::verbs::QpType;
use crate::shm::addresses::is_group;
use crate::wire::datagram::{GROUP_QP, is_group_between_hosts};

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
        let is_first = table.members(*gid).next().is_none();
        if is_first {
            self.join(gid)?;
        }
        let added = table.add(&self.endpoint, qp.index(), gid);
        if is_first && added.is_err() {
            self.leave_group(gid);
        }
        if added? {
            qp.groups.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Hears from now on what other hosts send to a group.
    fn join(&self, gid: &[u8; 16]) -> Result<()> {
        self.at_interfaces(gid, |network, interfaces| network.join((*gid).into(), interfaces))
            .unwrap_or(Ok(()))
    }

    fn leave_group(&self, gid: &[u8; 16]) {
        self.at_interfaces(gid, |network, interfaces| network.leave((*gid).into(), interfaces));
    }

    fn at_interfaces<R>(&self, gid: &[u8; 16], act: impl FnOnce(&Network, &[u32]) -> R) -> Option<R> {
        let group = Ipv6Addr::from(*gid);
        let (Some(network), Some(addresses), true) =
            (self.network_way(), self.network_addresses(), is_group_between_hosts(group))
        else {
            return None;
        };
        let mut room = [0; MOST];
        self.is_mine().then(|| act(network, addresses.interfaces(group, &mut room)))
    }

    /// Takes a datagram that another host has sent to a group, for each own queue pair that is in it. One of a
    /// process of the folder has come through shared memory, wherever that process is.
    pub(super) fn group_datagram_arrived(&self, arrived: &Arrived<'_>) {
        let (bth, flow) = (&arrived.packet.bth, arrived.flow);
        let Some(deth) = arrived.packet.headers.deth.filter(|_| bth.dest_qp == GROUP_QP) else { return };
        if Target::find(&self.endpoint, deth.source_qp, flow.source.octets()).is_some() {
            return;
        }
        let table = self.groups.table.lock().unwrap_or_else(PoisonError::into_inner);
        let members = table.iter().flat_map(|table| table.members(flow.destination.octets()));
        members.filter_map(|index| self.queue_pair(index)).for_each(|qp| qp.datagram_arrived(arrived));
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
        if table.as_ref().is_none_or(|table| table.members(*gid).next().is_none()) {
            self.leave_group(gid);
        }
        qp.groups.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }
}
