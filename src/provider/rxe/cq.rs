//! Completion queues: creation, resizing, destruction, and the poll function of the plain API.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::os::fd::RawFd;

use queue_lock::{Holding, QueueLock};

use super::mapping::Mapped;
use super::ring::{CompletionRing, ENTRY, Glance, Ready, Walk};
use super::{RxeContext, cq_ex, explain};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::ib_uverbs_wc;
use crate::abi::uapi::rdma_user_rxe::{rxe_create_cq_resp, rxe_resize_cq_resp};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Cqs;
use crate::provider::{context, domain, event_name, kernel};
use crate::uverbs::command::Prepared;
use crate::uverbs::cq::{CqCreated, CreateCq, CreateCqEx};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

// The driver's entries are copied to the program as they are.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<ibv_wc>() == ENTRY && size_of::<ib_uverbs_wc>() == ENTRY);
    macro_rules! same_place {
        ($($field:ident)*) => { $(assert!(offset_of!(ibv_wc, $field) == offset_of!(ib_uverbs_wc, $field));)* };
    }
    same_place!(wr_id status opcode vendor_err byte_len qp_num src_qp wc_flags);
    same_place!(pkey_index slid sl dlid_path_bits);
    assert!(offset_of!(ibv_wc, anon1) == offset_of!(ib_uverbs_wc, imm_data));
};

/// What the lock of a completion queue guards.
pub struct Queue {
    /// The ring.
    pub ring: Mapped<CompletionRing>,
    /// Where `start_poll` and its successors stand.
    pub walk: Walk,
    /// The completion there, for the functions that read its fields.
    pub current: *const ibv_wc,
    /// Rings from before the queue was resized, at which another thread may just be looking.
    retired: Vec<Mapped<CompletionRing>>,
}

// SAFETY: `current` points into the ring, which moves between threads with it.
unsafe impl Send for Queue {}

/// A completion queue. The public part is that of an extended queue, which starts as that of a plain one does.
#[repr(C)]
pub struct Cq {
    public: UnsafeCell<ibv_cq_ex>,
    /// The program says that one thread at a time uses the queue: the lock was taken at creation and stays
    /// held.
    pub single_threaded: bool,
    /// What takes many completions the fastest on this machine.
    take_many: Take,
    /// Whether the queue is empty, without the lock.
    pub glance: Glance,
    /// Ring and position.
    pub queue: QueueLock<Queue>,
}

// SAFETY: repr(C), and the first field starts as an ibv_cq does.
unsafe impl Object for Cq {
    type Public = ibv_cq;
}

impl Cq {
    /// A queue, with the public fields that the call of the program does not fill in. `wc_flags`
    /// (`IBV_WC_EX_WITH_*`) says which functions an extended queue has; none makes a plain one.
    pub(super) fn new(
        created: CqCreated,
        ring: Mapped<CompletionRing>,
        wc_flags: Option<u64>,
        single_threaded: bool,
    ) -> Self {
        // SAFETY: plain C data of integers, pointers, optional functions and pthread objects that start as
        // zeros; all zeros is its empty value.
        let mut public: ibv_cq_ex = unsafe { core::mem::zeroed() };
        public.handle = created.handle;
        public.cqe = created.cqe as c_int;
        if let Some(wc_flags) = wc_flags {
            cq_ex::set_functions(&mut public, wc_flags, single_threaded);
        }
        let glance = Glance::default();
        // SAFETY: the ring stays mapped as long as the queue, also when it is replaced.
        unsafe { glance.at(&ring) };
        let (walk, current, retired) = (Walk::default(), core::ptr::null(), Vec::new());
        let queue = QueueLock::new(Queue { ring, walk, current, retired });
        if single_threaded {
            queue.lock().leave_held();
        }
        Self { public: UnsafeCell::new(public), single_threaded, take_many: fastest_take(), glance, queue }
    }

    /// Runs `body` alone with ring and position.
    #[inline(always)]
    pub fn with_queue<R>(&self, body: impl FnOnce(&mut Queue) -> R) -> R {
        if self.single_threaded {
            // SAFETY: the lock is held since creation, and the program promised that one thread at a time uses
            // the queue, so that holding it is this thread's now. No reference outlives `body`.
            body(unsafe { self.queue.held_mut() })
        } else {
            body(&mut self.queue.lock())
        }
    }
}

/// Completions up to which a loop by 16-byte registers, without a call, is the fastest.
const FEW: u32 = 4;

/// Moves up to `num_entries` completions to the program's array `wc`; how many, or -1 for a null queue.
///
/// What most polls do (find [few](FEW) completions, or none) is here and in `poll_shared`, without a call, so
/// that no registers are saved for one.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(cq) = (unsafe { Cq::from_c(cq) }) else { return -1 };
    // A negative number asks for nothing.
    let max = num_entries.max(0) as u32;
    let mut holding = Holding::Before;
    if !cq.single_threaded {
        match cq.queue.try_lock_alone() {
            Some(queue) => holding = queue.leave_held_by(),
            // SAFETY: handed on from the program.
            None => return unsafe { poll_shared(cq, wc, max) },
        }
    }
    // SAFETY: the lock is held, by this call or as in `with_queue`; the reference ends with the call.
    let ring = unsafe { &mut cq.queue.held_mut().ring };
    let ready = ring.ready(max);
    if ready.count > FEW {
        // SAFETY: the lock is held; room as for `num_entries`.
        return unsafe { (cq.take_many)(cq, wc, ready, holding) };
    }
    // SAFETY: the program passes room for `num_entries` completions, which are ENTRY bytes each; a ring is the
    // driver's memory and no array of the program. Where the lock was taken here, nobody uses the ring any
    // more.
    unsafe {
        ring.take(ready, wc.cast());
        cq.queue.release_by(holding);
    }
    ready.count as c_int
}

/// `poll_cq` in a process with several threads. The locked instruction waits for what was stored before it, and
/// what follows waits for it: both are little.
///
/// # Safety
/// There is room for `max` completions at `wc`.
#[inline(never)]
unsafe extern "C" fn poll_shared(cq: &Cq, wc: *mut ibv_wc, max: u32) -> c_int {
    if cq.glance.idle() && cq.glance.empty() {
        return 0;
    }
    match cq.queue.try_lock_shared() {
        // SAFETY: the lock is held from here on; the room by the contract.
        Some(queue) => unsafe { poll_held(cq, wc, max, queue.leave_held_by()) },
        // SAFETY: the room by the contract.
        None => unsafe { poll_later(cq, wc, max) },
    }
}

/// As [`poll_shared`], where another thread holds the lock: waits for it.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe extern "C" fn poll_later(cq: &Cq, wc: *mut ibv_wc, max: u32) -> c_int {
    let holding = cq.queue.lock().leave_held_by();
    // SAFETY: the lock is held; the room by the contract.
    unsafe { poll_held(cq, wc, max, holding) }
}

/// Polls, notes whether nothing was found, and gives the lock back.
///
/// # Safety
/// The calling thread holds the lock so; there is room for `max` completions at `wc`.
#[inline(always)]
unsafe fn poll_held(cq: &Cq, wc: *mut ibv_wc, max: u32, holding: Holding) -> c_int {
    // SAFETY: the lock is held; the reference ends with the call.
    let ring = unsafe { &mut cq.queue.held_mut().ring };
    let ready = ring.ready(max);
    let idle = ready.count == 0;
    if idle != cq.glance.idle() {
        cq.glance.set_idle(idle);
    }
    if ready.count > FEW {
        // SAFETY: the lock is held, and the room by the contract.
        return unsafe { (cq.take_many)(cq, wc, ready, holding) };
    }
    // SAFETY: the room by the contract; nobody uses the ring after the release.
    unsafe {
        ring.take(ready, wc.cast());
        cq.queue.release_by(holding);
    }
    ready.count as c_int
}

/// Takes what a poll found, and gives the lock back. The poll ends in it, so that it is one call.
///
/// # Safety
/// The calling thread holds the lock so; `ready` is what the ring said last; there is room for as many at `wc`.
type Take = unsafe extern "C" fn(cq: &Cq, wc: *mut ibv_wc, ready: Ready, holding: Holding) -> c_int;

fn fastest_take() -> Take {
    #[cfg(target_arch = "x86_64")]
    if super::copy::avx2() {
        return take_avx2;
    }
    take
}

/// # Safety
/// As [`Take`].
unsafe extern "C" fn take(cq: &Cq, wc: *mut ibv_wc, ready: Ready, holding: Holding) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        cq.queue.held_mut().ring.take(ready, wc.cast());
        cq.queue.release_by(holding);
    }
    ready.count as c_int
}

/// # Safety
/// As [`Take`], on a machine with [AVX2](super::copy::avx2).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe extern "C" fn take_avx2(cq: &Cq, wc: *mut ibv_wc, ready: Ready, holding: Holding) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        cq.queue.held_mut().ring.take_avx2(ready, wc.cast());
        cq.queue.release_by(holding);
    }
    ready.count as c_int
}

/// Asks for an event at the next completion; 0 or an errno value, which `errno` has as well.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program passes a live queue, which names its context.
    let done = unsafe {
        context::provider((*cq).context).and_then(|provider| {
            uverbs::cq::req_notify(provider.kernel()?, (*cq).handle, solicited_only != 0)
        })
    };
    done.map_or_else(|errno| errno.0, |()| 0)
}

/// What both ways to create a queue ask for.
struct Creation {
    cqe: u32,
    comp_channel: RawFd,
    comp_vector: u32,
    single_threaded: bool,
    /// `IBV_WC_EX_WITH_*` for which there are to be functions, and the rest that the kernel must know.
    extensions: Option<CreateCqEx>,
}

fn channel_fd(channel: Option<Handle<ibv_comp_channel>>) -> RawFd {
    // SAFETY: a handle is live, and nobody changes the descriptor of a channel.
    channel.map_or(-1, |channel| unsafe { (*channel.as_ptr()).fd })
}

impl Cqs for RxeContext {
    /// Creates a plain queue.
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        create_any(
            &self.file,
            &Creation {
                cqe: cqe as u32,
                comp_channel: channel_fd(channel),
                comp_vector: comp_vector as u32,
                single_threaded: false,
                extensions: None,
            },
        )
    }

    /// Creates a queue with polling functions for what `wc_flags` ask. EOPNOTSUPP (`errno` set) for what
    /// soft-RoCE's completions do not have: timestamps, VLAN, flow tag, tag matching.
    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        if attr.wc_flags & !cq_ex::WC_FLAGS != 0 {
            trace!(
                Debug,
                "rxe: create_cq_ex: no completion field for wc_flags {:#x}",
                attr.wc_flags & !cq_ex::WC_FLAGS
            );
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        let has = |bit: ibv_cq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        let flags = if has(IBV_CQ_INIT_ATTR_MASK_FLAGS) { attr.flags } else { 0 };
        // SAFETY: the program passes a live channel and a live domain, or null.
        let (channel, one_thread) = unsafe {
            let parent =
                if has(IBV_CQ_INIT_ATTR_MASK_PD) { attr.parent_domain } else { core::ptr::null_mut() };
            (Handle::optional(attr.channel), domain::one_thread(parent))
        };
        let cq = create_any(
            &self.file,
            &Creation {
                cqe: attr.cqe,
                comp_channel: channel_fd(channel),
                comp_vector: attr.comp_vector,
                single_threaded: one_thread || flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED as u32 != 0,
                extensions: Some(CreateCqEx {
                    comp_mask: attr.comp_mask,
                    wc_flags: attr.wc_flags,
                    flags,
                    timestamp_implied: false,
                    ..CreateCqEx::default()
                }),
            },
        )?;
        // SAFETY: the public part of every Cq is an extended one.
        unsafe { Handle::from_c(cq.as_ptr().cast()) }
    }

    /// Changes the capacity. Nobody can poll meanwhile, because the completions move to another ring.
    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        // SAFETY: the handle belongs to this provider, and its kernel handle never changes.
        let (object, handle) = unsafe { (cq.object::<Cq>(), (*cq.as_ptr()).handle) };
        object.with_queue(|queue| {
            queue.retired.try_reserve(1).map_err(|_| Errno::ENOMEM.also_set())?;
            // From here on the old ring does not tell whether the queue is empty.
            object.glance.close();
            let mut answer = rxe_resize_cq_resp::default();
            let given =
                uverbs::cq::resize(&self.file, handle, cqe as u32, Udata::answer(answer.as_bytes_mut()));
            let given = given.inspect_err(|errno| {
                explain::cq_size(&self.file, *errno, "resize_cq", cqe as u32);
                // SAFETY: as in `Cq::new`.
                unsafe { object.glance.at(&queue.ring) };
            })?;
            // SAFETY: a live handle, whose field only this function changes, under the lock.
            unsafe { (*cq.as_ptr()).cqe = given as c_int };
            // When the new ring cannot be mapped the old one stays, out of use but safe to poll.
            let ring = Mapped::completions(&self.file, &answer.mi)?;
            // SAFETY: as in `Cq::new`.
            unsafe { object.glance.at(&ring) };
            let old = core::mem::replace(&mut queue.ring, ring);
            // Where the process has one thread, or the queue has, nobody is looking.
            if !queue_lock::single_threaded() && !object.single_threaded {
                queue.retired.push(old);
            }
            Ok(())
        })
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        unsafe { kernel::cq::destroy::<Cq>(&self.file, cq) }
    }
}

fn create_any(file: &DeviceFile, creation: &Creation) -> Result<Handle<ibv_cq>> {
    event_name::create(
        |user_handle| {
            let request = CreateCq {
                user_handle,
                cqe: creation.cqe,
                comp_channel: creation.comp_channel,
                comp_vector: creation.comp_vector,
            };
            let mut answer = rxe_create_cq_resp::default();
            let udata = Udata::answer(answer.as_bytes_mut());
            let created = match &creation.extensions {
                None => uverbs::cq::create(file, &request, udata),
                Some(extensions) => {
                    uverbs::cq::create_ex(file, &request, extensions, udata, Prepared::none())
                }
            }
            .inspect_err(|errno| explain::cq_size(file, *errno, "create_cq", request.cqe))?;
            Ok((created, answer))
        },
        |(created, answer)| {
            let ring = Mapped::completions(file, &answer.mi)?;
            let wc_flags = creation.extensions.as_ref().map(|extensions| extensions.wc_flags);
            Ok(Cq::new(*created, ring, wc_flags, creation.single_threaded))
        },
        |(created, _)| {
            let _ = uverbs::cq::destroy(file, created.handle);
        },
    )
}
