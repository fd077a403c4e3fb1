//! Tables of GIDs.

use crate::errno::Result;
use crate::provider::CommandFile;
use crate::uverbs;
use crate::uverbs::discovery::DeviceInfo;
use crate::uverbs::gid::Want;

/// The tables of GIDs of the ports.
#[allow(unused_variables)]
pub trait Gids: CommandFile {
    /// Reads entry `gid_index` of a port's table into `entry`, the caller's structure of whatever size it
    /// knows; ENODATA for an empty entry. Errors are left in `errno`. `device` is the one that was opened.
    fn query_gid_entry(
        &self,
        device: &DeviceInfo,
        port_num: u32,
        gid_index: u32,
        entry: &mut [u8],
        flags: u32,
        want: Want,
    ) -> Result<()> {
        uverbs::gid::query_entry_bytes(self.kernel()?, device, port_num, gid_index, entry, flags, want)
    }

    /// Reads all entries of all ports that are not empty into `entries`, each `entry_size` bytes, and returns
    /// their number; EINVAL when they do not fit. `device` is the one that was opened.
    fn query_gid_table(
        &self,
        device: &DeviceInfo,
        entries: &mut [u8],
        entry_size: usize,
        flags: u32,
    ) -> Result<u64> {
        uverbs::gid::query_table(self.kernel()?, device, entries, entry_size, flags)
    }
}
