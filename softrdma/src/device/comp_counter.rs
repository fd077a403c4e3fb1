//! Completion counters (`ibv_create_comp_cntr`): how many requests are done, without a look at each of them.
//!
//! A request of the send queue is counted when it is completed or flushed, by whoever carries it out. A receive
//! request is completed by its sender, in shared memory, where a small message lies, too, until it is taken. So
//! its counter counts when completions are taken: when the program polls, and when it asks for the counter.
//! What is taken for a counter alone waits for the program's next poll here.
//!
//! What peers read and write of this process's memory is not counted: they do it without this process.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ironverbs_os::growth::{TryInsert, TryPush, try_arc};
use queue_lock::QueueLock;

use crate::queues::completion::{wanted, wants};
use crate::rules::completion::Completion;
use crate::rules::requester::{Action, Posted};
use crate::rules::verbs::{Opcode, QpState, QpType, Status, WcOpcode};

use super::{CompletionQueue, Device, Error, LIMITS, QueuePair, Result};
use crate::carrier::near::number::place_of;

/// Kinds of operations (`enum ibv_qp_attach_comp_cntr_op`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations(pub u32);

impl Operations {
    /// Sends.
    pub const SEND: Self = Self(1 << 0);
    /// Receive requests, also those that a write with immediate data took.
    pub const RECV: Self = Self(1 << 1);
    /// RDMA reads.
    pub const RDMA_READ: Self = Self(1 << 2);
    /// RDMA writes.
    pub const RDMA_WRITE: Self = Self(1 << 4);
    /// All that can be counted.
    pub const ALL: Self = Self(Self::SEND.0 | Self::RECV.0 | Self::RDMA_READ.0 | Self::RDMA_WRITE.0);

    fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// Which of them a send request is; none for an atomic operation, or one on memory windows.
    fn of(opcode: Opcode) -> Self {
        match opcode {
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => Self::SEND,
            Opcode::RdmaRead => Self::RDMA_READ,
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => Self::RDMA_WRITE,
            _ => Self::default(),
        }
    }
}

/// What a counter counts (`enum ibv_comp_cntr_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Requests.
    Requests,
    /// Bytes of requests; of those that failed, requests.
    Bytes,
}

/// A completion counter (`struct ibv_comp_cntr`): two numbers, which go on from 0 behind their greatest value.
#[derive(Debug)]
pub struct CompletionCounter {
    device: Arc<Device>,
    counted: Counted,
    done: AtomicU64,
    failed: AtomicU64,
    /// Queue pairs that it counts for, once for each call that said so.
    users: AtomicU32,
    /// Where receive requests complete that it counts, by queue pair.
    queues: Mutex<Vec<(u32, Weak<CompletionQueue>)>>,
}

impl CompletionCounter {
    /// A counter that has counted nothing.
    ///
    /// # Errors
    /// [`Error::NoMemory`] at [`Limits::max_comp_cntr`](super::Limits::max_comp_cntr).
    pub fn new(device: &Arc<Device>, counted: Counted) -> Result<Arc<Self>> {
        let more = |count: u32| (count < LIMITS.max_comp_cntr).then_some(count + 1);
        device
            .comp_counters
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Error::NoMemory)?;
        let zero = || AtomicU64::new(0);
        let (done, failed, users, queues) = (zero(), zero(), 0.into(), Mutex::default());
        // Where this fails, it is dropped, and counted no more.
        Ok(try_arc(Self { device: device.clone(), counted, done, failed, users, queues })?)
    }

    /// Whether it may go.
    ///
    /// # Errors
    /// [`Error::Busy`] while it counts for a queue pair.
    pub fn destroy(&self) -> Result<()> {
        if self.users.load(Ordering::Acquire) > 0 { Err(Error::Busy) } else { Ok(()) }
    }

    /// What succeeded.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.catch_up();
        self.done.load(Ordering::Acquire)
    }

    /// What failed, flushed requests among it.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.catch_up();
        self.failed.load(Ordering::Acquire)
    }

    /// Sets the number of what succeeded.
    pub fn set_done(&self, value: u64) {
        self.catch_up();
        self.done.store(value, Ordering::Release);
    }

    /// Sets the number of what failed.
    pub fn set_failed(&self, value: u64) {
        self.catch_up();
        self.failed.store(value, Ordering::Release);
    }

    /// Adds to the number of what succeeded.
    pub fn add_done(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::AcqRel);
    }

    /// Adds to the number of what failed.
    pub fn add_failed(&self, amount: u64) {
        self.failed.fetch_add(amount, Ordering::AcqRel);
    }

    fn count(&self, succeeded: bool, bytes: u64) {
        match (succeeded, self.counted) {
            (true, Counted::Bytes) => self.add_done(bytes),
            (true, Counted::Requests) => self.add_done(1),
            (false, _) => self.add_failed(1),
        }
    }

    /// Requests that wait are tried, and receive requests counted that are complete.
    fn catch_up(&self) {
        self.device.retries.try_some(&self.device);
        for n in 0.. {
            let Some(queue) = self.queues().get(n).map(|(_, queue)| queue.upgrade()) else { return };
            if let Some(queue) = queue {
                queue.catch_up();
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<(u32, Weak<CompletionQueue>)>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CompletionCounter {
    fn drop(&mut self) {
        self.device.comp_counters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counters of a queue pair.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Whether each request is carried out by itself, since sends are counted or all are looked at; and whether
    /// any requests of the send queue are counted.
    pub(super) sends: bool,
    pub(super) own: bool,
    all: Vec<(Operations, Arc<CompletionCounter>)>,
}

impl Counters {
    /// Counts a send request that is done with; whether it was counted.
    #[cold]
    pub(super) fn count(&self, request: &Posted, action: &Action) -> bool {
        let succeeded = match action {
            Action::Later => return false,
            Action::Complete(_) => true,
            Action::Fail(..) => false,
        };
        self.count_as(request, succeeded)
    }

    /// Counts a send request that was flushed.
    #[cold]
    pub(super) fn flushed(&self, request: &Posted) {
        self.count_as(request, false);
    }

    fn count_as(&self, request: &Posted, succeeded: bool) -> bool {
        let kind = Operations::of(request.opcode);
        let found = self.all.iter().find(|(operations, _)| operations.any(kind));
        if let Some((_, counter)) = found {
            counter.count(succeeded, request.length);
        }
        found.is_some()
    }
}

impl QueuePair {
    /// Has a counter count these operations of the queue pair from now on, until that ends.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no operations, another device's counter, and in a state other than RESET and
    /// INIT; [`Error::Unsupported`] for operations that are not counted, or that this type of queue pair has
    /// not here; [`Error::Busy`] where another counter counts one of them; [`Error::NoMemory`].
    pub fn attach_counter(&self, counter: &Arc<CompletionCounter>, operations: Operations) -> Result<()> {
        if operations == Operations::default() {
            return Err(Error::Invalid("no operations to count"));
        }
        let recv_cq = self.recv_cq().filter(|_| operations.any(Operations::RECV));
        let is_missing = recv_cq.is_none() && operations.any(Operations::RECV);
        if operations.0 & !Operations::ALL.0 != 0 || self.qp_type() == QpType::XrcRecv || is_missing {
            return Err(Error::Unsupported);
        }
        if !std::ptr::eq(&*counter.device, self.device()) {
            return Err(Error::Invalid("another device's counter"));
        }
        let mut side = self.send_side();
        if !matches!(self.state(), QpState::Reset | QpState::Init) {
            return Err(Error::Invalid("not before the queue pair sends and receives"));
        }
        let counters = &mut side.counters;
        if counters.all.iter().any(|(others, _)| others.any(operations)) {
            return Err(Error::Busy);
        }
        counters.all.try_reserve(1)?;
        if let Some(cq) = recv_cq {
            let mut queues = counter.queues();
            queues.try_reserve(1)?;
            cq.count_receives(self.qp_num(), counter)?;
            queues.push_reserved((self.qp_num(), Arc::downgrade(cq)));
        }
        counter.users.fetch_add(1, Ordering::AcqRel);
        counters.all.push_reserved((operations, counter.clone()));
        counters.sends |= operations.any(Operations::SEND);
        counters.own |= operations.0 & !Operations::RECV.0 != 0;
        Ok(())
    }

    /// Nothing is counted any more.
    pub(super) fn detach_counters(&self, counters: &mut Counters) {
        for (operations, counter) in std::mem::take(counters).all {
            if operations.any(Operations::RECV) {
                self.recv_cq().into_iter().for_each(|cq| cq.count_no_longer(self.qp_num()));
                counter.queues().retain(|(qp_num, _)| *qp_num != self.qp_num());
            }
            counter.users.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The part of a completion queue that counts receive requests.
#[derive(Debug)]
pub(super) struct Receives {
    /// Whether there is more in it than nothing.
    is_used: AtomicBool,
    counting: QueueLock<Counting>,
}

#[derive(Debug, Default)]
struct Counting {
    /// By queue pair.
    counters: HashMap<u32, Arc<CompletionCounter>>,
    /// Completions that were counted, oldest first, for the program's next polls.
    kept: VecDeque<Completion>,
}

impl Receives {
    /// None is counted.
    pub(super) fn new() -> Self {
        Self { is_used: false.into(), counting: QueueLock::new(Counting::default()) }
    }

    /// Whether receive requests are counted, or completions kept.
    #[inline]
    pub(super) fn are_counted(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Completions that are kept.
    pub(super) fn kept(&self) -> u32 {
        self.counting.lock().kept.len() as u32
    }
}

impl Counting {
    fn count(&self, completion: &Completion) {
        if completion.opcode < WcOpcode::Recv {
            return;
        }
        if let Some(counter) = self.counters.get(&completion.qp_num) {
            counter.count(completion.status == Status::Success, completion.byte_len.into());
        }
    }
}

impl CompletionQueue {
    /// As [`CompletionQueue::poll`], where receive requests are counted.
    #[cold]
    pub(super) fn poll_and_count(&self, max: u32, take: &mut impl FnMut(&Completion)) -> u32 {
        // What is kept is the parent's.
        if !self.device.is_mine() {
            return 0;
        }
        let mut counting = self.receives.counting.lock();
        let mut taken = 0;
        while taken < max
            && let Some(completion) = counting.kept.pop_front()
        {
            if completion.opcode < WcOpcode::Recv {
                self.device.polled(completion.qp_num, completion.places);
            }
            take(&completion);
            taken += 1;
        }
        if taken < max {
            let counting = &*counting;
            taken += self.poll_anew(max - taken, &mut |completion| {
                counting.count(completion);
                take(completion);
            });
        }
        if counting.counters.is_empty() && counting.kept.is_empty() {
            self.receives.is_used.store(false, Ordering::Relaxed);
        }
        taken
    }

    /// Counts what is complete, and keeps it for the program: as much as the queue holds. Beyond that it is
    /// lost in a queue where that is no error, and stays in the ring of any other.
    fn catch_up(&self) {
        let mut counting = self.receives.counting.lock();
        let most = self.cqe();
        let room = (most as usize).saturating_sub(counting.kept.len());
        let loses = wanted(&self.device.endpoint.own, self.index()) & wants::IGNORE_OVERRUN != 0;
        if room == 0 && !loses || counting.kept.try_reserve(room).is_err() {
            return;
        }
        self.poll_anew(if loses { most } else { room as u32 }, &mut |completion| {
            counting.count(completion);
            if counting.kept.len() < most as usize {
                // Its places in the send queue are given back when the program has it.
                let place = place_of(completion.qp_num).filter(|_| completion.opcode < WcOpcode::Recv);
                if let Some((_, index)) = place {
                    self.device.unpolled(index).fetch_add(completion.places, Ordering::Relaxed);
                }
                counting.kept.push_reserved(*completion);
            }
        });
    }

    /// Has the receive requests of a queue pair counted from now on.
    fn count_receives(&self, qp_num: u32, counter: &Arc<CompletionCounter>) -> Result<()> {
        let mut counting = self.receives.counting.lock();
        counting.counters.try_set(qp_num, counter.clone())?;
        self.receives.is_used.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn count_no_longer(&self, qp_num: u32) {
        self.receives.counting.lock().counters.remove(&qp_num);
    }

    /// Counts what a queue pair has completed until now, and forgets its completions that are kept: it was
    /// reset, or has ended.
    #[cold]
    pub(super) fn forget_kept(&self, qp_num: u32) {
        self.catch_up();
        self.receives.counting.lock().kept.retain(|completion| completion.qp_num != qp_num);
    }
}
