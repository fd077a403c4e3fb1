//! The table of GIDs of the one port.

use super::device::addresses;
use super::link::LinkLayer;
use super::{SoftContext, gids, port};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry;
use crate::errno::{Errno, Result};
use crate::provider::verbs::Gids;
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::gid::Want;

impl SoftContext {
    /// The port's table, without empty places.
    pub fn gids(&self) -> Vec<gids::Gid> {
        self.named.table(addresses(&self.engine))
    }

    /// The GID at `index` of the port's table; EINVAL where there is no such port, ENODATA where no GID stands
    /// there.
    pub fn gid(&self, port_num: u32, index: u32) -> Result<gids::Gid> {
        if port_num != u32::from(port::NUMBER) {
            return Err(Errno::EINVAL);
        }
        self.gids().into_iter().find(|gid| gid.index == index).ok_or(Errno::ENODATA)
    }
}

fn entry(gid: &gids::Gid) -> ib_uverbs_gid_entry {
    let link = LinkLayer::of_port();
    let mut entry = ib_uverbs_gid_entry {
        gid_index: gid.index,
        port_num: u32::from(port::NUMBER),
        gid_type: link.gid_type(),
        // Those of an InfiniBand port belong to no network interface.
        netdev_ifindex: if link == LinkLayer::Ethernet { gid.ifindex } else { 0 },
        ..Default::default()
    };
    entry.gid.as_bytes_mut().copy_from_slice(&gid.raw);
    entry
}

impl Gids for SoftContext {
    /// Writes an entry of the table as the kernel does: EINVAL beyond its end and for less room than an entry
    /// has, zeros where there is more.
    fn query_gid_entry(
        &self,
        _device: &DeviceInfo,
        port_num: u32,
        index: u32,
        room: &mut [u8],
        flags: u32,
        _want: Want,
    ) -> Result<()> {
        let size = size_of::<ib_uverbs_gid_entry>();
        if flags != 0 || room.len() < size || index >= gids::TABLE_LENGTH {
            return Err(Errno::EINVAL.also_set());
        }
        let gid = self.gid(port_num, index).map_err(Errno::also_set)?;
        room.fill(0);
        room[..size].copy_from_slice(entry(&gid).as_bytes());
        Ok(())
    }

    /// Writes the whole table, each entry with `entry_size` bytes of it; EINVAL where it does not fit.
    fn query_gid_table(
        &self,
        _device: &DeviceInfo,
        room: &mut [u8],
        entry_size: usize,
        flags: u32,
    ) -> Result<u64> {
        let invalid = || Errno::EINVAL.also_set();
        if flags != 0 || entry_size == 0 || room.is_empty() || !room.len().is_multiple_of(entry_size) {
            return Err(invalid());
        }
        let table = self.gids();
        let mut places = room.chunks_exact_mut(entry_size);
        for gid in &table {
            let place = places.next().ok_or_else(invalid)?;
            let entry = entry(gid);
            let known = entry_size.min(entry.as_bytes().len());
            place.fill(0);
            place[..known].copy_from_slice(&entry.as_bytes()[..known]);
        }
        Ok(table.len() as u64)
    }
}
