//! A shared receive queue whose requests messages of direct rings take.
//!
//! That begins with the first ring into it, and ends for good where the queue gets another ring of requests or
//! another place: then all messages go the other way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ironverbs_os::growth::TryPush;
use queue_lock::QueueGuard;

use crate::carrier::near::direct::{Direct, SharedRequests};
use crate::device::receive::ReceiveRing;
use crate::device::stuck::{SOON, acquire_with};
use crate::device::{CompletionQueue, Device, Error, Rejected, Result};
use crate::queues::direct::shared::{Head, shut};
use crate::queues::shared::{Memory as _, Object, SrqWord, Word};
use crate::queues::transport::Transport as _;
use crate::rules::receive::Sge;
use crate::shm::objects::HeldWords;

use super::{SharedReceiveQueue, SrqType};

/// See the module. Locked after the receive requests.
#[derive(Debug, Default)]
pub(super) struct Rings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    shared: Option<Arc<SharedRequests>>,
    /// No ring takes requests any more.
    is_over: bool,
    /// Where messages of its rings complete, by index.
    readers: Vec<Weak<CompletionQueue>>,
}

impl Rings {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add_reader(&mut self, cq: &Arc<CompletionQueue>) -> Option<()> {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let index = |reader: &Weak<CompletionQueue>| reader.upgrade().map_or(0, |cq| cq.index());
        if !self.readers.iter().any(|reader| std::ptr::eq(reader.as_ptr(), &**cq)) {
            self.readers.try_push(Arc::downgrade(cq)).ok()?;
            // In one order, as they are locked together.
            self.readers.sort_unstable_by_key(index);
        }
        Some(())
    }
}

/// Does something with all of them locked.
fn with_locked(readers: &[Weak<CompletionQueue>], act: &mut dyn FnMut()) {
    let Some((first, rest)) = readers.split_first() else { return act() };
    let cq = first.upgrade();
    let _reader = cq.as_ref().map(|cq| cq.reader());
    with_locked(rest, act);
}

impl SharedReceiveQueue {
    /// What messages of a ring go by that complete in this queue, and where requests are; `None` where rings
    /// take none.
    pub(in crate::device) fn open_direct(
        &self,
        cq: &Arc<CompletionQueue>,
    ) -> Option<(Arc<SharedRequests>, (HeldWords, usize, u32))> {
        if self.init.srq_type != SrqType::Basic {
            return None;
        }
        let shared = {
            let mut state = self.rings.lock();
            if state.is_over {
                return None;
            }
            state.add_reader(cq)?;
            state.shared.clone()
        };
        match shared {
            Some(shared) => Some((shared, self.poster().requests())),
            None => self.begin_direct(),
        }
    }

    /// From now on rings take requests.
    #[cold]
    fn begin_direct(&self) -> Option<(Arc<SharedRequests>, (HeldWords, usize, u32))> {
        let Device { endpoint, boards, .. } = &*self.device;
        let (own, object) = (&endpoint.own, Object::Srq(self.index));
        let mut poster = acquire_with(&own.within(SOON), object, || self.poster()).ok()?;
        let mut state = self.rings.lock();
        let begun = (|| {
            if let Some(shared) = &state.shared {
                return Some((shared.clone(), poster.requests()));
            }
            let (tail, requests) = (poster.tail(), poster.requests());
            let head = tail.wrapping_sub(poster.waiting(&self.device));
            let counts = (head, tail);
            let (shared, number) =
                SharedRequests::new(endpoint, boards, self.index, requests.clone(), counts)?;
            poster.open_shared(&self.device, &shared, self.init.pd);
            own.store(Word::Srq(self.index, SrqWord::Board), shared.board().pack());
            let is_limited = own.load(Word::Srq(self.index, SrqWord::Limit)) != 0;
            own.store(Word::Srq(self.index, SrqWord::Head), Head::open(head, number, is_limited).0);
            Some((shared, requests))
        })();
        own.unlock(object);
        let (shared, requests) = begun?;
        state.shared = Some(shared.clone());
        Some((shared, requests))
    }

    /// Rings take no more requests.
    pub(super) fn shut_direct(&self, poster: &mut ReceiveRing) {
        if let Some(before) = shut(&self.device.endpoint.own, self.index) {
            poster.close_shared(before);
            self.rings.lock().is_over = true;
        }
    }

    /// The ring of requests is about to be another one. Behind the queue's lock.
    pub(super) fn leave_ring(&self, poster: &mut ReceiveRing) -> Result<()> {
        self.shut_direct(poster);
        let Some(shared) = poster.shared().map(|promise| promise.shared().clone()) else { return Ok(()) };
        let mut left = None;
        with_locked(&self.rings.lock().readers, &mut || left = shared.leave(poster.tail()));
        left.ok_or(Error::NoMemory)?;
        poster.end_shared();
        Ok(())
    }

    /// Makes a place for the next request where messages that wait have what stood there.
    #[cold]
    pub(super) fn make_free(&self, poster: &ReceiveRing) -> Option<()> {
        let mut is_free = None;
        with_locked(&self.rings.lock().readers, &mut || is_free = poster.make_free());
        is_free
    }

    /// Posts a receive request that was refused, if that was only because messages wait in rings.
    #[cold]
    pub(super) fn post_after_all(
        &self,
        wr_id: u64,
        sges: &[Sge],
        why: Rejected,
    ) -> std::result::Result<(), Rejected> {
        let mut poster = self.poster();
        if why != Rejected::Full || poster.shared().is_none() {
            return Err(why);
        }
        self.make_free(&poster).ok_or(why)?;
        poster.post(&self.device, wr_id, sges)
    }

    /// The ring of the queue pair with this index was closed: a request that its sender took, and sent nothing
    /// for, is posted again.
    pub(in crate::device) fn settle_direct(&self, qp: u32, direct: &Direct, cq: &CompletionQueue) {
        if !self.device.is_mine() {
            return;
        }
        let Some(shared) = self.rings.lock().shared.clone() else { return };
        let lost = {
            let _poster = self.poster();
            let head = shared.close();
            let reader = cq.reader();
            shared.lost(qp, head, |request| reader.direct.has_message(direct, request))
        };
        let Some(words) = lost else { return };
        let elements = words.get(2..).unwrap_or(&[]).as_chunks::<2>().0;
        let count = words.get(1).map_or(0, |count| *count as usize).min(elements.len());
        let sge = |[addr, length_key]: &[u64; 2]| Sge {
            addr: *addr,
            length: *length_key as u32,
            lkey: (*length_key >> 32) as u32,
        };
        let mut sges = [Sge::default(); crate::rules::receive::MAX_SGE];
        for (to, from) in sges.iter_mut().zip(&elements[..count]) {
            *to = sge(from);
        }
        self.put_back(words.first().copied().unwrap_or(0), &sges[..count.min(sges.len())]);
    }

    /// The queue ends, and no queue pair has it.
    pub(super) fn end_direct(&self) {
        let shared = {
            let mut poster: QueueGuard<'_, ReceiveRing> = self.poster();
            poster.end_shared();
            let mut state = self.rings.lock();
            state.is_over = true;
            state.shared.take()
        };
        if let Some(shared) = shared {
            shared.give_back(&self.device.boards);
        }
    }
}
