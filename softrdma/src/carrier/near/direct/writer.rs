//! The initiator's side of a direct ring.
//!
//! The first message of a connection goes another way, and finds the ring behind the queue pair's lock
//! ([`enter`]). From then on a message needs no lock. One that does not go this way says first, behind the
//! lock, how many requests were taken so; [`left`] notes that it is known afterwards where it stands.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::carrier::near::attributes::Place;
use crate::carrier::near::bytes::{self, Gathered};
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::near::peers::Remote;
use crate::carrier::near::target::Target;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::Sent;
use crate::carrier::wr::{Data, PlainSend};
use crate::queues::completion::{Armed, MAX_STAGED, Notify};
use crate::queues::direct::{DirectWord, Doorbell, MAX_DIRECT, MAX_POOLED, Message, Send, Sender, Way};
use crate::queues::shared::{CqWord, Events, Memory, Object, QpWord, Word};
use crate::queues::transaction::LockError;
use crate::queues::transaction::{Machine as _, Progress};
use crate::queues::transport::{Operation, Transport, acquire};
use crate::rules::keys::check_local;
use crate::rules::verbs::{Access, Event, Opcode, QpState, QpType, SendFlags, Status};
use crate::shm::objects::{DirectRing, HeldRing, Lane, View};
use crate::shm::segment::Segment;

use super::LOOKS;
use super::pooled::{PoolWriter, Pooled};
use super::prepared::Prepared;
use super::shared_writer::SharedWriter;

/// How often a completion queue is looked for that was moved just then.
const TRIES: u32 = 3;

/// A peer's ring that a queue pair writes.
#[derive(Debug)]
pub(crate) struct RingWriter {
    place: Place,
    pub(super) ring: HeldRing,
    pub(super) way: Way,
    /// The shared receive queue that it leads into.
    pub(super) shared: Option<SharedWriter>,
    /// The key of the memory that was sent last.
    pub(super) key_cache: KeyCache,
    /// How many slots were taken when room was looked for in vain: its owner does not poll.
    in_vain: Option<u32>,
    segment: Arc<Segment>,
    /// The pool for longer messages.
    pub(super) pool: Option<Box<PoolWriter>>,
    /// What the last message went by, for the next; none of a ring into a shared receive queue.
    pub(super) prepared: Option<Prepared>,
}

impl RingWriter {
    /// Goes on in the ring that the target tells of. Behind its lock.
    #[cold]
    fn find(endpoint: &Endpoint, target: &Target, qp_num: u32, head: u32) -> Option<Self> {
        let attributes = target.attributes.filter(|known| known.qp_type == QpType::Rc)?;
        let place = attributes.direct.filter(|_| attributes.dest_qp_num == qp_num)?;
        let (host, segment) = (&target.remote.host, endpoint.segment.clone());
        if !segment.is_mine() {
            return None;
        }
        let hold = || {
            let words = host.hold_ring(place.at, place.slots)?;
            let word = Word::Direct { qp: target.qp, word: DirectWord::Doorbell as u32 };
            let doorbell = Doorbell::unpack(DirectRing::of(&words).load(word))?;
            Some((words, host.hold_doorbell(doorbell)?))
        };
        let (words, doorbell) = hold().or_else(|| {
            host.refresh();
            hold()
        })?;
        let shared = match attributes.srq {
            Some(srq) => Some(SharedWriter::find(host, &host.with(&target.held), srq, target.qp)?),
            None => None,
        };
        let held = HeldRing::new(words, doorbell)?;
        let ring = DirectRing::with(&held);
        let mut sender = Sender::attach(&ring, target.qp, place.slots, head)?;
        if endpoint.has_barriers {
            sender.has_barriers();
        }
        if !ring.sign(segment.owner(), &*segment) {
            return None;
        }
        let (mut way, key_cache) = (Way::new(sender), KeyCache::default());
        let (in_vain, prepared) = (None, None);
        // What comes next is not to be there before what waits in it. Of a shared receive queue nobody else
        // than who took them knows the requests.
        let taken_over = shared.is_none().then_some(place.slots);
        let pool = PoolWriter::find(host, &ring, target.qp, taken_over);
        if pool.is_some() {
            way.has_pool();
        }
        Some(Self { place, ring: held, way, shared, key_cache, in_vain, segment, pool, prepared })
    }

    /// Whether [`send_prepared`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.is_some() || self.shared.as_ref().is_some_and(SharedWriter::is_prepared)
    }

    /// [`Way::has_quick_room`]
    #[inline(always)]
    pub(crate) fn has_quick_room(&self, bytes: u32) -> bool {
        self.way.has_quick_room(bytes)
    }

    /// Whether it leads into a shared receive queue.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether it is the ring that the target tells of, and takes messages. Behind the target's lock.
    fn is_of(&self, target: &Target) -> bool {
        let place = target.attributes.and_then(|attributes| attributes.direct);
        place == Some(self.place) && self.way.is_open(&DirectRing::with(&self.ring))
    }
}

/// Waits for room in a ring that is full, as long as its owner takes messages: all that follow would go another
/// way, too, and cost both sides more. `in_vain`: as in [`RingWriter`].
#[inline(never)]
fn await_room(
    sender: &mut Sender,
    ring: &DirectRing<'_>,
    bytes: u32,
    in_vain: &mut Option<u32>,
) -> Option<u32> {
    let taken = sender.full_at(bytes).filter(|taken| *in_vain != Some(*taken))?;
    for _ in 0..LOOKS {
        spin_loop();
        if let Some(key) = sender.has_room(ring, bytes) {
            return Some(key);
        }
    }
    *in_vain = Some(taken);
    None
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        if self.segment.is_mine() {
            DirectRing::with(&self.ring).leave(self.segment.owner());
        }
    }
}

/// Whether what goes another way need not [say](enter) how many requests were taken: [`Way::is_settled`], or
/// the target has no ring, and nobody took one without its lock.
#[inline(always)]
pub(crate) fn is_settled(writer: &Option<RingWriter>, target: &Target, takes: bool) -> bool {
    match writer {
        Some(writer) => writer.way.is_settled(takes),
        None => target.attributes.is_none_or(|attributes| attributes.direct.is_none()),
    }
}

/// Before messages go another way, behind the lock of the queue pair: says how many requests were taken.
#[inline(never)]
pub(crate) fn enter(
    writer: &mut Option<RingWriter>,
    endpoint: &Endpoint,
    target: &Target,
    qp_num: u32,
    memory: &impl Memory,
) {
    if writer.as_ref().is_some_and(|writer| !writer.is_of(target)) {
        // Its owner closed it, and stored how far it goes.
        *writer = None;
    }
    if writer.is_none() && target.attributes.is_some_and(|attributes| attributes.direct.is_some()) {
        let head = memory.load(Word::Qp(target.qp, QpWord::Head)) as u32;
        *writer = RingWriter::find(endpoint, target, qp_num, head);
    }
    if let Some(writer) = writer {
        writer.way.enter(memory);
    }
}

/// After messages went another way, and the lock was given back.
#[inline]
pub(crate) fn left(writer: &mut Option<RingWriter>) {
    if let Some(writer) = writer {
        writer.way.left();
    }
}

/// Before a message goes another way, behind the lock of the queue pair, and is moved at once: moves older ones
/// that wait in the pool, whose requests are of this domain. `view`: of the target.
///
/// # Errors
/// As those of [`PoolWriter::move_all`].
#[inline(always)]
pub(crate) fn move_older(
    writer: &mut Option<RingWriter>,
    endpoint: &Endpoint,
    target: &Target,
    view: &View<'_>,
    pd: u32,
) -> Result<(), LockError> {
    let Some(pool) = writer.as_mut().and_then(|writer| writer.pool.as_mut()) else { return Ok(()) };
    let moved = pool.move_all(endpoint, &target.remote, view, pd);
    if let Some(solicited) = pool.was_moved() {
        wake_who_polled(target, view, solicited);
    }
    moved
}

/// Wakes the owner of messages that were moved here, if it polled meanwhile, in vain, and went to sleep.
#[cold]
fn wake_who_polled(target: &Target, view: &View<'_>, solicited: bool) {
    let Some(cq) = target.queues.map(|queues| queues.cq) else { return };
    // It arms the queue and then looks for messages.
    fence(Ordering::SeqCst);
    let armed = view.load(Word::Cq(cq, CqWord::Armed));
    if Armed::rings(armed, Status::Success, solicited) || !view.is_current(Object::Cq(cq)) {
        // The own completions of what it is woken for were there before.
        wake(target, solicited, &CompletionOrder::new(None));
    }
}

/// Whether messages wait in the pool that [`move_older`] moves.
#[inline(always)]
pub(crate) fn has_older(writer: &mut Option<RingWriter>) -> bool {
    writer.as_mut().and_then(|writer| writer.pool.as_mut()).is_some_and(|pool| pool.has_waiting())
}

/// Rings where that is asked for, with the own completion queue kept from then on.
fn notify(view: &View<'_>, mut notify: Notify, order: &CompletionOrder<'_>) -> Result<(), LockError> {
    let mut operation = Operation::new(view);
    loop {
        let progress = notify.step(view);
        match progress {
            Progress::Done(()) => return Ok(()),
            Progress::Bell(_) => order.keep(),
            // Others may wait for the own queue who have this one.
            Progress::Lock(_) => order.give_back(),
            _ => {}
        }
        if !operation.proceed(&progress)? {
            notify.unheard();
        }
    }
}

/// Sends a message by the direct ring, if it goes that way. Its bytes are gathered in `room`.
#[inline]
pub(crate) fn send(
    ring_writer: &mut Option<RingWriter>,
    out: &Outgoing<'_, '_>,
    target: Option<&Target>,
    room: &mut [u8; MAX_STAGED],
) -> Sent {
    match ring_writer {
        Some(RingWriter { shared: None, .. }) => send_to::<false>(ring_writer, out, target, room),
        Some(_) => send_to_shared(ring_writer, out, target, room),
        None => Sent::NotTaken,
    }
}

#[inline(never)]
fn send_to_shared(
    ring_writer: &mut Option<RingWriter>,
    out: &Outgoing<'_, '_>,
    target: Option<&Target>,
    room: &mut [u8; MAX_STAGED],
) -> Sent {
    send_to::<true>(ring_writer, out, target, room)
}

/// The state of a queue pair that receives, and in which no message raises an event, as the first one does in
/// RTR.
#[inline(always)]
fn receiving(view: &View<'_>, qp: u32) -> Option<u64> {
    let state = view.load(Word::Qp(qp, QpWord::State));
    let was_raised = || Events(view.load(Word::Qp(qp, QpWord::Events))).was_raised(Event::CommEst);
    let is_ready = state == QpState::Rts as u64
        || state == QpState::Sqd as u64
        || (state == QpState::Rtr as u64 && was_raised());
    is_ready.then_some(state)
}

/// As [`send`], by a ring that leads into a shared receive queue or not.
#[inline(always)]
fn send_to<const SHARED: bool>(
    ring_writer: &mut Option<RingWriter>,
    out: &Outgoing<'_, '_>,
    target: Option<&Target>,
    room: &mut [u8; MAX_STAGED],
) -> Sent {
    let Outgoing { endpoint, from, wr, request, .. } = *out;
    let length = request.length;
    let Some(writer) = ring_writer else { return Sent::NotTaken };
    let imm = (wr.opcode == Opcode::SendWithImm).then_some(wr.imm_or_key);
    let Some(target) = target else { return Sent::NotTaken };
    let is_long = length > MAX_DIRECT as u64;
    if is_long && (length > MAX_POOLED.into() || !find_pool(writer, target)) {
        return Sent::NotTaken;
    }
    let ring = DirectRing::with(&writer.ring);
    let (Some(queues), Some(attributes)) = (&target.queues, &target.attributes) else {
        return Sent::NotTaken;
    };
    let view = target.remote.host.with(&target.held);
    let Some(sender) = writer.way.sender(&view) else { return Sent::NotTaken };
    let Some(state) = receiving(&view, target.qp) else { return Sent::NotTaken };
    let shared = if SHARED { writer.shared.as_mut() } else { None };
    let key = if let Some(shared) = shared {
        let in_vain = (!target.remote.is_own()).then_some(&mut writer.in_vain);
        shared.await_room(sender, &ring, (length as u32, imm), in_vain)
    } else {
        match sender.has_room(&ring, length as u32) {
            None if !target.remote.is_own() => await_room(sender, &ring, length as u32, &mut writer.in_vain),
            key => key,
        }
    };
    let Some(key) = key else {
        if !sender.is_open(&ring) {
            // Perhaps there is another by now.
            *ring_writer = None;
        }
        return Sent::NotTaken;
    };
    if !target.remote.lives() {
        return Sent::NotTaken;
    }
    let (solicited, lane) = (wr.flags.has(SendFlags::SOLICITED), Lane::alone(&view, queues.cq));
    let is_armed = || match &lane {
        Some(lane) if lane.is_current(Object::Cq(queues.cq)) => {
            Armed::rings(lane.load(Word::Cq(queues.cq, CqWord::Armed)), Status::Success, solicited)
        }
        _ => true,
    };
    // For who sleeps the bell is rung before the message is there, as the other way does: a death in
    // between leaves nothing that nobody is told of.
    if is_armed() {
        return Sent::NotTaken;
    }
    if length > 0 {
        let key = bytes::look_again(endpoint, &target.remote, key, &mut target.seen.borrow_mut());
        let is_good = key.is_ok_and(|key| {
            check_local(Some(&key), attributes.receive_pd, key.start, 0, true).is_ok()
                && !key.access.has(Access::ON_DEMAND)
        });
        if !is_good {
            return Sent::NotTaken;
        }
    }
    // The own process's keys are looked up by another table, each time.
    let is_own = target.remote.is_own();
    let can_prepare = length > 0 && !is_own;
    let prepared = match &mut writer.shared {
        Some(shared) if SHARED => &mut shared.prepared,
        _ => &mut writer.prepared,
    };
    if can_prepare && !prepared.as_ref().is_some_and(|prepared| prepared.holds(key)) {
        *prepared = Prepared::new(target, &view, queues.cq, key, state);
        sender.forget_room();
    }
    if is_long {
        return match send_pooled::<SHARED>(writer, out, !is_own) {
            Some(true) => Sent::Done(is_armed()),
            Some(false) => Sent::Unclear,
            None => Sent::NotTaken,
        };
    }
    let gathered = Gathered::new(room);
    let bytes = match wr.data {
        Data::Sges([sge]) if length > 0 => gathered.fill_again(endpoint, &mut writer.key_cache, from.pd, sge),
        _ => gathered.fill(endpoint, wr, length, Some(from.pd)),
    };
    let Some(bytes) = bytes else { return Sent::NotTaken };
    let message = Message { bytes, imm };
    let is_there = match &writer.shared {
        Some(shared) if SHARED => match shared.send(sender, &ring, &message) {
            Some(is_there) => is_there,
            None => return Sent::NotTaken,
        },
        _ => matches!(Send::new(sender, message).step(&ring), Progress::Done(true)),
    };
    if is_there { Sent::Done(is_armed()) } else { Sent::Unclear }
}

/// The part of [`send`] for a message whose payload goes to the pool: as [`write_pooled`].
#[inline(never)]
fn send_pooled<const SHARED: bool>(
    writer: &mut RingWriter,
    out: &Outgoing<'_, '_>,
    waits: bool,
) -> Option<bool> {
    let (Outgoing { endpoint, from, wr, request, .. }, pd) = (*out, out.from.pd);
    let RingWriter { ring, way, pool, key_cache, shared, .. } = writer;
    let (ring, sender, pool) = (DirectRing::with(ring), way.known_sender()?, pool.as_mut()?);
    let message = Pooled {
        bytes: request.length as u32,
        imm: (wr.opcode == Opcode::SendWithImm).then_some(wr.imm_or_key),
        solicited: wr.flags.has(SendFlags::SOLICITED),
        waits,
    };
    let shared = if SHARED { shared.as_ref() } else { None };
    let mut send = |fill: &dyn Fn(&[AtomicU64]) -> bool| match shared {
        Some(shared) => shared.send_pooled(sender, &ring, pool, &message, fill),
        None => write_pooled(sender, &ring, pool, &message, fill),
    };
    match PlainSend::of(wr) {
        Some(plain) => {
            let (from, _in_use) =
                bytes::source(endpoint, key_cache, from.pd, &plain.sge, plain.is_inline(), false)?;
            send(&|words| bytes::gather_many(words, from, message.bytes))
        }
        None => send(&|words| bytes::gather_pieces(words, endpoint, wr.data, pd)),
    }
}

/// Finds the pool that the target tells of, once; whether there is one.
#[inline(always)]
fn find_pool(writer: &mut RingWriter, target: &Target) -> bool {
    if writer.pool.is_none() {
        let host = &target.remote.host;
        // Whoever was there before had none, either.
        writer.pool = PoolWriter::find(host, &DirectRing::with(&writer.ring), target.qp, None);
        if writer.pool.is_some() {
            writer.way.has_pool();
        }
    }
    writer.pool.is_some()
}

/// Writes a message whose payload `fill` puts into the pool, where there is room for it and it can; whether it
/// is there for certain.
#[inline(never)]
pub(super) fn write_pooled(
    sender: &mut Sender,
    ring: &DirectRing<'_>,
    pool: &mut PoolWriter,
    message: &Pooled,
    fill: impl FnOnce(&[AtomicU64]) -> bool,
) -> Option<bool> {
    let buffer = pool.put(sender.number(), message, fill)?;
    let is_there = sender.send_pooled(ring, buffer, message.bytes, message.imm);
    pool.fetch_next(message.bytes);
    Some(is_there)
}

/// Wakes the peer for a message that is in its direct ring, if it went to sleep meanwhile. The own
/// completion comes in its turn.
#[cold]
pub(crate) fn wake(target: &Target, solicited: bool, order: &CompletionOrder<'_>) {
    if let Some(queues) = target.queues {
        wake_queue(&target.remote, queues.cq, solicited, order);
    }
}

/// The same of who polls this completion queue.
#[cold]
pub(super) fn wake_queue(remote: &Remote, cq: u32, solicited: bool, order: &CompletionOrder<'_>) {
    let host = &remote.host;
    for _ in 0..TRIES {
        let held = host.find([None, None, Some(Object::Cq(cq))]);
        let view = host.with(&held);
        match notify(&view, Notify::new(cq, solicited), order) {
            Ok(()) => return,
            Err(LockError::Gone) => {}
            Err(_) => {
                // Once too often rather than not at all.
                view.bell(cq);
                return;
            }
        }
    }
}

/// Whether the message is there that was [unclear](Sent::Unclear): the ring was closed. `None` when
/// nobody knows. For a target that died it is not: the other way finds out.
#[cold]
pub(crate) fn was_delivered(writer: &mut Option<RingWriter>, target: Option<&Target>) -> Option<bool> {
    let (writer, target) = (writer.take()?, target?);
    let ring = DirectRing::with(&writer.ring);
    if writer.way.is_open(&ring) && !target.remote.lives() {
        return Some(false);
    }
    let (view, qp) = (target.remote.host.with(&target.held), Object::Qp(target.qp));
    let locked = acquire(&view, qp);
    let was_delivered = writer.way.was_delivered(&ring);
    if was_delivered == Some(false)
        && let Some(pool) = &writer.pool
    {
        pool.take_back(writer.way.last());
    }
    match locked {
        Ok(()) => view.unlock(qp),
        // The queue pair has ended, and its ring with it.
        Err(LockError::Gone) => return was_delivered,
        Err(_) => return None,
    };
    was_delivered.or_else(|| (!target.remote.lives()).then_some(false))
}
