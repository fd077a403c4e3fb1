//! Packets of a queue pair that is connected to another host, as they leave.
//!
//! Payload is copied from the program's memory first. What follows one another in a message is, by one call for
//! all packets of a burst.

use super::QueuePair;
use super::send::SendSide;
use crate::carrier::far::network::{BURST, Burst, Network};
use crate::carrier::far::sender::Sender;
use crate::carrier::near::bytes;
use crate::rules::verbs::Status;
use crate::shm::copy::Span;
use crate::wire::requester::message::{Ticket, Transmit};

/// Packets of a burst, the last of it, whose payload is still to be copied: they follow one another in a
/// message.
#[derive(Default)]
struct Gathered {
    ticket: Option<Ticket>,
    offset: usize,
    bytes: usize,
    rooms: [Span; BURST],
    count: usize,
}

impl Gathered {
    /// Whether this packet goes on where they end.
    fn precedes(&self, transmit: &Transmit) -> bool {
        self.ticket == Some(transmit.ticket) && self.offset + self.bytes == transmit.offset as usize
    }

    fn add(&mut self, transmit: &Transmit, room: Span) {
        if self.count == 0 {
            (self.ticket, self.offset, self.bytes) = (Some(transmit.ticket), transmit.offset as usize, 0);
        }
        self.rooms[self.count] = room;
        (self.count, self.bytes) = (self.count + 1, self.bytes + room.len as usize);
    }
}

impl QueuePair {
    /// Sends what may be sent now.
    pub(super) fn transmit(&self, side: &SendSide, far: &mut Sender, network: &Network) {
        let (endpoint, now) = (&self.device().endpoint, self.device().now());
        if far.held_up.until().is_some_and(|until| now < until) {
            return;
        }
        let Some(mut transmit) = far.requester.next(now) else { return far.held_up.end() };
        // Locked before the burst.
        let mut behind = far.takes_behind().then(|| self.arrivals.lock());
        let mut burst = network.burst(&far.peer.flow());
        burst.set_train(far.requester.train());
        let (mut loaded, mut count) = ([transmit; BURST], 0);
        let mut gathered = Gathered::default();
        loop {
            let (wr, length) = (side.ring.nth(far.place(transmit.ticket)), transmit.length as usize);
            let is_later = wr.as_ref().is_some_and(|wr| bytes::is_better_together(endpoint, wr, length));
            let goes_on = is_later && gathered.precedes(&transmit);
            let mut is_whole = goes_on || self.gather(side, far, &mut burst, &mut gathered, &mut count);
            if is_whole && is_later {
                gathered.add(&transmit, burst.push_later(&transmit.head, length));
            } else if is_whole {
                let taken = burst.push(&transmit.head, length, |room| {
                    let wr = wr.filter(|_| !room.is_empty());
                    wr.map_or(Ok(()), |wr| bytes::take_part(endpoint, &wr, transmit.offset as usize, room))
                });
                if taken.is_err() {
                    far.requester.fail(transmit.ticket, Status::LocProtErr);
                    is_whole = false;
                }
            }
            if is_whole {
                (loaded[count], count) = (transmit, count + 1);
            }
            let mut next = if is_whole { far.requester.next(now) } else { None };
            if burst.is_full() || next.is_none() {
                if !self.gather(side, far, &mut burst, &mut gathered, &mut count) {
                    next = None;
                }
                let behind = behind.as_mut().and_then(|arrivals| arrivals.as_mut()).filter(|_| count == 1);
                let mut answer =
                    behind.map(|receiver| (self.acknowledge_behind(&mut burst, receiver), receiver));
                let sent = burst.launch();
                if let Some((Some(response), receiver)) = answer.as_mut().filter(|_| sent <= count) {
                    receiver.responder.unsend(response);
                }
                if let Some(unsent) = loaded[..count].get(sent) {
                    far.requester.unsend(unsent);
                    far.held_up.begin(now, sent > 0);
                    return;
                }
                far.held_up.end();
                count = 0;
            }
            match next {
                Some(next) => transmit = next,
                None => break,
            }
        }
    }

    /// Copies the payload of gathered packets. Where that is not there, they do not leave, their message fails,
    /// and nothing behind it is to leave.
    fn gather(
        &self,
        side: &SendSide,
        far: &mut Sender,
        burst: &mut Burst<'_>,
        gathered: &mut Gathered,
        loaded: &mut usize,
    ) -> bool {
        let Gathered { ticket: Some(ticket), offset, mut rooms, count, .. } = std::mem::take(gathered) else {
            return true;
        };
        let taken = side.ring.nth(far.place(ticket)).is_some_and(|wr| {
            // SAFETY: the rooms of packets of the burst, which nobody looks at before it leaves.
            unsafe { bytes::take_parts(&self.device().endpoint, &wr, offset, &mut rooms[..count]) }.is_ok()
        });
        if !taken {
            burst.drop_last(count);
            *loaded = loaded.saturating_sub(count);
            far.requester.fail(ticket, Status::LocProtErr);
        }
        taken
    }
}
