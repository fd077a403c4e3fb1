//! Work requests for drivers whose queues are not mapped.

use core::ffi::c_int;

use super::{file, live, value};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::uverbs::post::{self, Posted, Requests};

/// The entries of a request as bytes.
///
/// # Safety
/// See [the module](super).
unsafe fn entries<'a>(sg_list: *mut ibv_sge, num_sge: c_int) -> Result<&'a [u8]> {
    const _: () = assert!(size_of::<ibv_sge>() == size_of::<ib_uverbs_sge>());
    let count = usize::try_from(num_sge).map_err(|_| Errno::EINVAL.also_set())?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: see the module; the entries have no padding.
    Ok(unsafe { core::slice::from_raw_parts(live(sg_list)?.cast(), count * size_of::<ibv_sge>()) })
}

/// The part of a send that depends on service and operation, in the kernel's union.
///
/// # Safety
/// See [the module](super).
unsafe fn operands(wr: &ibv_send_wr, qp_type: ibv_qp_type_t) -> Result<[u64; 4]> {
    let mut union = [0_u64; 4];
    let bytes = union.as_bytes_mut();
    // SAFETY: see the module; service and operation say which part the program has set.
    unsafe {
        if qp_type == IBV_QPT_UD as ibv_qp_type_t {
            let ud = wr.wr.ud;
            let part = ib_uverbs_send_wr_ud {
                ah: (*live(ud.ah)?).handle,
                remote_qpn: ud.remote_qpn,
                remote_qkey: ud.remote_qkey,
                reserved: 0,
            };
            bytes[..16].copy_from_slice(part.as_bytes());
            return Ok(union);
        }
        const WRITE: u32 = IBV_WR_RDMA_WRITE as u32;
        const WRITE_WITH_IMM: u32 = IBV_WR_RDMA_WRITE_WITH_IMM as u32;
        const READ: u32 = IBV_WR_RDMA_READ as u32;
        const CMP_AND_SWP: u32 = IBV_WR_ATOMIC_CMP_AND_SWP as u32;
        const FETCH_AND_ADD: u32 = IBV_WR_ATOMIC_FETCH_AND_ADD as u32;
        match wr.opcode {
            WRITE | WRITE_WITH_IMM | READ => {
                let rdma = wr.wr.rdma;
                let part =
                    ib_uverbs_send_wr_rdma { remote_addr: rdma.remote_addr, rkey: rdma.rkey, reserved: 0 };
                bytes[..16].copy_from_slice(part.as_bytes());
            }
            CMP_AND_SWP | FETCH_AND_ADD => {
                let atomic = wr.wr.atomic;
                let part = ib_uverbs_send_wr_atomic {
                    remote_addr: atomic.remote_addr,
                    compare_add: atomic.compare_add,
                    swap: atomic.swap,
                    rkey: atomic.rkey,
                    reserved: 0,
                };
                bytes.copy_from_slice(part.as_bytes());
            }
            _ => {}
        }
    }
    Ok(union)
}

/// The first request that the kernel did not take, as rdma-core names it: that of the kernel's number, or the
/// whole list when the command failed without one.
///
/// # Safety
/// `next` steps over live requests, and `bad` can be written where there is something to say.
unsafe fn report<T>(posted: &Posted, first: *mut T, bad: *mut *mut T, next: impl Fn(*mut T) -> *mut T) {
    let mut wr = first;
    if posted.bad_wr == 0 && posted.done.is_ok() {
        return;
    }
    for _ in 1..posted.bad_wr {
        if wr.is_null() {
            break;
        }
        wr = next(wr);
    }
    if !bad.is_null() {
        // SAFETY: by the contract.
        unsafe { *bad = wr };
    }
}

/// Posts a list of sends.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_post_send(
    ibqp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let qp = live(ibqp)?;
        let mut list = Requests::default();
        let mut at = wr;
        while let Some(wr) = at.as_ref() {
            let request = ib_uverbs_send_wr {
                wr_id: wr.wr_id,
                num_sge: wr.num_sge as u32,
                opcode: wr.opcode,
                send_flags: wr.send_flags,
                imm_data: wr.anon1.imm_data,
                wr: operands(wr, (*qp).qp_type)?,
            };
            list.push(&request, entries(wr.sg_list, wr.num_sge)?);
            at = wr.next;
        }
        let posted = post::send(file((*qp).context)?, (*qp).handle, &list);
        report(&posted, wr, bad_wr, |wr| (*wr).next);
        posted.done
    })
}

/// # Safety
/// See [the module](super).
unsafe fn receives(wr: *mut ibv_recv_wr) -> Result<Requests> {
    let mut list = Requests::default();
    let mut at = wr;
    // SAFETY: see the module.
    while let Some(wr) = unsafe { at.as_ref() } {
        let request = ib_uverbs_recv_wr { wr_id: wr.wr_id, num_sge: wr.num_sge as u32, reserved: 0 };
        // SAFETY: see the module.
        list.push(&request, unsafe { entries(wr.sg_list, wr.num_sge) }?);
        at = wr.next;
    }
    Ok(list)
}

/// Posts a list of receives to a queue pair.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_post_recv(
    ibqp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let qp = live(ibqp)?;
        let posted = post::recv(file((*qp).context)?, (*qp).handle, &receives(wr)?);
        report(&posted, wr, bad_wr, |wr| (*wr).next);
        posted.done
    })
}

/// Posts a list of receives to a shared receive queue.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let srq = live(srq)?;
        let posted = post::srq_recv(file((*srq).context)?, (*srq).handle, &receives(wr)?);
        report(&posted, wr, bad_wr, |wr| (*wr).next);
        posted.done
    })
}
