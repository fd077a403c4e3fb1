//! What this process goes by in a folder that it shares with other users: what its queue pairs allow, which
//! receive requests are posted and which of its requests are to complete, in memory that nobody else writes.
//!
//! Everything in the segment is within reach of every member of the group. Who serves a peer's copy
//! ([`crate::shm::bounce`]) or places a payload here, is not to believe what stands there: memory is written
//! and read by RDMA only through a queue pair that its program set up for it, and without an RDMA right only
//! where a receive request is posted and not completed.
//!
//! What the program calls its requests (`wr_id`, often a pointer) stays here, too. In the segment a request
//! has a number that these permissions gave it, a completion brings it back, and one with a number that is not
//! under way is nobody's.
//!
//! Who speaks for which queue pair the kernel does not tell: a member can pretend to be the peer of a
//! connection, and do what that peer may do. In a user's own folder there are no such permissions; one branch
//! asks for them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use ironverbs_os::growth::{TryInsert, TryPush};

use crate::queues::shared::Object;
use crate::rules::completion::Completion;
use crate::rules::keys::{check_local, check_remote};
use crate::rules::qp::receives;
use crate::rules::receive::{Sge, Sges};
use crate::rules::verbs::{QpState, QpType, Status, WcFlags, WcOpcode};
use crate::shm::bounce::{Origin, Piece, Purpose};
use crate::shm::keys::Entry;

use super::attributes::{FAR, QpAttributes, SrqAttributes};
use super::number::place_of;
use crate::error::Result;

/// The permissions of a process.
#[derive(Debug)]
pub(crate) struct Permissions {
    slot: u16,
    queues: RwLock<Queues>,
    requests: Mutex<Requests>,
}

/// Queue pairs and shared receive queues by index, as their owner set them.
#[derive(Debug, Default)]
struct Queues {
    queue_pairs: HashMap<u32, QueuePair>,
    shared: HashMap<u32, SrqAttributes>,
}

#[derive(Debug, Clone, Copy)]
struct QueuePair {
    attributes: QpAttributes,
    state: QpState,
}

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// It was sent on the queue pair with this index.
    Sent(u32),
    /// It is posted to this queue.
    Posted(Object),
}

/// Requests that were posted and not completed, by the numbers that they have in the segment.
#[derive(Debug, Default)]
struct Requests {
    /// By the low half of the number.
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Place {
    /// The high half of the number: another one at each use.
    turn: u32,
    /// Copies that are under way to the request's memory.
    in_use: u32,
    /// Somebody waits for them to take the request out: no more begin.
    ends: bool,
    request: Option<Request>,
}

#[derive(Debug, Clone)]
struct Request {
    whose: Whose,
    wr_id: u64,
    sges: Sges,
}

impl Requests {
    fn add(&mut self, request: Request) -> Option<u64> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                // Room for the day that all are free, so that freeing never needs memory.
                self.places.try_reserve(1).ok()?;
                self.free.try_reserve(self.places.len() + 1).ok()?;
                self.places.push_reserved(Place::default());
                u32::try_from(self.places.len() - 1).ok()?
            }
        };
        let place = self.places.get_mut(at as usize)?;
        (place.turn, place.ends) = (place.turn.wrapping_add(1), false);
        place.request = Some(request);
        Some(u64::from(at) | u64::from(place.turn) << 32)
    }

    fn place(&mut self, number: u64) -> Option<&mut Place> {
        let place = self.places.get_mut(number as u32 as usize)?;
        (place.turn == (number >> 32) as u32 && place.request.is_some()).then_some(place)
    }

    fn get(&mut self, number: u64) -> Option<&Request> {
        self.place(number)?.request.as_ref()
    }
}

impl Queues {
    /// The protection domain and the queue of the requests that a message to this queue pair is received by.
    /// `srq_num` is what a message to an XRC target names.
    fn receiver(&self, index: u32, slot: u16, srq_num: u32) -> Option<(u32, Object)> {
        let attributes = &self.queue_pairs.get(&index)?.attributes;
        match (attributes.qp_type, attributes.srq) {
            (QpType::XrcSend, _) => None,
            (QpType::XrcRecv, _) => {
                let (_, srq) = place_of(srq_num).filter(|place| place.0 == slot)?;
                let SrqAttributes { pd, xrc } = self.shared.get(&srq)?;
                xrc.filter(|(_, xrcd)| *xrcd == attributes.xrcd).map(|_| (*pd, Object::Srq(srq)))
            }
            (_, Some(srq)) => Some((attributes.receive_pd, Object::Srq(srq))),
            (_, None) => Some((attributes.receive_pd, Object::Qp(index))),
        }
    }

    /// As [`Queues::receiver`], for a request of this queue.
    fn receiver_by(&self, index: u32, slot: u16, queue: Object) -> Option<u32> {
        let srq_num = match queue {
            Object::Srq(srq) => super::number::number(slot, srq),
            _ => 0,
        };
        self.receiver(index, slot, srq_num).filter(|found| found.1 == queue).map(|found| found.0)
    }
}

/// A payload's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) pd: u32,
    pub(crate) sge: Sge,
}

impl Permissions {
    /// Empty ones, for the process in this slot.
    pub(crate) fn new(slot: u16) -> Self {
        Permissions { slot, queues: RwLock::default(), requests: Mutex::default() }
    }

    fn queues(&self) -> RwLockReadGuard<'_, Queues> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Queues) -> T) -> T {
        change(&mut self.queues.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue pair was made, in RESET.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn add_queue_pair(&self, index: u32, attributes: QpAttributes) -> Result<()> {
        let made = QueuePair { attributes, state: QpState::Reset };
        self.change(|queues| queues.queue_pairs.try_set(index, made))?;
        Ok(())
    }

    /// A queue pair is as its program set it; without a state, the state is as it was. Copies that it allowed
    /// before are over when this returns.
    pub(crate) fn set_queue_pair(&self, index: u32, attributes: QpAttributes, state: Option<QpState>) {
        self.change(|queues| {
            if let Some(qp) = queues.queue_pairs.get_mut(&index) {
                *qp = QueuePair { attributes, state: state.unwrap_or(qp.state) };
            }
        });
    }

    /// The send queue, or whoever broke the queue pair, took it there.
    pub(crate) fn set_state(&self, index: u32, state: QpState) {
        self.change(|queues| {
            if let Some(qp) = queues.queue_pairs.get_mut(&index) {
                qp.state = state;
            }
        });
    }

    /// A shared receive queue was made.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn add_shared(&self, index: u32, attributes: SrqAttributes) -> Result<()> {
        self.change(|queues| queues.shared.try_set(index, attributes))?;
        Ok(())
    }

    /// The queue is gone, and with it its requests.
    pub(crate) fn remove(&self, object: Object) {
        self.change(|queues| match object {
            Object::Qp(qp) => drop(queues.queue_pairs.remove(&qp)),
            Object::Srq(srq) => drop(queues.shared.remove(&srq)),
            Object::Cq(_) => {}
        });
        self.clear(object);
    }

    /// The queue is empty: what was posted there, and for a queue pair what was sent, completes no more.
    pub(crate) fn clear(&self, object: Object) {
        let is_its = |whose: Whose| match whose {
            Whose::Posted(queue) => queue == object,
            Whose::Sent(qp) => Object::Qp(qp) == object,
        };
        loop {
            let mut requests = self.requests();
            let Requests { places, free } = &mut *requests;
            let mut waits = false;
            for (at, place) in (0..).zip(places) {
                if place.request.as_ref().is_some_and(|request| is_its(request.whose)) {
                    place.ends = true;
                    waits |= place.in_use > 0;
                    if place.in_use == 0 {
                        place.request = None;
                        free.push_reserved(at);
                    }
                }
            }
            drop(requests);
            if !waits {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// The number in the segment of a request that is about to be posted to a queue; `None` without memory
    /// for it.
    pub(crate) fn posted(&self, queue: Object, wr_id: u64, sges: &[Sge]) -> Option<u64> {
        let sges = Sges::try_of(sges).ok()?;
        self.requests().add(Request { whose: Whose::Posted(queue), wr_id, sges })
    }

    /// The elements of a request of this queue.
    pub(crate) fn elements(&self, queue: Object, number: u64) -> Option<Sges> {
        let mut requests = self.requests();
        requests.get(number).filter(|request| request.whose == Whose::Posted(queue)).map(|r| r.sges.clone())
    }

    /// The number in the segment of a request of this queue pair that is about to complete; `None` without
    /// memory for it.
    pub(crate) fn sent(&self, qp_num: u32, wr_id: u64) -> Option<u64> {
        let (_, index) = place_of(qp_num)?;
        self.requests().add(Request { whose: Whose::Sent(index), wr_id, sges: Sges::default() })
    }

    /// Takes a request out, when it is one of those. Whoever copies to its memory is done first.
    fn take(&self, number: u64, is_one: impl Fn(Whose) -> bool) -> Option<Request> {
        loop {
            let mut requests = self.requests();
            let place = requests.place(number)?;
            if !is_one(place.request.as_ref()?.whose) {
                return None;
            }
            place.ends = true;
            if place.in_use == 0 {
                let taken = place.request.take();
                requests.free.push_reserved(number as u32);
                return taken;
            }
            drop(requests);
            std::thread::yield_now();
        }
    }

    /// Checks a completion that was published with `bytes` of payload beside it, and gives it the number that
    /// the program gave its request; where the payload goes. `None` when no such request is under way: nobody
    /// is to see it.
    pub(crate) fn completed(&self, completion: &mut Completion, bytes: usize) -> Option<Option<Placement>> {
        let (_, index) = place_of(completion.qp_num).filter(|place| place.0 == self.slot)?;
        if completion.opcode < WcOpcode::Recv {
            let request = self.take(completion.wr_id, |whose| whose == Whose::Sent(index))?;
            completion.wr_id = request.wr_id;
            return Some(None);
        }
        let queues = self.queues();
        let receiver = |whose| match whose {
            Whose::Posted(queue) => queues.receiver_by(index, self.slot, queue).map(|pd| (queue, pd)),
            Whose::Sent(_) => None,
        };
        let request = self.take(completion.wr_id, |whose| receiver(whose).is_some())?;
        let (_, pd) = receiver(request.whose)?;
        drop(queues);
        completion.wr_id = request.wr_id;
        let room: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
        let is_send = completion.opcode == WcOpcode::Recv;
        if is_send && completion.status == Status::Success && u64::from(completion.byte_len) > room {
            let (status, flags) = (Status::LocLenErr, WcFlags::NONE);
            *completion = Completion { status, flags, byte_len: 0, ..*completion };
        }
        let first = request.sges.iter().find(|sge| sge.length > 0).copied();
        let placement = first.filter(|sge| bytes > 0 && bytes <= sge.length as usize);
        Some(placement.map(|sge| Placement { pd, sge }))
    }

    /// A completion is gone that nobody will see.
    pub(crate) fn forget(&self, completion: &Completion) {
        let _ = self.completed(&mut { *completion }, 0);
    }

    /// Runs `access` when the memory is open to this purpose, and answers whether it did. What the answer
    /// rests on stays as it is meanwhile. `entry` is that of the piece's key, by private permissions.
    pub(crate) fn with(
        &self,
        purpose: Purpose,
        origin: &Origin,
        piece: &Piece,
        entry: &Entry,
        access: &mut dyn FnMut(),
    ) -> bool {
        let queues = self.queues();
        let Some(queue) = self.opens(&queues, purpose, origin, piece, entry) else { return false };
        let Some(queue) = queue else {
            access();
            return true;
        };
        let mut requests = self.requests();
        let addr = piece.addr.wrapping_sub(entry.base).wrapping_add(entry.key.start);
        let covers = |sge: &Sge| {
            let at = addr.checked_sub(sge.addr);
            let inside =
                at.is_some_and(|at| at <= sge.length.into() && piece.len <= u64::from(sge.length) - at);
            sge.lkey == piece.key && inside
        };
        let Some(place) = requests.place(origin.wr_id).filter(|place| !place.ends) else { return false };
        let posted = place.request.as_ref().filter(|request| request.whose == Whose::Posted(queue));
        if !posted.is_some_and(|request| request.sges.iter().any(covers)) {
            return false;
        }
        place.in_use += 1;
        drop(requests);
        access();
        if let Some(place) = self.requests().place(origin.wr_id) {
            place.in_use -= 1;
        }
        true
    }

    /// Whether the queue pair and the key open the memory; then, for a receive, the queue that the request
    /// must be of.
    fn opens(
        &self,
        queues: &Queues,
        purpose: Purpose,
        origin: &Origin,
        piece: &Piece,
        entry: &Entry,
    ) -> Option<Option<Object>> {
        let (_, index) = place_of(origin.qp_num).filter(|place| place.0 == self.slot)?;
        let QueuePair { attributes, state } = queues.queue_pairs.get(&index)?;
        let qp_type = attributes.qp_type;
        let is_peer = origin.src_qp == attributes.dest_qp_num && origin.src_qp != FAR;
        let connected = qp_type == QpType::Ud || is_peer;
        if !receives(*state) || !connected {
            return None;
        }
        let (receive_pd, queue) = queues.receiver(index, self.slot, origin.srq_num)?;
        let addr = piece.addr.wrapping_sub(entry.base).wrapping_add(entry.key.start);
        if purpose == Purpose::Receive {
            let length = u32::try_from(piece.len).ok()?;
            check_local(Some(&entry.key), receive_pd, addr, length, true).ok()?;
            return Some(Some(queue));
        }
        let carries = match qp_type {
            QpType::Rc | QpType::XrcRecv => true,
            QpType::Uc => purpose == Purpose::Write,
            QpType::Ud | QpType::XrcSend => false,
        };
        let responds = purpose == Purpose::Write || attributes.max_dest_rd_atomic > 0;
        if !carries || !responds || !attributes.access.has(purpose.access()) {
            return None;
        }
        let pd = if qp_type == QpType::XrcRecv { receive_pd } else { attributes.pd };
        check_remote(Some(&entry.key), pd, origin.qp_num, addr, piece.len, purpose.access()).ok()?;
        Some(None)
    }
}
