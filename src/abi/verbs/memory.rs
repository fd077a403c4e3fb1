//! Protection domains, memory regions, windows, device memory and related domains.

use super::context::ibv_context;
use super::scalars::{ibv_buf, ibv_mw_type_t};
use libc::{c_int, c_uint, c_void};

/// Rights of a memory region, a window or a queue pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_access_flags {
    /// The local device may write.
    IBV_ACCESS_LOCAL_WRITE = 1,
    /// Peers may write.
    IBV_ACCESS_REMOTE_WRITE = 1 << 1,
    /// Peers may read.
    IBV_ACCESS_REMOTE_READ = 1 << 2,
    /// Peers may run atomics.
    IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
    /// Memory windows may be bound to the region.
    IBV_ACCESS_MW_BIND = 1 << 4,
    /// Addresses count from 0 at the start of the region.
    IBV_ACCESS_ZERO_BASED = 1 << 5,
    /// Pages are not pinned but faulted in.
    IBV_ACCESS_ON_DEMAND = 1 << 6,
    /// The memory consists of huge pages.
    IBV_ACCESS_HUGETLB = 1 << 7,
    /// Peers may flush for everybody to see.
    IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
    /// Peers may flush to persistent memory.
    IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    /// PCI writes may pass each other; optional right, ignored where unknown.
    IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
}
pub use ibv_access_flags::*;

/// What `ibv_rereg_mr` changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_rereg_mr_flags {
    /// Address and length.
    IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
    /// Protection domain.
    IBV_REREG_MR_CHANGE_PD = 1 << 1,
    /// Rights.
    IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
    /// Mask of the known bits.
    IBV_REREG_MR_FLAGS_SUPPORTED = 7,
}
pub use ibv_rereg_mr_flags::*;

/// Negative results of `ibv_rereg_mr`: whether the region is still usable.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_rereg_mr_err_code {
    /// Invalid argument; the old region is intact.
    IBV_REREG_MR_ERR_INPUT = -1,
    /// The new range could not be protected against fork; the old region is intact.
    IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
    /// The old range is still protected against fork; the new region is valid.
    IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
    /// The kernel refused; the region must not be used.
    IBV_REREG_MR_ERR_CMD = -4,
    /// As ERR_CMD, and the new range stays protected against fork.
    IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
}
pub use ibv_rereg_mr_err_code::*;

/// Kind of memory window.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_mw_type {
    /// Bound by `ibv_bind_mw`.
    IBV_MW_TYPE_1 = 1,
    /// Bound by a work request.
    IBV_MW_TYPE_2 = 2,
}
pub use ibv_mw_type::*;

/// Valid fields of `ibv_xrcd_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_xrcd_init_attr_mask {
    /// `fd`.
    IBV_XRCD_INIT_ATTR_FD = 1 << 0,
    /// `oflags`.
    IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
    /// First bit without a meaning.
    IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
}
pub use ibv_xrcd_init_attr_mask::*;

/// Valid extra fields of `ibv_dm`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_dm_mask {
    /// `handle`.
    IBV_DM_MASK_HANDLE = 1 << 0,
}
pub use ibv_dm_mask::*;

/// Valid fields of `ibv_parent_domain_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_parent_domain_init_attr_mask {
    /// `alloc` and `free`.
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
    /// `pd_context`.
    IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
    /// Buffers may lie in memory that a confidential guest shares with its host.
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
}
pub use ibv_parent_domain_init_attr_mask::*;

/// Valid fields of `ibv_mr_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_mr_init_attr_mask {
    /// `iova`.
    IBV_REG_MR_MASK_IOVA = 1 << 0,
    /// `addr`.
    IBV_REG_MR_MASK_ADDR = 1 << 1,
    /// `fd`.
    IBV_REG_MR_MASK_FD = 1 << 2,
    /// `fd_offset`.
    IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
    /// `dmah`.
    IBV_REG_MR_MASK_DMAH = 1 << 4,
    /// `buf`.
    IBV_REG_MR_MASK_BUF = 1 << 5,
}
pub use ibv_mr_init_attr_mask::*;

/// Kind of memory that hints for direct memory access are about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_tph_mem_type {
    /// Volatile.
    IBV_TPH_MEM_TYPE_VM = 0,
    /// Persistent.
    IBV_TPH_MEM_TYPE_PM = 1,
}
pub use ibv_tph_mem_type::*;

/// Valid fields of `ibv_dmah_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_dmah_init_attr_mask {
    /// `cpu_id`.
    IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
    /// `ph`.
    IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
    /// `tph_mem_type`.
    IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
}
pub use ibv_dmah_init_attr_mask::*;

/// Hints for direct memory access, which registrations share.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah {
    /// Device context.
    pub context: *mut ibv_context,
}

/// Attributes of new hints.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah_init_attr {
    /// Bits of `ibv_dmah_init_attr_mask`.
    pub comp_mask: u32,
    /// Processor near whose caches the data goes.
    pub cpu_id: u32,
    /// Processing hint (PCIe).
    pub ph: u8,
    /// A value of `ibv_tph_mem_type`.
    pub tph_mem_type: u8,
}

/// What `ibv_reg_mr_ex` registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr_init_attr {
    /// Length in bytes.
    pub length: usize,
    /// Rights, bits of `ibv_access_flags`.
    pub access: c_int,
    /// Bits of `ibv_mr_init_attr_mask`.
    pub comp_mask: u64,
    /// Address that peers use for the first byte.
    pub iova: u64,
    /// First byte.
    pub addr: *mut c_void,
    /// A dma-buf, in place of an address.
    pub fd: c_int,
    /// First byte in the dma-buf.
    pub fd_offset: u64,
    /// Hints for direct memory access.
    pub dmah: *mut ibv_dmah,
    /// The buffer from `ibv_alloc_buf` in which `addr` lies.
    pub buf: *mut ibv_buf,
}

/// Protection domain: objects of one domain may use each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_pd {
    /// Device context.
    pub context: *mut ibv_context,
    /// Kernel handle.
    pub handle: u32,
}

/// Attributes of a new thread domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_td_init_attr {
    /// Must be 0.
    pub comp_mask: u32,
}

/// Thread domain: the promise that its objects are used by one thread at a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_td {
    /// Device context.
    pub context: *mut ibv_context,
}

/// Attributes of a new parent domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_parent_domain_init_attr {
    /// Protection domain, required.
    pub pd: *mut ibv_pd,
    /// Thread domain, or null.
    pub td: *mut ibv_td,
    /// Bits of `ibv_parent_domain_init_attr_mask`.
    pub comp_mask: u32,
    /// Allocator for provider buffers; may answer `IBV_ALLOCATOR_USE_DEFAULT`.
    pub alloc: Option<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            pd_context: *mut c_void,
            size: usize,
            alignment: usize,
            resource_type: u64,
        ) -> *mut c_void,
    >,
    /// Counterpart of `alloc`.
    pub free: Option<
        unsafe extern "C" fn(pd: *mut ibv_pd, pd_context: *mut c_void, ptr: *mut c_void, resource_type: u64),
    >,
    /// Passed to both.
    pub pd_context: *mut c_void,
}

/// Attributes for opening an extended connection domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd_init_attr {
    /// Bits of `ibv_xrcd_init_attr_mask`.
    pub comp_mask: u32,
    /// File whose inode names the domain, -1 for a private one.
    pub fd: c_int,
    /// `O_CREAT`, `O_EXCL` or 0.
    pub oflags: c_int,
}

/// Extended reliable connection domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd {
    /// Device context.
    pub context: *mut ibv_context,
}

/// Memory region.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr {
    /// Device context.
    pub context: *mut ibv_context,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Start address.
    pub addr: *mut c_void,
    /// Length in bytes.
    pub length: usize,
    /// Kernel handle.
    pub handle: u32,
    /// Key for local work requests.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
}

/// Memory window.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw {
    /// Device context.
    pub context: *mut ibv_context,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Key for peers.
    pub rkey: u32,
    /// Kernel handle.
    pub handle: u32,
    /// Kind of window.
    pub type_: ibv_mw_type_t,
}

/// What a window is bound to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw_bind_info {
    /// The region.
    pub mr: *mut ibv_mr,
    /// First address that the window opens.
    pub addr: u64,
    /// Its length in bytes, 0 closes the window.
    pub length: u64,
    /// Bits of `ibv_access_flags`.
    pub mw_access_flags: c_uint,
}

/// Request of `ibv_bind_mw`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw_bind {
    /// Identifier returned in the completion.
    pub wr_id: u64,
    /// Bits of `ibv_send_flags`.
    pub send_flags: c_uint,
    /// What to bind.
    pub bind_info: ibv_mw_bind_info,
}

/// Attributes of a device memory allocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_alloc_dm_attr {
    /// Length in bytes.
    pub length: usize,
    /// Logarithm to base 2 of the alignment.
    pub log_align_req: u32,
    /// Must be 0.
    pub comp_mask: u32,
}

/// Memory on the device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dm {
    /// Device context.
    pub context: *mut ibv_context,
    /// Copy from host memory; 0 or an errno value.
    pub memcpy_to_dm: Option<
        unsafe extern "C" fn(
            dm: *mut ibv_dm,
            dm_offset: u64,
            host_addr: *const c_void,
            length: usize,
        ) -> c_int,
    >,
    /// Copy to host memory; 0 or an errno value.
    pub memcpy_from_dm: Option<
        unsafe extern "C" fn(host_addr: *mut c_void, dm: *mut ibv_dm, dm_offset: u64, length: usize) -> c_int,
    >,
    /// Bits of `ibv_dm_mask`.
    pub comp_mask: u32,
    /// Kernel handle.
    pub handle: u32,
}
