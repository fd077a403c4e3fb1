//! The GIDs of a device's ports, as its provider knows them.

use ironverbs_os::growth::try_room;

use crate::abi::verbs::*;
use crate::provider::context;
use crate::provider::object::Handle;

/// A device with more is not looked at.
const MOST: usize = 1024;

/// All GIDs of a context's device. Not while a lock is held: the provider may have one of its own.
///
/// # Safety
/// `context` is null or open.
pub unsafe fn of(context: *mut ibv_context) -> Vec<ibv_gid_entry> {
    const SIZE: usize = size_of::<ibv_gid_entry>();
    // SAFETY: by the contract.
    let Ok(context) = (unsafe { Handle::from_c(context) }) else { return Vec::new() };
    let private = context::private(context);
    let Ok(mut entries) = try_room::<ibv_gid_entry>(MOST) else { return Vec::new() };
    let place = entries.spare_capacity_mut();
    // SAFETY: plain C data, for which zeros are a value; as many bytes as entries have room.
    let bytes = unsafe {
        place.as_mut_ptr().write_bytes(0, place.len());
        core::slice::from_raw_parts_mut(place.as_mut_ptr().cast::<u8>(), place.len() * SIZE)
    };
    let Ok(info) = private.device().info() else { return Vec::new() };
    match private.context().query_gid_table(info, bytes, SIZE, 0) {
        // SAFETY: zeros, or what the provider has written.
        Ok(count) if count as usize <= MOST => unsafe { entries.set_len(count as usize) },
        _ => {}
    }
    entries
}

/// The entry of a port's table.
pub fn at(gids: &[ibv_gid_entry], port: u8, index: u8) -> Option<&ibv_gid_entry> {
    gids.iter().find(|entry| entry.port_num == u32::from(port) && entry.gid_index == u32::from(index))
}

/// The bytes of a GID.
pub fn bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: every view of the union is 16 plain bytes.
    unsafe { gid.raw }
}

/// The index of the same GID for RoCE v2, where that at an index is for v1.
pub fn newer(gids: &[ibv_gid_entry], port: u8, index: u8) -> Option<u32> {
    let used = at(gids, port, index).filter(|entry| entry.gid_type == IBV_GID_TYPE_ROCE_V1 as u32)?;
    let same = |entry: &&ibv_gid_entry| {
        entry.port_num == used.port_num
            && entry.gid_type == IBV_GID_TYPE_ROCE_V2 as u32
            && entry.ndev_ifindex == used.ndev_ifindex
            && bytes(&entry.gid) == bytes(&used.gid)
    };
    gids.iter().find(same).map(|entry| entry.gid_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(gid: u8, gid_index: u32, kind: ibv_gid_type) -> ibv_gid_entry {
        ibv_gid_entry {
            gid: ibv_gid { raw: [gid; 16] },
            gid_index,
            port_num: 1,
            gid_type: kind as u32,
            ndev_ifindex: 3,
        }
    }

    #[test]
    fn the_same_address_is_found_for_v2() {
        let gids = [
            entry(1, 0, IBV_GID_TYPE_ROCE_V1),
            entry(1, 1, IBV_GID_TYPE_ROCE_V2),
            entry(2, 2, IBV_GID_TYPE_ROCE_V1),
        ];
        assert_eq!([0, 1, 2, 3].map(|index| newer(&gids, 1, index)), [Some(1), None, None, None]);
        assert_eq!(newer(&gids, 2, 0), None);
    }
}
