//! The end of a process: everything that is left completes, and nothing is lost.

use softrdma::device::{Attributes, SharedReceiveQueue};
use softrdma::rules::verbs::{Attr, QpState};
use softrdma_schedule::turn::sleep_until;

use crate::program::Program;
use crate::thread::Thread;

/// Within this time a queue pair that broke is flushed, in nanoseconds: the device's thread looks that often.
const FLUSHED: u64 = 100_000_000;

impl Program<'_> {
    /// Ends a queue pair.
    pub fn destroy(&self, qp: usize) {
        self.forget(qp);
        self.ledger.pair((self.me, qp)).destroyed.set(true);
        if let Err(why) = self.qps[qp].destroy() {
            self.board.violated(&format!("queue pair {qp} of {} cannot be destroyed: {why:?}", self.me));
        }
        self.forget(qp);
        self.board.note(&format!("destroyed {qp}"));
    }

    /// What a queue pair had is gone without completions.
    pub fn forget(&self, qp: usize) {
        let (ledger, end) = (self.ledger, (self.me, qp));
        for (sent, message) in ledger.sent.iter().zip(&self.plan.messages) {
            if message.from == end && sent.posted.get() != 0 && sent.status.get().is_none() {
                sent.forgotten.set(true);
            }
        }
        for receive in &ledger.receives[..ledger.posted.get()] {
            if receive.queue.get() == (self.me, qp, false) && receive.status.get().is_none() {
                receive.forgotten.set(true);
            }
        }
    }

    /// Messages may have come to a queue pair that its program never saw.
    pub fn lose(&self, qp: usize) {
        self.ledger.pair((self.me, qp)).reset.set(Some(self.board.now()));
    }

    pub fn modify(&self, qp: usize, state: QpState) -> softrdma::device::Result<()> {
        self.qps[qp].modify(Attr::STATE, &Attributes { state, ..Attributes::default() })
    }

    /// Everything ends: what is left completes in error, and nothing is lost.
    pub fn end(&self) {
        let own = &self.plan.processes[self.me];
        let is_broken = |qp: &usize| !self.is_destroyed(*qp) && self.qps[*qp].state() == QpState::Err;
        let broken: Vec<_> = (0..own.qps.len()).filter(is_broken).collect();
        let threads: Vec<_> =
            (0..own.threads).map(|number| Thread { program: self, number, spins: 0 }).collect();
        // The device's own thread may have broken one just now, as its peer ended, and is about to flush it.
        let until = self.board.now() + FLUSHED;
        while self.missing(&broken).is_some() && self.board.now() < until {
            sleep_until(self.board.now() + FLUSHED / 100);
            threads.iter().for_each(|thread| {
                thread.drain(true);
            });
        }
        self.expect_all(&broken, "is in error and not flushed");
        for qp in (0..own.qps.len()).filter(|qp| !self.is_destroyed(*qp)) {
            self.ledger.pair((self.me, qp)).broken.set(true);
            if let Err(why) = self.modify(qp, QpState::Err) {
                self.board.violated(&format!("queue pair {qp} of {} cannot be broken: {why:?}", self.me));
            }
        }
        // Twice: what one finds may let another go on.
        for thread in threads.iter().chain(&threads) {
            thread.drain(true);
            thread.look_at_events();
        }
        self.expect_all(&(0..own.qps.len()).collect::<Vec<_>>(), "has lost something");
        let all = &self.ledger.receives[..self.ledger.posted.get()];
        (0..own.qps.len()).filter(|qp| !self.is_destroyed(*qp)).for_each(|qp| self.destroy(qp));
        for (n, srq) in self.srqs.iter().enumerate() {
            let waits = all.iter().filter(|receive| {
                receive.queue.get() == (self.me, n, true)
                    && receive.status.get().is_none()
                    && !receive.forgotten.get()
            });
            self.count(n, srq, waits.count());
        }
        let ended = self.srqs.iter().map(|srq| srq.destroy()).chain(self.cqs.iter().map(|cq| cq.destroy()));
        for ended in ended {
            if let Err(why) = ended {
                self.board.violated(&format!("a queue of {} cannot be destroyed: {why:?}", self.me));
            }
        }
    }

    /// Every request of these queue pairs has completed that was to complete.
    fn expect_all(&self, qps: &[usize], otherwise: &str) {
        if let Some((qp, request)) = self.missing(qps) {
            self.board.violated(&format!("queue pair {qp} of {} {otherwise}: {request}", self.me));
        }
    }

    /// A request of these queue pairs that has not completed, and was to: its queue pair, and what it is.
    fn missing(&self, qps: &[usize]) -> Option<(usize, String)> {
        if self.ledger.seen[self.me].overran.get() {
            return None;
        }
        for (receive, index) in self.ledger.receives[..self.ledger.posted.get()].iter().zip(0..) {
            let (process, queue, shared) = receive.queue.get();
            let is_left = process == self.me && !shared && qps.contains(&queue);
            if is_left && receive.status.get().is_none() && !receive.forgotten.get() {
                return Some((queue, format!("receive request {index:x}")));
            }
        }
        for (sent, (message, number)) in self.ledger.sent.iter().zip(self.plan.messages.iter().zip(0..)) {
            let waits = message.from.0 == self.me
                && qps.contains(&message.from.1)
                && message.signalled
                && sent.posted.get() != 0
                && sent.status.get().is_none()
                && !sent.forgotten.get();
            if waits {
                return Some((message.from.1, format!("message {number:x}")));
            }
        }
        None
    }

    /// A shared receive queue has the requests that did not complete, and no others: so many more fit. What
    /// completed for a queue pair that was reset or destroyed may not have been polled before.
    fn count(&self, number: usize, srq: &SharedReceiveQueue, waits: usize) {
        let room = (0..).take_while(|_| srq.post(0, &[]).is_ok()).count();
        let size = srq.max_wr() as usize;
        let own = &self.plan.processes[self.me].qps;
        let is_exact = own.iter().enumerate().all(|(n, qp)| {
            let pair = self.ledger.pair((self.me, n));
            qp.srq != Some(number) || (pair.lives.get() == 0 && !self.ended_early[n].get())
        });
        let overran = self.ledger.seen[self.me].overran.get();
        if room + waits < size || room + waits > size && is_exact && !overran {
            self.board.violated(&format!(
                "shared receive queue {number} of {} has room for {room} more beside {waits}, not {size}",
                self.me
            ));
        }
    }
}
