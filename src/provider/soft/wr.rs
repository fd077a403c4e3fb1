//! Building send requests by calls (`man ibv_wr_post`): each builder begins a request, the setters complete it,
//! and `wr_complete` posts them all.
//!
//! The lock is held from `wr_start` to `wr_complete` or `wr_abort`. The first thing that goes wrong is kept,
//! makes the following calls do nothing, and is what `wr_complete` returns; then nothing is posted. The lists
//! grow to what the largest batch needs, and stay.

use core::ffi::{c_int, c_void};

use ironverbs_os::growth::{TryFill, TryPush};
use softrdma::device::{Capabilities, Data, Operands, QueuePair, Wr};
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Opcode, QpType, SendFlags};

use super::ah::{Ah, Destination};
use super::convert::rejected;
use super::qp::Qp;
use super::send;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::qp_ex;

/// Bytes of an atomic write.
const ATOMIC_WRITE_BYTES: usize = 8;

/// The operations (`IBV_QP_EX_WITH_*`) that a kind of queue pair has builders for; none for a kind without.
#[must_use]
pub fn operations(qp_type: QpType) -> Option<u64> {
    match qp_type {
        QpType::Rc | QpType::XrcSend => Some(qp_ex::RELIABLE),
        QpType::Uc => Some(qp_ex::UNRELIABLE | IBV_QP_EX_WITH_LOCAL_INV as u64),
        QpType::Ud => Some(qp_ex::DATAGRAM),
        QpType::XrcRecv => None,
    }
}

qp_ex::set_functions!(wr_set_xrc_srqn);

/// Requests between `wr_start` and `wr_complete`.
#[derive(Default)]
pub struct Batch {
    requests: Vec<Built>,
    /// Scatter/gather entries of all requests, one after the other.
    sges: Vec<Sge>,
    /// Inline data of all requests, one after the other.
    inline: Vec<u8>,
    /// Requests that the send queue had room for when the batch began.
    room: u32,
    /// What went wrong.
    error: Option<Errno>,
}

/// A request as far as it is built.
struct Built {
    wr_id: u64,
    opcode: Opcode,
    flags: SendFlags,
    operands: Operands,
    imm_or_key: u32,
    srq_num: u32,
    datagram: Option<(Destination, u32, u32)>,
    payload: Payload,
}

/// Places in the lists of the batch.
enum Payload {
    Sges { first: usize, count: usize },
    Inline { first: usize, length: usize },
}

impl Batch {
    /// A batch that takes a request of every kind without asking for memory.
    pub fn with_room(cap: &Capabilities) -> Result<Self> {
        let count = cap.max_send_wr as usize;
        let mut batch = Self::default();
        batch.requests.try_reserve_exact(count)?;
        batch.sges.try_reserve_exact(count.max(cap.max_send_sge as usize))?;
        batch.inline.try_reserve_exact(cap.max_inline_data.max(ATOMIC_WRITE_BYTES as u32) as usize)?;
        Ok(batch)
    }

    /// How many requests, elements and bytes there are.
    #[cfg(test)]
    pub fn lengths(&self) -> (usize, usize, usize) {
        (self.requests.len(), self.sges.len(), self.inline.len())
    }

    fn begin(&mut self, room: u32) {
        self.requests.clear();
        self.sges.clear();
        self.inline.clear();
        self.room = room;
        self.error = None;
    }

    /// Completes the last request, unless something went wrong or there is none; keeps the error of `set`.
    fn complete(&mut self, set: impl FnOnce(&mut Self) -> Result<()>) {
        if self.error.is_none() && !self.requests.is_empty() {
            self.error = set(self).err();
        }
    }

    fn last(&mut self) -> Result<&mut Built> {
        self.requests.last_mut().ok_or(Errno::EINVAL)
    }

    /// Forgets the data of the last request, which is to get other data: nothing of it stays in the lists.
    fn clear_data(&mut self) -> Result<()> {
        match self.last()?.payload {
            Payload::Sges { first, count: 1.. } => self.sges.truncate(first),
            Payload::Inline { first, .. } => self.inline.truncate(first),
            Payload::Sges { count: 0, .. } => {}
        }
        let last = self.last()?;
        last.payload = Payload::Sges { first: 0, count: 0 };
        last.flags = SendFlags(last.flags.0 & !SendFlags::INLINE.0);
        Ok(())
    }

    /// ENOSPC, and nothing taken, for more than `max` bytes; ENOMEM without memory for them.
    ///
    /// # Safety
    /// Each piece is readable.
    unsafe fn set_inline(&mut self, max: u32, pieces: &[ibv_data_buf]) -> Result<()> {
        let length = qp_ex::inline_length(pieces, max)?;
        self.clear_data()?;
        self.inline.try_reserve(length)?;
        let first = self.inline.len();
        for piece in pieces.iter().filter(|piece| piece.length != 0) {
            // SAFETY: by the contract.
            let bytes = unsafe { core::slice::from_raw_parts(piece.addr.cast::<u8>(), piece.length) };
            self.inline.try_append(bytes)?;
        }
        let last = self.last()?;
        last.payload = Payload::Inline { first, length };
        last.flags = last.flags.union(SendFlags::INLINE);
        Ok(())
    }

    /// ENOSPC for more than `max` entries; ENOMEM without memory for them.
    fn set_sges(&mut self, max: u32, list: &[Sge]) -> Result<()> {
        if list.len() > max as usize {
            return Err(Errno::ENOSPC);
        }
        self.clear_data()?;
        let first = self.sges.len();
        self.sges.try_append(list)?;
        self.last()?.payload = Payload::Sges { first, count: list.len() };
        Ok(())
    }

    /// Posts all requests, or none and tells why.
    fn post(&self, queue: &QueuePair) -> Result<()> {
        let mut sending = queue.sending();
        self.each(|request| sending.accept(request).map_err(rejected))?;
        self.each(|request| {
            sending.post_accepted(request);
            Ok(())
        })
    }

    /// The requests as the engine takes them, each for as long as `take` looks at it; the first error.
    fn each(&self, mut take: impl FnMut(&Wr<'_>) -> Result<()>) -> Result<()> {
        for built in &self.requests {
            let data = match built.payload {
                Payload::Sges { first, count } => Data::Sges(&self.sges[first..first + count]),
                Payload::Inline { first, length } => Data::Inline(&self.inline[first..first + length]),
            };
            let header = built.datagram.as_ref().map(|(destination, ..)| {
                destination.header.of(data.length() as u32, built.opcode == Opcode::SendWithImm)
            });
            let datagram = match (&built.datagram, &header) {
                (Some((destination, qp_num, qkey)), Some(header)) => {
                    Some(send::datagram(header, destination, *qp_num, *qkey))
                }
                _ => None,
            };
            take(&Wr {
                wr_id: built.wr_id,
                opcode: built.opcode,
                flags: built.flags,
                data,
                operands: built.operands,
                imm_or_key: built.imm_or_key,
                srq_num: built.srq_num,
                datagram,
            })?;
        }
        Ok(())
    }
}

/// # Safety
/// `qp` is a live extended queue pair of this provider, and the calling thread is between `wr_start` and
/// `wr_complete` or `wr_abort`.
#[inline(always)]
unsafe fn started<'a>(qp: *mut ibv_qp_ex) -> &'a mut Batch {
    // SAFETY: `wr_start` left the lock held for this thread, and no function keeps its reference.
    unsafe { Qp::from_extended(qp).batch.held_mut() }
}

/// Begins a request. `word` is the immediate data or the key to invalidate. ENOSPC is kept when the queue is
/// full.
///
/// # Safety
/// As [`started`].
unsafe fn build(qp: *mut ibv_qp_ex, opcode: Opcode, word: u32, operands: Result<Operands>) {
    // SAFETY: handed on to the caller; the program sets wr_id and wr_flags from this thread.
    let (batch, wr_id, wr_flags) = unsafe { (started(qp), (*qp).wr_id, (*qp).wr_flags) };
    if batch.error.is_some() {
        return;
    }
    if batch.requests.len() >= batch.room as usize {
        batch.error = Some(Errno::ENOSPC);
        return;
    }
    match operands {
        Err(errno) => batch.error = Some(errno),
        // There is room for as many as the queue takes.
        Ok(operands) => batch.requests.push_reserved(Built {
            wr_id,
            opcode,
            // Whether data is inline is the setter's to say.
            flags: SendFlags(send::flags(wr_flags).0 & !SendFlags::INLINE.0),
            operands,
            imm_or_key: word,
            srq_num: 0,
            datagram: None,
            payload: Payload::Sges { first: 0, count: 0 },
        }),
    }
}

/// Compare and swap of 8 bytes.
unsafe extern "C" fn wr_atomic_cmp_swp(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, compare: u64, swap: u64) {
    let operands = Operands::Atomic { addr, rkey, compare_add: compare, swap };
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe { build(qp, Opcode::CmpAndSwp, 0, Ok(operands)) }
}

/// Fetch and add of 8 bytes.
unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, add: u64) {
    let operands = Operands::Atomic { addr, rkey, compare_add: add, swap: 0 };
    // SAFETY: as above.
    unsafe { build(qp, Opcode::FetchAndAdd, 0, Ok(operands)) }
}

/// Deregisters a key for peers.
unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::LocalInv, invalidate_rkey, Ok(Operands::Key(invalidate_rkey))) }
}

/// Binding of a memory window under the new key `rkey`.
unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: as above, with a live window, and the description of a binding to a live region.
    unsafe { build(qp, Opcode::BindMw, 0, send::bind(mw, rkey, &*info)) }
}

const fn remote(rkey: u32, addr: u64) -> Result<Operands> {
    Ok(Operands::Remote { addr, rkey, length: 0 })
}

/// RDMA read.
unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::RdmaRead, 0, remote(rkey, addr)) }
}

/// RDMA write.
unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::RdmaWrite, 0, remote(rkey, addr)) }
}

/// RDMA write with immediate data.
unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, imm_data: __be32) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::RdmaWriteWithImm, imm_data, remote(rkey, addr)) }
}

/// Atomic write of the 8 bytes at `atomic_wr`.
unsafe extern "C" fn wr_atomic_write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, atomic_wr: *const c_void) {
    let operand = ibv_data_buf { addr: atomic_wr.cast_mut(), length: ATOMIC_WRITE_BYTES };
    // SAFETY: as above, with 8 readable bytes.
    unsafe {
        build(qp, Opcode::AtomicWrite, 0, remote(rkey, addr));
        started(qp).complete(|batch| batch.set_inline(ATOMIC_WRITE_BYTES as u32, &[operand]));
    }
}

/// Send.
unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::Send, 0, Ok(Operands::None)) }
}

/// Send with immediate data.
unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, imm_data: __be32) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::SendWithImm, imm_data, Ok(Operands::None)) }
}

/// Send that invalidates a key of the peer.
unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: as above.
    unsafe { build(qp, Opcode::SendWithInv, invalidate_rkey, Ok(Operands::None)) }
}

/// Destination of the last datagram.
unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with a live address handle, which
    // this provider published as an Ah.
    unsafe {
        started(qp).complete(|batch| {
            let destination = Handle::from_c(ah)?.object::<Ah>().destination;
            batch.last()?.datagram = Some((destination, remote_qpn, remote_qkey));
            Ok(())
        });
    }
}

/// The peer's shared receive queue for the last request.
unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe { started(qp) }.complete(|batch| {
        batch.last()?.srq_num = remote_srqn;
        Ok(())
    });
}

/// Inline data of the last request: `length` bytes at `addr`.
unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with readable data.
    unsafe {
        let max = Qp::from_extended(qp).cap.max_inline_data;
        started(qp).complete(|batch| batch.set_inline(max, &[ibv_data_buf { addr, length }]));
    }
}

/// Inline data of the last request, from several pieces.
unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    num_buf: usize,
    buf_list: *const ibv_data_buf,
) {
    // SAFETY: as for `wr_set_inline_data`; the list is valid for its length, and not looked at when that is 0.
    unsafe {
        let max = Qp::from_extended(qp).cap.max_inline_data;
        started(qp).complete(|batch| {
            let pieces = if num_buf == 0 { &[] } else { core::slice::from_raw_parts(buf_list, num_buf) };
            batch.set_inline(max, pieces)
        });
    }
}

/// The only scatter/gather entry of the last request; an empty one leaves it without payload.
unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe {
        let max = Qp::from_extended(qp).cap.max_send_sge;
        let entry = [Sge { addr, length, lkey }];
        started(qp).complete(|batch| batch.set_sges(max, if length == 0 { &[] } else { &entry }));
    }
}

/// The scatter/gather list of the last request.
unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with a valid list; its entries are
    // the engine's, as asserted where lists are converted.
    unsafe {
        let max = Qp::from_extended(qp).cap.max_send_sge;
        started(qp).complete(|batch| {
            let list = super::convert::sges(sg_list, num_sge, max).ok_or(Errno::ENOSPC)?;
            batch.set_sges(max, list)
        });
    }
}

/// Begins a batch, and takes the lock, which also keeps lists of other threads out ([`send::post_send`]): the
/// room that there is now stays until the batch is posted.
unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes a live queue pair whose table holds this function.
    let object = unsafe { Qp::from_extended(qp) };
    let mut batch = object.batch.lock();
    batch.begin(object.queue.send_room());
    batch.leave_held();
}

/// Posts the batch, and gives the lock back; the first error of the batch or of posting, with nothing posted.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program calls this once after `wr_start`, so that this thread holds the lock; the reference
    // ends before the release.
    unsafe {
        let object = Qp::from_extended(qp);
        let batch = started(qp);
        let done = match batch.error {
            None => batch.post(&object.queue),
            Some(errno) => Err(errno),
        };
        object.batch.release();
        done.map_or_else(|errno| errno.0, |()| 0)
    }
}

/// Drops the batch, and gives the lock back.
unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program calls this once after `wr_start`, so that this thread holds the lock.
    unsafe { Qp::from_extended(qp).batch.release() }
}
