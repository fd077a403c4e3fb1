//! Work queue entries: what a work request of a program becomes in a slot of the ring.
//!
//! Source: `struct rxe_send_wqe` and `struct rxe_recv_wqe` of `rdma/rdma_user_rxe.h`; the checks are
//! rdma-core's. Slots are written through raw pointers, since the kernel may read them at any time, and every
//! entry starts from zeros, so that nothing of the entry that was there before is left.

use core::mem::{offset_of, size_of};
use core::ptr::{self, NonNull};

use super::ah::{Ah, Destination};
use super::ring;
use crate::abi::uapi::Pod;
use crate::abi::uapi::rdma_user_rxe::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::qp_ex::inline_length;

/// Bytes of a send queue entry before its scatter/gather list or inline data.
pub const SEND_HEAD: usize = size_of::<rxe_send_wqe>();
/// Bytes of a receive queue entry before its scatter/gather list.
pub const RECV_HEAD: usize = size_of::<rxe_recv_wqe>();
/// Operand bytes of an atomic write, which stand where inline data does.
pub const ATOMIC_WRITE_BYTES: usize = 8;

// ring.rs stands alone, with offsets of its own; here they meet the kernel's header.
const _: () = {
    assert!(ring::LOG2_SLOT_SIZE == offset_of!(rxe_queue_buf, log2_elem_size));
    assert!(ring::INDEX_MASK == offset_of!(rxe_queue_buf, index_mask));
    assert!(ring::PRODUCER == offset_of!(rxe_queue_buf, producer_index));
    assert!(ring::CONSUMER == offset_of!(rxe_queue_buf, consumer_index));
    assert!(ring::DATA == RXE_QUEUE_DATA);
};

// A program's scatter/gather entries are the kernel's, so lists are copied as they are.
const _: () = {
    assert!(size_of::<ibv_sge>() == size_of::<rxe_sge>());
    assert!(offset_of!(ibv_sge, addr) == offset_of!(rxe_sge, addr));
    assert!(offset_of!(ibv_sge, length) == offset_of!(rxe_sge, length));
    assert!(offset_of!(ibv_sge, lkey) == offset_of!(rxe_sge, lkey));
};

/// What the entries of a send queue may hold.
#[derive(Clone, Copy, Debug)]
pub struct SendShape {
    /// Scatter/gather entries at most.
    pub max_sge: u32,
    /// Inline bytes at most.
    pub max_inline: u32,
    /// `IBV_QPT_*`.
    pub qp_type: u32,
}

impl SendShape {
    /// The shape that a queue pair was promised, cut to what a slot of its ring really holds.
    #[must_use]
    pub fn new(cap: &ibv_qp_cap, qp_type: u32, slot_size: usize) -> Self {
        let room = u32::try_from(slot_size.saturating_sub(SEND_HEAD)).unwrap_or(u32::MAX);
        Self {
            max_sge: cap.max_send_sge.min(room / size_of::<rxe_sge>() as u32),
            max_inline: cap.max_inline_data.min(room),
            qp_type,
        }
    }

    fn datagrams(&self) -> bool {
        self.qp_type == IBV_QPT_UD as u32
    }

    fn connected(&self) -> bool {
        self.qp_type == IBV_QPT_RC as u32 || self.qp_type == IBV_QPT_UC as u32
    }
}

/// Scatter/gather entries at most in a receive queue entry: what was promised, cut to what a slot holds.
#[must_use]
pub fn max_recv_sge(promised: u32, slot_size: usize) -> u32 {
    let room = u32::try_from(slot_size.saturating_sub(RECV_HEAD)).unwrap_or(u32::MAX);
    promised.min(room / size_of::<rxe_sge>() as u32)
}

/// Checks a send request, EINVAL if the queue cannot take it; the length of the message if it can.
///
/// # Safety
/// `sg_list` of `wr` is valid for its `num_sge` entries.
#[inline(always)]
pub unsafe fn check_send(shape: &SendShape, wr: &ibv_send_wr) -> Result<u32> {
    // A negative number counts as a huge one.
    if wr.num_sge as u32 > shape.max_sge {
        return Err(Errno::EINVAL);
    }
    let mut total = 0u64;
    for i in 0..wr.num_sge as usize {
        // SAFETY: the list has `num_sge` entries.
        total += u64::from(unsafe { (*wr.sg_list.add(i)).length });
    }
    // The kernel takes 32 bits. Inline data is held to its limit before the cut, because it is copied here.
    let length = total as u32;
    if wr.send_flags & IBV_SEND_INLINE as u32 != 0 && total > u64::from(shape.max_inline) {
        return Err(Errno::EINVAL);
    }
    const CMP_AND_SWP: u32 = IBV_WR_ATOMIC_CMP_AND_SWP as u32;
    const FETCH_AND_ADD: u32 = IBV_WR_ATOMIC_FETCH_AND_ADD as u32;
    const BIND_MW: u32 = IBV_WR_BIND_MW as u32;
    match wr.opcode {
        CMP_AND_SWP | FETCH_AND_ADD => {
            // SAFETY: the opcode says that this part of the union was set; it is integers either way.
            let remote_addr = unsafe { wr.wr.atomic.remote_addr };
            if length < 8 || remote_addr & 7 != 0 {
                return Err(Errno::EINVAL);
            }
        }
        BIND_MW => {
            // SAFETY: both parts of the unions are plain integers and pointers, which may be looked at; the
            // pointers are only compared here.
            let (imm_data, bind) = unsafe { (wr.anon1.imm_data, &wr.anon2.bind_mw) };
            if length != 0 || wr.num_sge != 0 || imm_data != 0 || !shape.connected() {
                return Err(Errno::EINVAL);
            }
            if bind.mw.is_null() || bind.bind_info.mr.is_null() {
                return Err(Errno::EINVAL);
            }
        }
        _ => {}
    }
    Ok(length)
}

/// Writes a checked send request into a slot.
///
/// # Safety
/// `slot` is writable for the slot size that `shape` was made with, and aligned to 8; [`check_send`] accepted
/// `wr` for `shape` and gave `length`; the objects and buffers that `wr` names are live.
#[inline(always)]
pub unsafe fn write_send(
    slot: NonNull<u8>,
    shape: &SendShape,
    wr: &ibv_send_wr,
    length: u32,
    ssn: u32,
) -> Result<()> {
    const SEND: u32 = IBV_WR_SEND as u32;
    const SEND_WITH_IMM: u32 = IBV_WR_SEND_WITH_IMM as u32;
    const RDMA_WRITE: u32 = IBV_WR_RDMA_WRITE as u32;
    const RDMA_WRITE_WITH_IMM: u32 = IBV_WR_RDMA_WRITE_WITH_IMM as u32;
    const RDMA_READ: u32 = IBV_WR_RDMA_READ as u32;
    const CMP_AND_SWP: u32 = IBV_WR_ATOMIC_CMP_AND_SWP as u32;
    const FETCH_AND_ADD: u32 = IBV_WR_ATOMIC_FETCH_AND_ADD as u32;
    const LOCAL_INV: u32 = IBV_WR_LOCAL_INV as u32;
    const BIND_MW: u32 = IBV_WR_BIND_MW as u32;
    const SEND_WITH_INV: u32 = IBV_WR_SEND_WITH_INV as u32;

    // SAFETY: handed on to the caller. The union holds integers, whichever part was set.
    let entry =
        unsafe { Entry::begin(slot, wr.wr_id, wr.opcode, wr.send_flags, wr.anon1.invalidate_rkey, ssn) };
    let wqe = entry.wqe();
    // SAFETY: the entry is writable, and `Entry::begin` has initialised it. The opcode says which part of the
    // request's unions was set; all parts are integers and pointers, so that reading another part of
    // initialised C memory gives some number. The pointers followed are those that the caller vouches for.
    unsafe {
        match wr.opcode {
            SEND | SEND_WITH_IMM if shape.datagrams() => {
                let ud = &wr.wr.ud;
                let ah = Handle::from_c(ud.ah)?;
                entry.set_destination(&ah.object::<Ah>().destination, ud.remote_qpn, ud.remote_qkey);
            }
            SEND | SEND_WITH_IMM | SEND_WITH_INV | LOCAL_INV => {}
            RDMA_WRITE | RDMA_WRITE_WITH_IMM | RDMA_READ => {
                entry.set_remote(wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            }
            CMP_AND_SWP | FETCH_AND_ADD => {
                let atomic = &wr.wr.atomic;
                entry.set_atomic(atomic.rkey, atomic.remote_addr, atomic.compare_add, atomic.swap);
            }
            BIND_MW => {
                let bind = &wr.anon2.bind_mw;
                entry.set_bind((*bind.mw).rkey, bind.rkey, &bind.bind_info);
            }
            // Operations that this provider does not know go to the kernel, which refuses them with a
            // completion.
            _ => (*wqe).iova = wr.wr.rdma.remote_addr,
        }

        (*wqe).dma.length = length;
        (*wqe).dma.resid = length;
        (*wqe).dma.num_sge = wr.num_sge as u32;
        let payload = entry.payload();
        if wr.send_flags & IBV_SEND_INLINE as u32 == 0 {
            // `num_sge` is at most `max_sge`, and so many entries fit behind the head.
            copy_list(wr.sg_list, payload.cast(), wr.num_sge as usize);
        } else {
            // The lengths add up to at most `max_inline`, and so many bytes fit behind the head.
            let mut target = payload;
            for i in 0..wr.num_sge as usize {
                let sge = &*wr.sg_list.add(i);
                ptr::copy_nonoverlapping(
                    ptr::with_exposed_provenance(sge.addr as usize),
                    target,
                    sge.length as usize,
                );
                target = target.add(sge.length as usize);
            }
        }
    }
    Ok(())
}

/// Writes a receive request into a slot.
///
/// # Safety
/// `slot` is aligned to 8 and writable for the head of an entry and the `num_sge` scatter/gather entries of
/// `wr`, for which `sg_list` is valid.
#[inline(always)]
pub unsafe fn write_recv(slot: NonNull<u8>, wr: &ibv_recv_wr) {
    // SAFETY: the slot holds head and list, and the list has `num_sge` entries.
    unsafe {
        let target = slot.cast::<rxe_recv_wqe>().as_ptr().add(1).cast();
        write_recv_head(slot, wr, copy_list(wr.sg_list, target, wr.num_sge as usize));
    }
}

/// Scatter/gather entries that are written without a loop.
pub const FEW: u32 = 4;

/// As [`write_recv`], for a request of at most [`FEW`] entries.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn write_short_recv(slot: NonNull<u8>, wr: &ibv_recv_wr) {
    let count = wr.num_sge as u32;
    let mut length = 0u32;
    // SAFETY: the slot holds head and list, and the list has `num_sge` entries.
    unsafe {
        core::hint::assert_unchecked(count <= FEW);
        let target = slot.cast::<rxe_recv_wqe>().as_ptr().add(1).cast::<ibv_sge>();
        for i in 0..count {
            let entry = wr.sg_list.add(i as usize).read();
            length = length.wrapping_add(entry.length);
            target.add(i as usize).write(entry);
        }
        write_recv_head(slot, wr, length);
    }
}

/// Writes all of a receive request but its list.
///
/// # Safety
/// `slot` is aligned to 8 and writable for the head of an entry.
#[inline(always)]
unsafe fn write_recv_head(slot: NonNull<u8>, wr: &ibv_recv_wr, length: u32) {
    // Words of 8 bytes, because a short request takes as long as its stores. The length is also what remains of
    // it; no entry has been used yet.
    let words = [wr.wr_id, 0, pair(length, length), pair(0, wr.num_sge as u32), 0];
    // SAFETY: by the contract.
    unsafe { slot.cast::<[u64; 5]>().write(words) };
}

// Where `write_recv_head` puts its words.
const _: () = {
    assert!(size_of::<rxe_recv_wqe>() == size_of::<[u64; 5]>());
    assert!(offset_of!(rxe_recv_wqe, wr_id) == 0);
    assert!(offset_of!(rxe_recv_wqe, dma.length) == 16 && offset_of!(rxe_recv_wqe, dma.resid) == 20);
    assert!(offset_of!(rxe_recv_wqe, dma.num_sge) == 28);
};

/// Two neighbouring fields as one.
#[inline(always)]
fn pair(first: u32, second: u32) -> u64 {
    let (low, high) = if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    u64::from(low) | u64::from(high) << 32
}

/// Copies scatter/gather entries one by one: lists are short, and a call of memcpy costs more than one entry
/// does. The result is the sum of their lengths, cut to 32 bits.
///
/// # Safety
/// `count` entries are readable at `list` and writable at `target`, and do not overlap.
#[inline(always)]
unsafe fn copy_list(list: *const ibv_sge, target: *mut ibv_sge, count: usize) -> u32 {
    let mut length = 0u32;
    for i in 0..count {
        // SAFETY: by the contract. One read is volatile, so that the compiler makes nothing for long lists of
        // the loop.
        unsafe {
            let entry = list.add(i);
            length = length.wrapping_add((&raw const (*entry).length).read_volatile());
            target.add(i).write(entry.read());
        }
    }
    length
}

/// A send queue entry under construction in its slot.
#[derive(Clone, Copy)]
pub struct Entry(NonNull<rxe_send_wqe>);

impl Entry {
    /// Starts an entry without payload. `word` is the immediate data or the key to invalidate.
    ///
    /// # Safety
    /// `slot` is aligned to 8 and writable for the head of an entry, as long as the result is used.
    #[inline(always)]
    pub unsafe fn begin(
        slot: NonNull<u8>,
        wr_id: u64,
        opcode: u32,
        send_flags: u32,
        word: u32,
        ssn: u32,
    ) -> Self {
        let entry = Self(slot.cast());
        let wqe = entry.wqe();
        // SAFETY: by the contract.
        unsafe {
            wqe.write(rxe_send_wqe::zeroed());
            (*wqe).wr.wr_id = wr_id;
            (*wqe).wr.opcode = opcode;
            (*wqe).wr.send_flags = send_flags;
            (*wqe).wr.imm_data = word;
            (*wqe).ssn = ssn;
        }
        entry
    }

    /// The entry that [`Entry::begin`] started in this slot.
    ///
    /// # Safety
    /// As [`Entry::begin`], which has been called for this slot.
    #[inline(always)]
    pub unsafe fn reopen(slot: NonNull<u8>) -> Self {
        Self(slot.cast())
    }

    #[inline(always)]
    fn wqe(self) -> *mut rxe_send_wqe {
        self.0.as_ptr()
    }

    /// Where inline data or the scatter/gather list goes.
    #[inline(always)]
    fn payload(self) -> *mut u8 {
        self.wqe().wrapping_add(1).cast()
    }

    /// The peer's memory that a read, a write or an atomic is for.
    #[inline(always)]
    pub fn set_remote(self, rkey: u32, remote_addr: u64) {
        let wqe = self.wqe();
        // SAFETY: the slot is writable for the head as long as the entry is used, by the contract of `begin`.
        unsafe {
            (*wqe).wr.wr.rdma = rxe_wr_rdma { remote_addr, rkey, reserved: 0 };
            (*wqe).iova = remote_addr;
        }
    }

    /// The peer's memory that a flush is for, `kind` (`ibv_placement_type`) and `level`
    /// (`ibv_selectivity_level`). The length stands where that of a payload does, cut to 32 bits.
    #[inline(always)]
    pub fn set_flush(self, rkey: u32, remote_addr: u64, length: usize, kind: u8, level: u8) {
        let wqe = self.wqe();
        // SAFETY: as in `set_remote`.
        unsafe {
            (*wqe).wr.wr.flush = rxe_wr_flush { remote_addr, rkey, kind, level, ..Pod::zeroed() };
            (*wqe).iova = remote_addr;
        }
        self.set_length(length as u32);
    }

    /// Target and operands of an atomic.
    #[inline(always)]
    pub fn set_atomic(self, rkey: u32, remote_addr: u64, compare_add: u64, swap: u64) {
        let wqe = self.wqe();
        // SAFETY: as in `set_remote`.
        unsafe {
            (*wqe).wr.wr.atomic = rxe_wr_atomic { remote_addr, compare_add, swap, rkey, reserved: 0 };
            (*wqe).iova = remote_addr;
        }
    }

    /// Binding of the window with key `mw_rkey` under its new key `rkey`.
    ///
    /// # Safety
    /// The region that `info` names is live.
    #[inline(always)]
    pub unsafe fn set_bind(self, mw_rkey: u32, rkey: u32, info: &ibv_mw_bind_info) {
        // SAFETY: as in `set_remote`; the region by the contract.
        unsafe {
            (*self.wqe()).wr.wr.mw = rxe_wr_mw {
                addr: info.addr,
                length: info.length,
                mr_lkey: (*info.mr).lkey,
                mw_rkey,
                rkey,
                access: info.mw_access_flags,
            };
        }
    }

    /// Destination of a datagram.
    #[inline(always)]
    pub fn set_destination(self, destination: &Destination, remote_qpn: u32, remote_qkey: u32) {
        // SAFETY: as in `set_remote`. The union is integers and was zeroed, so a reference to this part of it
        // is to initialised memory; the kernel does not write entries that it has not been told of.
        let ud = unsafe { &mut (*self.wqe()).wr.wr.ud };
        ud.remote_qpn = remote_qpn;
        ud.remote_qkey = remote_qkey;
        ud.ah_num = destination.ah_num;
        if let Some(av) = &destination.av {
            ud.av = *av;
        }
    }

    #[inline(always)]
    fn set_length(self, length: u32) {
        let wqe = self.wqe();
        // SAFETY: as in `set_remote`.
        unsafe {
            (*wqe).dma.length = length;
            (*wqe).dma.resid = length;
        }
    }

    /// The operand of an atomic write.
    ///
    /// # Safety
    /// 8 bytes are readable at `operand`, and the slot has [`ATOMIC_WRITE_BYTES`] behind the head.
    #[inline(always)]
    pub unsafe fn set_atomic_write(self, operand: *const u8) {
        // SAFETY: by the contract.
        unsafe { ptr::copy_nonoverlapping(operand, self.payload(), ATOMIC_WRITE_BYTES) };
        self.set_length(ATOMIC_WRITE_BYTES as u32);
    }

    /// Copies inline data of several pieces; ENOSPC, and nothing copied, if it is more than `max_inline`.
    ///
    /// # Safety
    /// The slot has `max_inline` bytes behind the head; each piece is readable.
    pub unsafe fn set_inline(self, max_inline: u32, pieces: &[ibv_data_buf]) -> Result<()> {
        let total = inline_length(pieces, max_inline)?;
        let mut target = self.payload();
        for piece in pieces.iter().filter(|piece| piece.length != 0) {
            // SAFETY: the lengths add up to at most `max_inline`, which the slot has room for.
            unsafe {
                ptr::copy_nonoverlapping(piece.addr.cast_const().cast::<u8>(), target, piece.length);
                target = target.add(piece.length);
            }
        }
        self.set_length(total as u32);
        // SAFETY: as in `set_remote`. Without the flag the kernel would look for a scatter/gather list.
        unsafe { (*self.wqe()).wr.send_flags |= IBV_SEND_INLINE as u32 };
        Ok(())
    }

    /// Sets one scatter/gather entry; an empty one leaves the request without payload.
    ///
    /// # Safety
    /// The slot has room for a scatter/gather entry behind the head.
    #[inline(always)]
    pub unsafe fn set_sge(self, sge: ibv_sge) {
        if sge.length == 0 {
            return;
        }
        // SAFETY: by the contract, and as in `set_remote`.
        unsafe {
            (*self.wqe()).dma.num_sge = 1;
            self.payload().cast::<ibv_sge>().write(sge);
        }
        self.set_length(sge.length);
    }

    /// Sets the scatter/gather list; ENOSPC if it is longer than `max_sge`.
    ///
    /// # Safety
    /// The slot has room for `max_sge` scatter/gather entries behind the head; `num_sge` are readable at
    /// `list`.
    pub unsafe fn set_sge_list(self, max_sge: u32, num_sge: usize, list: *const ibv_sge) -> Result<()> {
        if num_sge > max_sge as usize {
            return Err(Errno::ENOSPC);
        }
        // SAFETY: by the contract, and as in `set_remote`.
        let length = unsafe {
            (*self.wqe()).dma.num_sge = num_sge as u32;
            copy_list(list, self.payload().cast(), num_sge)
        };
        self.set_length(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
