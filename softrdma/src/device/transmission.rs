//! Packets of a queue pair that is connected to another host, as they leave.
//!
//! Payload is copied from the program's memory first. What the kernel copies of a message is, by one call for
//! all packets of a burst.

use super::QueuePair;
use super::send::SendSide;
use crate::carrier::far::Held;
use crate::carrier::far::batch::Batch;
use crate::carrier::far::network::{BURST, Burst, Network};
use crate::carrier::far::sender::Sender;
use crate::carrier::near::bytes;
use crate::rules::verbs::Status;
use crate::shm::copy::Span;
use crate::wire::psn::Psn;
use crate::wire::requester::message::{Ticket, Transmit};

/// Packets of a burst: of which message, and their PSN.
type Loaded = Batch<(Ticket, Psn), BURST>;

/// Packets of a burst, the last of it, whose payload is still to be copied: they follow one another in a
/// message.
struct Gathered {
    ticket: Ticket,
    offset: usize,
    bytes: usize,
    rooms: Batch<Span, BURST>,
}

impl Gathered {
    /// None, before this one.
    fn before(transmit: &Transmit) -> Self {
        Self { ticket: transmit.ticket, offset: transmit.offset as usize, bytes: 0, rooms: Batch::new() }
    }

    /// Whether this packet goes on where they end.
    fn precedes(&self, transmit: &Transmit) -> bool {
        self.ticket == transmit.ticket && self.offset + self.bytes == transmit.offset as usize
    }

    fn add(&mut self, room: Span) {
        self.rooms.push(room);
        self.bytes += room.len as usize;
    }
}

impl QueuePair {
    /// The receiving side, where its acknowledgement is to leave with the request that is sent. Other answers
    /// leave before it.
    fn answered(&self, far: &mut Sender) -> Option<Held<'_>> {
        if !far.is_answered {
            return None;
        }
        // Waited for: the request is not to overtake an acknowledgement that another thread is about to send.
        let arrivals = self.arrivals.lock();
        let responder = &arrivals.as_ref()?.responder;
        far.is_answered = responder.has_lone_acknowledgement();
        if far.is_answered {
            return Some(arrivals);
        }
        let has_answers = responder.has_answers();
        drop(arrivals);
        if has_answers {
            self.answer_or_keep();
        }
        None
    }

    /// Launches a burst, with the acknowledgement that waits: how many packets have left beside that.
    fn launch(burst: &mut Burst<'_>, answered: Option<Held<'_>>, far: &mut Sender, now: u64) -> usize {
        let Some(mut arrivals) = answered else { return burst.launch() };
        let response = arrivals.as_mut().and_then(|receiver| receiver.responder.next_response(now));
        let (Some(receiver), Some(response)) = (arrivals.as_mut(), response) else { return burst.launch() };
        let (sent, is_answered) = burst.launch_with(&response.head, receiver.takes_acknowledgements_first());
        if !is_answered {
            receiver.responder.unsend(&response);
        }
        far.is_answered = receiver.responder.has_answers();
        sent
    }

    /// Sends what may be sent now.
    pub(super) fn transmit(&self, side: &SendSide, far: &mut Sender, network: &Network) {
        if far.requester.waiting() == 0 {
            return far.held_up.end();
        }
        let now = self.device().now();
        if far.held_up.until().is_some_and(|until| now < until) {
            return;
        }
        if far.holds_for_line(now) {
            return;
        }
        let next = far.requester.next(now);
        match &next {
            None => far.held_up.end(),
            Some(last) if far.requester.is_at_end() => self.transmit_last(side, far, network, last, now),
            Some(_) => self.transmit_all(side, far, network, next, now),
        }
    }

    /// Sends a packet with nothing behind it, as most are: what many of one message save has no place there.
    #[inline(never)]
    fn transmit_last(&self, side: &SendSide, far: &mut Sender, network: &Network, last: &Transmit, now: u64) {
        let answered = self.answered(far);
        let mut burst = network.burst(&far.peer.flow());
        burst.set_train(far.requester.train());
        let taken = burst.push(&last.head, last.length as usize, |room| {
            let wr = if room.is_empty() { None } else { side.ring.nth(far.place(last.ticket)) };
            let endpoint = &self.device().endpoint;
            wr.map_or(Ok(()), |wr| bytes::take_part(endpoint, &wr, last.offset as usize, room))
        });
        if taken.is_err() {
            far.requester.fail(last.ticket, Status::LocProtErr);
        } else if Self::launch(&mut burst, answered, far, now) == 0 {
            far.requester.unsend(last);
            far.held_up.begin(now, false);
            return;
        }
        far.held_up.end();
    }

    /// Sends this packet and those behind it.
    #[inline(never)]
    fn transmit_all(
        &self,
        side: &SendSide,
        far: &mut Sender,
        network: &Network,
        mut next: Option<Transmit>,
        now: u64,
    ) {
        let endpoint = &self.device().endpoint;
        let mut answered = self.answered(far);
        let mut burst = network.burst(&far.peer.flow());
        burst.set_train(far.requester.train());
        let (mut loaded, mut gathered) = (Loaded::new(), None::<Gathered>);
        while let Some(transmit) = &next {
            let wr = side.ring.nth(far.place(transmit.ticket));
            let length = transmit.length as usize;
            let is_later = wr.as_ref().is_some_and(|wr| bytes::is_better_together(endpoint, wr, length));
            let goes_on = is_later && gathered.as_ref().is_some_and(|those| those.precedes(transmit));
            let mut is_whole = goes_on || self.gather(side, far, &mut burst, &mut gathered, &mut loaded);
            if is_whole && is_later {
                let room = burst.push_later(&transmit.head, length);
                gathered.get_or_insert_with(|| Gathered::before(transmit)).add(room);
            } else if is_whole {
                let taken = burst.push(&transmit.head, length, |room| match &wr {
                    Some(wr) if length > 0 => bytes::take_part(endpoint, wr, transmit.offset as usize, room),
                    _ => Ok(()),
                });
                if taken.is_err() {
                    far.requester.fail(transmit.ticket, Status::LocProtErr);
                    is_whole = false;
                }
            }
            if is_whole {
                loaded.push((transmit.ticket, transmit.head.bth.psn));
            }
            next = if is_whole { far.requester.next(now) } else { None };
            if burst.is_full() || next.is_none() {
                if !self.gather(side, far, &mut burst, &mut gathered, &mut loaded) {
                    next = None;
                }
                let answered = answered.take_if(|_| next.is_none());
                let sent = Self::launch(&mut burst, answered, far, now);
                if let Some((ticket, psn)) = loaded.all().get(sent) {
                    far.requester.unsend_from(*ticket, *psn);
                    far.held_up.begin(now, sent > 0);
                    return;
                }
                far.held_up.end();
                loaded.truncate(0);
                if let Some(next) = next.as_ref().filter(|_| far.holds_for_line(now)) {
                    return far.requester.unsend(next);
                }
            }
        }
    }

    /// Copies the payload of gathered packets. Where that is not there, they do not leave, their message fails,
    /// and nothing behind it is to leave.
    #[inline]
    fn gather(
        &self,
        side: &SendSide,
        far: &mut Sender,
        burst: &mut Burst<'_>,
        gathered: &mut Option<Gathered>,
        loaded: &mut Loaded,
    ) -> bool {
        let Some(Gathered { ticket, offset, rooms, .. }) = gathered else { return true };
        let (ticket, count) = (*ticket, rooms.all().len());
        let taken = side.ring.nth(far.place(ticket)).is_some_and(|wr| {
            // SAFETY: the rooms of packets of the burst, which nobody looks at before it leaves.
            unsafe { bytes::take_parts(&self.device().endpoint, &wr, *offset, rooms.all_mut()) }.is_ok()
        });
        *gathered = None;
        if !taken {
            burst.drop_last(count);
            loaded.truncate(loaded.all().len().saturating_sub(count));
            far.requester.fail(ticket, Status::LocProtErr);
        }
        taken
    }
}
