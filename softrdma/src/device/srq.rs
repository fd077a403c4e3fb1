//! Shared receive queues.

mod direct;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ironverbs_os::growth::try_arc;
use queue_lock::{QueueGuard, QueueLock};

use crate::queues::direct::shared::{hold, release};
use crate::queues::shared::{Memory, Object, SrqWord, Word, slot};
use crate::queues::transport::Transport;
use crate::rules::receive::Sge;
use crate::shm::lock::Owner;
use crate::shm::objects::Shape;

use super::receive::{ReceiveRing, ring};
use super::stuck::acquire_with;
use super::{CompletionQueue, Device, Error, EventQueue, LIMITS, Rejected, Result, XrcDomain, busy};
use crate::carrier::near::attributes::SrqAttributes;
use crate::carrier::near::number::MAX_NUMBERED;

/// Kind of a shared receive queue (`enum ibv_srq_type`).
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SrqType {
    /// For queue pairs that were made with it.
    Basic = 0,
    /// For XRC targets, by number.
    Xrc = 1,
}

/// What a shared receive queue is made of (`struct ibv_srq_init_attr_ex`).
#[derive(Debug, Clone)]
pub struct SrqInit {
    /// Protection domain of its requests.
    pub pd: u32,
    /// Kind.
    pub srq_type: SrqType,
    /// Requests that it holds.
    pub max_wr: u32,
    /// Elements of a request.
    pub max_sge: u32,
    /// XRC: the domain.
    pub xrcd: Option<Arc<XrcDomain>>,
    /// XRC: where its completions go.
    pub cq: Option<Arc<CompletionQueue>>,
    /// Where its asynchronous events go.
    pub events: Arc<EventQueue>,
    /// Comes back with its events.
    pub cookie: usize,
}

/// A shared receive queue (`struct ibv_srq`).
#[derive(Debug)]
pub struct SharedReceiveQueue {
    device: Arc<Device>,
    index: u32,
    init: SrqInit,
    users: AtomicU32,
    ended: AtomicBool,
    poster: QueueLock<ReceiveRing>,
    /// Direct rings whose messages take requests.
    rings: direct::Rings,
}

impl SharedReceiveQueue {
    /// A new queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sizes out of range or an XRC queue without domain or completion queue,
    /// [`Error::NoMemory`].
    pub fn new(device: &Arc<Device>, init: &SrqInit) -> Result<Arc<Self>> {
        if init.max_wr == 0 || init.max_wr > LIMITS.max_srq_wr {
            return Err(Error::Invalid("number of requests"));
        }
        if init.max_sge > LIMITS.max_sge {
            return Err(Error::Invalid("number of elements"));
        }
        let xrc = match (init.srq_type, &init.cq, &init.xrcd) {
            (SrqType::Basic, _, _) => None,
            (SrqType::Xrc, Some(cq), Some(xrcd)) => Some((cq.index(), xrcd.number())),
            (SrqType::Xrc, _, _) => return Err(Error::Invalid("XRC without domain or completion queue")),
        };
        if let (Some(_), Some(cq)) = (xrc, &init.cq) {
            cq.serve(init.pd)?;
        }
        device.hold_pd(init.pd)?;
        let made = Self::create(device, init, xrc).inspect_err(|_| device.release_pd(init.pd))?;
        if xrc.is_some() {
            made.init.cq.iter().for_each(|cq| cq.hold(init.max_wr));
            made.init.xrcd.iter().for_each(|xrcd| xrcd.hold());
        }
        // Where this fails, everything ends with what was made.
        let made = try_arc(made)?;
        device.deferred.make_room(Object::Srq(made.index))?;
        super::remember(&device.shared_queues, made.index, &made)?;
        device.subscribers.add(Object::Srq(made.index), &init.events, init.cookie)?;
        Ok(made)
    }

    fn create(device: &Arc<Device>, init: &SrqInit, xrc: Option<(u32, u32)>) -> Result<Self> {
        let (capacity, receive_words) = ring(init.max_wr, init.max_sge)?;
        let shape = Shape { capacity, receive_words, bell: None, alert: Some(init.events.bell()) };
        device.finish_deferred();
        let object = device.endpoint.objects.create(Object::Srq(0), shape)?;
        let poster = ReceiveRing::new(device, object, 0, init.max_wr, init.max_sge);
        let attributes = SrqAttributes { pd: init.pd, xrc };
        let add = |index| {
            device
                .endpoint
                .permissions
                .iter()
                .try_for_each(|permissions| permissions.add_shared(index, attributes))
        };
        match (object, poster) {
            (Object::Srq(index), Ok(poster)) if index < MAX_NUMBERED && add(index).is_ok() => {
                attributes.store(&device.endpoint.own, index);
                Ok(Self {
                    device: device.clone(),
                    index,
                    init: init.clone(),
                    users: 0.into(),
                    ended: false.into(),
                    poster: QueueLock::new(poster),
                    rings: direct::Rings::default(),
                })
            }
            _ => {
                let _ = device.endpoint.objects.destroy(object);
                Err(Error::NoMemory)
            }
        }
    }

    /// Its index in the segment.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Its protection domain.
    pub(super) fn pd(&self) -> u32 {
        self.init.pd
    }

    /// Its kind.
    pub(super) fn srq_type(&self) -> SrqType {
        self.init.srq_type
    }

    /// XRC: index of its completion queue.
    pub(super) fn cq(&self) -> Option<u32> {
        self.init.cq.as_ref().filter(|_| self.init.srq_type == SrqType::Xrc).map(|cq| cq.index())
    }

    /// Its number (`ibv_get_srq_num`).
    #[must_use]
    pub fn number(&self) -> u32 {
        self.device.endpoint.number(self.index)
    }

    /// Requests that it holds: at least as many as were asked for.
    #[must_use]
    pub fn max_wr(&self) -> u32 {
        self.poster().max_wr()
    }

    /// Elements of a request: at least as many as were asked for.
    #[must_use]
    pub fn max_sge(&self) -> u32 {
        self.poster().max_sge()
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// [`Rejected::Full`], [`Rejected::TooManySges`].
    pub fn post(&self, wr_id: u64, sges: &[Sge]) -> std::result::Result<(), Rejected> {
        let posted = self.poster().post(&self.device, wr_id, sges);
        posted.or_else(|why| self.post_after_all(wr_id, sges, why))
    }

    /// Puts back a request that a queue pair held. Others may have been posted in its place: the ring grows
    /// then.
    pub(super) fn put_back(&self, wr_id: u64, sges: &[Sge]) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let mut poster = self.poster();
        let capacity = poster.capacity();
        if !poster.has_room(&self.device, capacity) {
            drop(poster);
            let (own, object) = (&self.device.endpoint.own, Object::Srq(self.index));
            // Without its lock, or memory for it, the request is lost.
            let Ok(wider) = acquire_with(own, object, || self.poster()) else { return };
            poster = wider;
            let (max_wr, capacity) = (poster.max_wr(), poster.capacity());
            if !poster.has_room(&self.device, capacity) {
                let _ = self.change_ring(&mut poster, max_wr, 2 * capacity);
            }
            own.unlock(object);
        }
        if poster.put_back(&self.device, wr_id, sges).is_none() && self.make_free(&poster).is_some() {
            let _ = poster.put_back(&self.device, wr_id, sges);
        }
    }

    /// Arms the limit event (`IBV_SRQ_LIMIT`), changes the size (`IBV_SRQ_MAX_WR`), or both.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit above the size, or a size out of range or below what is posted;
    /// [`Error::NoMemory`].
    pub fn modify(&self, limit: Option<u32>, max_wr: Option<u32>) -> Result<()> {
        if max_wr.is_some_and(|max_wr| max_wr == 0 || max_wr > LIMITS.max_srq_wr) {
            return Err(Error::Invalid("number of requests"));
        }
        let limit_word = Word::Srq(self.index, SrqWord::Limit);
        let own = &self.device.endpoint.own;
        let check = |poster: &ReceiveRing| {
            let armed = limit.map_or_else(|| own.load(limit_word), u64::from);
            let is_above = armed > u64::from(max_wr.unwrap_or(poster.max_wr()));
            if is_above { Err(Error::Invalid("limit above the size")) } else { Ok(()) }
        };
        check(&self.poster())?;
        let object = Object::Srq(self.index);
        let mut poster = acquire_with(own, object, || self.poster()).map_err(busy)?;
        let changed =
            check(&poster).and_then(|()| max_wr.map_or(Ok(()), |max_wr| self.resize(&mut poster, max_wr)));
        if let (Ok(()), Some(limit)) = (changed, limit) {
            // What is taken is looked at from then on.
            hold(own, self.index);
            own.store(limit_word, u64::from(limit));
            release(own, self.index);
        }
        own.unlock(object);
        changed
    }

    /// Changes the size, behind the queue's lock.
    fn resize(&self, poster: &mut ReceiveRing, max_wr: u32) -> Result<()> {
        if max_wr < poster.waiting(&self.device) {
            return Err(Error::Invalid("fewer requests than are posted"));
        }
        let (capacity, _) = ring(max_wr, poster.max_sge())?;
        self.change_ring(poster, max_wr, capacity)
    }

    /// Moves what is posted to another ring, behind the queue's lock.
    fn change_ring(&self, poster: &mut ReceiveRing, max_wr: u32, capacity: u32) -> Result<()> {
        let (_, words) = ring(max_wr, poster.max_sge())?;
        self.leave_ring(poster)?;
        let waiting = poster.waiting(&self.device);
        let (object, tail, stride) = (Object::Srq(self.index), poster.tail(), poster.stride());
        let from = &*poster;
        self.device.endpoint.objects.resize(object, capacity, words, |memory, ring| {
            for count in (1..=waiting).map(|n| tail.wrapping_sub(n)) {
                let to = ring + stride * u64::from(slot(count, capacity));
                super::completion::copy(memory, from.entry(count), to, stride);
            }
        })?;
        *poster = ReceiveRing::new(&self.device, object, tail, max_wr, poster.max_sge())?
            .with_capacity(&self.device, capacity)?;
        Ok(())
    }

    /// Moves the queue away from a holder of its lock that does not go on; whether it is elsewhere now.
    #[cold]
    pub(super) fn relocate(&self, holder: Owner) -> bool {
        // Whoever posts just now, perhaps the caller, is to find the queue where it is.
        let Some(mut poster) = self.poster.try_lock() else { return false };
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        let (endpoint, object) = (&self.device.endpoint, Object::Srq(self.index));
        self.shut_direct(&mut poster);
        let is_moved = endpoint.objects.relocate(&endpoint.own, object, holder, poster.tail()) == Ok(true);
        if is_moved {
            let _ = poster.follow(&self.device);
        }
        is_moved
    }

    /// The limit as it stands: 0 once its event was raised.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.device.endpoint.own.load(Word::Srq(self.index, SrqWord::Limit)) as u32
    }

    /// Ends the queue.
    ///
    /// # Errors
    /// [`Error::Busy`] while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy);
        }
        if !self.ended.swap(true, Ordering::AcqRel) {
            let object = Object::Srq(self.index);
            self.device.unsubscribe(object, &self.init.events, self.init.cookie);
            self.end_direct();
            if let Some(permissions) = &self.device.endpoint.permissions {
                permissions.remove(object);
            }
            self.device.end(object);
            self.device.release_pd(self.init.pd);
            if self.init.srq_type == SrqType::Xrc {
                self.init.cq.iter().for_each(|cq| cq.release(self.init.max_wr));
                self.init.xrcd.iter().for_each(|xrcd| xrcd.release());
            }
        }
        Ok(())
    }

    /// One more queue pair receives from here.
    pub(super) fn hold(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one [`SharedReceiveQueue::hold`].
    pub(super) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    fn poster(&self) -> QueueGuard<'_, ReceiveRing> {
        self.poster.lock()
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        self.users.store(0, Ordering::Release);
        let _ = self.destroy();
        super::forget(&self.device.shared_queues, self.index, self);
    }
}
