//! Queue pairs that are connected to one on another host: what their send queues do, and what arrives for them.
//!
//! Locks are taken in this order: the sending side's, the receiving side's, those in shared memory, what
//! packets leave by.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ironverbs_os::growth::try_box;

use super::QueuePair;
use super::acknowledgement::Later;
use super::qp::due;
use super::qp_attributes::{Attributes, Path};
use super::send::SendSide;
use crate::carrier::far::batch::Batch;
use crate::carrier::far::datagram::Arrived;
use crate::carrier::far::pause::Left;
use crate::carrier::far::port::flow::Flow;
use crate::carrier::far::port::receive::TOGETHER;
use crate::carrier::far::receiver::Receiver;
use crate::carrier::far::sender::{Sender, message};
use crate::carrier::far::way::Way;
use crate::carrier::far::{Peer, Sides};
use crate::carrier::initiator::Initiator;
use crate::carrier::near::bytes::{self, PARTS};
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::target::Target;
use crate::carrier::near::windows::{bind, local_invalidate};
use crate::carrier::wr::{Data, Wr};
use crate::error::{Error, Result};
use crate::faults;
use crate::rules::request::{self, Operands, Outline, start};
use crate::rules::requester::{Action, Outcome, Retry, Work};
use crate::rules::verbs::{Attr, Opcode, QpState, QpType, Status};
use crate::wire::connection::Mtu;
use crate::wire::opcode::{Opcode as WireOpcode, Operation, Transport};
use crate::wire::packet::Packet;
use crate::wire::requester::message::{Message, Taken, Ticket};

/// Nanoseconds for which requests wait for the acknowledgement that came before them: they come again, and a
/// peer with the shortest time-out that is common gives up after twice as long.
const MISSED: u64 = 250_000_000;

/// The way that a path says, where it leads to another host.
pub(super) fn way(path: &Path) -> Option<Way> {
    let source = path.source.filter(|_| path.is_global)?;
    Some(Way {
        address: path.destination().into(),
        source: source.address.into(),
        interface: source.interface,
        traffic_class: path.traffic_class,
    })
}

fn check_mtu(mtu: Mtu, path: &Path) -> Result<()> {
    match path.source {
        Some(source) if mtu.bytes() > source.mtu => {
            Err(Error::Invalid("a path MTU larger than the network interface's"))
        }
        _ => Ok(()),
    }
}

/// Bytes of answers to a read that follow one another.
struct ReadBytes<'p> {
    ticket: Option<Ticket>,
    /// Where they begin.
    offset: u32,
    /// Where they end.
    end: u32,
    parts: Batch<&'p [u8], PARTS>,
}

impl<'p> ReadBytes<'p> {
    /// None.
    #[inline(always)]
    fn new() -> Self {
        Self { ticket: None, offset: 0, end: 0, parts: Batch::new() }
    }

    /// Adds those of one more answer, where they follow and there is room; whether they did.
    fn add(&mut self, ticket: Ticket, offset: u32, payload: &'p [u8]) -> bool {
        if self.ticket.is_none() {
            (self.ticket, self.offset, self.end) = (Some(ticket), offset, offset);
            self.parts.truncate(0);
        }
        let follows = self.ticket == Some(ticket) && self.end == offset && self.parts.all().len() < PARTS;
        if follows {
            self.parts.push(payload);
            self.end += payload.len() as u32;
        }
        follows
    }
}

impl QueuePair {
    /// Whether it is connected to a queue pair on another host.
    pub(super) fn is_far(&self) -> bool {
        self.far.load(Ordering::Acquire)
    }

    /// It is from now on, or not.
    pub(super) fn set_far(&self, is_far: bool) {
        if self.far.swap(is_far, Ordering::AcqRel) != is_far {
            self.device().count_far(is_far);
        }
    }

    /// What it takes to be connected to this peer, where that is one on another host. Its number and address
    /// are those of no process that is reached through the folder.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] for a path MTU whose packets the network interface does not
    /// take.
    pub(super) fn far_sides(&self, mask: Attr, attributes: &Attributes) -> Result<Option<Sides>> {
        let transport = match self.qp_type() {
            QpType::Rc => Transport::Rc,
            QpType::Uc => Transport::Uc,
            _ => return Ok(None),
        };
        let is_change = mask.has(Attr::STATE) && attributes.state == QpState::Rtr && mask.has(Attr::AV);
        let (path, endpoint) = (&attributes.path, &self.device().endpoint);
        let (Some(way), true, Some(_)) = (way(path), is_change, self.device().network_way()) else {
            return Ok(None);
        };
        let dgid = path.destination();
        let is_near =
            endpoint.has_address(&dgid) || Target::find(endpoint, attributes.dest_qp_num, dgid).is_some();
        let shift = attributes.path_mtu.checked_add(7);
        let mtu = shift.and_then(|shift| 1u32.checked_shl(shift)).and_then(Mtu::from_bytes);
        let (false, Some(mtu)) = (is_near, mtu) else { return Ok(None) };
        check_mtu(mtu, path)?;
        let peer = Peer { transport, qp_num: attributes.dest_qp_num, way, mtu };
        let sender = Sender::new(peer, self.limits().max_send_wr, super::LIMITS.max_rd_atomic)?;
        let own = (self.qp_num(), self.index());
        let receiver = Receiver::new(endpoint, own, peer, attributes.rq_psn, attributes.max_dest_rd_atomic)?;
        Ok(Some(Sides { sender: try_box(sender)?, receiver: try_box(receiver)? }))
    }

    /// The way that a connection with another host takes from now on, where that is changed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that leads to no other host, or whose interface is too narrow.
    pub(super) fn new_way(&self, mask: Attr, attributes: &Attributes) -> Result<Option<Way>> {
        let is_connection = mask.has(Attr::STATE) && attributes.state == QpState::Rtr;
        if !self.is_far() || !mask.has(Attr::AV) || is_connection || !self.device().is_mine() {
            return Ok(None);
        }
        let path = &attributes.path;
        let mtu = self.arrivals.lock().as_ref().map_or(Mtu::LEAST, |receiver| receiver.peer.mtu);
        check_mtu(mtu, path)?;
        way(path).map(Some).ok_or(Error::Invalid("a path that leads to no other host"))
    }

    /// A connection with another host takes another way, or its peer may have more or fewer reads under way.
    /// What is under way already is sent again by the new way, if no answer comes.
    pub(super) fn change_far(&self, side: &mut SendSide, mask: Attr, way: Option<Way>) {
        // A forked child has locks as the parent's threads had them then.
        let Some(far) = side.far.as_mut().filter(|_| self.device().is_mine()) else { return };
        let mut arrivals = self.arrivals.lock();
        let Some(receiver) = arrivals.as_mut() else { return };
        if let Some(way) = way {
            (far.peer.way, receiver.peer.way) = (way, way);
        }
        if mask.has(Attr::MAX_DEST_RD_ATOMIC) {
            receiver.responder.set_max_dest_rd_atomic(side.attributes.max_dest_rd_atomic);
        }
    }

    /// It goes from one state to another: is connected to these, or to none any more, begins to send, drains,
    /// goes on.
    pub(super) fn follow_far(
        &self,
        side: &mut SendSide,
        (current, next): (QpState, QpState),
        retry: Retry,
        sides: Option<Sides>,
    ) {
        match (next, sides) {
            (QpState::Rtr, Some(Sides { sender, receiver })) => {
                side.far = Some(sender);
                *self.arrivals.lock() = Some(receiver);
            }
            (QpState::Reset | QpState::Rtr, _) => self.leave_far(side),
            _ => {}
        }
        let SendSide { far: Some(far), attributes, .. } = side else { return };
        match (current, next) {
            (QpState::Rtr, QpState::Rts) => far.start(attributes.sq_psn, retry, attributes.max_rd_atomic),
            (QpState::Sqe, QpState::Rts) => far.requester.resume(),
            _ => {}
        }
        far.requester.set_draining(next == QpState::Sqd);
    }

    /// It is connected to no other host any more. What has come was completed, so it is acknowledged before.
    pub(super) fn leave_far(&self, side: &mut SendSide) {
        side.far = None;
        // In a forked child nobody gives the lock back.
        if self.device().is_mine() {
            self.answer_first();
            *self.arrivals.lock() = None;
        }
    }

    /// Works the send queue as far as it goes now: what has ended leaves it, what is next begins, and what may
    /// be sent is.
    #[inline(never)]
    pub(super) fn go_on_far(&self, side: &mut SendSide) {
        let (Some(mut far), Some(network)) = (side.far.take(), self.device().network_way()) else { return };
        if side.requester.flushes() {
            far.forget();
        }
        if self.has_missed.load(Ordering::Relaxed) {
            self.follow_missed(side, &mut far);
        }
        // The process may have been stopped while an answer came.
        far.requester.expire(self.device().taken_at());
        loop {
            self.end_far(side, &mut far);
            let has_begun = self.begin_requests(side, &mut far);
            self.transmit(side, &mut far, network);
            if self.has_missed.load(Ordering::Relaxed) {
                // This thread had no processor meanwhile.
                self.follow_missed(side, &mut far);
                continue;
            }
            // With UC what has left has ended; with RC, too, what could not be read.
            if !has_begun && !far.requester.has_done() {
                break;
            }
        }
        side.far = Some(far);
        self.tell_drained(side);
    }

    /// Completes the requests that have ended.
    fn end_far(&self, side: &mut SendSide, far: &mut Sender) {
        while let Some(done) = far.requester.done() {
            let Some(request) = side.ring.front_posted() else { break };
            let action = match done.status {
                Status::Success => {
                    // The time counts for what is tried again.
                    side.requester.outcome(&request, Outcome::Done(request.length as u32), 0)
                }
                status => side.requester.failed(&request, status, done.vendor_err),
            };
            side.ring.pop();
            far.ended();
            // No completion of this process comes before it: only a near target's bell keeps one back.
            self.follow_outcome(side, &request, action, &CompletionOrder::new(None));
            if matches!(action, Action::Fail(..)) {
                // All others were flushed.
                far.forget();
            }
        }
    }

    /// Gives requests of the queue to the wire's requester, and carries out what leaves no process once all
    /// before it have ended; whether there were some of these.
    fn begin_requests(&self, side: &mut SendSide, far: &mut Sender) -> bool {
        if !matches!(side.requester.state(), QpState::Rts | QpState::Sqd) {
            return false;
        }
        while let Some(wr) = side.ring.nth(far.begun as usize) {
            let is_local = matches!(wr.opcode, Opcode::LocalInv | Opcode::BindMw);
            if is_local || !self.begin(&side.initiator, far, &wr) {
                let is_next = far.begun == 0 && side.requester.state() == QpState::Rts;
                return is_next && self.end_here(side, far);
            }
        }
        false
    }

    /// Carries out the oldest request, which leaves no process; whether there was one.
    #[inline(never)]
    fn end_here(&self, side: &mut SendSide, far: &mut Sender) -> bool {
        let Some(wr) = side.ring.front() else { return false };
        let fails = faults::active().and_then(|faults| faults.failure(wr.opcode));
        let outcome = fails.map_or_else(|| self.here(&side.initiator, &wr), Outcome::Local);
        self.note_bound(&wr, outcome);
        let (request, order) = (wr.posted(), self.completion_order(&wr));
        let action = side.requester.outcome(&request, outcome, self.device().now());
        side.ring.pop();
        self.follow_outcome(side, &request, action, &order);
        if matches!(action, Action::Fail(..)) {
            far.forget();
        }
        true
    }

    /// Gives a request to the wire's requester, unless that has no room, or it is none that goes there.
    #[inline(always)]
    fn begin(&self, from: &Initiator, far: &mut Sender, wr: &Wr<'_>) -> bool {
        let Some(message) = message(wr) else { return false };
        let sges = match wr.data {
            Data::Sges(sges) => sges,
            Data::Inline(_) | Data::InlineSges(_) => &[],
        };
        let sender = request::Sender {
            qp_type: from.qp_type,
            pd: from.pd,
            max_rd_atomic: from.max_rd_atomic,
            mtu: from.mtu,
        };
        let outline = Outline { opcode: wr.opcode, operands: wr.operands, sges, length: wr.data.length() };
        let keys = &self.device().endpoint.keys;
        let checked = start(&outline, &sender, |key| keys.local(key).map(|entry| entry.key));
        // What fails here fails in its turn, and what it would have sent does not matter.
        let message = if checked.is_ok() { message } else { Message::new(Opcode::Send, 0) };
        let Ok(ticket) = far.requester.post(&message) else { return false };
        let fails = || faults::active().and_then(|faults| faults.failure(wr.opcode));
        if let Err(status) = checked.and_then(|_| fails().map_or(Ok(()), Err)) {
            far.requester.fail(ticket, status);
        }
        far.begun += 1;
        true
    }

    /// Carries out a request that leaves no process, or that the wire has no packets for.
    fn here(&self, from: &Initiator, wr: &Wr<'_>) -> Outcome {
        match wr.operands {
            Operands::Key(key) => local_invalidate(&self.device().endpoint, from, key),
            Operands::Bind(window) => bind(&self.device().endpoint, from, &window),
            _ => Outcome::Local(Status::LocQpOpErr),
        }
    }

    /// Takes packets from another host that came together, this way. What follows from them follows when those
    /// that came with them are taken: [`QueuePair::settle_arrivals`].
    pub(super) fn arrived(&self, flow: &Flow, all: &[Arrived<'_>]) {
        if self.has_missed.load(Ordering::Relaxed) && !self.take_missed() {
            return;
        }
        let mut arrivals = self.arrivals.lock();
        let Some(receiver) = arrivals.as_mut().filter(|receiver| receiver.peer.sent(flow)) else { return };
        let is_marked = flow.is_marked();
        let mut admitted = Batch::<_, TOGETHER>::new();
        for arrived in all {
            if !receiver.admits(arrived) {
                continue;
            }
            let opcode = arrived.packet.bth.opcode;
            if is_marked && opcode.is_heavy() {
                receiver.responder.marked(self.device().now());
            }
            if opcode == WireOpcode::CONGESTION_NOTIFICATION {
                receiver.responder.congested(self.device().now());
            }
            admitted.push(arrived);
        }
        let mut held = Some(arrivals);
        let is_answer = |arrived: &&Arrived<'_>| arrived.packet.bth.opcode.is_response();
        for run in admitted.all().chunk_by(|one, next| is_answer(one) == is_answer(next)) {
            if is_answer(&run[0]) {
                held = None;
                if !self.take_answers(flow, run) && self.miss(flow, run) {
                    return;
                }
            } else if let Some(receiver) = held.get_or_insert_with(|| self.arrivals.lock()).as_mut()
                // Since the answers before it may have been connected to another.
                && receiver.peer.sent(flow)
            {
                self.take_requests(receiver, run);
            }
        }
    }

    fn take_requests(&self, receiver: &mut Receiver, mut requests: &[&Arrived<'_>]) {
        while !requests.is_empty() && matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd) {
            let (is_broken, count) = receiver.take(&self.device().endpoint, requests);
            requests = &requests[count..];
            if is_broken && self.state() != QpState::Err {
                // The wire refused what the rules of the queue pair never saw.
                self.fail(QpState::Err);
            }
        }
    }

    /// The program keeps the send queue: answers are as if they had been lost on the way, but for the last
    /// acknowledgement, which comes once. Whether what comes behind them is lost as well: the peer may send
    /// that again before it is asked for the acknowledgement.
    #[cold]
    fn miss(&self, flow: &Flow, answers: &[&Arrived<'_>]) -> bool {
        let mut arrivals = self.arrivals.lock();
        let Some(receiver) = arrivals.as_mut().filter(|receiver| receiver.peer.sent(flow)) else {
            return true;
        };
        if receiver.peer.transport != Transport::Rc {
            // Nothing there is sent again, and nothing acknowledged.
            return false;
        }
        let now = self.device().now();
        let since = receiver.missed.map_or(now, |(_, since)| since);
        let last = answers.iter().map(|arrived| arrived.packet).rfind(Packet::is_acknowledgement);
        if let Some(Packet { bth, headers, .. }) = last {
            receiver.missed = Some((Packet { bth, headers, payload: &[] }, since));
            self.has_missed.store(true, Ordering::Relaxed);
        }
        now.saturating_sub(since) <= MISSED
    }

    /// Takes the acknowledgement that was missed before what comes now; whether that is to be taken. The
    /// program may keep the send queue until it comes, so it does not wait for ever.
    #[cold]
    fn take_missed(&self) -> bool {
        if let Some(mut side) = self.send_side_soon() {
            if let Some(mut far) = side.far.take() {
                self.follow_missed(&mut side, &mut far);
                side.far = Some(far);
                self.end_waiting(&mut side);
            } else {
                self.has_missed.store(false, Ordering::Relaxed);
            }
            return true;
        }
        let since = self.arrivals.lock().as_ref().and_then(|receiver| Some(receiver.missed?.1));
        since.is_none_or(|since| self.device().now().saturating_sub(since) > MISSED)
    }

    /// What the acknowledgement ends that was missed has ended.
    #[cold]
    fn follow_missed(&self, side: &mut SendSide, far: &mut Sender) {
        self.has_missed.store(false, Ordering::Relaxed);
        let missed = self.arrivals.lock().as_mut().and_then(|receiver| receiver.missed.take());
        if let Some((packet, _)) = missed {
            far.requester.take(&packet, self.device().now());
            self.end_far(side, far);
        }
    }

    /// What answers end has ended before what comes behind them; whether the program lets them be taken.
    #[inline(never)]
    fn take_answers(&self, flow: &Flow, answers: &[&Arrived<'_>]) -> bool {
        let Some(mut side) = self.send_side_soon() else { return false };
        // Meanwhile it may have been connected to another.
        if !side.far.as_ref().is_some_and(|far| far.peer.sent(flow)) {
            return true;
        }
        let Some(mut far) = side.far.take() else { return true };
        let is_marked = flow.is_marked();
        let mut read = ReadBytes::new();
        for Arrived { packet, .. } in answers {
            // Answers to reads are as many as it asked for.
            if is_marked && packet.bth.opcode.operation() == Operation::ReadResponse {
                far.requester.congested();
            }
            self.follow_answer(&side, &mut far, packet, &mut read);
        }
        self.place(&side, &mut far, &mut read);
        self.end_far(&mut side, &mut far);
        side.far = Some(far);
        self.end_waiting(&mut side);
        true
    }

    /// Where all that was posted has ended, the send queue waits for nothing; whether that is so.
    #[inline]
    fn end_waiting(&self, side: &mut SendSide) -> bool {
        let has_ended = side.ring.is_empty() && !side.unflushed && self.state() != QpState::Err;
        if has_ended {
            // What has ended has left the queue.
            self.due_at.store(due::NEVER, Ordering::Relaxed);
            self.tell_drained(side);
        }
        has_ended
    }

    fn follow_answer<'p>(
        &self,
        side: &SendSide,
        far: &mut Sender,
        packet: &Packet<'p>,
        read: &mut ReadBytes<'p>,
    ) {
        match far.requester.take(packet, self.device().now()) {
            Taken::Nothing => {}
            Taken::Read { ticket, offset } => {
                if !read.add(ticket, offset, packet.payload) {
                    self.place(side, far, read);
                    read.add(ticket, offset, packet.payload);
                }
            }
            Taken::Atomic { ticket, original } => {
                self.place(side, far, read);
                if let Some(Data::Sges(sges)) = side.ring.nth(far.place(ticket)).map(|wr| wr.data)
                    && bytes::answer(&self.device().endpoint, sges, original).is_err()
                {
                    far.requester.fail(ticket, Status::LocProtErr);
                }
            }
        }
    }

    /// Puts the bytes of a read where its request says, and forgets them.
    fn place(&self, side: &SendSide, far: &mut Sender, read: &mut ReadBytes<'_>) {
        let Some(ticket) = read.ticket.take() else { return };
        let (endpoint, pd, offset) = (&self.device().endpoint, side.initiator.pd, read.offset as usize);
        if let Some(Data::Sges(sges)) = side.ring.nth(far.place(ticket)).map(|wr| wr.data)
            && bytes::put_parts(endpoint, pd, sges, offset, read.parts.all()).is_err()
        {
            far.requester.fail(ticket, Status::LocProtErr);
        }
    }

    /// What has come is acknowledged before a request is posted: a program that answers a message does not
    /// overtake the acknowledgement of it, and its peer's send has ended when the answer is there.
    #[cold]
    pub(super) fn answer_first(&self) {
        self.answer();
    }

    /// After packets came: answers them, ends what they ended, and sends what they made room for. Which
    /// answers are left. A lone acknowledgement may wait for `later`.
    pub(super) fn settle_arrivals(self: &Arc<Self>, later: Option<&Later>) -> Left {
        let (answers, has_heard) = match self.arrivals.lock().as_mut() {
            Some(receiver) => {
                let waits = self.answers_later(receiver, later);
                (!waits && receiver.responder.has_answers(), receiver.take_heard())
            }
            None => (false, false),
        };
        let left = if answers { self.answer() } else { Left::Nothing };
        if self.due_at.load(Ordering::Relaxed) == due::NEVER && self.state() != QpState::Err {
            // The send queue waits for nothing, so that who posts next finds all as it is now.
            return left;
        }
        // Where the program keeps it, those that look after what waits come back to it.
        let Some(mut side) = self.send_side_soon() else { return left };
        let SendSide { far: Some(far), .. } = &mut *side else { return left };
        if has_heard {
            far.requester.heard();
        }
        if !self.end_waiting(&mut side) {
            self.work(&mut side, false);
        }
        left
    }

    /// Stands in the list of those that wait from its first request on, since requests come and go with every
    /// message, and says there when it is to be looked at; what it waits for.
    pub(super) fn enlist_far(&self, side: &mut SendSide) -> Work {
        let work = match side.ring.is_empty() {
            false => Work::Wait(self.far_deadline(side)),
            true if side.unflushed => Work::Wait(None),
            true => Work::Nothing,
        };
        let due_at = match work {
            Work::Nothing => due::NEVER,
            Work::Wait(until) => until.unwrap_or(due::SOMETIME),
            Work::Execute => 0,
        };
        self.due_at.store(due_at, Ordering::Relaxed);
        if work != Work::Nothing && !side.listed {
            side.listed = true;
            self.list();
        }
        work
    }

    /// Whether it is to be looked at, at this time, or as who looks at it `now_and_then` does; and when, as
    /// [`due`] has it.
    pub(super) fn is_due(&self, now: u64, now_and_then: bool) -> (bool, u64) {
        let due_at = self.due_at.load(Ordering::Relaxed);
        let waits = due_at != due::NEVER;
        // What broke while its requests waited is flushed.
        let is_sometime = due_at == due::SOMETIME || waits && self.state() == QpState::Err;
        (due_at <= now || now_and_then && is_sometime, due_at)
    }

    /// Takes what has come where an answer is overdue.
    pub(super) fn look_for_overdue(&self) {
        let side = self.send_side_soon();
        let until = side.as_ref().and_then(|side| self.far_deadline(side));
        drop(side);
        if until.is_some_and(|until| until <= self.device().now()) {
            self.device().take_packets_first();
        }
    }

    /// When the send queue is to be looked at again, where nothing comes.
    pub(super) fn far_deadline(&self, side: &SendSide) -> Option<u64> {
        side.far.as_ref().and_then(|far| far.held_up.until().or_else(|| far.requester.deadline()))
    }
}
