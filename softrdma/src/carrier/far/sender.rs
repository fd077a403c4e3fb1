//! What a connected queue pair's send queue keeps for a peer on another host.
//!
//! Requests stay in the queue until they have ended: what is lost is sent again from the program's memory. The
//! first of them are with the wire's requester, which says what is sent next.

use super::Peer;
use super::pause::Pause;
use crate::carrier::wr::{Operands, Wr};
use crate::error::Result;
use crate::faults::{self, Faults};
use crate::rules::requester::Retry;
use crate::rules::verbs::{Opcode, SendFlags};
use crate::wire::requester::Requester;
use crate::wire::requester::message::{Message, Ticket};

/// See the module.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) peer: Peer,
    pub(crate) requester: Requester,
    /// Requests of the queue that the requester has, the first of it.
    pub(crate) begun: u32,
    /// The ticket of the first of them.
    first: u64,
    /// There was no room for a packet, which is to be sent when that is over.
    pub(crate) held_up: Pause,
    /// What is to be answered leaves with the request that is sent: an acknowledgement, by the same call.
    pub(crate) is_answered: bool,
}

impl Sender {
    /// That of a queue of so many requests, of which so many may be reads or atomic operations under way.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(peer: Peer, requests: u32, max_rd_atomic: u8) -> Result<Self> {
        let requester = Requester::new(requests, max_rd_atomic)?;
        Ok(Self { peer, requester, begun: 0, first: 0, held_up: Pause::default(), is_answered: false })
    }

    /// Begins to send, the first packet with this PSN.
    pub(crate) fn start(&mut self, psn: u32, retry: Retry, max_rd_atomic: u8) {
        self.requester.start(self.peer.connection(psn), retry, max_rd_atomic);
        (self.begun, self.first) = (0, 0);
        self.held_up.end();
    }

    /// Whether nothing more leaves for a while, as faults on request say that the line is busy.
    pub(crate) fn holds_for_line(&mut self, now: u64) -> bool {
        let busy = faults::active().and_then(Faults::line_is_busy_for);
        if let Some(busy) = busy {
            self.held_up.hold(now.saturating_add(busy));
        }
        busy.is_some()
    }

    /// Which request of the queue has this ticket.
    pub(crate) fn place(&self, ticket: Ticket) -> usize {
        ticket.0.saturating_sub(self.first) as usize
    }

    /// The oldest request has ended, and leaves the queue.
    pub(crate) fn ended(&mut self) {
        self.begun = self.begun.saturating_sub(1);
        self.first += 1;
    }

    /// All requests have left the queue, flushed.
    pub(crate) fn forget(&mut self) {
        self.requester.flush();
        while self.requester.done().is_some() {
            self.first += 1;
        }
        self.begun = 0;
    }
}

/// The message of a request; `None` for what leaves no process, or the wire does not have.
#[inline(always)]
pub(crate) fn message(wr: &Wr<'_>) -> Option<Message> {
    // What is longer than any message is refused for its length.
    let length = u32::try_from(wr.data.length()).unwrap_or(u32::MAX);
    let message = Message {
        solicited: wr.flags.has(SendFlags::SOLICITED),
        fence: wr.flags.has(SendFlags::FENCE),
        imm_or_key: wr.imm_or_key,
        ..Message::new(wr.opcode, length)
    };
    match (wr.opcode, wr.operands) {
        (Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv, _) => Some(message),
        (
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::RdmaRead,
            Operands::Remote { addr, rkey, .. },
        ) => Some(Message { va: addr, rkey, ..message }),
        (Opcode::CmpAndSwp, Operands::Atomic { addr, rkey, compare_add, swap }) => {
            Some(Message { va: addr, rkey, compare: compare_add, swap_or_add: swap, ..message })
        }
        (Opcode::FetchAndAdd, Operands::Atomic { addr, rkey, compare_add, .. }) => {
            Some(Message { va: addr, rkey, swap_or_add: compare_add, ..message })
        }
        _ => None,
    }
}
