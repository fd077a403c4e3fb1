//! Why a call failed, for the person who set `VERBS_LOG_LEVEL=4`: what was asked beside what the device or the
//! system has.
//!
//! Nothing here runs at another level, and the caller's `errno` is left as it was.

use core::ffi::c_int;
use core::fmt;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::log::{self, Level, trace};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

/// What was asked of one capacity, and what the device has.
struct Asked {
    name: &'static str,
    asked: u64,
    limit: c_int,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, asked, limit } = *self;
        let beyond = u64::try_from(limit).is_ok_and(|limit| asked > limit);
        write!(f, "{name} {asked} of {limit}{}", if beyond { " (too many)" } else { "" })
    }
}

struct List<'a>(&'a [Asked]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, asked) in self.0.iter().enumerate() {
            write!(f, "{}{asked}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Runs `body` with the device's limits when its lines would be written.
#[cold]
fn with_limits(file: &DeviceFile, body: impl FnOnce(&ibv_device_attr)) {
    if !log::enabled(Level::Debug) {
        return;
    }
    let before = Errno::last();
    // SAFETY: plain C data; all zeros is its empty value.
    let mut attr: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
    let size = size_of::<ibv_device_attr>();
    if uverbs::device::query(file, None, &mut attr, size, 0, Udata::none()).is_ok() {
        body(&attr.orig_attr);
    }
    before.set();
}

/// A queue pair was refused.
pub fn create_qp(file: &DeviceFile, errno: Errno, qp_type: u32, cap: &ibv_qp_cap) {
    with_limits(file, |limits| {
        let asked = [
            Asked { name: "max_send_wr", asked: cap.max_send_wr.into(), limit: limits.max_qp_wr },
            Asked { name: "max_recv_wr", asked: cap.max_recv_wr.into(), limit: limits.max_qp_wr },
            Asked { name: "max_send_sge", asked: cap.max_send_sge.into(), limit: limits.max_sge },
            Asked { name: "max_recv_sge", asked: cap.max_recv_sge.into(), limit: limits.max_sge },
        ];
        let inline = cap.max_inline_data;
        trace!(
            Debug,
            "rxe: create_qp: {errno:?}; type {qp_type}, asked {}, {inline} inline bytes; the device has {} \
             queue pairs",
            List(&asked),
            limits.max_qp
        );
    });
}

/// A completion queue was refused, or another size of it.
pub fn cq_size(file: &DeviceFile, errno: Errno, call: &str, cqe: u32) {
    with_limits(file, |limits| {
        let asked = Asked { name: "cqe", asked: cqe.into(), limit: limits.max_cqe };
        trace!(
            Debug,
            "rxe: {call}: {errno:?}; asked {asked}; the device has {} completion queues", limits.max_cq
        );
    });
}

/// A shared receive queue was refused, or another size or limit of it.
pub fn srq_size(file: &DeviceFile, errno: Errno, call: &str, attr: &ibv_srq_attr) {
    with_limits(file, |limits| {
        let asked = [
            Asked { name: "max_wr", asked: attr.max_wr.into(), limit: limits.max_srq_wr },
            Asked { name: "max_sge", asked: attr.max_sge.into(), limit: limits.max_srq_sge },
            Asked { name: "srq_limit", asked: attr.srq_limit.into(), limit: attr.max_wr as c_int },
        ];
        trace!(
            Debug,
            "rxe: {call}: {errno:?}; asked {}; the device has {} shared queues",
            List(&asked),
            limits.max_srq
        );
    });
}

/// A memory region was refused.
pub fn reg_mr(file: &DeviceFile, errno: Errno, addr: usize, length: usize, access: c_int) {
    with_limits(file, |limits| {
        let locked = match getrlimit(Resource::RLIMIT_MEMLOCK) {
            Err(_) => "unknown".to_owned(),
            Ok((RLIM_INFINITY, _)) => "unlimited".to_owned(),
            Ok((bytes, _)) => format!("{} KiB", bytes / 1024),
        };
        trace!(
            Debug,
            "rxe: reg_mr: {errno:?}; asked {} KiB at {addr:#x} with rights {access:#x}; locked memory limit \
             {locked}, the \
             device takes {} KiB in {} regions",
            length.div_ceil(1024),
            limits.max_mr_size / 1024,
            limits.max_mr
        );
    });
}

/// A queue pair was not changed.
pub fn modify_qp(errno: Errno, qp: &ibv_qp, attr: &ibv_qp_attr, attr_mask: c_int) {
    let to = attr.qp_state;
    trace!(
        Debug,
        "rxe: modify_qp: {errno:?}; queue pair {:#x} of type {} in state {}, asked mask {attr_mask:#x}{}",
        qp.qp_num,
        qp.qp_type,
        qp.state,
        if attr_mask & IBV_QP_STATE as c_int != 0 { format!(" with state {to}") } else { String::new() }
    );
}

/// A request found every slot taken.
#[cold]
#[inline(never)]
pub fn queue_full(call: &str, wr_id: u64) {
    trace!(Debug, "rxe: {call}: request {wr_id:#x} finds the queue full");
}

/// A receive request has a longer list than its queue takes.
#[cold]
#[inline(never)]
pub fn too_many_entries(wr: &ibv_recv_wr, max_sge: u32) {
    trace!(
        Debug,
        "rxe: post_recv: request {:#x} has {} entries, the queue takes {max_sge}", wr.wr_id, wr.num_sge
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_named() {
        let list = [
            Asked { name: "max_send_wr", asked: 4096, limit: 1024 },
            Asked { name: "max_send_sge", asked: 2, limit: 32 },
        ];
        assert_eq!(List(&list).to_string(), "max_send_wr 4096 of 1024 (too many), max_send_sge 2 of 32");
        assert_eq!(Asked { name: "cqe", asked: 1, limit: -1 }.to_string(), "cqe 1 of -1");
    }
}
