//! The initiator's side of direct rings of datagrams.
//!
//! The first datagrams to a queue pair go another way. When its owner has given their sender a ring, that finds
//! it in the owner's table, behind the lock of the queue pair; from then on a datagram needs no lock. Before
//! one goes another way all the same, those that wait in the ring do ([`DatagramWriters::settle`]): they stay
//! in order.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ironverbs_os::growth::TryPush;

use crate::carrier::initiator::Initiator;
use crate::carrier::near::attributes::{Place, QP_WORDS, load};
use crate::carrier::near::bytes::{self, Gathered};
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::execute::execute;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::near::mapped::{Mapped, Watched};
use crate::carrier::near::target::{Target, Targets};
use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::Sent;
use crate::carrier::wr::{Data, Datagram, PlainSend, Wr};
use crate::queues::completion::{Armed, MAX_STAGED};
use crate::queues::direct::datagram::{Header, Sender};
use crate::queues::direct::{SHORT, Slot};
use crate::queues::shared::{CqWord, Memory as _, Object, QpWord, Word, held};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport as _, acquire};
use crate::rules::qp::receives;
use crate::rules::request::Operands;
use crate::rules::requester::{Outcome, Posted};
use crate::rules::responder::GRH_BYTES;
use crate::rules::verbs::{Opcode, QpState, QpType, SendFlags, Status};
use crate::shm::objects::{DirectRing, HeldWords};
use crate::shm::segment::Segment;

use super::LOOKS;
use super::datagrams::{TABLE_WORDS, WORDS, entry};
use super::writer::wake_queue;

/// Most rings that a queue pair writes.
const MOST_WRITERS: usize = 8;
/// Every so many datagrams that go another way it is looked for a ring, and more often at first.
const EACH: u32 = 64;
/// Words of the header in front of a datagram.
const GRH_WORDS: usize = GRH_BYTES as usize / 8;

/// What a datagram goes by, while all of it is as it was.
#[derive(Debug)]
struct Way {
    /// State of the queue pair, and generation of its completion queue.
    watched: [Watched; 2],
    armed: Watched,
}

impl Way {
    /// The target as it is now, if it receives. Behind its lock.
    fn look(target: &Target) -> Option<Self> {
        let cq = target.queues?.cq;
        let view = target.remote.host.with(&target.held);
        let state = view.load(Word::Qp(target.qp, QpWord::State));
        let _ = QpState::from_number(state as u32).filter(|state| receives(*state))?;
        let state = (view.word_at(Word::Qp(target.qp, QpWord::State))?, state);
        let generation = view.generation_of(Object::Cq(cq))?;
        let armed = (view.word_at(Word::Cq(cq, CqWord::Armed))?, 0);
        // SAFETY: the words are in mappings that the target's `remote` keeps, which is kept beside them.
        let watch = |(word, value): (&AtomicU64, u64)| unsafe { Watched::new(word, value) };
        let [watched @ .., armed] = [state, generation, armed].map(watch);
        let way = Self { watched, armed };
        way.is_unchanged().then_some(way)
    }

    #[inline(always)]
    fn is_unchanged(&self) -> bool {
        self.watched.iter().all(Watched::is_unchanged)
    }

    /// Whether the target may sleep, and is to be woken.
    #[inline(always)]
    fn sleeps(&self, solicited: bool) -> bool {
        let armed = self.armed.load();
        armed != 0 && Armed::rings(armed, Status::Success, solicited)
    }

    /// The same a moment later.
    #[inline(always)]
    fn is_armed(&self, solicited: bool) -> bool {
        !self.watched[1].is_unchanged() || self.sleeps(solicited)
    }
}

/// A ring that a queue pair writes.
#[derive(Debug)]
struct DatagramWriter {
    target: Target,
    ring: HeldWords,
    sender: Sender,
    /// Requests taken and posted, as they stand at the target, whose queue has so many entries.
    head: Mapped<AtomicU64>,
    tail: Mapped<AtomicU64>,
    capacity: u32,
    way: Option<Way>,
    /// The key of the memory that was sent last.
    key_cache: KeyCache,
    /// How many slots were taken when room was looked for in vain: its owner does not poll.
    in_vain: Option<u32>,
    /// It was used since others looked for a place.
    is_used: bool,
    segment: Arc<Segment>,
}

impl Drop for DatagramWriter {
    fn drop(&mut self) {
        if self.segment.is_mine() {
            DirectRing::of(&self.ring).leave(self.segment.owner());
        }
    }
}

/// Receive requests that wait at the target.
#[inline(always)]
fn requests(head: &Mapped<AtomicU64>, tail: &Mapped<AtomicU64>, capacity: u32) -> u32 {
    let load = |word: &Mapped<AtomicU64>| word.get().load(std::sync::atomic::Ordering::Acquire);
    held(load(head), load(tail), capacity).unwrap_or(0)
}

impl DatagramWriter {
    /// The ring that the target has for this queue pair.
    #[cold]
    fn find(endpoint: &Endpoint, from: &Initiator, qp_num: u32, dgid: [u8; 16]) -> Option<Self> {
        let mut target = Target::find(endpoint, qp_num, dgid)?;
        target.lock(true, || acquire(&target.remote.host.with(&target.held), Object::Qp(target.qp))).ok()?;
        let made = Self::attach(endpoint, from, &mut target);
        let way = made.as_ref().and_then(|_| Way::look(&target));
        let is_kept = target.remote.host.with(&target.held).unlock(Object::Qp(target.qp));
        let (ring, sender, head, tail, capacity) = made.filter(|_| is_kept)?;
        let (segment, key_cache) = (endpoint.segment.clone(), KeyCache::default());
        let (in_vain, is_used) = (None, true);
        Some(Self { target, ring, sender, head, tail, capacity, way, key_cache, in_vain, is_used, segment })
    }

    /// Behind the target's lock.
    #[allow(clippy::type_complexity, reason = "parts of what is made of them")]
    fn attach(
        endpoint: &Endpoint,
        from: &Initiator,
        target: &mut Target,
    ) -> Option<(HeldWords, Sender, Mapped<AtomicU64>, Mapped<AtomicU64>, u32)> {
        let object = Object::Qp(target.qp);
        let words: [u64; QP_WORDS] = load(&target.remote.host.with(&target.held), object);
        target.refresh(words, 0);
        let attributes = target.attributes.filter(|known| known.qp_type == QpType::Ud)?;
        let table = attributes.direct.filter(|place| place.slots == Place::TABLE)?;
        let host = &target.remote.host;
        let hold = |at, words| {
            host.hold(at, words).or_else(|| {
                host.refresh();
                host.hold(at, words)
            })
        };
        let table = hold(table.at, TABLE_WORDS)?;
        let place = table.get().iter().find_map(|word| {
            let word = word.load(std::sync::atomic::Ordering::Acquire);
            Place::unpack(word as u32).filter(|place| word == entry(from.qp_num, *place))
        })?;
        let ring = hold(place.at, crate::queues::direct::ring_words(place.slots) as usize)?;
        let mut sender = Sender::attach(&DirectRing::of(&ring), target.qp, place.slots)?;
        if endpoint.has_barriers {
            sender.has_barriers();
        }
        let view = host.with(&target.held);
        let word = |word| view.word_at(Word::Qp(target.qp, word));
        let (head, tail) = (word(QpWord::Head)?, word(QpWord::Tail)?);
        // SAFETY: they are in a mapping that `target.remote` keeps, which is kept beside them.
        let (head, tail) = unsafe { (Mapped::new(head), Mapped::new(tail)) };
        let capacity = view.capacity(object);
        let is_signed = DirectRing::of(&ring).sign(endpoint.segment.owner(), &*endpoint.segment);
        is_signed.then_some((ring, sender, head, tail, capacity))
    }

    fn is_open(&self) -> bool {
        self.sender.is_open(&DirectRing::of(&self.ring))
    }

    /// Looks the target up anew, which changed; whether it is there.
    #[cold]
    fn renew(&mut self) -> bool {
        self.way = None;
        if !self.target.remote.lives() || !self.is_open() || !self.target.find_queues_again() {
            return false;
        }
        let target = &mut self.target;
        let object = Object::Qp(target.qp);
        if target.lock(true, || acquire(&target.remote.host.with(&target.held), object)).is_err() {
            return true;
        }
        let words: [u64; QP_WORDS] = load(&target.remote.host.with(&target.held), object);
        target.refresh(words, 0);
        let way = Way::look(target);
        if target.remote.host.with(&target.held).unlock(object) {
            self.way = way;
        }
        true
    }

    /// Whether so many bytes have room, after some microseconds where the ring is full and its owner takes what
    /// is there: all that follow would go another way, too, and cost both sides more.
    fn await_room(&mut self, bytes: u32) -> bool {
        let Self { sender, ring, head, tail, capacity, in_vain, .. } = self;
        let ring = DirectRing::of(ring);
        if sender.has_room(&ring, bytes, || requests(head, tail, *capacity)) {
            return true;
        }
        let Some(taken) = sender.full_at(&ring, bytes).filter(|taken| *in_vain != Some(*taken)) else {
            return false;
        };
        for _ in 0..LOOKS {
            spin_loop();
            if sender.full_at(&ring, bytes).is_none() {
                return sender.has_room(&ring, bytes, || requests(head, tail, *capacity));
            }
        }
        *in_vain = Some(taken);
        false
    }

    /// Sends a datagram as the last one went; see [`DatagramWriters::send_plain`].
    #[inline(always)]
    fn send_plain(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        send: &PlainSend,
        to: &Datagram<'_>,
    ) -> Sent {
        let Self { target, ring, sender, head, tail, capacity, way, key_cache, .. } = self;
        let (Some(way), ring, length) = (way, DirectRing::of(ring), send.sge.length) else {
            return Sent::NotTaken;
        };
        let bytes = length.saturating_add(GRH_BYTES as u32);
        let solicited = send.flags.has(SendFlags::SOLICITED);
        if !sender.has_room(&ring, bytes, || requests(head, tail, *capacity))
            || !way.is_unchanged()
            || way.sleeps(solicited)
        {
            return Sent::NotTaken;
        }
        let needs_no_key = length == 0 || send.is_inline();
        let source = bytes::source(endpoint, key_cache, from.pd, &send.sge, needs_no_key, false);
        let Some((source, in_use)) = source else { return Sent::NotTaken };
        let header = Header { qkey: from.key_to(to.qkey), imm: send.imm, solicited };
        let is_there = if bytes <= SHORT {
            let mut slot = Slot::default();
            put_header(&mut slot[2..2 + GRH_WORDS], to.grh);
            bytes::gather_words(&mut slot[2 + GRH_WORDS..], source, length);
            sender.send_short(&ring, &mut slot, bytes, &header)
        } else {
            send_long(sender, &ring, bytes, &header, to.grh, |words, at| {
                let room = 8 * words.len() as u32;
                bytes::gather_words(
                    words,
                    source.wrapping_add(at.into()),
                    length.saturating_sub(at).min(room),
                );
            })
        };
        drop(in_use);
        // It is on its way while this is asked. For one that died it is lost.
        if is_there && target.remote.lives() { Sent::Done(way.is_armed(solicited)) } else { Sent::Unclear }
    }

    /// Sends any datagram that goes this way; its bytes are gathered in `room`.
    fn send_any(&mut self, out: &Outgoing<'_, '_>, to: &Datagram<'_>, room: &mut [u8; MAX_STAGED]) -> Sent {
        let Outgoing { endpoint, from, wr, request, .. } = *out;
        let solicited = wr.flags.has(SendFlags::SOLICITED);
        let length = request.length.min(u32::MAX.into()) as u32;
        let bytes = length.saturating_add(GRH_BYTES as u32);
        let goes = |way: &Way| way.is_unchanged() && !way.sleeps(solicited);
        if !self.way.as_ref().is_some_and(goes)
            || length > from.mtu
            || !self.sender.takes(bytes)
            || !self.await_room(bytes)
        {
            return Sent::NotTaken;
        }
        let Some(gathered) = Gathered::new(room).fill(endpoint, wr, request.length, Some(from.pd)) else {
            return Sent::NotTaken;
        };
        let imm = (wr.opcode == Opcode::SendWithImm).then_some(wr.imm_or_key);
        let header = Header { qkey: from.key_to(to.qkey), imm, solicited };
        let (ring, gathered) = (DirectRing::of(&self.ring), gathered);
        let is_there = self.sender.send(&ring, bytes, &header, |words, at| {
            put_bytes(words, gathered.get(at as usize..).unwrap_or(&[]));
        });
        let is_armed = self.way.as_ref().is_none_or(|way| way.is_armed(solicited));
        if is_there && self.target.remote.lives() { Sent::Done(is_armed) } else { Sent::Unclear }
    }
}

/// The header in front of a datagram.
#[inline(always)]
fn put_header(words: &mut [u64], grh: &[u8; GRH_BYTES as usize]) {
    for (word, bytes) in words.iter_mut().zip(grh.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
}

/// Bytes, as many as there are words for.
fn put_bytes(words: &mut [u64], bytes: &[u8]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
}

/// Sends a datagram of several slots: `fill` as that of [`Sender::send`], but for what follows the header.
#[inline(never)]
fn send_long(
    sender: &mut Sender,
    ring: &DirectRing<'_>,
    bytes: u32,
    header: &Header,
    grh: &[u8; GRH_BYTES as usize],
    fill: impl Fn(&mut [u64], u32),
) -> bool {
    sender.send(ring, bytes, header, |words, at| {
        if at == 0 {
            let (front, words) = words.split_at_mut(GRH_WORDS.min(words.len()));
            put_header(front, grh);
            fill(words, 0);
        } else {
            fill(words, at - GRH_BYTES as u32);
        }
    })
}

/// The rings that a datagram queue pair writes. See the module.
#[derive(Debug, Default)]
pub(crate) struct DatagramWriters {
    all: Vec<DatagramWriter>,
    /// The one that was used last.
    last: usize,
    /// Datagrams that found none.
    looks: u32,
}

impl DatagramWriters {
    /// Whether [`DatagramWriters::send_plain`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared(&self) -> bool {
        !self.all.is_empty()
    }

    /// Forgets them. What waits in their rings is there.
    pub(crate) fn forget(&mut self) {
        self.all.clear();
    }

    /// The one into this queue pair at this address.
    #[inline(always)]
    fn of(&mut self, to: &Datagram<'_>) -> Option<&mut DatagramWriter> {
        let is_of = |writer: &DatagramWriter| writer.target.is(to.qp_num, &to.dgid);
        if !self.all.get(self.last).is_some_and(is_of) {
            self.last = self.all.iter().position(is_of)?;
        }
        self.all.get_mut(self.last)
    }

    /// Sends a datagram as the last one to its target went, where nothing has changed since.
    #[inline(always)]
    pub(crate) fn send_plain(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        send: &PlainSend,
        to: &Datagram<'_>,
    ) -> Sent {
        match self.of(to) {
            Some(writer) => writer.send_plain(endpoint, from, send, to),
            None => Sent::NotTaken,
        }
    }

    /// Sends a datagram by a ring, if it goes that way; or looks for one, and whether what changed at a target
    /// is such that it goes that way again.
    pub(crate) fn send(
        &mut self,
        out: &Outgoing<'_, '_>,
        to: &Datagram<'_>,
        targets: &Targets,
        room: &mut [u8; MAX_STAGED],
    ) -> Sent {
        if !self.has_one(out, to, targets) {
            return Sent::NotTaken;
        }
        match self.of(to) {
            Some(writer) => {
                writer.is_used = true;
                writer.send_any(out, to, room)
            }
            None => Sent::NotTaken,
        }
    }

    /// Whether there is a ring, by now.
    fn has_one(&mut self, out: &Outgoing<'_, '_>, to: &Datagram<'_>, targets: &Targets) -> bool {
        let Outgoing { endpoint, from, .. } = *out;
        let is_known = match self.of(to) {
            Some(writer) if writer.way.as_ref().is_some_and(Way::is_unchanged) => return true,
            Some(_) => true,
            None => {
                let known = targets.get(targets.place_of(to.qp_num));
                known.is_some_and(|known| {
                    let attributes = known.attributes.filter(|known| known.qp_type == QpType::Ud);
                    let has_table = attributes.is_some_and(|attributes| attributes.direct.is_some());
                    has_table && known.is(to.qp_num, &to.dgid) && !known.remote.is_own()
                })
            }
        };
        if !is_known {
            return false;
        }
        self.looks = self.looks.wrapping_add(1);
        let is_time = self.looks.is_multiple_of(EACH) || self.looks < EACH && self.looks.is_power_of_two();
        is_time && self.look(endpoint, from, to)
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, endpoint: &Endpoint, from: &Initiator, to: &Datagram<'_>) -> bool {
        if let Some(writer) = self.of(to) {
            if writer.renew() {
                return true;
            }
            self.all.swap_remove(self.last);
        }
        // One to the same queue pair at another address would be another sender of the same ring.
        let is_other = self.all.iter().any(|writer| writer.target.qp_num == to.qp_num);
        if is_other || endpoint.permissions.is_some() || !self.has_place() {
            return false;
        }
        let found = DatagramWriter::find(endpoint, from, to.qp_num, to.dgid);
        let is_found = found.is_some_and(|found| self.all.try_push(found).is_ok());
        if is_found {
            // Another target is as new.
            self.looks = 0;
        }
        is_found
    }

    /// Whether there is a place for one more: else one is given up that nobody used since the last look, and
    /// where nothing waits.
    fn has_place(&mut self) -> bool {
        if self.all.len() < MOST_WRITERS {
            return true;
        }
        let is_idle = |writer: &DatagramWriter| {
            !writer.is_used && !writer.sender.has_waiting(&DirectRing::of(&writer.ring))
                || !writer.target.remote.lives()
                || !writer.is_open()
        };
        let idle = self.all.iter().position(is_idle);
        if let Some(place) = idle {
            self.all.swap_remove(place);
        }
        self.all.iter_mut().for_each(|writer| writer.is_used = false);
        idle.is_some()
    }

    /// What became of a datagram whose target may have gone to sleep meanwhile, or that may have come too late:
    /// `false` where nothing happened.
    #[cold]
    pub(crate) fn clear_up(
        &mut self,
        sent: Sent,
        to: &Datagram<'_>,
        solicited: bool,
        order: &CompletionOrder<'_>,
    ) -> bool {
        let Some(writer) = self.of(to) else { return true };
        match sent {
            Sent::NotTaken => return false,
            Sent::Done(_) => {
                if let Some(queues) = writer.target.queues {
                    wake_queue(&writer.target.remote, queues.cq, solicited, order);
                }
                return true;
            }
            Sent::Unclear => {}
        }
        // For one that died it is lost.
        let was_delivered = !writer.target.remote.lives() || {
            let ring = DirectRing::of(&writer.ring);
            let (view, qp) =
                (writer.target.remote.host.with(&writer.target.held), Object::Qp(writer.target.qp));
            // Whoever closes it has the lock.
            let locked = writer.target.lock(true, || acquire(&view, qp));
            let was_delivered = writer.sender.was_delivered(&ring);
            if locked.is_ok() {
                view.unlock(qp);
            }
            was_delivered
        };
        self.all.swap_remove(self.last);
        was_delivered
    }

    /// Before a datagram goes another way to this queue pair: sends those by that way which wait in a ring.
    ///
    /// # Errors
    /// The target cannot be had: what was to follow is lost, too.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        qp_num: u32,
        targets: &mut Targets,
        room: &mut [u8; MAX_STAGED],
    ) -> Result<(), Outcome> {
        let waits = |writer: &DatagramWriter| {
            writer.target.qp_num == qp_num && writer.sender.has_waiting(&DirectRing::of(&writer.ring))
        };
        match self.all.iter().position(waits) {
            Some(place) => self.settle_one(endpoint, from, place, targets, room),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_one(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        place: usize,
        targets: &mut Targets,
        room: &mut [u8; MAX_STAGED],
    ) -> Result<(), Outcome> {
        let Some(writer) = self.all.get_mut(place) else { return Ok(()) };
        let (target, ring) = (&writer.target, DirectRing::of(&writer.ring));
        let (view, qp) = (target.remote.host.with(&target.held), Object::Qp(target.qp));
        if !target.remote.lives() || !writer.sender.is_open(&ring) {
            // What waited there is lost, or was taken.
            self.all.swap_remove(place);
            return Ok(());
        }
        match target.lock(true, || acquire(&view, qp)) {
            Ok(()) => {}
            Err(LockError::Gone) => {
                self.all.swap_remove(place);
                return Ok(());
            }
            Err(LockError::Held) => return Err(Outcome::Held),
            Err(LockError::Busy | LockError::Unclear) => return Err(Outcome::NoAnswer),
        }
        let mut taken_back = writer.sender.take_back(&ring);
        if !view.unlock(qp) {
            // The owner may have taken them, too.
            return Err(Outcome::NoAnswer);
        }
        let (dgid, mut words) = (target.dgid(), [0; WORDS]);
        let qp_num = target.qp_num;
        while let Some(found) = taken_back.read(&ring, &mut words) {
            let mut bytes = [0; 8 * WORDS];
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_ne_bytes();
            }
            let payload = bytes.get(GRH_BYTES as usize..found.bytes as usize);
            let (Some(grh), Some(payload)) = (bytes.first_chunk(), payload) else { continue };
            let header = found.header;
            let wr = Wr {
                wr_id: 0,
                opcode: if header.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
                flags: if header.solicited { SendFlags::SOLICITED } else { SendFlags::NONE },
                data: Data::Inline(payload),
                operands: Operands::None,
                imm_or_key: header.imm.unwrap_or(0),
                srq_num: 0,
                datagram: Some(Datagram { qp_num, qkey: header.qkey, grh, dgid, route: None }),
            };
            let request: Posted = wr.posted();
            // The key that it was sent with, whatever the own one is by now.
            let from = Initiator { qkey: header.qkey, ..*from };
            let order = CompletionOrder::new(None);
            let out = Outgoing { endpoint, from: &from, wr: &wr, request: &request, order: &order };
            let _ = execute(&out, targets, &mut None, room);
        }
        Ok(())
    }
}
