//! The frame of the uverbs ioctl: header and attribute.
//!
//! Source: linux-libc-dev, `rdma/rdma_user_ioctl_cmds.h`.

use super::layout;

/// Request number of the uverbs ioctl: `_IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr)`.
pub const RDMA_VERBS_IOCTL: libc::Ioctl = 0xc018_1b01_u32 as libc::Ioctl;

/// The kernel must refuse a command with an attribute that it does not know.
pub const UVERBS_ATTR_F_MANDATORY: u16 = 1;
/// Set by the kernel on output attributes that it filled.
pub const UVERBS_ATTR_F_VALID_OUTPUT: u16 = 2;

layout! {
    /// One attribute. `elem_id` and `elem_reserved` are the C union `attr_data`; `data` holds the address, the
    /// inline bytes, the object number or the file descriptor.
    pub struct ib_uverbs_attr(16) {
        attr_id: u16 => 0,
        len: u16 => 2,
        flags: u16 => 4,
        elem_id: u8 => 6,
        elem_reserved: u8 => 7,
        data: u64 => 8,
    }

    /// Header of a command; the attributes follow.
    pub struct ib_uverbs_ioctl_hdr(24) {
        length: u16 => 0,
        object_id: u16 => 2,
        method_id: u16 => 4,
        num_attrs: u16 => 6,
        reserved1: u64 => 8,
        driver_id: u32 => 16,
        reserved2: u32 => 20,
    }
}
