//! The direct ring of a queue pair: opened with the connection, closed with its end.

use std::sync::atomic::Ordering;

use queue_lock::QueueLock;

use crate::carrier::near::attributes::Place;
use crate::carrier::near::direct::Settled;
use crate::carrier::near::direct::{Direct, RingReader};
use crate::device::Rejected;
use crate::device::receive::ReceiveRing;
use crate::device::stuck::SOON;
use crate::queues::shared::{Memory as _, QpWord, Word};
use crate::rules::receive::Sge;
use crate::rules::verbs::QpType;

use super::QueuePair;

/// How often the requests that are taken are counted where a peer stores meanwhile how many are. Once it has,
/// that is all of them.
const TRIES: u32 = 4;

impl QueuePair {
    /// A ring for messages of the peer with this number, where one is possible. Behind the queue pair's lock,
    /// and before the peer learns that it is connected.
    pub(super) fn open_direct(&self, dest_qp_num: u32) {
        let (device, init) = (&*self.device, &self.init);
        let Some(cq) = &init.recv_cq else { return };
        if init.qp_type != QpType::Rc || device.endpoint.permissions.is_some() || !cq.takes_direct() {
            return;
        }
        self.end_direct();
        let head = device.endpoint.own.load(Word::Qp(self.index, QpWord::Head)) as u32;
        let pd = init.srq.as_ref().map_or(init.pd, |srq| srq.pd());
        let Some(direct) = Direct::new(&device.rings, &device.endpoint, self.index, pd, head) else {
            return;
        };
        let reader = |requests, shared| RingReader::new(&direct, self.qp_num, dest_qp_num, requests, shared);
        let is_added = match (&init.srq, &self.receive) {
            (Some(srq), _) => srq
                .open_direct(cq)
                .is_some_and(|(shared, requests)| cq.add_direct(reader(requests, Some(shared)))),
            (None, Some(receive)) => {
                let mut poster = receive.lock();
                let is_added = cq.add_direct(reader(poster.requests(), None));
                if is_added {
                    poster.open_direct(device, &direct);
                }
                is_added
            }
            (None, None) => false,
        };
        if is_added {
            *self.direct.lock() = Some(direct);
        } else {
            direct.give_back(&device.rings);
        }
    }

    /// The queue pair breaks: what comes from now on is not there. Behind the queue pair's lock.
    pub(super) fn close_direct(&self) {
        let own = &self.device.endpoint.own;
        let head = Word::Qp(self.index, QpWord::Head);
        if let Some(taken) = self.taken_when_closed(own.load(head) as u32) {
            own.store(head, u64::from(taken));
        }
    }

    /// As [`QueuePair::close_direct`], where a peer that does not go on has the queue pair's lock. It may go on
    /// just now: what it stores is not taken back.
    #[cold]
    pub(super) fn close_direct_beside_holder(&self) {
        let own = &self.device.endpoint.own;
        let held = own.offset(Word::Qp(self.index, QpWord::Head)).and_then(|at| own.hold(at, 1));
        let Some(word) = held.as_ref().and_then(|held| held.get().first()) else { return };
        for _ in 0..TRIES {
            let head = word.load(Ordering::Acquire);
            let Some(taken) = self.taken_when_closed(head as u32) else { return };
            let stored = word.compare_exchange(head, taken.into(), Ordering::AcqRel, Ordering::Relaxed);
            if stored.is_ok() {
                return;
            }
        }
    }

    /// Closes the ring, if there is one: how many requests are taken then, where `head` were by what stands at
    /// the queue pair.
    fn taken_when_closed(&self, head: u32) -> Option<u32> {
        let direct = self.direct.lock().clone()?;
        let cq = self.init.recv_cq.as_ref()?;
        let taken = cq.close_direct(&direct, head);
        self.init.srq.iter().for_each(|srq| srq.settle_direct(self.index, &direct, cq));
        taken
    }

    /// The connection is over, and its messages with it. Behind the queue pair's lock.
    pub(super) fn end_direct(&self) {
        if let Some(direct) = self.forget_direct() {
            direct.give_back(&self.device.rings);
        }
    }

    /// As [`QueuePair::end_direct`], where the queue pair's lock cannot be had: the peer may still find the
    /// ring, so that it serves nobody else.
    pub(super) fn abandon_direct(&self) {
        let _ = self.forget_direct();
    }

    fn forget_direct(&self) -> Option<std::sync::Arc<Direct>> {
        let direct = self.direct.lock().take()?;
        if let Some(cq) = &self.init.recv_cq {
            let _ = cq.close_direct(&direct, 0);
            self.init.srq.iter().for_each(|srq| srq.settle_direct(self.index, &direct, cq));
            cq.remove_direct(&direct);
        }
        self.receive.iter().for_each(|receive| receive.lock().end_direct());
        Some(direct)
    }

    /// Posts a receive request that was refused: where messages wait in the ring, they are taken out, so that
    /// the memory of their requests is free, as that of requests is whose completions wait in the queue.
    #[cold]
    pub(super) fn post_after_all(
        &self,
        receive: &QueueLock<ReceiveRing>,
        wr_id: u64,
        sges: &[Sge],
        why: Rejected,
    ) -> Result<(), Rejected> {
        if why == Rejected::Full && self.settle_datagrams(SOON) != Settled::Nothing {
            return receive.lock().post(&self.device, wr_id, sges);
        }
        let direct = self.direct.lock().clone();
        let (Rejected::Full, Some(direct), Some(cq)) = (why, direct, &self.init.recv_cq) else {
            return Err(why);
        };
        let head = receive.lock().head_where_held_up(&self.device).ok_or(why)?;
        cq.free_direct(&direct, head);
        receive.lock().post(&self.device, wr_id, sges)
    }

    /// Where the ring is, or the table of those of datagrams.
    pub(super) fn direct_place(&self) -> Option<Place> {
        let direct = self.direct.lock().as_ref().map(|direct| direct.place);
        direct.or_else(|| self.datagrams.lock().as_ref().map(|datagrams| datagrams.place))
    }
}
