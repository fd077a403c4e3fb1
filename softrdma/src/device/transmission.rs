//! Packets of a queue pair that is connected to another host, as they leave.
//!
//! Payload is copied from the program's memory first. What follows one another in a message is, by one call for
//! all packets of a burst.

use super::QueuePair;
use super::acknowledgement::acknowledge_behind;
use super::send::SendSide;
use crate::carrier::far::batch::Batch;
use crate::carrier::far::network::{BURST, Burst, Network};
use crate::carrier::far::receiver::Receiver;
use crate::carrier::far::sender::Sender;
use crate::carrier::near::bytes;
use crate::rules::verbs::Status;
use crate::wire::psn::Psn;
use crate::wire::requester::message::{Ticket, Transmit};

/// Packets of a burst: of which message, and their PSN.
type Loaded = Batch<(Ticket, Psn), BURST>;

/// Launches a burst of so many packets, where it is the last with what is to be answered `behind` it: how many
/// have left.
fn launch(
    burst: &mut Burst<'_>,
    count: usize,
    far: &mut Sender,
    behind: Option<&mut Box<Receiver>>,
    now: u64,
) -> usize {
    let Some(receiver) = behind else { return burst.launch() };
    let response = acknowledge_behind(burst, receiver, now);
    let sent = burst.launch();
    if let Some(response) = response.as_ref().filter(|_| sent <= count) {
        receiver.responder.unsend(response);
    }
    far.is_answered_behind = receiver.responder.has_answers();
    sent
}

impl QueuePair {
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
        // Locked before the burst.
        let mut behind = far.is_answered_behind.then(|| self.arrivals.lock());
        let receiver = behind.as_mut().and_then(|arrivals| arrivals.as_mut());
        let mut burst = network.burst(&far.peer.flow());
        burst.set_train(far.requester.train());
        let taken = burst.push(&last.head, last.length as usize, |room| {
            let wr = if room.is_empty() { None } else { side.ring.nth(far.place(last.ticket)) };
            let endpoint = &self.device().endpoint;
            wr.map_or(Ok(()), |wr| bytes::take_part(endpoint, &wr, last.offset as usize, room))
        });
        if taken.is_err() {
            far.requester.fail(last.ticket, Status::LocProtErr);
        } else if launch(&mut burst, 1, far, receiver, now) == 0 {
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
        // Locked before the burst.
        let mut behind = far.is_answered_behind.then(|| self.arrivals.lock());
        let mut burst = network.burst(&far.peer.flow());
        burst.set_train(far.requester.train());
        let mut loaded = Loaded::new();
        while let Some(transmit) = &next {
            let wr = side.ring.nth(far.place(transmit.ticket));
            let length = transmit.length as usize;
            let taken = burst.push(&transmit.head, length, |room| match &wr {
                Some(wr) if length > 0 => bytes::take_part(endpoint, wr, transmit.offset as usize, room),
                _ => Ok(()),
            });
            if taken.is_ok() {
                loaded.push((transmit.ticket, transmit.head.bth.psn));
                next = far.requester.next(now);
            } else {
                far.requester.fail(transmit.ticket, Status::LocProtErr);
                next = None;
            }
            if burst.is_full() || next.is_none() {
                let receiver = behind.as_mut().and_then(|arrivals| arrivals.as_mut());
                let receiver = receiver.filter(|_| next.is_none());
                let sent = launch(&mut burst, loaded.all().len(), far, receiver, now);
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
}
