//! The structs of `verbs.h` as of libibverbs 1.0, with the pointer to today's object where 1.0 had private
//! members.

#![allow(non_camel_case_types, reason = "the names of C")]

use core::ffi::{c_int, c_uint, c_void};
use core::mem::{offset_of, size_of};

use libc::{pthread_cond_t, pthread_mutex_t};

use crate::abi::verbs::*;

/// A device.
#[repr(C)]
pub struct ibv_device_1_0 {
    pub obsolete_sysfs_dev: *mut c_void,
    pub obsolete_sysfs_ibdev: *mut c_void,
    pub real_device: *mut ibv_device,
    pub obsolete_ops: [*mut c_void; 2],
}

type Unused = Option<unsafe extern "C" fn()>;

/// The functions that the inline functions of 1.0 call.
#[repr(C)]
#[derive(Default)]
pub struct ibv_context_ops_1_0 {
    pub query_device: Unused,
    pub query_port: Unused,
    pub alloc_pd: Unused,
    pub dealloc_pd: Unused,
    pub reg_mr: Unused,
    pub dereg_mr: Unused,
    pub create_cq: Unused,
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq_1_0, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq_1_0, c_int) -> c_int>,
    pub cq_event: Unused,
    pub resize_cq: Unused,
    pub destroy_cq: Unused,
    pub create_srq: Unused,
    pub modify_srq: Unused,
    pub query_srq: Unused,
    pub destroy_srq: Unused,
    pub post_srq_recv: Option<
        unsafe extern "C" fn(*mut ibv_srq_1_0, *mut ibv_recv_wr_1_0, *mut *mut ibv_recv_wr_1_0) -> c_int,
    >,
    pub create_qp: Unused,
    pub query_qp: Unused,
    pub modify_qp: Unused,
    pub destroy_qp: Unused,
    pub post_send: Option<
        unsafe extern "C" fn(*mut ibv_qp_1_0, *mut ibv_send_wr_1_0, *mut *mut ibv_send_wr_1_0) -> c_int,
    >,
    pub post_recv: Option<
        unsafe extern "C" fn(*mut ibv_qp_1_0, *mut ibv_recv_wr_1_0, *mut *mut ibv_recv_wr_1_0) -> c_int,
    >,
    pub create_ah: Unused,
    pub destroy_ah: Unused,
    pub attach_mcast: Unused,
    pub detach_mcast: Unused,
}

/// An open device.
#[repr(C)]
pub struct ibv_context_1_0 {
    pub device: *mut ibv_device_1_0,
    pub ops: ibv_context_ops_1_0,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub real_context: *mut ibv_context,
}

/// A protection domain.
#[repr(C)]
pub struct ibv_pd_1_0 {
    pub context: *mut ibv_context_1_0,
    pub handle: u32,
    pub real_pd: *mut ibv_pd,
}

/// A memory region.
#[repr(C)]
pub struct ibv_mr_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub real_mr: *mut ibv_mr,
}

/// An address handle.
#[repr(C)]
pub struct ibv_ah_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub real_ah: *mut ibv_ah,
}

/// A completion queue.
#[repr(C)]
pub struct ibv_cq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub real_cq: *mut ibv_cq,
}

/// A shared receive queue.
#[repr(C)]
pub struct ibv_srq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_srq: *mut ibv_srq,
}

/// What a queue pair is made with.
#[repr(C)]
pub struct ibv_qp_init_attr_1_0 {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub cap: ibv_qp_cap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// A queue pair.
#[repr(C)]
pub struct ibv_qp_1_0 {
    pub context: *mut ibv_context_1_0,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_qp: *mut ibv_qp,
}

/// A send request. The part by operation is as today, but that `wr.ud.ah` is an [`ibv_ah_1_0`].
#[repr(C)]
pub struct ibv_send_wr_1_0 {
    pub next: *mut ibv_send_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    pub imm_data: __be32,
    pub wr: ibv_send_wr_wr,
}

/// A receive request.
#[repr(C)]
pub struct ibv_recv_wr_1_0 {
    pub next: *mut ibv_recv_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

// Sizes and offsets that a C compiler gives to these structs on 64-bit Linux.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
const _: () = {
    macro_rules! layout {
        ($($name:ident $size:literal { $($field:ident $offset:literal)* })*) => { $(
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)*
        )* };
    }
    layout! {
        ibv_device_1_0 40 { real_device 16 obsolete_ops 24 }
        ibv_context_ops_1_0 216 {
            poll_cq 56 req_notify_cq 64 post_srq_recv 128 post_send 168 post_recv 176 detach_mcast 208
        }
        ibv_context_1_0 248 { device 0 ops 8 cmd_fd 224 async_fd 228 num_comp_vectors 232 real_context 240 }
        ibv_pd_1_0 24 { context 0 handle 8 real_pd 16 }
        ibv_mr_1_0 40 { context 0 pd 8 handle 16 lkey 20 rkey 24 real_mr 32 }
        ibv_ah_1_0 32 { context 0 pd 8 handle 16 real_ah 24 }
        ibv_send_wr_1_0 72 { next 0 wr_id 8 sg_list 16 num_sge 24 opcode 28 send_flags 32 imm_data 36 wr 40 }
        ibv_recv_wr_1_0 32 { next 0 wr_id 8 sg_list 16 num_sge 24 }
        ibv_qp_init_attr_1_0 64 { qp_context 0 send_cq 8 recv_cq 16 srq 24 cap 32 qp_type 52 sq_sig_all 56 }
    }
};
// These hold pthread objects, whose size is the machine's.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const _: () = {
    macro_rules! layout {
        ($($name:ident $size:literal { $($field:ident $offset:literal)* })*) => { $(
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)*
        )* };
    }
    layout! {
        ibv_cq_1_0 128 {
            context 0 cq_context 8 handle 16 cqe 20 mutex 24 cond 64 comp_events_completed 112
            async_events_completed 116 real_cq 120
        }
        ibv_srq_1_0 136 {
            context 0 srq_context 8 pd 16 handle 24 mutex 32 cond 72 events_completed 120 real_srq 128
        }
        ibv_qp_1_0 168 {
            context 0 qp_context 8 pd 16 send_cq 24 recv_cq 32 srq 40 handle 48 qp_num 52 state 56
            qp_type 60 mutex 64 cond 104 events_completed 152 real_qp 160
        }
    }
};
