//! Completions one by one: `start_poll`, `next_poll`, and the functions that read the fields of the current
//! one.
//!
//! A completion of libmlx5's is its current one, too, and its functions read it.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;

use super::barrier;
use super::cq::{Completion, Cq, Passed, Queue};
use super::cqe::{self, Cqe};
use super::queue::Origin;
use crate::abi::verbs::*;
use crate::errno::Errno;

/// How far it is looked ahead for entries that are there.
const AHEAD: u32 = 16;

/// Where a walk over completions stands.
#[derive(Default)]
pub struct Walk {
    current: Current,
    /// The next entry.
    counter: u32,
    /// Entries before this one may be read.
    ready: u32,
    /// What the entry before led to.
    last: Option<*const Origin>,
}

#[derive(Default, Clone, Copy)]
enum Current {
    #[default]
    None,
    /// An entry of ours. Of a request to send, what it was.
    Own(Cqe, Option<(u16, u16)>),
    /// libmlx5's current completion.
    Plugins,
}

/// The queue behind an extended one.
macro_rules! object {
    ($cq:expr) => {
        // SAFETY: the program passes a live queue whose functions are these, so that there is one of ours.
        unsafe { Cq::of($cq.cast()).unwrap_unchecked() }
    };
}

impl Cq {
    /// Goes to the next completion; ENOENT where there is none, or what libmlx5 says.
    ///
    /// # Safety
    /// The calling thread holds the lock.
    #[inline(always)]
    unsafe fn step(&self, queue: &mut Queue) -> c_int {
        let Queue { ring, shadow, walk } = queue;
        loop {
            if walk.counter == walk.ready {
                let ready = ring.ready(walk.counter, AHEAD);
                if ready == 0 {
                    return Errno::ENOENT.0;
                }
                walk.ready = walk.counter.wrapping_add(ready);
                barrier::after_owner();
            }
            let entry = ring.entry(walk.counter);
            walk.counter = walk.counter.wrapping_add(1);
            self.consumed.store(walk.counter, Ordering::Relaxed);
            // SAFETY: set under the same hold of the lock, during which a queue pair of this queue does not
            // go.
            let mut last = walk.last.map(|last| unsafe { &*last });
            let origin = self.origin(entry, &mut last);
            walk.last = last.map(core::ptr::from_ref);
            match origin.and_then(|origin| self.complete(entry, origin)) {
                Some(Ok(Completion { wr_id, status, sent })) => {
                    // SAFETY: libmlx5's object, of which these fields are the program's to read under the
                    // lock.
                    unsafe {
                        (*self.public).wr_id = wr_id;
                        (*self.public).status = status;
                    }
                    walk.current = Current::Own(entry, sent);
                    return 0;
                }
                Some(Err(Passed)) => {}
                None => {
                    shadow.put(entry);
                    let mut attr = ibv_poll_cq_attr { comp_mask: 0 };
                    // SAFETY: libmlx5's own function and queue.
                    match unsafe { self.original.start_poll.map(|start| start(self.public, &raw mut attr)) } {
                        Some(0) => {
                            walk.current = Current::Plugins;
                            return 0;
                        }
                        // Nothing that the program sees.
                        Some(error) if error == Errno::ENOENT.0 => {}
                        other => return other.unwrap_or(Errno::EINVAL.0),
                    }
                }
            }
        }
    }

    /// Leaves the current completion.
    ///
    /// # Safety
    /// The calling thread holds the lock.
    #[inline(always)]
    unsafe fn leave(&self, walk: &mut Walk) {
        if matches!(walk.current, Current::Plugins)
            && let Some(end) = self.original.end_poll
        {
            // SAFETY: libmlx5's own function, and its poll was started.
            unsafe { end(self.public) };
        }
        walk.current = Current::None;
    }
}

/// Takes the first completion; 0, ENOENT where there is none, EINVAL for an unknown attribute.
pub unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let object = object!(cq);
    // SAFETY: the program passes attributes.
    if unsafe { (*attr).comp_mask } != 0 {
        return Errno::EINVAL.0;
    }
    let mut queue = object.queue.lock();
    let before = object.consumed.load(Ordering::Relaxed);
    queue.walk = Walk { counter: before, ready: before, ..Walk::default() };
    // SAFETY: the lock is held.
    let error = unsafe { object.step(&mut queue) };
    if error == 0 {
        queue.leave_held();
    } else if queue.walk.counter != before {
        object.publish(queue.walk.counter);
    }
    error
}

/// Takes the next completion; as `start_poll`.
pub unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let object = object!(cq);
    // SAFETY: the program calls it after `start_poll`, which left the lock held.
    unsafe {
        let queue = object.queue.held_mut();
        object.leave(&mut queue.walk);
        object.step(queue)
    }
}

/// Ends what `start_poll` began.
pub unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    let object = object!(cq);
    // SAFETY: as above.
    unsafe {
        let queue = object.queue.held_mut();
        object.leave(&mut queue.walk);
        object.publish(queue.walk.counter);
        object.queue.release();
    }
}

macro_rules! readers {
    ($($name:ident($entry:ident, $sent:ident) -> $value:ty $body:block)+) => {
        $(unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $value {
            let object = object!(cq);
            // SAFETY: the program reads between `start_poll` and `end_poll`, which hold the lock.
            match unsafe { object.queue.held_mut() }.walk.current {
                Current::Own($entry, $sent) => $body,
                // SAFETY: libmlx5's own function, and its current completion.
                _ => object.original.$name.map_or_else(<$value>::default, |read| unsafe { read(cq) }),
            }
        })+

        /// Puts the functions in the place of those that libmlx5 has put there.
        ///
        /// # Safety
        /// A queue of libmlx5's with functions, of which `Cq` has a copy.
        pub unsafe fn set_functions(public: *mut ibv_cq_ex) {
            // SAFETY: by the contract.
            let public = unsafe { &mut *public };
            public.start_poll = Some(start_poll);
            public.next_poll = Some(next_poll);
            public.end_poll = Some(end_poll);
            $(if public.$name.is_some() {
                public.$name = Some($name);
            })+
        }
    };
}

readers! {
    read_opcode(entry, sent) -> ibv_wc_opcode_t {
        match (sent, entry.op_own() >> 4) {
            (Some((opcode, _)), _) => opcode.into(),
            (None, cqe::RESP_WR_IMM) => IBV_WC_RECV_RDMA_WITH_IMM as ibv_wc_opcode_t,
            (None, cqe::RESP_SEND..=cqe::RESP_SEND_INV) => IBV_WC_RECV as ibv_wc_opcode_t,
            _ => 0,
        }
    }
    read_vendor_err(entry, _sent) -> u32 { entry.vendor_err().into() }
    read_wc_flags(entry, _sent) -> c_uint {
        let flags = match entry.op_own() >> 4 {
            cqe::RESP_WR_IMM | cqe::RESP_SEND_IMM => IBV_WC_WITH_IMM as c_uint,
            cqe::RESP_SEND_INV => IBV_WC_WITH_INV as c_uint,
            _ => 0,
        };
        flags | if entry.grh() { IBV_WC_GRH as c_uint } else { 0 }
    }
    read_byte_len(entry, _sent) -> u32 { entry.byte_len() }
    read_imm_data(entry, _sent) -> u32 {
        if entry.op_own() >> 4 == cqe::RESP_SEND_INV {
            u32::from_be(entry.immediate())
        } else {
            entry.immediate()
        }
    }
    read_qp_num(entry, _sent) -> u32 { entry.qp_num() }
    read_src_qp(entry, _sent) -> u32 { entry.src_qp() }
    read_slid(entry, _sent) -> u32 { entry.slid().into() }
    read_sl(entry, _sent) -> u8 { entry.sl() }
    read_dlid_path_bits(entry, _sent) -> u8 { entry.dlid_path_bits() }
    read_completion_ts(entry, _sent) -> u64 { entry.timestamp() }
    read_cvlan(entry, _sent) -> u16 { entry.vlan() }
    read_flow_tag(entry, _sent) -> u32 { entry.qp_num() }
}
