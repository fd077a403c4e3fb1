//! Requests that are built call by call, of an extended queue pair: they are judged as they are set, and posted
//! at `ibv_wr_complete`.

use core::ffi::c_int;

use ironverbs_os::growth::TryPush;

use super::buffers::ELEMENTS;
use super::objects::Ledger;
use super::place::Place;
use super::posts::{atomic, begins, bind, elements, enter, give_up, inline, list, take_back, to};
use super::queue_pair::Request;
use super::report::Findings;
use crate::abi::verbs::*;

/// A function of an extended queue pair, before it runs; `request` says that it begins a request.
///
/// # Safety
/// `qp` is live; lists have as many elements as the arguments say.
pub unsafe fn built(
    ledger: &mut Ledger,
    found: &mut Findings,
    qp: *const ibv_qp_ex,
    function: &str,
    request: bool,
    words: &[u64],
) {
    let address = qp as u64;
    let Some(to) = to(ledger, address) else { return };
    if request {
        let opcode = opcode_of(function);
        // SAFETY: by the contract.
        let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
        if function.starts_with("wr_atomic")
            && let Some(remote) = words.get(1)
        {
            atomic(found, to.object, *remote);
        }
        if let ("wr_bind_mw", &[_, _, info]) = (function, words)
            // SAFETY: by the contract.
            && let Some(info) = unsafe { (info as *const ibv_mw_bind_info).as_ref() }
        {
            bind(ledger, found, info.mr as u64, info.length);
        }
        let is_signaled = to.qp.signals_all || flags & IBV_SEND_SIGNALED as u32 != 0;
        let request = Request { wr_id, is_signaled, serial: 0, opcode, keys: [0; ELEMENTS] };
        if let Some(qp) = ledger.qp(address)
            && qp.building.try_push((request, None)).is_err()
        {
            give_up(ledger, address);
        }
        return;
    }
    let last = to.qp.building.last().map(|(request, _)| *request);
    match (function, words) {
        ("wr_start" | "wr_abort", _) => {
            if let Some(qp) = ledger.qp(address) {
                qp.building.clear();
            }
        }
        ("wr_set_inline_data", &[_, length]) => inline(found, &to, length),
        ("wr_set_inline_data_list", &[count, first]) => {
            // SAFETY: by the contract.
            let buffers = unsafe { list(first as *const ibv_data_buf, count as usize) };
            inline(found, &to, buffers.iter().map(|buffer| buffer.length as u64).sum());
        }
        ("wr_set_sge", &[lkey, addr, length]) => {
            let sge = ibv_sge { addr, length: length as u32, lkey: lkey as u32 };
            set(ledger, found, address, last, &[sge]);
        }
        ("wr_set_sge_list", &[count, first]) => {
            // SAFETY: by the contract.
            let sges = unsafe { list(first as *const ibv_sge, count as usize) };
            set(ledger, found, address, last, sges);
        }
        _ => {}
    }
}

fn set(ledger: &mut Ledger, found: &mut Findings, qp: u64, last: Option<Request>, sges: &[ibv_sge]) {
    let (Some(mut request), Some(to)) = (last, to(ledger, qp)) else { return };
    // Whether it is looked at is known when it is posted.
    let buffer = elements(ledger, found, &to, &mut request, sges, true);
    if let Some(qp) = ledger.qp(qp)
        && let Some(last) = qp.building.last_mut()
    {
        *last = (request, buffer);
    }
}

/// The operation of a function that begins a request.
fn opcode_of(function: &str) -> u32 {
    match function {
        "wr_atomic_cmp_swp" => IBV_WR_ATOMIC_CMP_AND_SWP as u32,
        "wr_atomic_fetch_add" => IBV_WR_ATOMIC_FETCH_AND_ADD as u32,
        "wr_rdma_read" => IBV_WR_RDMA_READ as u32,
        "wr_rdma_write" => IBV_WR_RDMA_WRITE as u32,
        "wr_rdma_write_imm" => IBV_WR_RDMA_WRITE_WITH_IMM as u32,
        "wr_send" => IBV_WR_SEND as u32,
        "wr_send_imm" => IBV_WR_SEND_WITH_IMM as u32,
        "wr_send_inv" => IBV_WR_SEND_WITH_INV as u32,
        // These have no elements, or none that are looked at.
        _ => u32::MAX,
    }
}

/// Before what was built is posted.
pub fn complete_begins(ledger: &mut Ledger, found: &mut Findings, qp: u64, place: Option<Place>) {
    if begins(ledger, found, qp).is_none() {
        return;
    }
    let Some(mut built) = ledger.qp(qp).map(|qp| core::mem::take(&mut qp.building)) else { return };
    let count = built.len();
    for (request, buffer) in built.drain(..) {
        enter(ledger, found, qp, request, buffer.zip(place));
    }
    // Its room serves the next.
    if let Some(qp) = ledger.qp(qp) {
        qp.building = built;
        qp.completing = count;
    }
}

/// After it was: all of it, or nothing.
pub fn complete_ended(ledger: &mut Ledger, qp: u64, answer: c_int) {
    let Some(entry) = ledger.qp(qp) else { return };
    entry.within = 0;
    let count = entry.completing;
    if answer != 0 {
        take_back(ledger, qp, count);
    }
}
