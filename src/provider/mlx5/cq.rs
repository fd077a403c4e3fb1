//! Completion queues: what is kept beside libmlx5's, and the poll function of the plain API.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use queue_lock::QueueLock;

use super::cq_ex::Walk;
use super::cqe::{self, Cqe};
use super::queue::{Origin, Source};
use super::ring::{Record, Ring, Shadow};
use super::srq::Srq;
use super::{Mlx5, barrier, doorbell, found, qp};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::context;
use crate::provider::data_path::DataPath;

/// What the lock of a completion queue guards.
pub struct Queue {
    /// The ring that the device writes.
    pub ring: Ring,
    /// libmlx5's.
    pub shadow: Shadow,
    /// Where `start_poll` and its successors stand.
    pub walk: Walk,
}

/// A completion queue.
#[repr(C, align(64))]
pub struct Cq {
    /// How many completions were taken. Only who holds the lock changes it.
    pub consumed: AtomicU32,
    /// Events so far, which arming counts by.
    events: AtomicU32,
    /// The queue's number on the device.
    cqn: u32,
    /// The program says that one thread at a time uses the queue.
    pub single_threaded: bool,
    /// What the device reads.
    pub record: Record,
    /// Where the queue is armed.
    page: NonNull<u8>,
    /// What the context knows.
    mlx5: NonNull<Mlx5>,
    /// libmlx5's queue ...
    pub public: *mut ibv_cq_ex,
    /// ... its functions for completions one by one ...
    pub original: ibv_cq_ex,
    /// ... and its data path.
    plugins: DataPath,
    /// Rings and position.
    pub queue: QueueLock<Queue>,
}

// SAFETY: pointers to objects that live as long as the queue, which any thread may use.
unsafe impl Send for Cq {}
// SAFETY: as above; what changes is atomic or guarded by the lock.
unsafe impl Sync for Cq {}

/// What a queue is made of.
pub struct Parts {
    /// libmlx5's queue, whose functions are still its own.
    pub public: *mut ibv_cq_ex,
    /// It has functions for completions one by one.
    pub extended: bool,
    /// What the device writes and reads.
    pub ring: Ring,
    /// See `ring`.
    pub record: Record,
    /// libmlx5's ring.
    pub shadow: Shadow,
    /// The number on the device.
    pub cqn: u32,
    /// Where queues are armed.
    pub page: NonNull<u8>,
    /// One thread at a time.
    pub single_threaded: bool,
    /// libmlx5's data path.
    pub plugins: DataPath,
}

/// What came of an entry.
enum Step {
    /// A completion of the program's.
    Taken,
    /// Nothing that it sees.
    Passed,
    /// It is libmlx5's.
    Plugins,
}

/// A completion as the two ways of polling need it.
pub struct Completion {
    /// The program's number of the request.
    pub wr_id: u64,
    /// `IBV_WC_*`.
    pub status: ibv_wc_status_t,
    /// Of a request to send, what it was: `IBV_WC_*`, and the flags.
    pub sent: Option<(u16, u16)>,
}

impl Cq {
    /// A queue of which nothing was taken.
    ///
    /// # Safety
    /// All parts are of one queue that libmlx5 has just made in the context of `mlx5`, which outlives it.
    pub unsafe fn new(mlx5: &Mlx5, parts: Parts) -> Self {
        // SAFETY: plain C data; all zeros is the value of what a plain queue does not have.
        let original = unsafe { if parts.extended { parts.public.read() } else { core::mem::zeroed() } };
        let Parts { public, ring, record, shadow, cqn, page, single_threaded, plugins, .. } = parts;
        Self {
            consumed: AtomicU32::new(0),
            events: AtomicU32::new(0),
            cqn,
            single_threaded,
            record,
            page,
            mlx5: NonNull::from(mlx5),
            public,
            original,
            plugins,
            queue: QueueLock::of_domain(Queue { ring, shadow, walk: Walk::default() }, single_threaded),
        }
    }

    /// What is kept beside a completion queue of libmlx5's; none where nothing is.
    ///
    /// # Safety
    /// `cq` is null or live.
    #[inline(always)]
    pub unsafe fn of<'a>(cq: *const ibv_cq) -> Option<&'a Self> {
        // SAFETY: values of completion queues are this type, and removed before the queue is freed.
        found::get(cq).map(|found| unsafe { found.cast::<Self>().as_ref() })
    }

    #[inline(always)]
    fn mlx5(&self) -> &Mlx5 {
        // SAFETY: the context outlives its queues.
        unsafe { self.mlx5.as_ref() }
    }

    /// An event came.
    pub fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// What an entry's user index stands for. `last` is what the entry before led to.
    #[inline(always)]
    pub fn origin<'a>(&'a self, entry: Cqe, last: &mut Option<&'a Origin>) -> Option<&'a Origin> {
        let tag = entry.tag();
        if let Some(origin) = last.filter(|origin| origin.tag == tag) {
            return Some(origin);
        }
        let origin = self.mlx5().origins.get(Cqe::uidx_of(tag));
        *last = origin;
        origin
    }

    /// What an entry completes. None where nothing of it is ours, and an error where it is no completion.
    #[inline(always)]
    pub fn complete(&self, entry: Cqe, origin: &Origin) -> Option<Result<Completion, Passed>> {
        let op_own = entry.op_own();
        let data = op_own & (cqe::DATA_32 | cqe::DATA_64) != 0;
        match op_own >> 4 {
            cqe::REQ => {
                let Some(sends) = &origin.sends else { return nobodys(origin.plugins_sends) };
                let before = sends.done();
                let sent = sends.complete(entry.counter());
                let status = if data {
                    sends.take_answer(sent, before, entry, self.mlx5().null_key())
                } else {
                    IBV_WC_SUCCESS as ibv_wc_status_t
                };
                Some(Ok(Completion { wr_id: sent.wr_id, status, sent: Some((sent.opcode, sent.flags)) }))
            }
            cqe::RESP_WR_IMM..=cqe::RESP_SEND_INV => {
                let (wr_id, status) = match &origin.receives {
                    Source::Own(receives) => {
                        let (wr_id, number) = receives.complete();
                        let status = if data {
                            receives.take(number, entry, self.mlx5().null_key())
                        } else {
                            IBV_WC_SUCCESS as ibv_wc_status_t
                        };
                        (wr_id, status)
                    }
                    Source::Shared(srq) => {
                        // SAFETY: it outlives what names it.
                        let srq = unsafe { srq.as_ref() };
                        let Some(received) = srq.queue.lock().complete(entry, data) else {
                            return Some(Err(Passed));
                        };
                        (received.wr_id, received.status)
                    }
                    Source::Plugin => return None,
                    Source::None => return Some(Err(Passed)),
                };
                Some(Ok(Completion { wr_id, status, sent: None }))
            }
            kind => self.complete_error(entry, kind, origin),
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_error(&self, entry: Cqe, kind: u8, origin: &Origin) -> Option<Result<Completion, Passed>> {
        let wr_id = match (kind, &origin.receives) {
            (cqe::REQ_ERR, _) => match &origin.sends {
                Some(sends) => sends.complete(entry.counter()).wr_id,
                None => return nobodys(origin.plugins_sends),
            },
            (cqe::RESP_ERR, Source::Own(receives)) => receives.complete().0,
            (cqe::RESP_ERR, Source::Shared(srq)) => {
                // SAFETY: it outlives what names it.
                let mut srq = unsafe { srq.as_ref() }.queue.lock();
                if entry.is_odp_fault() {
                    srq.post_again(entry);
                    return Some(Err(Passed));
                }
                let Some(received) = srq.complete(entry, false) else { return Some(Err(Passed)) };
                received.wr_id
            }
            (cqe::RESP_ERR, Source::Plugin) => return None,
            // Names no user index.
            (cqe::SIG_ERR, _) => return None,
            // libmlx5 knows the kind, if there is such a one at all.
            (kind, _) => return nobodys(kind != cqe::RESP_ERR && origin.has_plugins()),
        };
        Some(Ok(Completion { wr_id, status: entry.status(), sent: None }))
    }

    /// Writes what an entry completes to the program's array.
    ///
    /// # Safety
    /// There is room for a completion at `wc`.
    #[inline(always)]
    unsafe fn take<'a>(&'a self, entry: Cqe, wc: *mut ibv_wc, last: &mut Option<&'a Origin>) -> Step {
        let Some(origin) = self.origin(entry, last) else { return Step::Plugins };
        let Completion { wr_id, status, sent } = match self.complete(entry, origin) {
            Some(Ok(completion)) => completion,
            Some(Err(Passed)) => return Step::Passed,
            None => return Step::Plugins,
        };
        let mut taken = ibv_wc {
            wr_id,
            status,
            opcode: 0,
            vendor_err: 0,
            byte_len: 0,
            anon1: ibv_wc_anon1 { imm_data: 0 },
            qp_num: entry.qp_num(),
            src_qp: 0,
            wc_flags: 0,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        };
        let kind = entry.op_own() >> 4;
        if let Some((opcode, flags)) = sent {
            taken.opcode = opcode.into();
            taken.wc_flags = flags.into();
            let atomic = opcode == IBV_WC_COMP_SWAP as u16 || opcode == IBV_WC_FETCH_ADD as u16;
            taken.byte_len = if atomic { 8 } else { entry.byte_len() };
        } else if kind >= cqe::REQ_ERR {
            taken.vendor_err = entry.vendor_err().into();
        } else {
            taken.byte_len = entry.byte_len();
            if status == IBV_WC_SUCCESS as ibv_wc_status_t {
                receive(entry, kind, &mut taken);
            }
        }
        // SAFETY: by the contract.
        unsafe { wc.write(taken) };
        Step::Taken
    }

    /// Takes up to `max` completions; how many, or a negative number where libmlx5 says so.
    ///
    /// # Safety
    /// There is room for as many at `wc`; the calling thread holds the lock of the queue.
    #[inline(always)]
    unsafe fn poll(&self, queue: &mut Queue, max: u32, wc: *mut ibv_wc) -> c_int {
        let before = self.consumed.load(Ordering::Relaxed);
        let (mut counter, mut taken, mut last) = (before, 0, None);
        while taken < max {
            let ready = queue.ring.ready(counter, max - taken);
            if ready == 0 {
                break;
            }
            barrier::after_owner();
            for _ in 0..ready {
                let entry = queue.ring.entry(counter);
                counter = counter.wrapping_add(1);
                // SAFETY: fewer than `max` were taken.
                let place = unsafe { wc.add(taken as usize) };
                // SAFETY: as above.
                match unsafe { self.take(entry, place, &mut last) } {
                    Step::Taken => taken += 1,
                    Step::Passed => {}
                    Step::Plugins => {
                        // SAFETY: libmlx5's queue, and room for one.
                        let got = unsafe { self.plugins_poll(queue, entry, place) };
                        if got < 0 {
                            self.publish(counter);
                            return got;
                        }
                        taken += u32::from(got != 0);
                    }
                }
            }
        }
        if counter != before {
            self.publish(counter);
        }
        taken as c_int
    }

    /// So many completions were taken.
    #[inline(always)]
    pub fn publish(&self, counter: u32) {
        self.consumed.store(counter, Ordering::Relaxed);
        self.record.consumed(counter);
    }

    /// Has libmlx5 take an entry, as its function for that says.
    ///
    /// # Safety
    /// There is room for a completion at `wc`; the calling thread holds the lock of the queue.
    #[cold]
    #[inline(never)]
    unsafe fn plugins_poll(&self, queue: &mut Queue, entry: Cqe, wc: *mut ibv_wc) -> c_int {
        queue.shadow.put(entry);
        // SAFETY: libmlx5's own queue.
        unsafe { (self.plugins.poll_cq)(self.public.cast(), 1, wc) }
    }

    /// Removes the completions of a queue pair or work queue that is gone or reset. Those of libmlx5's are
    /// taken by libmlx5, which so frees what they hold.
    pub fn purge(&self, tag: u32, origin: Option<&Origin>) {
        let mut queue = self.queue.lock();
        let Queue { ring, shadow, .. } = &mut *queue;
        let before = self.consumed.load(Ordering::Relaxed);
        // SAFETY: plain C data; all zeros is a value.
        let mut unseen: ibv_wc = unsafe { core::mem::zeroed() };
        let gone = ring.remove(before, |entry| {
            if entry.tag() != tag {
                return false;
            }
            let kind = entry.op_own() >> 4;
            let receive = matches!(kind, cqe::RESP_WR_IMM..=cqe::RESP_SEND_INV | cqe::RESP_ERR);
            match origin {
                Some(Origin { sends: Some(_), .. }) if !receive => {}
                Some(Origin { receives: Source::Own(_), .. }) if receive => {}
                Some(Origin { receives: Source::Shared(srq), .. }) if receive => {
                    // SAFETY: it outlives what names it.
                    let srq: &Srq = unsafe { srq.as_ref() };
                    srq.queue.lock().complete(entry, false);
                }
                Some(origin) if !origin.has_plugins() => {}
                _ => {
                    shadow.put_without_data(entry);
                    // SAFETY: libmlx5's own queue, and room for one.
                    unsafe { (self.plugins.poll_cq)(self.public.cast(), 1, &raw mut unseen) };
                }
            }
            true
        });
        if gone != 0 {
            self.publish(before.wrapping_add(gone));
        }
    }
}

/// An entry that is no completion of the program's.
pub struct Passed;

/// An entry for requests that are not ours: libmlx5's, or nobody's.
#[inline(always)]
fn nobodys(plugins: bool) -> Option<Result<Completion, Passed>> {
    if plugins { None } else { Some(Err(Passed)) }
}

/// Fills in what a message brought.
#[inline(always)]
fn receive(entry: Cqe, kind: u8, wc: &mut ibv_wc) {
    let immediate = entry.immediate();
    let (opcode, flags) = match kind {
        cqe::RESP_WR_IMM => (IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM as u32),
        cqe::RESP_SEND_IMM => (IBV_WC_RECV, IBV_WC_WITH_IMM as u32),
        cqe::RESP_SEND_INV => (IBV_WC_RECV, IBV_WC_WITH_INV as u32),
        _ => (IBV_WC_RECV, 0),
    };
    wc.opcode = opcode as ibv_wc_opcode_t;
    wc.wc_flags = flags | if entry.grh() { IBV_WC_GRH as u32 } else { 0 };
    wc.anon1.imm_data = if kind == cqe::RESP_SEND_INV { u32::from_be(immediate) } else { immediate };
    wc.src_qp = entry.src_qp();
    wc.pkey_index = u32::from_be(immediate) as u16;
    wc.slid = entry.slid();
    wc.sl = entry.sl();
    wc.dlid_path_bits = entry.dlid_path_bits();
}

/// Moves up to `num_entries` completions to the program's array `wc`; how many, or a negative number.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live queue, and room for as many completions.
    unsafe {
        match Cq::of(cq) {
            Some(object) => object.poll(&mut object.queue.lock(), num_entries.max(0) as u32, wc),
            None => qp::plugins!(cq, poll_cq(cq, num_entries, wc)),
        }
    }
}

/// Asks for an event at the next completion; 0.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program passes a live queue.
    unsafe {
        let Some(object) = Cq::of(cq) else { return qp::plugins!(cq, req_notify_cq(cq, solicited_only)) };
        let events = object.events.load(Ordering::Relaxed);
        let word = doorbell::arming(events, solicited_only != 0, object.consumed.load(Ordering::Relaxed));
        object.record.armed(word);
        // SAFETY: mapped as long as the context.
        doorbell::arm(object.page, word, object.cqn);
    }
    0
}
