//! What the kernel's user_mad device files take (`rdma/ib_user_mad.h` of Linux).

use libc::c_ulong;

/// First form of the registration.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_user_mad_reg_req {
    /// Answered: number of the agent.
    pub id: u32,
    /// A bit for each method.
    pub method_mask: [u32; 4],
    /// 0 or 1.
    pub qpn: u8,
    /// Management class.
    pub mgmt_class: u8,
    /// Its version.
    pub mgmt_class_version: u8,
    /// Vendor's identifier.
    pub oui: [u8; 3],
    /// 1: the kernel cuts and joins datagrams of several packets.
    pub rmpp_version: u8,
    /// Zero: C leaves it to the compiler, and the kernel reads it.
    pub padding: u8,
}

/// Second form of the registration.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_user_mad_reg_req2 {
    /// Answered: number of the agent.
    pub id: u32,
    /// 0 or 1.
    pub qpn: u32,
    /// Management class.
    pub mgmt_class: u8,
    /// Its version.
    pub mgmt_class_version: u8,
    /// Zero.
    pub res: u16,
    /// Flags of `umad_reg_attr`.
    pub flags: u32,
    /// A bit for each method.
    pub method_mask: [u64; 2],
    /// Vendor's identifier.
    pub oui: u32,
    /// 1: the kernel cuts and joins datagrams of several packets.
    pub rmpp_version: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

const MAGIC: c_ulong = 0x1b;
const NONE: c_ulong = 0;
const WRITE: c_ulong = 1;
const BOTH: c_ulong = 3;

/// Request number of direction, number and size, as on all machines but MIPS, PowerPC, SPARC and Alpha.
const fn request(direction: c_ulong, number: c_ulong, size: usize) -> c_ulong {
    direction << 30 | (size as c_ulong) << 16 | MAGIC << 8 | number
}

/// Registers an agent.
pub const IB_USER_MAD_REGISTER_AGENT: c_ulong = request(BOTH, 1, size_of::<ib_user_mad_reg_req>());
/// Unregisters the agent of the number.
pub const IB_USER_MAD_UNREGISTER_AGENT: c_ulong = request(WRITE, 2, size_of::<u32>());
/// Has a partition key index in the headers of this file.
pub const IB_USER_MAD_ENABLE_PKEY: c_ulong = request(NONE, 3, 0);
/// Registers an agent, with flags.
pub const IB_USER_MAD_REGISTER_AGENT2: c_ulong = request(BOTH, 4, size_of::<ib_user_mad_reg_req2>());
