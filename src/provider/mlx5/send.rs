//! Posting lists of requests to send.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::building::Building;
use super::doorbell::{Announced, Register};
use super::queue::Sends;
use super::wqe::{self, Binding, Segment};
use super::writing::{Blocks, Bytes, Writing};
use super::{Mlx5, barrier};
use crate::abi::verbs::*;
use crate::errno::Errno;

/// What posting to a queue pair needs to know of it.
pub struct Kind {
    /// `IBV_QPT_*`.
    pub qp_type: u32,
    /// Its number.
    pub qp_num: u32,
    /// Requests that it takes.
    pub max_post: u32,
    /// Pieces of memory in one.
    pub max_sge: c_int,
    /// Bytes of data in one.
    pub max_inline: usize,
    /// Every request makes a completion.
    pub all_signaled: bool,
    /// The device has atomics.
    pub atomics: bool,
    /// What the context knows, which outlives the queue pair.
    pub mlx5: NonNull<Mlx5>,
}

/// The sending side of a queue pair, guarded by its lock.
pub struct SendQueue {
    pub(super) kind: Kind,
    register: Arc<Register>,
    record: NonNull<AtomicU32>,
    /// Blocks that were ever filled.
    pub(super) place: u32,
    /// Requests that were ever posted.
    pub(super) posted: u32,
    /// The fence that the next request has, because the last changed a key.
    pub(super) fence: u8,
    /// Pieces of memory that a request may have in the queue pair's state, or -1.
    pub(super) max_sge: c_int,
    /// Requests that a program builds by calls.
    pub(super) building: Building,
}

// SAFETY: record and context are libmlx5's, and live as long as the queue pair.
unsafe impl Send for SendQueue {}

impl SendQueue {
    /// The queue of a queue pair in state RESET, whose doorbell record (the word of sends) and register are
    /// there.
    pub fn new(kind: Kind, register: Arc<Register>, record: NonNull<AtomicU32>) -> Self {
        Self {
            kind,
            register,
            record,
            place: 0,
            posted: 0,
            fence: 0,
            max_sge: -1,
            building: Building::default(),
        }
    }

    /// The queue pair is in another state now.
    pub fn moved(&mut self, state: ibv_qp_state_t) {
        if state == IBV_QPS_RESET as ibv_qp_state_t {
            (self.place, self.posted, self.max_sge) = (0, 0, -1);
        } else if state == IBV_QPS_RTS as ibv_qp_state_t {
            self.max_sge = self.kind.max_sge;
        }
    }

    /// Posts a list; requests before the one that failed are posted.
    ///
    /// # Safety
    /// The program's list is valid; `sends` is this queue's.
    pub unsafe fn post(
        &mut self,
        sends: &Sends,
        list: *mut ibv_send_wr,
    ) -> Result<(), (Errno, *mut ibv_send_wr)> {
        let mut request = list;
        let (mut count, mut data, mut last, mut units) = (0, false, None, 0);
        let mut done = Ok(());
        // SAFETY: the program's list, by the contract.
        while let Some(wr) = unsafe { request.as_ref() } {
            // SAFETY: as above.
            match unsafe { self.write(sends, wr, self.posted.wrapping_add(count)) } {
                Ok((start, written)) => {
                    (last, units) = (Some(start), written.units);
                    data |= written.data;
                }
                Err(errno) => {
                    done = Err((errno, request));
                    break;
                }
            }
            count += 1;
            request = wr.next;
        }
        if let Some(last) = last {
            self.posted = self.posted.wrapping_add(count);
            sends.publish(self.posted);
            // SAFETY: the requests were just written into the ring of this queue.
            unsafe { self.announce(sends, last, units, count == 1, data) };
        }
        done
    }

    /// Tells the device of all requests up to the last.
    ///
    /// # Safety
    /// `last` is a request in the ring of `sends`, this queue's, of so many units.
    pub(super) unsafe fn announce(&self, sends: &Sends, last: Segment, units: u32, single: bool, data: bool) {
        barrier::before_record();
        // SAFETY: libmlx5's record of the queue pair, aligned for it; the device reads it.
        unsafe { self.record.as_ref() }.store((self.place & 0xffff).to_be(), Ordering::Relaxed);
        let start = sends.ring();
        // SAFETY: the end of the ring; the register is libmlx5's, and mapped as long as its context.
        unsafe {
            let end = start.add((sends.mask() as usize + 1) * wqe::BLOCK);
            let units = units as usize;
            self.register.announce(&Announced { last: last.0, units, single, data, start, end });
        }
    }

    /// What the control segment says of a request's flags, but for the fence.
    #[inline(always)]
    pub(super) fn bits(&self, send_flags: u32) -> u8 {
        let has = |flag: ibv_send_flags| send_flags & flag as u32 != 0;
        let signaled = self.kind.all_signaled || has(IBV_SEND_SIGNALED);
        let solicited = has(IBV_SEND_SOLICITED);
        (if signaled { wqe::SIGNALED } else { 0 }) | if solicited { wqe::SOLICITED } else { 0 }
    }

    /// Where the address vector of an address handle is; EINVAL where the context has none.
    ///
    /// # Safety
    /// The handle is live.
    #[inline(always)]
    pub(super) unsafe fn address_vector(&self, ah: *mut ibv_ah) -> Result<NonNull<u8>, Errno> {
        // SAFETY: the context outlives its queue pairs.
        let offset = unsafe { self.kind.mlx5.as_ref() }.av_offset().ok_or(Errno::EINVAL)?;
        NonNull::new(ah.wrapping_byte_add(offset).cast()).ok_or(Errno::EINVAL)
    }

    /// Writes a request; where it begins, and its length.
    ///
    /// # Safety
    /// The program's request is valid.
    unsafe fn write(
        &mut self,
        sends: &Sends,
        wr: &ibv_send_wr,
        number: u32,
    ) -> Result<(Segment, Writing), Errno> {
        let operation = wqe::OPERATIONS.get(wr.opcode as usize).copied().flatten().ok_or(Errno::EINVAL)?;
        if sends.in_flight(number) >= self.kind.max_post || wr.num_sge > self.max_sge {
            return Err(Errno::ENOMEM);
        }
        let has = |flag: ibv_send_flags| wr.send_flags & flag as u32 != 0;
        let fence = if has(IBV_SEND_FENCE) { wqe::FENCE } else { self.fence };
        let mut next_fence = 0;
        let ring = Blocks::of(sends);
        let (start, mut writing) = ring.request(self.place);
        let (mut immediate, mut flags, mut opcode) = (0, 0, IBV_WC_SEND as u16);
        let code = wr.opcode as ibv_wr_opcode_t;
        // SAFETY: what the operation has in the program's request is there.
        unsafe {
            if code == IBV_WR_SEND_WITH_IMM as ibv_wr_opcode_t
                || code == IBV_WR_RDMA_WRITE_WITH_IMM as ibv_wr_opcode_t
            {
                immediate = wr.anon1.imm_data;
                flags = IBV_WC_WITH_IMM as u16;
            } else if code == IBV_WR_SEND_WITH_INV as ibv_wr_opcode_t {
                immediate = wr.anon1.invalidate_rkey.to_be();
            }
            let binds = code == IBV_WR_BIND_MW as ibv_wr_opcode_t;
            if self.kind.qp_type == IBV_QPT_UD as u32 {
                let ud = &wr.wr.ud;
                let vector = self.address_vector(ud.ah)?;
                writing.at.datagram(vector, ud.remote_qpn, ud.remote_qkey);
                writing.skip(&ring, 3);
            } else if binds || code == IBV_WR_LOCAL_INV as ibv_wr_opcode_t {
                next_fence = wqe::SMALL_FENCE;
                opcode = if binds { IBV_WC_BIND_MW } else { IBV_WC_LOCAL_INV } as u16;
                let binding = if binds {
                    immediate = (*wr.anon2.bind_mw.mw).rkey.to_be();
                    let bind = &wr.anon2.bind_mw;
                    let second_type = (*bind.mw).type_ == IBV_MW_TYPE_2 as ibv_mw_type_t;
                    Binding::of(&bind.bind_info, second_type, bind.rkey, self.kind.qp_num)?
                } else {
                    immediate = wr.anon1.invalidate_rkey.to_be();
                    Binding { second_type: true, key: 0, qp_num: self.kind.qp_num, memory: None }
                };
                writing.bind(&ring, &binding);
            } else {
                let xrc = self.kind.qp_type == IBV_QPT_XRC_SEND as u32;
                if xrc {
                    writing.at.xrc(wr.qp_type.xrc.remote_srqn);
                    writing.skip(&ring, 1);
                }
                let reliable = xrc || self.kind.qp_type == IBV_QPT_RC as u32;
                match operation {
                    0x08 | 0x09 => opcode = IBV_WC_RDMA_WRITE as u16,
                    wqe::RDMA_READ => opcode = IBV_WC_RDMA_READ as u16,
                    wqe::ATOMIC_CS => opcode = IBV_WC_COMP_SWAP as u16,
                    wqe::ATOMIC_FA => opcode = IBV_WC_FETCH_ADD as u16,
                    _ => {}
                }
                match operation {
                    0x08 | 0x09 => {
                        writing.at.remote(wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
                        writing.skip(&ring, 1);
                    }
                    wqe::RDMA_READ if reliable => {
                        writing.at.remote(wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
                        writing.skip(&ring, 1);
                    }
                    wqe::ATOMIC_CS | wqe::ATOMIC_FA if reliable => {
                        if !self.kind.atomics {
                            return Err(Errno::EOPNOTSUPP);
                        }
                        let atomic = &wr.wr.atomic;
                        writing.at.remote(atomic.remote_addr, atomic.rkey);
                        writing.skip(&ring, 1);
                        if operation == wqe::ATOMIC_CS {
                            writing.at.atomic(atomic.swap, Some(atomic.compare_add));
                        } else {
                            writing.at.atomic(atomic.compare_add, None);
                        }
                        writing.skip(&ring, 1);
                    }
                    _ => {}
                }
            }
            let given = wr.num_sge.max(0) as usize;
            let list = if given == 0 { &[] } else { core::slice::from_raw_parts(wr.sg_list, given) };
            if has(IBV_SEND_INLINE) && given != 0 {
                let pieces = list.iter().map(|sge| Bytes {
                    start: core::ptr::with_exposed_provenance(sge.addr as usize),
                    length: sge.length as usize,
                });
                writing.copy(&ring, pieces, self.kind.max_inline)?;
            } else {
                let atomic = operation == wqe::ATOMIC_CS || operation == wqe::ATOMIC_FA;
                writing.name(&ring, list, atomic);
            }
            let bits = fence | self.bits(wr.send_flags);
            start.control(self.place, operation, (self.kind.qp_num, writing.units), bits, Some(immediate));
        }
        sends.note(self.place, wr.wr_id, number, flags, opcode);
        self.fence = next_fence;
        self.place = self.place.wrapping_add(writing.units.div_ceil(4));
        Ok((start, writing))
    }
}
