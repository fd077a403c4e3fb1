//! Address handles.

use super::Udata;
use super::command::execute_write;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{ibv_ah_attr, ibv_gid};
use crate::errno::Result;

/// The sixteen bytes of a GID.
pub(super) fn gid_bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: both fields of the union are sixteen bytes of integers, so the bytes are initialised whichever
    // was set.
    unsafe { gid.raw }
}

/// Makes an address handle in a protection domain and returns its number.
///
/// Path: legacy command.
pub fn create(
    file: &DeviceFile,
    pd: u32,
    user_handle: u64,
    attr: &ibv_ah_attr,
    udata: Udata<'_>,
) -> Result<u32> {
    let request = ib_uverbs_create_ah {
        user_handle,
        pd_handle: pd,
        attr: ib_uverbs_ah_attr {
            grh: ib_uverbs_global_route {
                dgid: gid_bytes(&attr.grh.dgid),
                flow_label: attr.grh.flow_label,
                sgid_index: attr.grh.sgid_index,
                hop_limit: attr.grh.hop_limit,
                traffic_class: attr.grh.traffic_class,
                reserved: 0,
            },
            dlid: attr.dlid,
            sl: attr.sl,
            src_path_bits: attr.src_path_bits,
            static_rate: attr.static_rate,
            is_global: attr.is_global,
            port_num: attr.port_num,
            reserved: 0,
        },
        ..Pod::zeroed()
    };
    let mut answer = ib_uverbs_create_ah_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_CREATE_AH, &request, &mut answer, udata)?;
    Ok(answer.ah_handle)
}

/// Frees an address handle.
///
/// Path: ioctl AH_DESTROY, else the legacy command.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DestroyAh,
        object_id: UVERBS_OBJECT_AH,
        method_id: UVERBS_METHOD_AH_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_AH_HANDLE,
        command: IB_USER_VERBS_CMD_DESTROY_AH,
    };
    destroy::plain(file, &KIND, handle)
}
