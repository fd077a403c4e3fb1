//! Memory windows.

use super::Udata;
use super::command::execute_write;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::Result;

/// The kernel's side of a memory window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Number of the window.
    pub handle: u32,
    /// Key for peers.
    pub rkey: u32,
}

/// Makes a memory window of type 1 or 2 in a protection domain.
///
/// Path: legacy command.
pub fn alloc(file: &DeviceFile, pd: u32, mw_type: u8, udata: Udata<'_>) -> Result<Window> {
    let request = ib_uverbs_alloc_mw { pd_handle: pd, mw_type, ..Pod::zeroed() };
    let mut answer = ib_uverbs_alloc_mw_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_ALLOC_MW, &request, &mut answer, udata)?;
    Ok(Window { handle: answer.mw_handle, rkey: answer.rkey })
}

/// Frees a memory window.
///
/// Path: ioctl MW_DESTROY, else the legacy command.
pub fn dealloc(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DeallocMw,
        object_id: UVERBS_OBJECT_MW,
        method_id: UVERBS_METHOD_MW_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_MW_HANDLE,
        command: IB_USER_VERBS_CMD_DEALLOC_MW,
    };
    destroy::plain(file, &KIND, handle)
}
