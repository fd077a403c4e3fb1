//! Indirection tables: which of several receive work queues a packet goes to.

use super::Udata;
use super::command::execute_legacy;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::{Errno, Result};

/// Makes a table of the work queues with these numbers, 2 to the power of `log_size` many. The answer's
/// `response_length` says how much of it the kernel knows.
///
/// Path: legacy command, extended.
pub fn create(
    file: &DeviceFile,
    log_size: u32,
    work_queues: impl Iterator<Item = u32>,
    udata: Udata<'_>,
) -> Result<ib_uverbs_ex_create_rwq_ind_table_resp> {
    let header = ib_uverbs_ex_create_rwq_ind_table { comp_mask: 0, log_ind_tbl_size: log_size };
    let mut request = Vec::new();
    // One number each, and up to 8 bytes to fill the last word.
    let numbers = 1usize.checked_shl(log_size).and_then(|count| count.checked_mul(size_of::<u32>()));
    let size = numbers.and_then(|bytes| bytes.checked_add(header.as_bytes().len() + 8));
    let room = size.map(|size| request.try_reserve_exact(size));
    room.and_then(|room| room.ok()).ok_or_else(|| Errno::ENOMEM.also_set())?;
    request.extend_from_slice(header.as_bytes());
    request.extend(work_queues.flat_map(u32::to_ne_bytes));
    request.resize(request.len().next_multiple_of(8), 0);
    let mut answer = ib_uverbs_ex_create_rwq_ind_table_resp::default();
    let command = IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    execute_legacy(file, command, &request, answer.as_bytes_mut(), udata)?;
    if (answer.response_length as usize) < size_of_val(&answer) {
        return Err(Errno::EINVAL);
    }
    Ok(answer)
}

/// Destroys a table; EBUSY while a queue pair uses it.
///
/// Path: ioctl RWQ_IND_TBL_DESTROY, else the legacy command, extended.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DestroyAh,
        object_id: UVERBS_OBJECT_RWQ_IND_TBL,
        method_id: UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
        command: IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
    };
    destroy::plain_ex(file, &KIND, handle)
}
