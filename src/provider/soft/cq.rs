//! Completion queues: creation, resizing, destruction, and the poll function of the plain API.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::sync::Arc;

use queue_lock::QueueLock;
use softrdma::device::{CompletionQueue, CqFlags, Device, EventQueue, LID};
use softrdma::rules::completion::Completion;
use softrdma::rules::verbs::WcFlags;

use super::channel::{Channel, Reported};
use super::convert::refused;
use super::link::LinkLayer;
use super::{COMPLETION_VECTORS, SoftContext, cq_ex};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Cqs;
use crate::provider::{domain, event_name, wait};

/// A completion queue. The public part is that of an extended queue, which starts as that of a plain one does.
#[repr(C)]
pub struct Cq {
    public: UnsafeCell<ibv_cq_ex>,
    /// The engine's.
    pub queue: Arc<CompletionQueue>,
    /// The completion that `start_poll` and its successors stand at. Its lock is held from `start_poll` to
    /// `end_poll`, or since creation where the program says that one thread at a time uses the queue.
    pub current: QueueLock<Option<Completion>>,
    /// Events that the program got.
    pub events: Reported,
}

// SAFETY: repr(C), and the first field starts as an ibv_cq does.
unsafe impl Object for Cq {
    type Public = ibv_cq;
}

/// The flags that programs know. On InfiniBand, a datagram without a GRH has come as one of IPv4.
#[inline(always)]
pub fn flags(completion: &Completion) -> u32 {
    let flags = completion.flags.0 & !WcFlags::IPV4.0;
    let has_no_grh = completion.flags.has(WcFlags::IPV4) && LinkLayer::of_port() == LinkLayer::Infiniband;
    if has_no_grh { flags & !WcFlags::GRH.0 } else { flags }
}

/// The LID that a datagram came from; 0 on Ethernet, and for everything else.
#[inline(always)]
pub fn source_lid(completion: &Completion) -> u16 {
    let is_datagram = completion.flags.has(WcFlags::GRH);
    if is_datagram && LinkLayer::of_port() == LinkLayer::Infiniband { LID } else { 0 }
}

/// The type of the packet that a datagram came in, as adapters tell it in the service level: RoCE v2 over IPv4
/// or IPv6. UCX finds the address in the header by it. 0 for everything else, and on InfiniBand.
#[inline(always)]
pub fn service_level(completion: &Completion) -> u8 {
    const UDP: u8 = 8;
    const IPV6: u8 = 1;
    const IPV4: u8 = 2;
    match (completion.flags.has(WcFlags::GRH), completion.flags.has(WcFlags::IPV4)) {
        (false, _) => 0,
        _ if LinkLayer::of_port() == LinkLayer::Infiniband => 0,
        (true, true) => UDP | IPV4,
        (true, false) => UDP | IPV6,
    }
}

/// A completion as programs see it. There is no fabric, so what else tells of one is 0.
#[inline(always)]
fn work_completion(completion: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status as ibv_wc_status_t,
        opcode: completion.opcode as ibv_wc_opcode_t,
        vendor_err: completion.vendor_err,
        byte_len: completion.byte_len,
        anon1: ibv_wc_anon1 { imm_data: completion.imm_or_key },
        qp_num: completion.qp_num,
        src_qp: completion.src_qp,
        wc_flags: flags(completion),
        pkey_index: 0,
        slid: source_lid(completion),
        sl: service_level(completion),
        dlid_path_bits: 0,
    }
}

/// Moves up to `num_entries` completions to the program's array `wc`; how many, or -1 for a null queue.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(cq) = (unsafe { Cq::from_c(cq) }) else { return -1 };
    let mut place = wc;
    // A negative number asks for nothing.
    let taken = cq.queue.poll(num_entries.max(0) as u32, &mut |completion| {
        // SAFETY: the program passes room for `num_entries` completions, and the engine hands out no more.
        unsafe {
            place.write(work_completion(completion));
            place = place.add(1);
        }
    });
    taken as c_int
}

/// Asks for an event at the next completion; 0 or an errno value, which `errno` has as well.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(cq) = (unsafe { Cq::from_c(cq) }) else { return Errno::EINVAL.0 };
    cq.queue.arm(solicited_only != 0).map_err(refused).map_or_else(|errno| errno.0, |()| 0)
}

/// What both ways to create a queue ask for.
struct Creation {
    cqe: u32,
    channel: Option<Handle<ibv_comp_channel>>,
    comp_vector: u32,
    flags: CqFlags,
    single_threaded: bool,
    /// `IBV_WC_EX_WITH_*` for which there are to be functions; none makes a plain queue.
    wc_flags: Option<u64>,
}

impl Cqs for SoftContext {
    /// Creates a plain queue.
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        create_any(
            &self.engine,
            &self.events,
            &Creation {
                // A negative number counts as a huge one.
                cqe: cqe as u32,
                channel,
                comp_vector: comp_vector as u32,
                flags: CqFlags::default(),
                single_threaded: false,
                wc_flags: None,
            },
        )
    }

    /// Creates a queue with polling functions for what `wc_flags` ask. EOPNOTSUPP for what completions do not
    /// have: VLAN, flow tag, tag matching.
    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        const KNOWN: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 | IBV_CQ_INIT_ATTR_MASK_PD as u32;
        const IGNORE_OVERRUN: u32 = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN as u32;
        const SINGLE_THREADED: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED as u32;
        let has = |bit: ibv_cq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        let flags = if has(IBV_CQ_INIT_ATTR_MASK_FLAGS) { attr.flags } else { 0 };
        let unknown_flags = flags & !(IGNORE_OVERRUN | SINGLE_THREADED);
        if attr.wc_flags & !cq_ex::WC_FLAGS != 0 || attr.comp_mask & !KNOWN != 0 || unknown_flags != 0 {
            trace!(
                Debug,
                "soft: create_cq_ex: no support for wc_flags {:#x}, comp_mask {:#x}, flags {:#x}",
                attr.wc_flags,
                attr.comp_mask,
                flags
            );
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        // SAFETY: the program passes a live channel and a live domain, or null.
        let (channel, one_thread) = unsafe {
            let parent =
                if has(IBV_CQ_INIT_ATTR_MASK_PD) { attr.parent_domain } else { core::ptr::null_mut() };
            (Handle::optional(attr.channel), domain::one_thread(parent))
        };
        let cq = create_any(
            &self.engine,
            &self.events,
            &Creation {
                cqe: attr.cqe,
                channel,
                comp_vector: attr.comp_vector,
                flags: CqFlags {
                    ignore_overrun: flags & IGNORE_OVERRUN != 0,
                    timestamps: attr.wc_flags & cq_ex::TIMESTAMPS != 0,
                },
                single_threaded: one_thread || flags & SINGLE_THREADED != 0,
                wc_flags: Some(attr.wc_flags),
            },
        )?;
        // SAFETY: the public part of every Cq is an extended one.
        unsafe { Handle::from_c(cq.as_ptr().cast()) }
    }

    /// Changes the capacity.
    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        let given = unsafe { cq.object::<Cq>() }.queue.resize(cqe as u32).map_err(refused)?;
        // SAFETY: a live handle, whose field only this function changes.
        unsafe { (*cq.as_ptr()).cqe = given as c_int };
        Ok(())
    }

    /// Destroys a queue, then waits until the program has acknowledged every event that it got of it.
    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Cq.
        let object = unsafe { cq.object::<Cq>() };
        object.queue.destroy().map_err(refused)?;
        wait::for_cq_events(cq, object.events.completion(), object.events.asynchronous());
        // SAFETY: the program gives up the handle, which was published as a Cq.
        drop(unsafe { cq.reclaim::<Cq>() });
        Ok(())
    }
}

fn create_any(engine: &Arc<Device>, events: &Arc<EventQueue>, creation: &Creation) -> Result<Handle<ibv_cq>> {
    if creation.comp_vector >= COMPLETION_VECTORS {
        return Err(Errno::EINVAL.also_set());
    }
    event_name::create(
        |cookie| {
            // SAFETY: channels of this provider are published as Channel.
            let channel = creation.channel.map(|channel| unsafe { &channel.object::<Channel>().inner });
            CompletionQueue::new(engine, creation.cqe, channel, events, cookie as usize, creation.flags)
                .map_err(refused)
        },
        |queue| Ok(Cq::new(queue, creation)),
        |_| {},
    )
}

impl Cq {
    /// A queue, with the public fields that the call of the program does not fill in.
    fn new(queue: &Arc<CompletionQueue>, creation: &Creation) -> Self {
        // SAFETY: plain C data of integers, pointers, optional functions and pthread objects that start as
        // zeros; all zeros is its empty value.
        let mut public: ibv_cq_ex = unsafe { core::mem::zeroed() };
        public.cqe = queue.cqe() as c_int;
        if let Some(wc_flags) = creation.wc_flags {
            cq_ex::set_functions(&mut public, wc_flags, creation.single_threaded);
        }
        let current = QueueLock::new(None);
        if creation.single_threaded {
            current.lock().leave_held();
        }
        Self {
            public: UnsafeCell::new(public),
            queue: Arc::clone(queue),
            current,
            events: Reported::default(),
        }
    }
}
