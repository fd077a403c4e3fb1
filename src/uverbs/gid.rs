//! GIDs of ports: the kernel's table, or sysfs where the kernel (before Linux 5.10) has no method for it.

use std::ffi::CString;

use nix::net::if_::if_nametoindex;

use super::command::Command;
use super::device_file::{DeviceFile, Method};
use super::discovery::DeviceInfo;
use super::{Udata, device, sysfs};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_GID_TYPE_IB, IB_UVERBS_GID_TYPE_ROCE_V1, IB_UVERBS_GID_TYPE_ROCE_V2, ib_uverbs_gid_entry,
};
use crate::abi::verbs::{
    IBV_LINK_LAYER_ETHERNET, ibv_device_attr, ibv_device_attr_ex, ibv_gid_entry, ibv_port_attr,
};
use crate::errno::{Errno, Result};

const _: () = assert!(size_of::<ibv_gid_entry>() == size_of::<ib_uverbs_gid_entry>());

/// What a caller wants to know of a GID; sysfs keeps each in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The GID.
    pub gid: bool,
    /// Its type.
    pub gid_type: bool,
    /// The network interface behind it.
    pub ndev_ifindex: bool,
}

impl Want {
    /// Everything.
    pub const ALL: Self = Self { gid: true, gid_type: true, ndev_ifindex: true };
    /// The GID alone.
    pub const GID: Self = Self { gid: true, gid_type: false, ndev_ifindex: false };
    /// The type alone.
    pub const TYPE: Self = Self { gid: false, gid_type: true, ndev_ifindex: false };
}

/// Entry `gid_index` of a port's table, as [`query_entry_bytes`] reads it.
pub fn query_entry(
    file: &DeviceFile,
    info: &DeviceInfo,
    port_num: u32,
    gid_index: u32,
    flags: u32,
    want: Want,
) -> Result<ibv_gid_entry> {
    whole_entry(|entry| query_entry_bytes(file, info, port_num, gid_index, entry, flags, want))
}

/// The entry whose bytes `read` fills in.
pub fn whole_entry(read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<ibv_gid_entry> {
    let mut entry = ib_uverbs_gid_entry::default();
    read(entry.as_bytes_mut())?;
    // SAFETY: both are the same 32 bytes of integers; the size is checked above, the offsets in `abi`.
    Ok(unsafe { core::mem::transmute::<ib_uverbs_gid_entry, ibv_gid_entry>(entry) })
}

/// Reads entry `gid_index` of a port's table into `entry`, the caller's structure of whatever size it knows.
/// ENODATA for an empty entry.
///
/// Path: ioctl QUERY_GID_ENTRY, else sysfs for what is `want`ed (then `flags` other than 0 are EOPNOTSUPP,
/// without `errno`).
pub fn query_entry_bytes(
    file: &DeviceFile,
    info: &DeviceInfo,
    port_num: u32,
    gid_index: u32,
    entry: &mut [u8],
    flags: u32,
    want: Want,
) -> Result<()> {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
    cmd.number(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, u64::from(port_num));
    cmd.number(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, u64::from(gid_index));
    cmd.number32(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, flags);
    cmd.bytes_out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
    if let super::command::Path::Ioctl = cmd.execute_or_legacy(file, Method::QueryGid)? {
        return Ok(());
    }
    if flags != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    // What was found before an error stands in the entry, as with rdma-core.
    let mut found = ib_uverbs_gid_entry::default();
    let known = entry.len().min(size_of::<ib_uverbs_gid_entry>());
    found.as_bytes_mut()[..known].copy_from_slice(&entry[..known]);
    let result = fill_from_sysfs(&mut found, file, info, port_num, gid_index, want, None);
    put(entry, &found);
    result?;
    if want.gid && found.gid == [0; 2] { Err(Errno::ENODATA) } else { Ok(()) }
}

/// Reads all entries of all ports that are not empty into `entries`, each `entry_size` bytes, and returns their
/// number. EINVAL when they do not fit, and for an entry size that the kernel refuses.
///
/// Path: ioctl QUERY_GID_TABLE, else sysfs (then `flags` other than 0 are EOPNOTSUPP, without `errno`).
pub fn query_table(
    file: &DeviceFile,
    info: &DeviceInfo,
    entries: &mut [u8],
    entry_size: usize,
    flags: u32,
) -> Result<u64> {
    let mut count = 0_u64;
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
    cmd.number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, entry_size as u64);
    cmd.number32(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, flags);
    cmd.bytes_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries);
    cmd.value_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &mut count);
    if let super::command::Path::Ioctl = cmd.execute_or_legacy(file, Method::QueryGid)? {
        return Ok(count);
    }
    if flags != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    table_from_sysfs(file, info, entries, entry_size)
}

fn table_from_sysfs(
    file: &DeviceFile,
    info: &DeviceInfo,
    entries: &mut [u8],
    entry_size: usize,
) -> Result<u64> {
    // SAFETY: plain C data (integers, arrays and structures of them): all zeros is a value.
    let mut device_attr: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
    device::query(file, None, &mut device_attr, size_of::<ibv_device_attr>(), 0, Udata::none())?;
    let mut room = entries.chunks_exact_mut(entry_size.max(1));
    let mut count = 0;
    for port_num in 1..=device_attr.orig_attr.phys_port_cnt {
        // SAFETY: as above.
        let mut port_attr: ibv_port_attr = unsafe { core::mem::zeroed() };
        device::query_port(file, port_num, &mut port_attr)?;
        let link_layer = Some(port_attr.link_layer);
        for gid_index in 0..u32::try_from(port_attr.gid_tbl_len).unwrap_or(0) {
            let mut found = ib_uverbs_gid_entry::default();
            fill_from_sysfs(&mut found, file, info, port_num.into(), gid_index, Want::ALL, link_layer)?;
            if found.gid == [0; 2] {
                continue;
            }
            put(room.next().ok_or(Errno::EINVAL)?, &found);
            count += 1;
        }
    }
    Ok(count)
}

/// Copies as much of an entry as the caller's structure holds.
fn put(to: &mut [u8], entry: &ib_uverbs_gid_entry) {
    let bytes = entry.as_bytes();
    let len = bytes.len().min(to.len());
    to[..len].copy_from_slice(&bytes[..len]);
}

/// Fills one entry, field by field, as sysfs tells it. `link_layer` is asked of the port when it matters and is
/// not given.
fn fill_from_sysfs(
    entry: &mut ib_uverbs_gid_entry,
    file: &DeviceFile,
    info: &DeviceInfo,
    port_num: u32,
    gid_index: u32,
    want: Want,
    link_layer: Option<u8>,
) -> Result<()> {
    // rdma-core reads the port's files by the low byte of its number.
    let port = format!("{}/ports/{}", info.ibdev_path, port_num as u8);
    entry.gid_index = gid_index;
    entry.port_num = port_num;
    if want.gid {
        let text = sysfs::read_text::<41>(&format!("{port}/gids/{gid_index}")).map_err(|_| Errno::EINVAL)?;
        entry.gid = parse_gid(&text).ok_or(Errno::EINVAL)?;
    }
    if want.gid_type {
        entry.gid_type = if is_roce_v2(&port, gid_index)? {
            IB_UVERBS_GID_TYPE_ROCE_V2
        } else {
            let link_layer = match link_layer {
                Some(link_layer) => link_layer,
                None => link_layer_of(file, port_num)?,
            };
            if link_layer == IBV_LINK_LAYER_ETHERNET as u8 {
                IB_UVERBS_GID_TYPE_ROCE_V1
            } else {
                IB_UVERBS_GID_TYPE_IB
            }
        };
    }
    if want.ndev_ifindex {
        entry.netdev_ifindex = ifindex_from_sysfs(&port, gid_index)?;
    }
    Ok(())
}

fn link_layer_of(file: &DeviceFile, port_num: u32) -> Result<u8> {
    // SAFETY: plain C data (integers): all zeros is a value.
    let mut attr: ibv_port_attr = unsafe { core::mem::zeroed() };
    device::query_port(file, port_num as u8, &mut attr)?;
    Ok(attr.link_layer)
}

fn parse_gid(text: &str) -> Option<[u64; 2]> {
    let groups = sysfs::hex_groups::<8>(text)?;
    let mut bytes = [0; 16];
    for (to, group) in bytes.chunks_exact_mut(2).zip(groups) {
        to.copy_from_slice(&group.to_be_bytes());
    }
    <[u64; 2]>::read_from(&bytes)
}

/// Whether the file of the type says RoCE v2. InfiniBand ports have no types (the read gives EINVAL), and
/// kernels before Linux 4.5 have no folder for them; both mean the other type. What else goes wrong is EINVAL.
fn is_roce_v2(port: &str, gid_index: u32) -> Result<bool> {
    match sysfs::read_text::<11>(&format!("{port}/gid_attrs/types/{gid_index}")) {
        Ok(text) => match text.as_str() {
            "RoCE v2" => Ok(true),
            "IB/RoCE v1" => Ok(false),
            _ => Err(Errno::EINVAL),
        },
        Err(Errno::EINVAL) => Ok(false),
        Err(_) if !std::path::Path::new(&format!("{port}/gid_attrs")).exists() => Ok(false),
        Err(_) => Err(Errno::EINVAL),
    }
}

/// The index of the interface that sysfs names, 0 if it names none.
fn ifindex_from_sysfs(port: &str, gid_index: u32) -> Result<u32> {
    const NAME: usize = libc::IF_NAMESIZE;
    match sysfs::read_text::<NAME>(&format!("{port}/gid_attrs/ndevs/{gid_index}")) {
        Ok(name) if !name.is_empty() => {
            let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
            if_nametoindex(name.as_c_str()).map_err(|_| Errno::last())
        }
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_sixteen_bytes_in_network_order() {
        let gid = parse_gid("fe80:0000:0000:0000:0250:b6ff:fe00:0001").expect("a GID");
        assert_eq!(gid.as_bytes()[..2], [0xfe, 0x80]);
        assert_eq!(gid.as_bytes()[14..], [0, 1]);
        assert!(parse_gid("fe80:0000").is_none());
    }

    #[test]
    fn an_entry_fills_the_structure_that_the_program_knows() {
        let entry = ib_uverbs_gid_entry { gid_index: 3, netdev_ifindex: 9, ..Pod::zeroed() };
        let mut old = [0xff; 24];
        put(&mut old, &entry);
        assert_eq!(old[16], 3);
        let mut newer = [0xff; 40];
        put(&mut newer, &entry);
        assert_eq!((newer[28], newer[32]), (9, 0xff));
    }
}
