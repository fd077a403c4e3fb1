//! What a queue pair answers to one on another host: acknowledgements, and the memory that it reads.
//!
//! Memory is copied first, that of packets that follow one another in a read by one call for a burst.

use super::QueuePair;
use crate::carrier::far::batch::Batch;
use crate::carrier::far::network::{BURST, Burst};
use crate::carrier::far::pause::Left;
use crate::carrier::far::receiver::Receiver;
use crate::carrier::near::bytes;
use crate::faults;
use crate::rules::requester::Syndrome;
use crate::rules::verbs::QpState;
use crate::shm::copy::Span;
use crate::wire::responder::step::{Part, Response};

/// Answers that leave together; what is behind them leaves with the next look at the network.
const ANSWERS: usize = 128;

/// Until when an answer with payload waits, as faults on request say that the line is busy.
fn waits_for_line(response: &Response, now: u64) -> Option<u64> {
    let is_heavy = response.payload.is_some_and(|part| part.length > 0);
    let faults = faults::active().filter(|_| is_heavy)?;
    Some(now.saturating_add(faults.line_is_busy_for()?))
}

/// Packets of a burst, the last of it, that answer one read with memory that is still to be copied.
struct Wanted {
    /// All of the memory: the first packet's, and what goes on behind it.
    part: Part,
    rooms: Batch<Span, BURST>,
}

impl Wanted {
    /// None, before this one.
    fn before(part: &Part) -> Self {
        Self { part: Part { length: 0, ..*part }, rooms: Batch::new() }
    }

    /// Whether this memory goes on where theirs ends.
    fn precedes(&self, part: &Part) -> bool {
        self.part.rkey == part.rkey && self.part.va.checked_add(self.part.length.into()) == Some(part.va)
    }

    fn add(&mut self, part: &Part, room: Span) {
        self.rooms.push(room);
        self.part.length += part.length;
    }
}

/// Answers that are about to leave.
struct Answers<'a, 'n> {
    qp: &'a QueuePair,
    burst: Burst<'n>,
    loaded: Batch<Response, BURST>,
    wanted: Option<Wanted>,
}

impl Answers<'_, '_> {
    /// One more. Where the memory before it is not there any more, the peer is told so, and it is not sent.
    fn load(&mut self, receiver: &mut Receiver, response: &Response) {
        let part = response.payload.filter(|part| part.length > 0);
        let goes_on = match (&self.wanted, &part) {
            (Some(wanted), Some(part)) => wanted.precedes(part),
            _ => false,
        };
        if !goes_on && !self.copy(receiver) {
            return;
        }
        let room = self.burst.push_later(&response.head, part.map_or(0, |part| part.length as usize));
        self.loaded.push(*response);
        if let Some(part) = &part {
            self.wanted.get_or_insert_with(|| Wanted::before(part)).add(part, room);
        }
    }

    /// Copies the memory that is still to be copied; whether that was there. Where it was not, its packets do
    /// not leave.
    fn copy(&mut self, receiver: &mut Receiver) -> bool {
        let Some(Wanted { part, rooms }) = self.wanted.take() else { return true };
        let (endpoint, pd, qp_num) = (&self.qp.device().endpoint, self.qp.pd(), self.qp.qp_num());
        // SAFETY: the rooms of packets of the burst, which nobody looks at before it leaves.
        let copied = unsafe { bytes::read_remote(endpoint, pd, qp_num, (part.va, part.rkey), rooms.all()) };
        if copied.is_ok() {
            return true;
        }
        let before = self.loaded.all().len().saturating_sub(rooms.all().len());
        if let Some(first) = self.loaded.all().get(before) {
            receiver.responder.refuse_response(first, Syndrome::Access);
        }
        self.burst.drop_last(rooms.all().len());
        self.loaded.truncate(before);
        self.qp.fail(QpState::Err);
        false
    }
}

impl QueuePair {
    /// Sends the answers that are due; which are left.
    pub(super) fn answer(&self) -> Left {
        let mut arrivals = self.arrivals.lock();
        let (Some(receiver), Some(network)) = (arrivals.as_mut(), self.device().network_way()) else {
            return Left::Nothing;
        };
        if !receiver.responder.has_answers() {
            return Left::Nothing;
        }
        let now = self.device().now();
        let Some(mut response) = receiver.responder.next_response(now) else {
            return receiver.responder.resumes(now).map_or(Left::Nothing, Left::Later);
        };
        if let Some(until) = waits_for_line(&response, now) {
            receiver.responder.unsend(&response);
            return Left::Later(until);
        }
        let burst = network.burst(&receiver.peer.flow());
        let mut due = Answers { qp: self, burst, loaded: Batch::new(), wanted: None };
        let mut answers = 0;
        loop {
            due.load(receiver, &response);
            answers += 1;
            let mut next = if answers < ANSWERS { receiver.responder.next_response(now) } else { None };
            if due.burst.is_full() || next.is_none() {
                if !due.copy(receiver) {
                    // What says so, in the place of what was next.
                    next = receiver.responder.next_response(now);
                }
                let left = due.burst.launch();
                if let Some(behind) = due.loaded.all().get(left..).filter(|behind| !behind.is_empty()) {
                    let unsent = next.iter().chain(behind.iter().rev());
                    unsent.for_each(|response| receiver.responder.unsend(response));
                    return Left::NoRoom { has_sent: left > 0 };
                }
                due.loaded.truncate(0);
                let waits = next.as_ref().and_then(|next| Some((next, waits_for_line(next, now)?)));
                if let Some((next, until)) = waits {
                    receiver.responder.unsend(next);
                    return Left::Later(until);
                }
            }
            match next {
                Some(next) => response = next,
                None if answers == ANSWERS => return Left::Some,
                None => return receiver.responder.resumes(now).map_or(Left::Nothing, Left::Later),
            }
        }
    }
}
