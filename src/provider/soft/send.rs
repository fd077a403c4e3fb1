//! Posting lists of send requests.

use core::ffi::c_int;

use softrdma::device::Sending;
use softrdma::device::{BindWindow, Operands};
use softrdma::device::{Data, Datagram, OneSided, PlainSend, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Access, Opcode, QpType, SendFlags};

use super::ah::{Ah, Destination};
use super::convert::{rejected, sges};
use super::grh;
use super::inline_data::{self, Room};
use super::qp::Qp;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::posting;

/// Flags that mean something. The one for checksums of packets, which nobody computes here, is not among them.
const FLAGS: u32 =
    IBV_SEND_FENCE as u32 | IBV_SEND_SIGNALED as u32 | IBV_SEND_SOLICITED as u32 | IBV_SEND_INLINE as u32;

/// The flags of a request.
#[inline(always)]
pub fn flags(send_flags: u32) -> SendFlags {
    SendFlags(send_flags & FLAGS)
}

/// Posts send requests; EINVAL for one that the queue pair cannot take, ENOMEM when its queue is full, with the
/// request that failed; those before it are posted.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function, and its
    // place for the answer.
    let Some(object) = (unsafe { posting::begin::<Qp, _>(qp, list, bad_wr) }) else { return Errno::EINVAL.0 };
    // SAFETY: the program passes a valid list, not empty.
    let is_alone = unsafe { (*list).next.is_null() } && !object.builders;
    // SAFETY: as above, whose requests name live objects and buffers.
    if is_alone && unsafe { object.post_word(&*list) } {
        return 0;
    }
    // The place of a list among the batches of other threads, none of which it may part.
    let _batch = object.builders.then(|| object.batch.lock());
    let mut sending = object.queue.sending_after(is_alone);
    let mut room = inline_data::room();
    let mut next = list;
    // SAFETY: the program passes a valid list.
    while let Some(wr) = unsafe { next.as_ref() } {
        // SAFETY: a valid request, which names live objects and buffers.
        let posted = unsafe {
            let is_posted = if is_one_sided(wr.opcode) {
                let access = sending.takes_one_sided().then(|| object.one_sided(wr)).flatten();
                access.is_some_and(|access| sending.post_one_sided(&access))
            } else if sending.takes_plain_datagram() {
                object.post_datagram(&mut sending, wr, &mut room)
            } else {
                let send = sending.takes_plain().then(|| object.plain(wr, &mut room)).flatten();
                send.is_some_and(|send| sending.post_plain(&send))
            };
            if is_posted { Ok(()) } else { object.post(&mut sending, wr) }
        };
        if let Err(errno) = posted {
            // SAFETY: as above.
            unsafe { *bad_wr = next };
            return errno.0;
        }
        next = wr.next;
    }
    0
}

/// Whether it is a write without immediate data, or a read.
#[inline(always)]
fn is_one_sided(opcode: u32) -> bool {
    opcode == IBV_WR_RDMA_WRITE as u32 || opcode == IBV_WR_RDMA_READ as u32
}

impl Qp {
    /// Posts a request by itself, a send of eight bytes, as the last one went, if that is possible; `false`:
    /// nothing happened.
    ///
    /// # Safety
    /// `wr` is a valid request, which names live buffers.
    #[inline(always)]
    unsafe fn post_word(&self, wr: &ibv_send_wr) -> bool {
        if wr.opcode != IBV_WR_SEND as u32 || wr.num_sge != 1 || self.qp_type != QpType::Rc {
            return false;
        }
        // SAFETY: a valid list of one.
        let Some(sge) = (unsafe { wr.sg_list.as_ref() }) else { return false };
        let sge = Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey };
        self.queue.post_word(&PlainSend { wr_id: wr.wr_id, flags: flags(wr.send_flags), sge, imm: None })
    }

    /// The request as the most frequent of all, where it is one. Inline data of several pieces are in `room`
    /// then.
    ///
    /// # Safety
    /// `wr` is a valid request.
    #[inline(always)]
    unsafe fn plain(&self, wr: &ibv_send_wr, room: &mut Room) -> Option<PlainSend> {
        if self.qp_type != QpType::Rc {
            return None;
        }
        // SAFETY: by the contract.
        unsafe { self.piece(wr, room) }
    }

    /// Posts a datagram of one piece of memory as the last one went, where that is possible.
    ///
    /// # Safety
    /// `wr` is a valid request of a datagram queue pair, which names a live address handle and buffers.
    #[inline(never)]
    unsafe fn post_datagram(&self, sending: &mut Sending<'_>, wr: &ibv_send_wr, room: &mut Room) -> bool {
        // SAFETY: by the contract.
        let Some(send) = (unsafe { self.piece(wr, room) }) else { return false };
        // SAFETY: as above; address handles of this provider are published as Ah.
        let (ud, destination) = unsafe {
            let ud = &wr.wr.ud;
            let Ok(ah) = Handle::from_c(ud.ah) else { return false };
            (ud, &ah.object::<Ah>().destination)
        };
        let header = destination.header.of(send.sge.length, send.imm.is_some());
        let to = datagram(&header, destination, ud.remote_qpn, ud.remote_qkey);
        sending.post_plain_datagram(&send, &to)
    }

    /// The request as a send of one piece of memory, where it is one.
    ///
    /// # Safety
    /// As for [`Qp::plain`].
    #[inline(always)]
    unsafe fn piece(&self, wr: &ibv_send_wr, room: &mut Room) -> Option<PlainSend> {
        let has_imm = wr.opcode == IBV_WR_SEND_WITH_IMM as u32;
        if !(has_imm || wr.opcode == IBV_WR_SEND as u32) {
            return None;
        }
        let flags = flags(wr.send_flags);
        let sge = if wr.num_sge == 1 {
            // SAFETY: a valid list of one.
            let sge = unsafe { wr.sg_list.as_ref()? };
            Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey }
        } else if flags.has(SendFlags::INLINE) {
            // SAFETY: by the contract; the program named these bytes to be taken now.
            unsafe {
                let list = sges(wr.sg_list, wr.num_sge as usize, self.cap.max_send_sge)?;
                inline_data::put_together(list, self.cap.max_inline_data, room)?
            }
        } else {
            return None;
        };
        // SAFETY: the immediate data is set with that opcode, and an integer.
        let imm = unsafe { has_imm.then_some(wr.anon1.imm_data) };
        Some(PlainSend { wr_id: wr.wr_id, flags, sge, imm })
    }

    /// The request as a write or a read of one piece of memory, where it is one.
    ///
    /// # Safety
    /// `wr` is a valid request of an opcode that [is one-sided](is_one_sided).
    #[inline(always)]
    unsafe fn one_sided(&self, wr: &ibv_send_wr) -> Option<OneSided> {
        let (flags, is_read) = (flags(wr.send_flags), wr.opcode == IBV_WR_RDMA_READ as u32);
        let is_connected = matches!(self.qp_type, QpType::Rc | QpType::Uc);
        if wr.num_sge != 1 || !is_connected || is_read && flags.has(SendFlags::INLINE) {
            return None;
        }
        // SAFETY: a valid list of one; remote address and key are set with these opcodes, and integers.
        let (sge, rdma) = unsafe { (wr.sg_list.as_ref()?, &wr.wr.rdma) };
        let sge = Sge { addr: sge.addr, length: sge.length, lkey: sge.lkey };
        Some(OneSided { wr_id: wr.wr_id, flags, sge, is_read, addr: rdma.remote_addr, rkey: rdma.rkey })
    }

    /// # Safety
    /// `wr` is a valid request, which names live objects and buffers.
    #[inline(always)]
    unsafe fn post(&self, sending: &mut Sending<'_>, wr: &ibv_send_wr) -> Result<()> {
        let opcode = Opcode::from_number(wr.opcode).ok_or(Errno::EINVAL)?;
        // SAFETY: by the contract.
        let list = unsafe { sges(wr.sg_list, wr.num_sge as usize, self.cap.max_send_sge) };
        let list = list.ok_or(Errno::EINVAL)?;
        let flags = flags(wr.send_flags);
        let data = if flags.has(SendFlags::INLINE) { Data::InlineSges(list) } else { Data::Sges(list) };
        // SAFETY: the opcode says which part of the request's unions was set; all parts are integers and
        // pointers, so that reading another part of initialised C memory gives some number. The pointers
        // followed are those of the contract.
        let (operands, imm_or_key) = unsafe {
            check(opcode, wr, &data)?;
            (operands(opcode, wr)?, wr.anon1.imm_data)
        };
        let mut request =
            Wr { wr_id: wr.wr_id, opcode, flags, data, operands, imm_or_key, srq_num: 0, datagram: None };
        let header;
        match self.qp_type {
            QpType::Ud => {
                // SAFETY: as above; address handles of this provider are published as Ah.
                let (ud, destination) = unsafe {
                    let ud = &wr.wr.ud;
                    (ud, &Handle::from_c(ud.ah)?.object::<Ah>().destination)
                };
                header = destination.header.of(data.length() as u32, opcode == Opcode::SendWithImm);
                request.datagram = Some(datagram(&header, destination, ud.remote_qpn, ud.remote_qkey));
            }
            // SAFETY: as above.
            QpType::XrcSend => request.srq_num = unsafe { wr.qp_type.xrc.remote_srqn },
            QpType::Rc | QpType::Uc | QpType::XrcRecv => {}
        }
        sending.accept(&request).map_err(rejected)?;
        sending.post(&request);
        Ok(())
    }
}

/// What soft-RoCE refuses when a request is posted, so that the queue pair is still good afterwards: atomics
/// that are not aligned or have no room for the answer, and bindings with data.
///
/// # Safety
/// The union parts that the opcode names are set.
#[inline(always)]
unsafe fn check(opcode: Opcode, wr: &ibv_send_wr, data: &Data<'_>) -> Result<()> {
    // SAFETY: by the contract; all parts are integers.
    let refused = unsafe {
        match opcode {
            Opcode::CmpAndSwp | Opcode::FetchAndAdd => wr.wr.atomic.remote_addr & 7 != 0 || data.length() < 8,
            Opcode::BindMw => wr.num_sge != 0 || wr.anon1.imm_data != 0,
            _ => false,
        }
    };
    if refused { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Where a datagram goes.
#[inline(always)]
pub fn datagram<'a>(grh: &'a [u8; grh::BYTES], to: &'a Destination, qp_num: u32, qkey: u32) -> Datagram<'a> {
    Datagram { qp_num, qkey, grh, dgid: to.dgid, route: to.route.as_ref() }
}

/// What the operation needs beyond local memory.
///
/// # Safety
/// The union parts that the opcode names are set, and pointers in them are live.
#[inline(always)]
unsafe fn operands(opcode: Opcode, wr: &ibv_send_wr) -> Result<Operands> {
    // SAFETY: by the contract.
    unsafe {
        Ok(match opcode {
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => Operands::None,
            Opcode::RdmaWrite
            | Opcode::RdmaWriteWithImm
            | Opcode::RdmaRead
            | Opcode::AtomicWrite
            | Opcode::Flush => {
                Operands::Remote { addr: wr.wr.rdma.remote_addr, rkey: wr.wr.rdma.rkey, length: 0 }
            }
            Opcode::CmpAndSwp | Opcode::FetchAndAdd => {
                let atomic = &wr.wr.atomic;
                Operands::Atomic {
                    addr: atomic.remote_addr,
                    rkey: atomic.rkey,
                    compare_add: atomic.compare_add,
                    swap: atomic.swap,
                }
            }
            Opcode::LocalInv => Operands::Key(wr.anon1.invalidate_rkey),
            Opcode::BindMw => {
                let bind = &wr.anon2.bind_mw;
                self::bind(bind.mw, bind.rkey, &bind.bind_info)?
            }
        })
    }
}

/// The binding of a window under its new key; EINVAL without window or region.
///
/// # Safety
/// The window and the region are live or null.
#[inline]
pub unsafe fn bind(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<Operands> {
    // SAFETY: by the contract.
    let (mw, mr) = unsafe { (mw.as_ref(), info.mr.as_ref()) };
    let (Some(mw), Some(mr)) = (mw, mr) else { return Err(Errno::EINVAL) };
    Ok(Operands::Bind(BindWindow {
        window: mw.rkey,
        key8: rkey as u8,
        region: mr.lkey,
        bind: Bind { addr: info.addr, length: info.length, access: Access(info.mw_access_flags) },
    }))
}
