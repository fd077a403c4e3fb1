//! Flow rules: which packets of a port go to which queue pair.

use super::Udata;
use super::command::execute_legacy;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::Result;

/// Sends the packets that fit `specs` (the kernel's specifications, one after the other) to queue pair `qp`,
/// and returns the number of the rule. The size in `attr` is filled in here.
///
/// Path: legacy command, extended.
pub fn create(
    file: &DeviceFile,
    qp: u32,
    attr: ib_uverbs_flow_attr,
    specs: &[u8],
    udata: Udata<'_>,
) -> Result<u32> {
    let flow_attr = ib_uverbs_flow_attr { size: specs.len() as u16, ..attr };
    let header = ib_uverbs_create_flow { comp_mask: 0, qp_handle: qp, flow_attr };
    let request = [header.as_bytes(), specs].concat();
    let mut answer = ib_uverbs_create_flow_resp::default();
    let command = IB_USER_VERBS_EX_CMD_CREATE_FLOW | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    execute_legacy(file, command, &request, answer.as_bytes_mut(), udata)?;
    Ok(answer.flow_handle)
}

/// Removes a rule.
///
/// Path: ioctl FLOW_DESTROY, else the legacy command, extended.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DestroyAh,
        object_id: UVERBS_OBJECT_FLOW,
        method_id: UVERBS_METHOD_FLOW_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_FLOW_HANDLE,
        command: IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
    };
    destroy::plain_ex(file, &KIND, handle)
}
