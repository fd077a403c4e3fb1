//! Direct rings: the owner's side and the sender's, as the device has them, with the shipped queues between.
//!
//! What is the device's own, and not the queues', is as little as goes: whose ring it is, which memory
//! serves again, and who copies.

use std::collections::VecDeque;
use std::rc::Rc;

use softrdma::queues::completion::{Armed, Notify};

use softrdma::queues::direct::{Arrived, Close, Credit, DirectWord, MAX_DIRECT, Message, Receiver};
use softrdma::queues::direct::{Send, Sender, Way};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Word, held, slot};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::Sge;
use softrdma::rules::request::Request;
use softrdma::rules::requester::Outcome;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma_testing::segment::{DIRECT_SLOTS, Ring};

use crate::execute::{begin, payload, start};
use crate::fault::{Fault, Flawed};
use crate::ledger::End;
use crate::process::{GOOD_KEY, Me, qp_num, state};
use crate::world::World;

/// The owner's side of a queue pair's ring.
pub struct Inlet {
    ring: Rc<Ring>,
    receiver: Receiver,
    /// Messages that were taken out before their turn.
    early: VecDeque<(Arrived, Completion)>,
}

impl Inlet {
    fn waiting(&self) -> u32 {
        self.receiver.waiting(&*self.ring) + self.early.len() as u32
    }
}

/// What the owner promises.
pub struct Promise {
    ring: Rc<Ring>,
    credit: Credit,
}

/// A peer's ring that a queue pair writes.
pub struct Outlet {
    ring: Rc<Ring>,
    way: Way,
}

fn writer() -> Word {
    Word::Direct { qp: 0, word: DirectWord::Writer as u32 }
}

/// How a queue pair signs what it writes: in each of its lives otherwise.
fn signature(world: &World, end: End) -> u64 {
    let life = world.processes[end.0].direct[end.1 as usize].life.get();
    1 << 63 | u64::from(life) << 32 | (end.0 as u64) << 16 | u64::from(end.1)
}

/// Whether who signed so lives.
fn is_signed(world: &World, word: u64) -> bool {
    let end = ((word >> 16 & 0xffff) as usize, word as u32 & 0xffff);
    word != 0 && world.alive(end.0) && signature(world, end) == word
}

/// A ring for a queue pair of which all messages so far are completed. By the owner, behind the queue pair's
/// lock.
pub fn open(world: &World, end: End) {
    let process = &world.processes[end.0];
    let config = &process.configs[end.1 as usize];
    if world.small_queues || config.qp_type != QpType::Rc || config.srq.is_some() {
        return;
    }
    let mut resting = process.resting.borrow_mut();
    let left = resting.iter().position(|ring| !is_signed(world, ring.load(writer())));
    let ring = left.map(|place| resting.swap_remove(place)).unwrap_or_default();
    ring.clear();
    world.rings.add(|rings| rings.reused += u64::from(left.is_some()));
    let head = process.segment.load(Word::Qp(end.1, QpWord::Head)) as u32;
    let receiver = Receiver::new(end.1, DIRECT_SLOTS, head);
    let credit = Credit::new(&*ring, end.1, head);
    let own = &process.direct[end.1 as usize];
    *own.inlet.borrow_mut() = Some(Inlet { ring: ring.clone(), receiver, early: VecDeque::new() });
    *own.promise.borrow_mut() = Some(Promise { ring: ring.clone(), credit });
    own.completed.set(head);
    process.segment.set_ring(end.1, Some(ring));
}

/// A receive request was posted.
pub fn posted(world: &World, end: End, first: &Sge) {
    let own = &world.processes[end.0].direct[end.1 as usize];
    if let Some(Promise { ring, credit }) = &mut *own.promise.borrow_mut() {
        let memory = Flawed::new(world, &**ring);
        credit.posted(&memory, end.1, first.length, first.lkey, || own.completed.get());
    }
}

/// Receive requests of a queue pair that are completed; `None` where it has no ring.
pub fn completed(world: &World, end: End) -> Option<u32> {
    let own = &world.processes[end.0].direct[end.1 as usize];
    own.promise.borrow().as_ref().map(|_| own.completed.get())
}

/// How many messages wait for a queue pair, and the numbers of those in its ring.
pub fn waiting(world: &World, end: End) -> (u32, Vec<u64>) {
    let inlet = world.processes[end.0].direct[end.1 as usize].inlet.borrow();
    let Some(inlet) = &*inlet else { return (0, Vec::new()) };
    let (mut receiver, ring) = (inlet.receiver, Ring::default());
    let left = std::iter::from_fn(|| {
        let found = receiver.early(&*inlet.ring)?;
        receiver.take_out(&ring, &found);
        Some(receiver.payload(&*inlet.ring, &found, 0))
    });
    (inlet.waiting(), left.collect())
}

/// The owner's side of a ring, once no other thread has it.
async fn have(world: &World, end: End) -> Option<Inlet> {
    let own = &world.processes[end.0].direct[end.1 as usize];
    while own.is_had.get() {
        world.pause().await;
    }
    own.is_had.set(true);
    let inlet = own.inlet.borrow_mut().take();
    own.is_had.set(inlet.is_some());
    inlet
}

fn give_back(world: &World, end: End, inlet: Inlet) {
    let own = &world.processes[end.0].direct[end.1 as usize];
    own.completed.set(inlet.receiver.completed());
    *own.inlet.borrow_mut() = Some(inlet);
    own.is_had.set(false);
}

/// The queue pair breaks: what comes from now on is not there. By the owner, behind the queue pair's lock.
pub async fn close(world: &World, end: End) {
    let Some(mut inlet) = have(world, end).await else { return };
    let head = Word::Qp(end.1, QpWord::Head);
    let (segment, own) = (&world.processes[end.0].segment, &world.processes[end.0].direct[end.1 as usize]);
    let ring = inlet.ring.clone();
    let memory = Flawed::new(world, &*ring);
    let mut close = Close::new(&mut inlet.receiver, segment.load(head) as u32);
    let taken = loop {
        match close.step(&memory) {
            Progress::Done(taken) => break taken,
            _ => {
                own.closes.set(true);
                world.pause().await;
            }
        }
    };
    own.closes.set(false);
    give_back(world, end, inlet);
    world.pause().await;
    segment.store(head, u64::from(taken));
}

/// The connection is over, and its messages with it. By the owner, behind the queue pair's lock.
pub async fn end(world: &World, end: End) {
    close(world, end).await;
    let process = &world.processes[end.0];
    let own = &process.direct[end.1 as usize];
    own.promise.borrow_mut().take();
    process.segment.set_ring(end.1, None);
    if let Some(inlet) = have(world, end).await {
        own.is_had.set(false);
        let forgotten = inlet.waiting();
        world.rings.add(|rings| rings.forgotten += u64::from(forgotten));
        process.resting.borrow_mut().push(inlet.ring);
    }
}

/// The next completion of a queue that is a message's from a ring; `None` when that of the queue itself is
/// next.
pub async fn poll(world: &World, me: Me, cq: u32) -> Option<Completion> {
    if world.random.once_in(20) {
        take_early(world, me, cq).await;
    }
    while is_had(world, me, cq) {
        world.pause().await;
    }
    let (end, mut inlet, found) = next(world, me, cq)?;
    let completion = match inlet.early.pop_front() {
        Some((message, completion)) => {
            inlet.receiver.handed_out(&message, inlet.early.front().map(|(next, _)| *next));
            completion
        }
        None => {
            let completion = deliver(world, end, &inlet, &found).await;
            inlet.receiver.take(&Flawed::new(world, &*inlet.ring), &found);
            completion
        }
    };
    give_back(world, end, inlet);
    world.rings.add(|rings| rings.received += 1);
    world.note(me.0, "takes", || format!("{end:?} {found:?}"));
    Some(completion)
}

/// Takes messages out of a ring before their turn, as for who posts more requests than it polls completions.
async fn take_early(world: &World, me: Me, cq: u32) {
    let process = &world.processes[me.0];
    let mut with_ring = (0..process.configs.len() as u32).filter(|qp| {
        process.configs[*qp as usize].recv_cq == cq && process.direct[*qp as usize].inlet.borrow().is_some()
    });
    let Some(end) = with_ring.next().map(|qp| (me.0, qp)) else { return };
    let Some(mut inlet) = have(world, end).await else { return };
    while let Some(found) = inlet.receiver.early(&*inlet.ring) {
        let completion = deliver(world, end, &inlet, &found).await;
        inlet.receiver.take_out(&Flawed::new(world, &*inlet.ring), &found);
        inlet.early.push_back((found, completion));
        world.rings.add(|rings| rings.early += 1);
    }
    give_back(world, end, inlet);
}

/// Moves the payload of a message to its request; the completion.
async fn deliver(world: &World, end: End, inlet: &Inlet, found: &Arrived) -> Completion {
    let process = &world.processes[end.0];
    let request = |word| {
        let queue = Object::Qp(end.1);
        let slot = slot(found.number, process.segment.capacity(queue));
        process.segment.load(Word::Receive { queue, slot, word })
    };
    let (wr_id, addr, length_key) = (request(0), request(2), request(3));
    let words = found.bytes / 8;
    if words > 0 && (found.bytes > length_key as u32 || length_key >> 32 != u64::from(GOOD_KEY)) {
        world.violated("a message came that was not promised room");
    }
    for n in 0..words {
        let word = inlet.receiver.payload(&*inlet.ring, found, n);
        let at = addr + 8 * u64::from(n);
        world.ledger.borrow_mut().receives[(at / 1024) as usize].buffer[(at % 1024 / 8) as usize] = word;
        if world.random.once_in(4) {
            world.pause().await;
        }
    }
    let (imm_or_key, flags) = found.imm.map_or((0, WcFlags::NONE), |imm| (imm, WcFlags::WITH_IMM));
    let peer = process.configs[end.1 as usize].peer;
    Completion {
        status: Status::Success,
        byte_len: found.bytes,
        imm_or_key,
        src_qp: qp_num(peer),
        flags,
        ..Completion::flushed(wr_id, WcOpcode::Recv, qp_num(end))
    }
}

/// The message that is next, and the side of its ring.
fn next(world: &World, me: Me, cq: u32) -> Option<(End, Inlet, Arrived)> {
    let process = &world.processes[me.0];
    let segment = &process.segment;
    let head = segment.load(Word::Cq(cq, CqWord::Head));
    let entry = |word| {
        let slot = slot(head as u32, segment.capacity(Object::Cq(cq)));
        segment.load(Word::Entry { cq, slot, word })
    };
    let others_wait = || entry(0) as u32 == (head as u32).wrapping_add(1) && !world.has(Fault::NoOrder);
    let tail = || {
        let waiting = held(head, segment.load(Word::Cq(cq, CqWord::Tail)), segment.capacity(Object::Cq(cq)));
        (head as u32).wrapping_add(waiting.unwrap_or(0))
    };
    let take = |qp: u32, found: Arrived| {
        let own = &process.direct[qp as usize];
        let inlet = own.inlet.borrow_mut().take()?;
        own.is_had.set(true);
        Some(((me.0, qp), inlet, found))
    };
    let count = process.configs.len() as u32;
    let of_queue = |qp: &u32| process.configs[*qp as usize].recv_cq == cq;
    let is_entry = entry(0) as u32 == (head as u32).wrapping_add(1);
    if !is_entry || world.random.once_in(3) {
        let first = world.random.below(u64::from(count.max(1))) as u32;
        for qp in (0..count).map(|n| (first + n) % count).filter(of_queue) {
            let mut inlet = process.direct[qp as usize].inlet.borrow_mut();
            let Some(Inlet { ring, receiver, .. }) = &mut *inlet else { continue };
            if let Some(found) = receiver.turn(&**ring, head as u32, others_wait, tail) {
                drop(inlet);
                return take(qp, found);
            }
        }
    }
    if is_entry && (entry(0) >> 40) as u8 >= WcOpcode::Recv as u8 && !world.has(Fault::NoOrder) {
        let number = (entry(3) >> 32) as u32;
        let qp = (0..count).find(|qp| qp_num((me.0, *qp)) == number)?;
        let mut inlet = process.direct[qp as usize].inlet.borrow_mut();
        let Inlet { ring, receiver, .. } = inlet.as_mut()?;
        let found = receiver.before(&**ring)?;
        drop(inlet);
        world.rings.add(|rings| rings.before += 1);
        return take(qp, found);
    }
    None
}

/// Whether another thread closes a ring just now of those that complete there.
fn is_had(world: &World, me: Me, cq: u32) -> bool {
    let process = &world.processes[me.0];
    process.configs.iter().zip(&process.direct).any(|(config, own)| config.recv_cq == cq && own.is_had.get())
}

/// A completion of a receive request was taken from the completion queue.
pub fn passed(world: &World, completion: &Completion, place: usize) {
    let qp = (completion.qp_num & 0xffff) - 1;
    let own = &world.processes[place].direct[qp as usize];
    if let Some(inlet) = &mut *own.inlet.borrow_mut() {
        inlet.receiver.passed();
        own.completed.set(inlet.receiver.completed());
    }
}

/// Takes the signature back.
fn leave(world: &World, from: End, outlet: &Outlet) {
    if outlet.ring.load(writer()) == signature(world, from) {
        outlet.ring.store(writer(), 0);
    }
}

/// Forgets whom a queue pair writes to: it is reset.
pub fn disconnect(world: &World, from: End) {
    let outlet = world.processes[from.0].direct[from.1 as usize].outlet.take();
    outlet.iter().for_each(|outlet| leave(world, from, outlet));
}

/// The sender dies: nobody takes anything back.
pub fn die(world: &World, from: End) {
    let own = &world.processes[from.0].direct[from.1 as usize];
    own.outlet.take();
    own.life.set(own.life.get() + 1);
}

/// Whether what goes the other way need not say how many requests were taken.
pub fn is_settled(world: &World, from: End, to: End, takes: bool) -> bool {
    match &*world.processes[from.0].direct[from.1 as usize].outlet.borrow() {
        Some(outlet) => outlet.way.is_settled(takes),
        None => world.processes[to.0].segment.ring(to.1).is_none(),
    }
}

/// Before messages go the other way, behind the lock of the target.
pub async fn enter(world: &World, from: End, to: End) {
    let own = &world.processes[from.0].direct[from.1 as usize];
    let target = &world.processes[to.0];
    let (segment, current) = (&target.segment, target.segment.ring(to.1));
    let mut outlet = own.outlet.take();
    let is_of = |outlet: &Outlet| {
        current.as_ref().is_some_and(|ring| Rc::ptr_eq(ring, &outlet.ring))
            && outlet.way.is_open(&*outlet.ring)
    };
    if let Some(old) = outlet.take_if(|outlet| !is_of(outlet)) {
        leave(world, from, &old);
        world.pause().await;
    }
    if outlet.is_none()
        && let Some(ring) = current.filter(|_| target.configs[to.1 as usize].peer == from)
    {
        let head = segment.load(Word::Qp(to.1, QpWord::Head)) as u32;
        let sender = Sender::attach(&Flawed::new(world, &*ring), to.1, DIRECT_SLOTS, head);
        if let Some(sender) = sender.filter(|_| !is_signed(world, ring.load(writer()))) {
            world.rings.add(|rings| rings.attached += 1);
            world.note(from.0, "goes on in a ring", || format!("{from:?} to {to:?} head {head} {sender:?}"));
            ring.store(writer(), signature(world, from));
            outlet = Some(Outlet { ring, way: Way::new(sender) });
            world.pause().await;
        }
    }
    if let Some(mut outlet) = outlet {
        outlet.way.enter(&Flawed::new(world, segment));
        *own.outlet.borrow_mut() = Some(outlet);
        world.pause().await;
    }
}

/// After messages went the other way, and the lock was given back in order.
pub fn left(world: &World, from: End) {
    if let Some(outlet) = &mut *world.processes[from.0].direct[from.1 as usize].outlet.borrow_mut() {
        outlet.way.left();
    }
}

/// Sends a message by the ring; `None` when it does not go that way, and nothing happened.
pub async fn send(world: &World, me: Me, qp: u32, request: &Request) -> Option<Outcome> {
    let from = (me.0, qp);
    let own = &world.processes[me.0].direct[qp as usize];
    let mut outlet = own.outlet.take()?;
    begin(world, request);
    let sent = try_send(world, me, qp, request, &mut outlet).await;
    match sent {
        Sent::Done => {}
        Sent::No => {
            if !outlet.way.is_open(&Flawed::new(world, &*outlet.ring)) {
                leave(world, from, &outlet);
                return None;
            }
            *own.outlet.borrow_mut() = Some(outlet);
            return None;
        }
        Sent::Unclear => {
            world.rings.add(|rings| rings.unclear += 1);
            let came = was_delivered(world, me, qp, &outlet).await;
            leave(world, from, &outlet);
            match came {
                Some(true) => world.rings.add(|rings| rings.came += 1),
                Some(false) => return None,
                // Its target died over it.
                None if !world.alive(world.processes[me.0].configs[qp as usize].peer.0) => {
                    world.rings.add(|rings| rings.unknown += 1);
                    world.ledger.borrow_mut().sent[request.wr_id as usize].unknown = true;
                    return None;
                }
                None => world.violated("nobody knows whether a message came"),
            }
            wake(world, me, qp).await;
            return Some(Outcome::Done(request.length() as u32));
        }
    }
    *own.outlet.borrow_mut() = Some(outlet);
    world.rings.add(|rings| rings.sent += 1);
    world.note(me.0, "sends by a ring", || format!("{:?} on {qp}", request.wr_id));
    wake(world, me, qp).await;
    Some(Outcome::Done(request.length() as u32))
}

/// What became of a message.
enum Sent {
    No,
    Done,
    Unclear,
}

async fn try_send(world: &World, me: Me, qp: u32, request: &Request, outlet: &mut Outlet) -> Sent {
    let config = &world.processes[me.0].configs[qp as usize];
    let to = config.peer;
    let target = &world.processes[to.0];
    let length = request.length();
    let goes = matches!(request.opcode, Opcode::Send | Opcode::SendWithImm)
        && length <= MAX_DIRECT as u64
        && matches!(state(world, to), QpState::Rts | QpState::Sqd)
        && !world.is_gone(to)
        && start(world, (me.0, qp), request).is_ok();
    if !goes {
        return Sent::No;
    }
    let ring = outlet.ring.clone();
    let memory = Flawed::new(world, &*ring);
    let Some(sender) = outlet.way.sender(&target.segment) else { return Sent::No };
    let key = sender.has_room(&memory, length as u32);
    if key.is_none_or(|key| length > 0 && key != GOOD_KEY) || is_armed(world, to) {
        return Sent::No;
    }
    world.pause().await;
    let bytes = payload(config.qp_type, request);
    let imm = (request.opcode == Opcode::SendWithImm).then_some(request.imm_or_key);
    let mut send = Send::new(sender, Message { bytes: &bytes, imm });
    loop {
        match send.step(&memory) {
            Progress::Done(true) => return Sent::Done,
            Progress::Done(false) => return Sent::Unclear,
            _ => world.pause().await,
        }
    }
}

/// Whether a peer may sleep: then the other way rings before the message is there.
fn is_armed(world: &World, to: End) -> bool {
    let target = &world.processes[to.0];
    let cq = target.configs[to.1 as usize].recv_cq;
    Armed::rings(target.segment.load(Word::Cq(cq, CqWord::Armed)), Status::Success, false)
}

/// Wakes the peer for a message that is in its ring, if it went to sleep meanwhile.
async fn wake(world: &World, me: Me, qp: u32) {
    let to = world.processes[me.0].configs[qp as usize].peer;
    if is_armed(world, to) && !world.has(Fault::NoBell) {
        let cq = world.processes[to.0].configs[to.1 as usize].recv_cq;
        world.pause().await;
        world.rings.add(|rings| rings.woken += 1);
        world.carry(me, to.0, Notify::new(cq, false)).await;
    }
}

/// Whether a message came before the end of its ring.
async fn was_delivered(world: &World, me: Me, qp: u32, outlet: &Outlet) -> Option<bool> {
    let to = world.processes[me.0].configs[qp as usize].peer;
    world.pause().await;
    if world.has(Fault::NoThrough) {
        return Some(true);
    }
    // The queue pair has ended, and its ring with it.
    if world.is_gone(to) {
        return outlet.way.was_delivered(&*outlet.ring);
    }
    world.acquire(me, to.0, Object::Qp(to.1)).await;
    let came = outlet.way.was_delivered(&*outlet.ring);
    world.release(me, to.0, Object::Qp(to.1));
    came
}
