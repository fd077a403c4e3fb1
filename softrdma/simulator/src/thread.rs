//! A thread of a process: does what is planned at its time, polls, sleeps.

use softrdma::rules::verbs::Event;
use softrdma_schedule::NEVER;
use softrdma_schedule::turn::{happened, listen_until, sleep_until};
use softrdma_testing::device::readable;

use crate::ledger::Totals;
use crate::program::Program;

/// How often a thread looks in vain before it sleeps, where that pays.
const SPINS: u32 = 8;

/// A thread of a process.
pub struct Thread<'a> {
    pub program: &'a Program<'a>,
    pub number: usize,
    pub spins: u32,
}

impl Thread<'_> {
    pub fn run(mut self) {
        let Program { board, ledger, plan, me, .. } = *self.program;
        let acts = &plan.processes[me].acts[self.number];
        let mut next = 0;
        loop {
            let mut busy = self.look_at_events();
            let mut until = NEVER;
            if let Some((time, act)) = acts.get(next) {
                if *time > board.now() {
                    until = *time;
                } else if self.perform(act) {
                    next += 1;
                    busy = true;
                } else {
                    until = board.now() + 5_000;
                }
            }
            busy |= self.drain(false);
            if busy {
                self.spins = 0;
                continue;
            }
            if self.spins < SPINS && next < acts.len() {
                self.spins += 1;
                sleep_until((board.now() + 100 + board.random.below(900)).min(until));
                continue;
            }
            // As a program that sleeps: ask for a bell, look once more, sleep.
            let cq = &self.program.cqs[self.number];
            if cq.arm(false).is_err() || self.drain(false) {
                continue;
            }
            Totals::add(&ledger.totals.slept, 1);
            if self.sleep(until) {
                break;
            }
        }
        if next < acts.len() {
            board.violated(&format!("thread {} of {me} has not come to its end", self.number));
        }
        self.look_once_more();
        ledger.seen[me].ended.set(ledger.seen[me].ended.get() + 1);
        happened();
    }

    /// Sleeps until a bell is rung; whether the run is over.
    fn sleep(&self, until: u64) -> bool {
        let Program { board, ledger, ref node, .. } = *self.program;
        let channel = &self.program.channels[self.number];
        loop {
            if readable(channel.fd(), 0) {
                while channel.next().is_ok() {}
                return false;
            }
            if self.number == 0 && readable(node.events.fd(), 0) || board.now() >= until {
                return false;
            }
            if ledger.over.get() {
                return true;
            }
            listen_until(until);
        }
    }

    /// Who slept until the end has missed nothing, but what comes from processes that died before they could
    /// ring.
    fn look_once_more(&self) {
        let Program { board, ledger, me, .. } = *self.program;
        let before = ledger.seen[me].count.get();
        self.drain(false);
        // What came after the last look at the bell rang it.
        if readable(self.program.channels[self.number].fd(), 0) {
            return;
        }
        for polled in &ledger.seen[me].polled[before..ledger.seen[me].count.get()] {
            let polled = polled.get();
            let from = polled.message.map(|message| self.program.plan.messages[message].from);
            if !from.is_some_and(|from| ledger.seen[from.0].dead.get()) {
                board.violated(&format!(
                    "thread {} of {me} sleeps beside {:x} of {}: a bell was lost",
                    self.number, polled.wr_id, polled.qp
                ));
            }
        }
    }

    pub fn look_at_events(&self) -> bool {
        if self.number != 0 {
            return false;
        }
        let mut any = false;
        while let Ok((event, cookie)) = self.program.node.events.next() {
            any = true;
            self.program.board.note(&format!("is told {event:?} {cookie}"));
            Totals::add(&self.program.ledger.totals.events, 1);
            if event == Event::CqErr {
                self.program.ledger.seen[self.program.me].overran.set(true);
                if !self.program.plan.has_small_queues() {
                    self.program.board.violated("a large completion queue overran");
                }
            }
        }
        any
    }
}
