//! Completions that a thread polls, and what they say.

use softrdma::device::Rejected;
use softrdma::rules::completion::Completion;
use softrdma::rules::verbs::{QpState, Status, WcFlags, WcOpcode};

use crate::ledger::{MESSAGES, POLLED, Polled, word};
use crate::plan::End;
use crate::program::{BIND, Program, RECEIVE};
use crate::thread::Thread;

impl Thread<'_> {
    /// Polls the thread's completion queue empty, and posts a receive request for each that was used.
    pub fn drain(&self, at_end: bool) -> bool {
        let mut any = false;
        loop {
            let mut found = Vec::new();
            let most = 1 + self.program.board.random.below(4) as u32;
            self.program.cqs[self.number].poll(most, &mut |completion| found.push(*completion));
            if found.is_empty() {
                return any;
            }
            any = true;
            for completion in &found {
                self.seen(completion, at_end);
            }
        }
    }

    /// Notes a completion, checks what it says, and posts another receive request.
    fn seen(&self, completion: &Completion, at_end: bool) {
        let Program { board, ledger, me, .. } = *self.program;
        let Some((_, qp)) = ledger.end_of(completion.qp_num).filter(|end| end.0 == me) else {
            board.violated(&format!("a completion of nobody: {completion:?}"))
        };
        if completion.wr_id & BIND != 0 {
            let sent = &ledger.sent[(completion.wr_id & !BIND) as usize];
            sent.bound.set(completion.status == Status::Success);
            return;
        }
        let index = (completion.wr_id & !RECEIVE) as usize;
        board.note(&format!("polls {:x} of {qp}: {:?}", completion.wr_id, completion.status));
        let is_receive = completion.wr_id & RECEIVE != 0;
        let mut message = None;
        if is_receive {
            let receive = &ledger.receives[index];
            if receive.status.replace(Some(completion.status)).is_some() {
                board.violated(&format!("receive request {index} completes twice"));
            }
            if completion.status == Status::Success {
                message = Some(self.check_content((me, qp), index, completion));
            }
        } else {
            let sent = &ledger.sent[index];
            if sent.status.replace(Some(completion.status)).is_some() {
                board.violated(&format!("message {index} completes twice"));
            }
            sent.completed.set(board.now());
        }
        let seen = &ledger.seen[me];
        let count = seen.count.get();
        if count == POLLED {
            board.violated("too many completions for the ledger");
        }
        let (wr_id, status) = (completion.wr_id, Some(completion.status));
        seen.polled[count].set(Polled { qp, wr_id, status, message });
        seen.count.set(count + 1);
        if is_receive && !at_end {
            self.post_again(index);
        }
        if !is_receive && self.program.qps[qp].state() == QpState::Sqe && !at_end {
            // The program repairs an unreliable send queue at once.
            let _ = self.program.modify(qp, QpState::Rts);
        }
    }

    fn post_again(&self, index: usize) {
        let Program { board, ledger, .. } = *self.program;
        let (_, queue, shared) = ledger.receives[index].queue.get();
        if !shared
            && (self.program.is_destroyed(queue)
                || matches!(self.program.qps[queue].state(), QpState::Err | QpState::Reset))
        {
            return;
        }
        match self.program.post_receive((queue, shared)) {
            Ok(()) => {}
            // Another thread resets it.
            Err(Rejected::State) if !shared => {}
            // It was reset, and has as many as it takes.
            Err(_) if !shared && ledger.pair((self.program.me, queue)).lives.get() > 0 => {}
            Err(why) => board.violated(&format!("a receive request cannot be posted: {why:?}")),
        }
    }

    fn check_content(&self, end: End, index: usize, completion: &Completion) -> usize {
        let Program { board, ledger, plan, .. } = *self.program;
        let buffer = &ledger.buffers[ledger.receives[index].buffer.get()];
        let skipped = if completion.flags.has(WcFlags::GRH) { 5 } else { 0 };
        let message = if completion.flags.has(WcFlags::WITH_IMM) {
            u64::from(completion.imm_or_key)
        } else {
            buffer[skipped].get()
        };
        let Some(expected) = plan.messages.get(message as usize).filter(|_| message < MESSAGES as u64) else {
            board.violated(&format!("{message:x} arrives, which nobody sent, at {index}"))
        };
        let written = completion.opcode == WcOpcode::RecvRdmaWithImm;
        let content = if written { &ledger.written[message as usize][..] } else { &buffer[skipped..] };
        let words = completion.byte_len as usize / 8 - skipped;
        // A younger message may have come to the same memory, an older one not.
        let one_buffer = plan.processes[end.0].qps[end.1].one_buffer;
        let last = if one_buffer { plan.messages.len() as u64 } else { message + 1 };
        let is_there = |value, at| (message..last).any(|message| value == word(message, at));
        let is_whole = words as u64 == expected.words
            && content.iter().zip(0..).take(words).all(|(place, at)| is_there(place.get(), at));
        if !is_whole {
            board.violated(&format!("message {message} arrives with other data"));
        }
        let sent = &ledger.sent[message as usize];
        if completion.flags.has(WcFlags::WITH_INV) && completion.imm_or_key != sent.window.get() {
            board.violated(&format!("message {message} tells of another key"));
        }
        sent.received.set(sent.received.get() + 1);
        sent.arrived.set(board.now());
        if sent.received.get() > 1 {
            board.violated(&format!("message {message} arrives twice"));
        }
        if expected.to != end || ledger.pair(expected.from).number.get() != completion.src_qp {
            board.violated(&format!("message {message} arrives at the wrong queue pair"));
        }
        message as usize
    }
}
