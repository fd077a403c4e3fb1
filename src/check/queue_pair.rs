//! The ledger of work requests: what is outstanding on a queue pair.
//!
//! It follows what the program posts and polls. Where it cannot (threads that post at once without an order,
//! completions that fit no request), it gives up for that queue, and rules that need it are silent from then
//! on.

use std::collections::VecDeque;

use ironverbs_os::growth::TryPush;

use super::buffers::{ELEMENTS, Parts, Sum, sum};
use super::place::Place;
use crate::abi::verbs::*;

/// The bytes that a request sends.
#[derive(Clone, Copy)]
pub struct Buffer {
    parts: Parts,
    count: usize,
    sum: Sum,
    /// Whether others may write there.
    pub is_shared: bool,
    /// How many receives the queue pair had completed at the post.
    pub received: u64,
}

/// A send request whose bytes are looked at.
#[derive(Clone, Copy)]
pub struct Looked {
    /// Which one.
    serial: u64,
    /// What it sends.
    pub buffer: Buffer,
    /// Where it was posted.
    pub place: Place,
}

/// A send request.
#[derive(Clone, Copy)]
pub struct Request {
    /// As the program calls it.
    pub wr_id: u64,
    /// Whether it completes with an entry.
    pub is_signaled: bool,
    /// How many were posted before.
    pub serial: u64,
    /// The operation (`IBV_WR_*`); `u32::MAX`: not set yet.
    pub opcode: u32,
    /// Keys of its elements.
    pub keys: [u32; ELEMENTS],
}

impl Buffer {
    /// Parts of which nothing is known yet.
    pub fn of(parts: &[(u64, u64)], is_shared: bool) -> Option<Self> {
        let mut all = Parts::default();
        let count = parts.len().min(ELEMENTS);
        all.get_mut(..count)?.copy_from_slice(parts.get(..count)?);
        Some(Self { parts: all, count, sum: Sum::Unknown, is_shared, received: 0 })
    }

    /// The bytes as they are now, when so many receives were completed; None where they cannot be read.
    pub fn now(self, received: u64) -> Option<Self> {
        let sum = sum(&self.parts[..self.count]);
        matches!(sum, Sum::Of(_)).then_some(Self { sum, received, ..self })
    }

    /// What has become of them: None where they are the same.
    pub fn change(&self) -> Option<Sum> {
        let now = sum(&self.parts[..self.count]);
        (now != self.sum && now != Sum::Unknown).then_some(now)
    }

    /// The first byte, and how many there are.
    pub fn extent(&self) -> (u64, u64) {
        (self.parts[0].0, self.parts[..self.count].iter().map(|(_, length)| length).sum())
    }
}

/// What errors of a queue pair the program has seen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Seen {
    /// None.
    #[default]
    Nothing,
    /// One, when so many requests were posted.
    Once(u64),
    /// Another, of a request posted after the first.
    Again,
}

/// How a peer is reached.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Path {
    /// Its queue pair's number.
    pub number: u32,
    /// Its GID.
    pub gid: [u8; 16],
    /// The own one.
    pub own: [u8; 16],
}

/// A queue pair.
pub struct QueuePair {
    /// The device's number of it.
    pub number: u32,
    /// Its service (`IBV_QPT_*`).
    pub service: u32,
    /// The domain behind parent domains.
    pub domain: u64,
    /// Whether it was made for one thread.
    pub is_for_one: bool,
    /// Its queues.
    pub send_cq: u64,
    /// See `send_cq`.
    pub recv_cq: u64,
    /// The shared receive queue, or 0.
    pub srq: u64,
    /// Whether every send completes with an entry.
    pub signals_all: bool,
    /// Places of the send queue, and of the receive queue.
    pub max_send: u32,
    /// See `max_send`.
    pub max_receive: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
    /// The state that the program has set; None where it is not known, as while it is being changed.
    pub state: Option<u32>,
    /// Outstanding sends, oldest first.
    pub sends: VecDeque<Request>,
    /// Those of them whose bytes are looked at, oldest first.
    looked: VecDeque<Looked>,
    /// Those of them that are signaled.
    pub signaled: u64,
    /// Whether `sends` can be trusted, and `receives`.
    pub follows_sends: bool,
    /// See `follows_sends`.
    pub follows_receives: bool,
    /// Identifiers of outstanding receives, oldest first. Empty where there is a shared receive queue.
    pub receives: VecDeque<u64>,
    /// Requests posted so far.
    pub posted: u64,
    /// Receives completed so far.
    pub received: u64,
    /// The thread within a post, and the one that posted last; 0: none.
    pub within: usize,
    /// See `within`.
    pub poster: usize,
    /// Errors that the program has polled.
    pub seen: Seen,
    /// Requests between `ibv_wr_start` and `ibv_wr_complete`.
    pub building: Vec<(Request, Option<Buffer>)>,
    /// How many of them are being posted.
    pub completing: usize,
    /// The peer, once it is set.
    pub path: Option<Path>,
    /// Reads and atomics that it may have in flight, and takes.
    pub depth: Option<u8>,
    /// See `depth`.
    pub peers_depth: Option<u8>,
}

impl QueuePair {
    /// A queue pair just made, in RESET.
    pub fn new(qp: &ibv_qp, cap: &ibv_qp_cap, signals_all: bool) -> Self {
        Self {
            number: qp.qp_num,
            service: qp.qp_type,
            domain: qp.pd as u64,
            is_for_one: false,
            send_cq: qp.send_cq as u64,
            recv_cq: qp.recv_cq as u64,
            srq: qp.srq as u64,
            signals_all,
            max_send: cap.max_send_wr,
            max_receive: cap.max_recv_wr,
            max_inline: cap.max_inline_data,
            state: Some(IBV_QPS_RESET as u32),
            sends: VecDeque::new(),
            looked: VecDeque::new(),
            signaled: 0,
            follows_sends: true,
            follows_receives: true,
            receives: VecDeque::new(),
            posted: 0,
            received: 0,
            within: 0,
            poster: 0,
            seen: Seen::Nothing,
            building: Vec::new(),
            completing: 0,
            path: None,
            depth: None,
            peers_depth: None,
        }
    }

    /// Makes room for what may be outstanding, so that posts need no memory: a handler of a signal may post,
    /// and have interrupted the allocator. A queue that is larger grows as it fills.
    pub fn reserve(&mut self) {
        const MOST: usize = 1024;
        let most = (self.max_send as usize).min(MOST);
        let _ = self.sends.try_reserve(most.saturating_sub(self.sends.len()));
        let _ = self.looked.try_reserve(most.saturating_sub(self.looked.len()));
        if self.srq == 0 {
            let most = (self.max_receive as usize).min(MOST);
            let _ = self.receives.try_reserve(most.saturating_sub(self.receives.len()));
        }
    }

    /// Whether a send may be posted; None where that is not known, or not the library's to say.
    pub fn takes_sends(&self) -> Option<bool> {
        let state = self.state?;
        let known = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND];
        known
            .iter()
            .any(|service| *service as u32 == self.service)
            .then(|| ![IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR].iter().any(|early| *early as u32 == state))
    }

    /// Whether each datagram goes its own way.
    pub fn is_datagram(&self) -> bool {
        self.service == IBV_QPT_UD as u32 || self.service == IBV_QPT_RAW_PACKET as u32
    }

    /// Adds an outstanding send, and what it sends where that is looked at; whether there was memory for it.
    pub fn push(&mut self, request: Request, looked: Option<(Buffer, Place)>) -> bool {
        let pushed = self.follows_sends && self.sends.try_push(request).is_ok();
        if pushed {
            self.signaled += u64::from(request.is_signaled);
            if let Some((buffer, place)) = looked {
                // Without memory for it, it is not looked at.
                let _ = self.looked.try_push(Looked { serial: request.serial, buffer, place });
            }
        } else {
            self.give_up_sends();
        }
        pushed
    }

    /// Takes the youngest sends back, which were refused; how many of them were signaled.
    pub fn take_back(&mut self, count: usize) -> u64 {
        let mut signaled = 0;
        for _ in 0..count {
            let Some(request) = self.sends.pop_back() else { break };
            signaled += u64::from(request.is_signaled);
            if self.looked.back().is_some_and(|looked| looked.serial == request.serial) {
                self.looked.pop_back();
            }
        }
        self.signaled = self.signaled.saturating_sub(signaled);
        signaled
    }

    /// Knows no more what is outstanding; how many signaled sends were.
    pub fn give_up_sends(&mut self) -> u64 {
        self.follows_sends = false;
        self.clear_sends()
    }

    /// Nothing is outstanding any more; how many signaled sends were.
    pub fn clear_sends(&mut self) -> u64 {
        self.sends.clear();
        self.looked.clear();
        core::mem::take(&mut self.signaled)
    }

    /// Takes the oldest send, and what it sends where that is looked at.
    pub fn take_oldest(&mut self) -> Option<(Request, Option<Looked>)> {
        let request = self.sends.pop_front()?;
        self.signaled = self.signaled.saturating_sub(request.is_signaled.into());
        let is_looked_at = self.looked.front().is_some_and(|looked| looked.serial == request.serial);
        let looked = if is_looked_at { self.looked.pop_front() } else { None };
        Some((request, looked))
    }

    /// How many of the oldest sends a completion ends; None where it fits none.
    pub fn ended_by(&self, wr_id: u64, succeeded: bool) -> Option<usize> {
        let fits = |request: &Request| request.wr_id == wr_id && (request.is_signaled || !succeeded);
        let first = self.sends.iter().position(|request| request.is_signaled || fits(request))?;
        // Threads that poll at once may come here in another order.
        let at = self.sends.iter().skip(first).position(fits)?;
        Some(first + at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_pair(requests: &[(u64, bool)]) -> QueuePair {
        // SAFETY: plain C data, for which zeros are a value.
        let (qp, cap): (ibv_qp, ibv_qp_cap) = unsafe { core::mem::zeroed() };
        let mut queue_pair = QueuePair::new(&qp, &cap, false);
        for (serial, (wr_id, is_signaled)) in requests.iter().enumerate() {
            let (serial, opcode, keys) = (serial as u64, IBV_WR_SEND as u32, [0; ELEMENTS]);
            let looked = Buffer::of(&[(0x1000, 8 + serial)], false).map(|buffer| (buffer, Place::default()));
            let request = Request { wr_id: *wr_id, is_signaled: *is_signaled, serial, opcode, keys };
            queue_pair.push(request, looked.filter(|_| serial % 2 == 0));
        }
        queue_pair
    }

    #[test]
    fn a_completion_ends_its_request_and_all_before() {
        let qp = queue_pair(&[(1, false), (1, true), (1, true), (2, false)]);
        assert_eq!(qp.signaled, 2);
        assert_eq!(qp.ended_by(1, true), Some(2));
        assert_eq!(qp.ended_by(1, false), Some(1));
        assert_eq!(qp.ended_by(2, true), None);
        assert_eq!(qp.ended_by(3, false), None);
        // A completion in error of a request that was not signaled, behind one that was.
        assert_eq!(qp.ended_by(2, false), Some(4));
    }

    #[test]
    fn what_was_refused_is_taken_back() {
        let mut qp = queue_pair(&[(1, true), (2, false), (3, true)]);
        assert_eq!(qp.take_back(2), 1);
        assert_eq!((qp.sends.len(), qp.signaled), (1, 1));
        assert_eq!(qp.looked.len(), 1);
    }

    #[test]
    fn what_is_looked_at_is_of_its_request() {
        let mut qp = queue_pair(&[(1, true), (2, false), (3, true), (4, true)]);
        let taken: Vec<_> = core::iter::from_fn(|| qp.take_oldest())
            .map(|(request, looked)| (request.wr_id, looked.map(|looked| looked.buffer.extent().1)))
            .collect();
        assert_eq!(taken, [(1, Some(8)), (2, None), (3, Some(10)), (4, None)]);
        assert_eq!(qp.signaled, 0);
    }
}
