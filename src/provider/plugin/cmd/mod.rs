//! The functions by which rdma-core's providers give commands to the kernel: `ibv_cmd_*` of its `driver.h`, one
//! file per object.
//!
//! A provider hands in the C object that it is making, and its own structures for the `write` commands: header,
//! the core's request, then what it tells its driver; likewise the core's answer and what the driver tells it.
//! The functions build the command in [`crate::uverbs`], pass the driver's parts through as [`Udata`], and fill
//! in the object; what they fill in of queues and queue pairs [`crate::provider::public_fields`] says.
//!
//! They return 0 or an errno value, and leave in `errno` what rdma-core leaves there.
//! `libibverbs/private-symbols.txt` says under which private versions each is exported. One body serves all of
//! them where rdma-core's declaration has not changed; where it has, the functions are named after the first
//! generation that declares them so (`ibv_cmd_create_cq_ex_59`), and without number after 34.
//!
//! # Safety
//!
//! A provider is part of the library: its pointers are live, of the kind that the declaration says, and what it
//! hands over to be filled is its own alone. Sizes of commands and answers are those of the memory behind the
//! pointers, which may be null where the function says so; other null pointers are EINVAL where they can be
//! told. This is what the `unsafe` blocks of this folder rely on.

mod ah;
mod comp_cntr;
mod context;
mod counters;
mod cq;
mod dm;
mod dmabuf_heap;
mod dmah;
mod flow;
mod flow_action;
mod flow_spec;
mod ioctl;
mod mr;
mod pd;
mod post;
mod qp;
pub(super) mod srq;
mod wq;
mod xrcd;

pub(super) use context::LongPortAttr;

use core::ffi::c_int;

use crate::abi::uapi::ib_user_verbs::{ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr};
use crate::abi::verbs::ibv_context;
use crate::errno::{Errno, Result};
use crate::guard::guarded;
use crate::uverbs::Udata;
use crate::uverbs::device_file::DeviceFile;

/// A provider's command: header and core request; what is for the driver follows.
#[repr(C)]
pub struct Request<Q> {
    header: ib_uverbs_cmd_hdr,
    core: Q,
}

/// A provider's extended command: headers and core request; what is for the driver follows.
#[repr(C)]
pub struct ExRequest<Q> {
    header: ib_uverbs_cmd_hdr,
    ex_header: ib_uverbs_ex_cmd_hdr,
    core: Q,
}

/// Runs a command; no panic passes to the provider.
fn value(body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(body) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// The command file of a context.
///
/// # Safety
/// As the module says.
unsafe fn file<'a>(context: *mut ibv_context) -> Result<&'a DeviceFile> {
    // SAFETY: by the contract.
    unsafe { crate::provider::context::provider(context) }?.kernel()
}

/// A pointer that is not null.
fn live<T>(pointer: *mut T) -> Result<*mut T> {
    if pointer.is_null() { Err(Errno::EINVAL.also_set()) } else { Ok(pointer) }
}

/// What a provider tells its driver: the bytes behind the structure `T`, of `size` bytes altogether. None for
/// null.
///
/// # Safety
/// As the module says.
unsafe fn told<'a, T>(start: *const T, size: usize) -> &'a [u8] {
    match size.checked_sub(size_of::<T>()) {
        // SAFETY: by the contract there are `size` bytes.
        Some(rest) if rest != 0 && !start.is_null() => unsafe {
            core::slice::from_raw_parts(start.add(1).cast(), rest)
        },
        _ => &[],
    }
}

/// As [`told`], for the driver's answer.
///
/// # Safety
/// As the module says.
unsafe fn heard<'a, T>(start: *mut T, size: usize) -> &'a mut [u8] {
    match size.checked_sub(size_of::<T>()) {
        // SAFETY: by the contract there are `size` bytes, and nobody else uses them during the command.
        Some(rest) if rest != 0 && !start.is_null() => unsafe {
            core::slice::from_raw_parts_mut(start.add(1).cast(), rest)
        },
        _ => &mut [],
    }
}

/// The driver's parts of a command and its answer.
///
/// # Safety
/// As the module says.
unsafe fn udata<'a, Q, R>(cmd: *const Q, cmd_size: usize, resp: *mut R, resp_size: usize) -> Udata<'a> {
    // SAFETY: by the contract.
    unsafe { Udata { input: told(cmd, cmd_size), output: heard(resp, resp_size) } }
}

/// The driver's part of a command without answer.
///
/// # Safety
/// As the module says.
unsafe fn only_told<'a, Q>(cmd: *const Q, cmd_size: usize) -> Udata<'a> {
    // SAFETY: by the contract.
    unsafe { Udata { input: told(cmd, cmd_size), output: &mut [] } }
}

/// Puts the core's answer where the provider looks for it.
///
/// # Safety
/// As the module says.
unsafe fn answer<R>(resp: *mut R, value: R) {
    if !resp.is_null() {
        // SAFETY: by the contract; providers need not align their buffers more than C does.
        unsafe { resp.write_unaligned(value) }
    }
}
