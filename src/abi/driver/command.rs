//! The buffer in which a provider builds attributes of an ioctl command, in the layout of rdma-core's
//! `cmd_ioctl.h`.

use core::mem::{offset_of, size_of};

use crate::abi::uapi::rdma_user_ioctl_cmds::{ib_uverbs_attr, ib_uverbs_ioctl_hdr};

/// `_UHW_NO_INDEX`: the buffer has no driver part in this direction.
pub const UHW_NO_INDEX: u8 = 0xff;
/// Bit of [`ibv_command_buffer::flags`]: an attribute did not fit.
pub const BUFFER_ERROR: u8 = 1 << 0;
/// Bit of [`ibv_command_buffer::flags`]: without the ioctl only an extended `write` command will do.
pub const FALLBACK_REQUIRE_EX: u8 = 1 << 1;
/// Bit of [`ibv_command_buffer::flags`]: nothing but the ioctl will do.
pub const FALLBACK_IOCTL_ONLY: u8 = 1 << 2;

/// One link of a chain of attribute lists, each on the stack of the function that fills it. The attributes of a
/// link follow `hdr` directly and end before `next_attr`.
#[repr(C)]
pub struct ibv_command_buffer {
    /// The provider's link behind the library's, or NULL.
    pub next: *mut ibv_command_buffer,
    /// Where the next attribute goes.
    pub next_attr: *mut ib_uverbs_attr,
    /// One past the room for attributes.
    pub last_attr: *mut ib_uverbs_attr,
    /// Which attribute is the driver's request, or [`UHW_NO_INDEX`].
    pub uhw_in_idx: u8,
    /// Which attribute is the driver's response, or [`UHW_NO_INDEX`].
    pub uhw_out_idx: u8,
    /// 32 bit words free in front of the driver's request, for a `write` command's header and request.
    pub uhw_in_headroom_dwords: u8,
    /// 32 bit words free in front of the driver's response.
    pub uhw_out_headroom_dwords: u8,
    /// Three bits: [`BUFFER_ERROR`], [`FALLBACK_REQUIRE_EX`], [`FALLBACK_IOCTL_ONLY`].
    pub flags: u8,
    /// The command; the attributes follow.
    pub hdr: ib_uverbs_ioctl_hdr,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ibv_command_buffer>() == 56);
    assert!(offset_of!(ibv_command_buffer, uhw_in_idx) == 24);
    assert!(offset_of!(ibv_command_buffer, flags) == 28);
    assert!(offset_of!(ibv_command_buffer, hdr) == 32);
};
