//! libmlx5's interface for programs that use its queues themselves (`mlx5dv`), as far as the data path learns
//! from it where rings and registers are. It is public and stable: symbols are versioned, structs grow at
//! their end.
//!
//! Source: `infiniband/mlx5dv.h` of rdma-core, symbol versions MLX5_1.0 and MLX5_1.2.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

use crate::abi::driver::verbs_device_ops;
use crate::abi::verbs::{ibv_ah, ibv_context, ibv_cq, ibv_qp, ibv_srq};
use crate::provider::plugin::elf;

/// `struct mlx5dv_cq`.
#[repr(C)]
#[derive(Debug)]
pub struct DirectCq {
    /// The entries.
    pub buf: *mut u8,
    /// Two words: what was consumed, and how the queue is armed.
    pub dbrec: *mut u32,
    /// Number of entries, a power of two.
    pub cqe_cnt: u32,
    /// Bytes of each.
    pub cqe_size: u32,
    /// The page of doorbell registers with which queues are armed.
    pub cq_uar: *mut u8,
    /// The queue's number on the device.
    pub cqn: u32,
    comp_mask: u64,
}

/// `struct mlx5dv_qp`, its first version.
#[repr(C)]
#[derive(Debug)]
pub struct DirectQp {
    /// Two words: how many receives, and how many blocks of sends were posted.
    pub dbrec: *mut u32,
    /// Send queue.
    pub sq: DirectWq,
    /// Receive queue.
    pub rq: DirectWq,
    /// Where sends are announced.
    pub bf_reg: *mut u8,
    /// Bytes that one of the two halves of the register takes; 0 where it takes no requests but only their
    /// start.
    pub bf_size: u32,
    comp_mask: u64,
    /// What newer versions of the struct hold.
    later: [u64; 8],
}

/// A work queue in [`DirectQp`].
#[repr(C)]
#[derive(Debug)]
pub struct DirectWq {
    /// The entries.
    pub buf: *mut u8,
    /// Number of entries.
    pub wqe_cnt: u32,
    /// Bytes of each.
    pub stride: u32,
}

/// `struct mlx5dv_srq`.
#[repr(C)]
#[derive(Debug)]
pub struct DirectSrq {
    /// The entries.
    pub buf: *mut u8,
    /// How many were posted.
    pub dbrec: *mut u32,
    /// Bytes of each.
    pub stride: u32,
    /// The next to be posted.
    pub head: u32,
    /// The last of the list of free ones.
    pub tail: u32,
    comp_mask: u64,
    later: [u64; 4],
}

/// `struct mlx5dv_ah`.
#[repr(C)]
#[derive(Debug)]
pub struct DirectAh {
    /// The address vector as requests carry it.
    pub av: *mut u8,
    comp_mask: u64,
}

#[repr(C)]
struct Pair<I, O> {
    given: *mut I,
    out: *mut O,
}

impl<I, O> Pair<I, O> {
    const NONE: Self = Self { given: null_mut(), out: null_mut() };
}

/// `struct mlx5dv_obj`.
#[repr(C)]
struct Objects {
    qp: Pair<ibv_qp, DirectQp>,
    cq: Pair<ibv_cq, DirectCq>,
    srq: Pair<ibv_srq, DirectSrq>,
    rwq: Pair<c_void, c_void>,
    dm: Pair<c_void, c_void>,
    ah: Pair<ibv_ah, DirectAh>,
    pd: Pair<c_void, c_void>,
    later: [u64; 8],
}

const OBJ_QP: u64 = 1 << 0;
const OBJ_CQ: u64 = 1 << 1;
const OBJ_SRQ: u64 = 1 << 2;
const OBJ_AH: u64 = 1 << 5;
/// `MLX5DV_CONTEXT_FLAGS_CQE_V1`: completions name a user index.
const CQE_V1: u64 = 1 << 0;

/// The functions, of the plugin that made the objects.
#[derive(Clone, Copy)]
pub struct Direct {
    init_obj: unsafe extern "C" fn(*mut Objects, u64) -> c_int,
    query_device: unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> c_int,
}

macro_rules! of_object {
    ($(#[$doc:meta])* $name:ident, $member:ident, $kind:ident, $object:ty, $out:ty) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The object is live, and libmlx5 made it.
        pub unsafe fn $name(&self, object: *mut $object) -> Option<$out> {
            let mut out = MaybeUninit::<$out>::zeroed();
            let pair = Pair { given: object, out: out.as_mut_ptr() };
            let mut objects = Objects { $member: pair, ..Objects::NONE };
            // SAFETY: by the contract; the kind says which pair is looked at. What is filled in is plain C
            // data of pointers and integers, for which all zeros is a value, too.
            unsafe { ((self.init_obj)(&raw mut objects, $kind) == 0).then(|| out.assume_init()) }
        }
    };
}

impl Objects {
    const NONE: Self = Self {
        qp: Pair::NONE,
        cq: Pair::NONE,
        srq: Pair::NONE,
        rwq: Pair::NONE,
        dm: Pair::NONE,
        ah: Pair::NONE,
        pd: Pair::NONE,
        later: [0; 8],
    };
}

impl Direct {
    /// The functions of the shared object that holds a plugin's operations; none where it lacks them.
    pub fn of(ops: NonNull<verbs_device_ops>) -> Option<Self> {
        let init_obj = elf::exported(ops.as_ptr().cast(), c"mlx5dv_init_obj", c"MLX5_1.2")?;
        let query_device = elf::exported(ops.as_ptr().cast(), c"mlx5dv_query_device", c"MLX5_1.0")?;
        // SAFETY: functions of these names and versions have these types, and a plugin is never unloaded.
        unsafe {
            Some(Self {
                init_obj: core::mem::transmute::<
                    NonNull<c_void>,
                    unsafe extern "C" fn(*mut Objects, u64) -> c_int,
                >(init_obj),
                query_device: core::mem::transmute::<
                    NonNull<c_void>,
                    unsafe extern "C" fn(*mut ibv_context, *mut c_void) -> c_int,
                >(query_device),
            })
        }
    }

    /// Whether completions have the form that names a user index.
    ///
    /// # Safety
    /// An open context of libmlx5.
    pub unsafe fn names_user_indices(&self, context: *mut ibv_context) -> bool {
        // `struct mlx5dv_context`: version (8 bits), flags (64), and what is asked for, of which there is
        // nothing.
        let mut attributes = [0_u64; 128];
        // SAFETY: by the contract; the struct is shorter, and more of it is written only when it is asked
        // for.
        let done = unsafe { (self.query_device)(context, attributes.as_mut_ptr().cast()) };
        done == 0 && attributes[1] & CQE_V1 != 0
    }

    of_object! {
        /// Where a completion queue is. libmlx5 no longer removes the completions of a queue pair that goes
        /// from a queue that was asked about.
        cq, cq, OBJ_CQ, ibv_cq, DirectCq
    }
    of_object! {
        /// Where a queue pair is.
        qp, qp, OBJ_QP, ibv_qp, DirectQp
    }
    of_object! {
        /// Where a shared receive queue is.
        srq, srq, OBJ_SRQ, ibv_srq, DirectSrq
    }
    of_object! {
        /// Where the address vector of an address handle is.
        ah, ah, OBJ_AH, ibv_ah, DirectAh
    }
}

/// The name that libmlx5's driver gives itself.
pub const NAME: &CStr = c"mlx5";
