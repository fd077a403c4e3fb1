//! Completion queues.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

use queue_lock::QueueLock;

use super::SiwContext;
use super::slots::Slots;
use crate::abi::uapi::Pod;
use crate::abi::uapi::siw_user::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Cqs;
use crate::provider::{event_name, kernel};
use crate::uverbs::cq::CreateCq;
use crate::uverbs::{self, Udata};

/// What the lock of a completion queue guards.
pub struct Queue {
    slots: Slots<siw_cqe>,
    /// Completions taken so far.
    taken: u32,
}

/// A completion queue.
#[repr(C)]
pub struct Cq {
    public: UnsafeCell<ibv_cq>,
    /// The driver's number of the queue.
    id: u32,
    /// `siw_cq_ctrl.flags`, in the memory of the queue.
    notify: NonNull<AtomicU32>,
    queue: QueueLock<Queue>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Cq {
    type Public = ibv_cq;
}

const OPCODES: [ibv_wc_opcode; SIW_NUM_OPCODES] = {
    // What only the kernel's own users get stands as rdma-core reports it.
    let mut table = [IBV_WC_SEND; SIW_NUM_OPCODES];
    table[SIW_OP_WRITE as usize] = IBV_WC_RDMA_WRITE;
    table[SIW_OP_READ as usize] = IBV_WC_RDMA_READ;
    table[SIW_OP_READ_LOCAL_INV as usize] = IBV_WC_RDMA_READ;
    table[SIW_OP_FETCH_AND_ADD as usize] = IBV_WC_FETCH_ADD;
    table[SIW_OP_COMP_AND_SWAP as usize] = IBV_WC_COMP_SWAP;
    table[SIW_OP_RECEIVE as usize] = IBV_WC_RECV;
    table
};

const STATUSES: [ibv_wc_status; SIW_NUM_WC_STATUS] = {
    let mut table = [IBV_WC_SUCCESS; SIW_NUM_WC_STATUS];
    table[SIW_WC_LOC_LEN_ERR as usize] = IBV_WC_LOC_LEN_ERR;
    table[SIW_WC_LOC_PROT_ERR as usize] = IBV_WC_LOC_PROT_ERR;
    table[SIW_WC_LOC_QP_OP_ERR as usize] = IBV_WC_LOC_QP_OP_ERR;
    table[SIW_WC_WR_FLUSH_ERR as usize] = IBV_WC_WR_FLUSH_ERR;
    table[SIW_WC_BAD_RESP_ERR as usize] = IBV_WC_BAD_RESP_ERR;
    table[SIW_WC_LOC_ACCESS_ERR as usize] = IBV_WC_LOC_ACCESS_ERR;
    table[SIW_WC_REM_ACCESS_ERR as usize] = IBV_WC_REM_ACCESS_ERR;
    table[SIW_WC_REM_INV_REQ_ERR as usize] = IBV_WC_REM_INV_REQ_ERR;
    table[SIW_WC_GENERAL_ERR as usize] = IBV_WC_GENERAL_ERR;
    table
};

/// # Safety
/// `slot` is a slot of a queue that is mapped and locked.
#[inline(always)]
unsafe fn flags<'a>(slot: NonNull<siw_cqe>) -> &'a AtomicU8 {
    // SAFETY: a byte of mapped memory that both sides access atomically; used while the queue stays locked.
    unsafe { AtomicU8::from_ptr(&raw mut (*slot.as_ptr()).flags) }
}

impl Queue {
    /// Moves up to `max` completions to `wc`.
    ///
    /// # Safety
    /// There is room for `max` completions at `wc`.
    #[inline(always)]
    unsafe fn take(&mut self, wc: *mut ibv_wc, max: u32) -> u32 {
        let start = self.taken;
        let mut done = 0;
        while done < max {
            let slot = self.slots.at(start.wrapping_add(done));
            // SAFETY: a slot of this queue, which the caller has locked.
            let flags = unsafe { flags(slot) };
            // Acquire: the driver sets the flag after it has written the entry.
            if flags.load(Ordering::Acquire) & SIW_WQE_VALID as u8 == 0 {
                break;
            }
            // SAFETY: the slot is ours while the flag is set; `done` is below the room that the caller vouches
            // for.
            unsafe { convert(slot.as_ptr(), wc.add(done as usize)) };
            // Release: the entry is read before the driver may write the next one there.
            flags.store(0, Ordering::Release);
            done += 1;
        }
        self.taken = start.wrapping_add(done);
        done
    }
}

/// Gives a completion to the program. What the driver does not know stays as the program left it, as with
/// rdma-core; numbers that no driver gives are a general error.
///
/// # Safety
/// `cqe` can be read, and `wc` written.
#[inline(always)]
unsafe fn convert(cqe: *const siw_cqe, wc: *mut ibv_wc) {
    // SAFETY: by the contract. What leads into a table is read once, whatever the driver writes meanwhile.
    unsafe {
        (*wc).wr_id = (*cqe).id;
        (*wc).byte_len = (*cqe).bytes;
        (*wc).wc_flags = 0;
        (*wc).anon1.imm_data = 0;
        (*wc).vendor_err = 0;
        (*wc).qp_num = (*cqe).qp_id as u32;
        let (mut opcode, mut status) = (IBV_WC_SEND, IBV_WC_GENERAL_ERR);
        if let Some(&known) = OPCODES.get(usize::from((&raw const (*cqe).opcode).read_volatile())) {
            opcode = known;
            if let Some(&known) = STATUSES.get(usize::from((&raw const (*cqe).status).read_volatile())) {
                status = known;
            }
        }
        (*wc).opcode = opcode as u32;
        (*wc).status = status as u32;
    }
}

/// Moves up to `num_entries` completions to the program's array `wc`; how many, or -1 for a null queue.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(object) = (unsafe { Cq::from_c(cq) }) else { return -1 };
    // A negative number asks for nothing.
    let max = num_entries.max(0) as u32;
    match object.queue.try_lock() {
        // SAFETY: the program passes room for `num_entries` completions.
        Some(mut queue) => unsafe { queue.take(wc, max) as c_int },
        // SAFETY: handed on from the program.
        None => unsafe { poll_later(object, wc, max) },
    }
}

/// As [`poll_cq`], where another thread holds the lock: waits for it. Apart, so that `poll_cq` saves no
/// registers for a call.
///
/// # Safety
/// There is room for `max` completions at `wc`.
#[cold]
#[inline(never)]
unsafe extern "C" fn poll_later(cq: &Cq, wc: *mut ibv_wc, max: u32) -> c_int {
    // SAFETY: by the contract.
    unsafe { cq.queue.lock().take(wc, max) as c_int }
}

/// Asks for an event at the next completion; always 0.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: as in `poll_cq`.
    let Some(object) = (unsafe { Cq::from_c(cq) }) else { return Errno::EINVAL.0 };
    let wanted = if solicited_only != 0 {
        SIW_NOTIFY_SOLICITED
    } else {
        SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION
    };
    // SAFETY: a word in the mapping that the queue owns, which both sides access atomically.
    unsafe { object.notify.as_ref() }.store(wanted, Ordering::SeqCst);
    // The program polls once more after arming: that must not overtake the store.
    fence(Ordering::SeqCst);
    0
}

impl Cqs for SiwContext {
    /// Creates a queue.
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        event_name::create(
            |user_handle| {
                let request = CreateCq {
                    user_handle,
                    cqe: cqe as u32,
                    // SAFETY: a handle is live, and nobody changes the descriptor of a channel.
                    comp_channel: channel.map_or(-1, |channel| unsafe { (*channel.as_ptr()).fd }),
                    comp_vector: comp_vector as u32,
                };
                let mut answer = siw_uresp_create_cq::default();
                let created = uverbs::cq::create(&self.file, &request, Udata::answer(answer.as_bytes_mut()))
                    .inspect_err(|errno| trace!(Error, "siw: create_cq: {errno:?}; asked cqe {cqe}"))?;
                Ok((created, answer))
            },
            |(created, answer)| {
                let slots = Slots::map(&self.file, answer.cq_key, answer.num_cqe, size_of::<siw_cq_ctrl>())?;
                // SAFETY: plain C data of integers, pointers and pthread objects that start as zeros; all zeros
                // is its empty value.
                let mut public: ibv_cq = unsafe { core::mem::zeroed() };
                public.handle = created.handle;
                public.cqe = created.cqe as c_int;
                Ok(Cq::new(public, answer.cq_id, slots))
            },
            |(created, _)| {
                let _ = uverbs::cq::destroy(&self.file, created.handle);
            },
        )
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        unsafe { kernel::cq::destroy::<Cq>(&self.file, cq) }
    }
}

impl Cq {
    fn new(public: ibv_cq, id: u32, slots: Slots<siw_cqe>) -> Self {
        // The control word starts the bytes behind the entries.
        let notify = slots.behind().cast::<AtomicU32>();
        // SAFETY: mapped with the slots, and aligned, because entries are a multiple of 8 bytes.
        unsafe { notify.as_ref() }.store(SIW_NOTIFY_NOT, Ordering::SeqCst);
        let queue = QueueLock::new(Queue { slots, taken: 0 });
        Self { public: UnsafeCell::new(public), id, notify, queue }
    }

    /// The driver's number of the queue.
    pub fn id(&self) -> u32 {
        self.id
    }
}

// Miri has no memory files that can be mapped.
#[cfg(all(test, not(miri)))]
pub(super) mod tests {
    use super::super::memory::Memory;
    use super::*;

    /// A queue over a memory file, which stays the driver's side.
    pub fn queue(memory: &Memory, count: u32) -> Handle<ibv_cq> {
        let slots = Slots::map(&memory.device, 0, count, size_of::<siw_cq_ctrl>()).unwrap();
        // SAFETY: plain C data.
        Handle::publish(Box::new(Cq::new(unsafe { core::mem::zeroed() }, 5, slots)))
    }

    fn entry(id: u64, opcode: u8, status: u16) -> siw_cqe {
        siw_cqe { id, flags: 1, opcode, status, bytes: 7, imm_data: 9, qp_id: 0x1_0000_0005 }
    }

    fn poll(cq: Handle<ibv_cq>, max: c_int) -> Vec<ibv_wc> {
        // SAFETY: plain C data, of which every byte pattern is a value; all ones, so that what stays untouched
        // can be seen.
        let blank: ibv_wc =
            unsafe { [0xFFu8; size_of::<ibv_wc>()].as_ptr().cast::<ibv_wc>().read_unaligned() };
        let mut wc = vec![blank; 8];
        // SAFETY: a live queue and room for eight.
        let count = unsafe { poll_cq(cq.as_ptr(), max, wc.as_mut_ptr()) };
        wc.truncate(count as usize);
        wc
    }

    #[test]
    fn completions_come_in_order_round_the_end_and_free_their_slots() {
        let memory = Memory::new(4 * 32 + 8);
        let cq = queue(&memory, 4);
        let mut id = 0;
        for round in 0..5u64 {
            for i in 0..3u64 {
                memory.put((((round * 3 + i) & 3) * 32) as usize, &entry(round * 3 + i, SIW_OP_RECEIVE, 0));
            }
            assert_eq!(poll(cq, 2).len(), 2);
            id += 2;
            let rest = poll(cq, 8);
            assert_eq!(rest.len(), 1);
            assert_eq!((rest[0].wr_id, rest[0].opcode, rest[0].status), (id, IBV_WC_RECV as u32, 0));
            assert_eq!((rest[0].byte_len, rest[0].qp_num, rest[0].wc_flags), (7, 5, 0));
            // The driver does not know these.
            assert_eq!((rest[0].src_qp, rest[0].slid), (u32::MAX, u16::MAX));
            id += 1;
        }
        assert_eq!((0..4).map(|slot| memory.get::<siw_cqe>(slot * 32).flags).sum::<u8>(), 0);
        assert!(poll(cq, 8).is_empty() && poll(cq, -1).is_empty());
    }

    #[test]
    fn a_poll_waits_for_the_lock() {
        let memory = Memory::new(4 * 32 + 8);
        let cq = queue(&memory, 4);
        // SAFETY: a live queue, published just above.
        let object = unsafe { cq.object::<Cq>() };
        for round in 0..6u64 {
            let held = object.queue.lock();
            memory.put((round & 3) as usize * 32, &entry(round, SIW_OP_SEND, 0));
            let (tell, told) = std::sync::mpsc::channel();
            let public = cq.as_ptr() as usize;
            let waiter = std::thread::spawn(move || {
                // SAFETY: answers a number.
                tell.send(unsafe { libc::gettid() }).unwrap();
                let pointer = core::ptr::with_exposed_provenance_mut(public);
                // SAFETY: the queue lives until this thread was waited for.
                poll(unsafe { Handle::from_c(pointer) }.unwrap(), 8)[0].wr_id
            });
            let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
            while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            assert!(!waiter.is_finished());
            drop(held);
            assert_eq!(waiter.join().unwrap(), round);
            assert!(poll(cq, 8).is_empty());
        }
    }

    #[test]
    fn what_no_driver_reports_is_an_error() {
        let memory = Memory::new(4 * 32 + 8);
        let cq = queue(&memory, 4);
        memory.put(0, &entry(1, 255, 0));
        memory.put(32, &entry(2, SIW_OP_WRITE, 999));
        memory.put(64, &entry(3, SIW_OP_READ, SIW_WC_REM_ACCESS_ERR));
        let statuses: Vec<u32> = poll(cq, 8).iter().map(|wc| wc.status).collect();
        let general = IBV_WC_GENERAL_ERR as u32;
        assert_eq!(statuses, [general, general, IBV_WC_REM_ACCESS_ERR as u32]);
    }

    #[test]
    fn arming_sets_the_word_behind_the_entries() {
        let memory = Memory::new(4 * 32 + 8);
        memory.put(4 * 32, &siw_cq_ctrl { flags: 77, pad: 0 });
        let cq = queue(&memory, 4);
        assert_eq!(memory.get::<siw_cq_ctrl>(4 * 32).flags, SIW_NOTIFY_NOT);
        // SAFETY: a live queue.
        assert_eq!(unsafe { req_notify_cq(cq.as_ptr(), 1) }, 0);
        assert_eq!(memory.get::<siw_cq_ctrl>(4 * 32).flags, 1);
        // SAFETY: as above.
        assert_eq!(unsafe { req_notify_cq(cq.as_ptr(), 0) }, 0);
        assert_eq!(memory.get::<siw_cq_ctrl>(4 * 32).flags, 3);
    }
}
