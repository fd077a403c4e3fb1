//! What a thread does: it posts, breaks, resets, ends, drains and resizes.

use softrdma::device::{Attributes, BindWindow, Data, Datagram, Operands, Rejected, WindowType, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::qp::attributes;
use softrdma::rules::receive::Sge;
use softrdma::rules::requester::RNR_FOR_EVER;
use softrdma::rules::verbs::{Access, Attr, Opcode, QpState, QpType, SendFlags};
use softrdma_schedule::turn::sleep_until;
use softrdma_testing::device::{GID, QKEY, wr};

use crate::ledger::{Totals, word};
use crate::plan::Act;
use crate::program::{BIND, Program};
use crate::thread::Thread;

impl Thread<'_> {
    /// Does what the program wants; `false` when it is to be tried again later.
    pub fn perform(&self, act: &Act) -> bool {
        let Program { board, ledger, me, .. } = *self.program;
        match act {
            Act::Post(qp, _)
            | Act::Break(qp)
            | Act::Drain(qp)
            | Act::Resume(qp)
            | Act::Reset(qp)
            | Act::Destroy(qp)
                if self.program.is_destroyed(*qp) => {}
            Act::Post(qp, list) => return self.post(*qp, list),
            Act::Break(qp) => {
                board.note(&format!("breaks {qp}"));
                ledger.pair((me, *qp)).broken.set(true);
                if let Err(why) = self.program.modify(*qp, QpState::Err) {
                    board.violated(&format!("queue pair {qp} of {me} cannot be broken: {why:?}"));
                }
            }
            Act::Rest(time) => sleep_until(board.now() + time),
            Act::Bind(message) => self.bind(*message),
            Act::Reset(qp) => self.reset(*qp),
            Act::Destroy(qp) => {
                self.program.ended_early[*qp].set(true);
                self.program.destroy(*qp);
                self.program.lose(*qp);
                Totals::add(&ledger.totals.destroyed, 1);
            }
            Act::Drain(qp) => {
                let _ = self.program.modify(*qp, QpState::Sqd);
            }
            Act::Resume(qp) => {
                let _ = self.program.modify(*qp, QpState::Rts);
            }
            Act::ResizeCq(cq) => {
                let cq = &self.program.cqs[*cq];
                let (small, large) = if self.program.plan.has_small_queues() { (2, 4) } else { (512, 1024) };
                let resized = cq.resize(if cq.cqe() > small { small } else { large });
                Totals::add(&ledger.totals.resized, u64::from(resized.is_ok()));
            }
            Act::ResizeSrq(srq) => {
                let srq = &self.program.srqs[*srq];
                let resized = srq.modify(None, Some(if srq.max_wr() > 16 { 16 } else { 32 }));
                Totals::add(&ledger.totals.resized, u64::from(resized.is_ok()));
            }
        }
        true
    }

    /// Binds a window for a request that is to invalidate it.
    fn bind(&self, message: usize) {
        let Program { ledger, plan, ref node, .. } = *self.program;
        let qp = plan.messages[message].to.1;
        if self.program.is_destroyed(qp) {
            return;
        }
        let window = node.device.alloc_window(node.pd, WindowType::Two).expect("a window");
        let key8 = message as u8;
        let addr = std::ptr::from_ref(&ledger.written[message]) as u64;
        let bind = Bind { addr, length: 8, access: Access::REMOTE_WRITE };
        let bind = BindWindow { window, key8, region: self.program.region.lkey, bind };
        let request = Wr { operands: Operands::Bind(bind), ..wr(BIND | message as u64, Opcode::BindMw, &[]) };
        ledger.sent[message].window.set(window & !0xff | u32::from(key8));
        let _ = self.program.qps[qp].post_send(&request);
    }

    fn reset(&self, qp: usize) {
        let Program { board, ledger, me, .. } = *self.program;
        board.note(&format!("resets {qp}"));
        let is_broken = self.program.qps[qp].state() == QpState::Err;
        // What came before it broke is seen then.
        let sees_all = is_broken && self.program.own(qp).recv_cq == self.number;
        if sees_all {
            self.drain(false);
        }
        self.program.forget(qp);
        if let Err(why) = self.program.modify(qp, QpState::Reset) {
            board.violated(&format!("queue pair {qp} of {me} cannot be reset: {why:?}"));
        }
        self.program.forget(qp);
        let pair = ledger.pair((me, qp));
        pair.lives.set(pair.lives.get() + 1);
        pair.broken.set(false);
        self.bring_up(qp);
        if !sees_all {
            self.program.lose(qp);
        }
        self.program.prepost(qp);
        Totals::add(&ledger.totals.reset, 1);
    }

    /// Connects a queue pair anew, whose peer may break it meanwhile.
    fn bring_up(&self, qp: usize) {
        let pair = &self.program.qps[qp];
        let mut from = QpState::Reset;
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let (required, _) = attributes(pair.qp_type(), from, state).expect("a transition");
            let to = Attributes { state, ..self.program.attributes(qp) };
            match pair.modify(required.union(Attr::STATE), &to) {
                Ok(()) => from = state,
                Err(_) if pair.state() == QpState::Err => return,
                Err(why) => self.program.board.violated(&format!("{qp} does not go to {state:?}: {why:?}")),
            }
        }
    }

    /// Posts a list; `false`: its first request has no room.
    fn post(&self, qp: usize, list: &[usize]) -> bool {
        let Program { board, ledger, me, .. } = *self.program;
        let data: Vec<_> = list.iter().map(|message| self.data(*message)).collect();
        let requests = list.iter().zip(&data).map(|(message, data)| self.request(qp, *message, data));
        let requests: Vec<_> = requests.collect();
        let mut sending = self.program.qps[qp].sending();
        // It may complete before the call returns.
        let begin = |message: &usize, request: &Wr<'_>| {
            ledger.sent[*message].posted.set(board.now().max(1));
            ledger.sent[*message].life.set(ledger.pair((me, qp)).lives.get());
            board.note(&format!("posts {message:x} {:?} on {qp}", request.opcode));
        };
        let is_good = |posted: Result<(), Rejected>| match posted {
            Ok(()) => true,
            Err(Rejected::Full) => false,
            Err(why) => board.violated(&format!("a good request is rejected: {why:?}")),
        };
        let mut accepted = 0;
        // All are accepted before one is posted, or one after the other.
        if board.random.once_in(2) {
            while accepted < list.len() && is_good(sending.accept(&requests[accepted])) {
                accepted += 1;
            }
            for (request, message) in requests[..accepted].iter().zip(list) {
                begin(message, request);
                sending.post(request);
            }
        } else {
            for (request, message) in requests.iter().zip(list) {
                begin(message, request);
                if !is_good(sending.post_one(request)) {
                    ledger.sent[*message].posted.set(0);
                    break;
                }
                accepted += 1;
            }
        }
        drop(sending);
        for message in &list[..accepted] {
            ledger.sent[*message].returned.set(board.now());
        }
        if accepted == list.len() {
            return true;
        }
        Totals::add(&ledger.totals.full, 1);
        // Full of requests that wait without end, perhaps: the program gives up.
        accepted > 0 || self.program.own(qp).timeout == 0 || self.is_hopeless(qp)
    }

    /// What a request brings: by its places in memory, or itself. Every third has a piece of one word in front,
    /// as a header is.
    fn data(&self, message: usize) -> (Vec<Sge>, Vec<u8>) {
        let Program { ledger, plan, .. } = *self.program;
        let to = &plan.messages[message];
        let space = std::ptr::from_ref(&ledger.sends[message]) as u64;
        let results = std::ptr::from_ref(&ledger.results[message]) as u64;
        let answers = matches!(to.opcode, Opcode::RdmaRead | Opcode::CmpAndSwp | Opcode::FetchAndAdd);
        let good = self.program.region.lkey;
        let sge = Sge {
            addr: if answers { results } else { space },
            length: to.words as u32 * 8,
            lkey: if to.bad_lkey { 1 } else { good },
        };
        let sges = if message.is_multiple_of(3) && sge.length > 8 && !answers {
            let header = Sge { length: 8, lkey: good, ..sge };
            vec![header, Sge { addr: sge.addr + 8, length: sge.length - 8, ..sge }]
        } else {
            vec![sge]
        };
        let bytes = (0..to.words).flat_map(|at| word(message as u64, at).to_ne_bytes());
        (sges, bytes.collect())
    }

    fn request<'a>(&self, qp: usize, message: usize, (sges, bytes): &'a (Vec<Sge>, Vec<u8>)) -> Wr<'a> {
        let Program { ledger, plan, .. } = *self.program;
        let (to, sent) = (&plan.messages[message], &ledger.sent[message]);
        let opcode = match to.opcode {
            Opcode::SendWithInv if !sent.bound.get() => Opcode::Send,
            opcode => opcode,
        };
        let xrc_srq = self.program.own(qp).xrc_srq;
        let signalled = if to.signalled { SendFlags::SIGNALED } else { SendFlags::NONE };
        let (data, taken) = match to.inline {
            false => (Data::Sges(sges), SendFlags::NONE),
            true if message.is_multiple_of(2) => (Data::Inline(bytes), SendFlags::INLINE),
            true => (Data::InlineSges(sges), SendFlags::INLINE),
        };
        Wr {
            flags: SendFlags(signalled.0 | taken.0),
            data,
            operands: self.operands(message),
            imm_or_key: if opcode == Opcode::SendWithInv { sent.window.get() } else { message as u32 },
            srq_num: xrc_srq.map_or(0, |srq| ledger.seen[to.to.0].xrc_srqs[srq].get()),
            datagram: (self.program.own(qp).qp_type == QpType::Ud).then_some(Datagram {
                qp_num: ledger.pair(to.to).number.get(),
                qkey: if to.bad_qkey { QKEY + 1 } else { QKEY },
                grh: &[0x60; 40],
                dgid: GID,
                route: None,
            }),
            ..wr(message as u64, opcode, &[])
        }
    }

    /// Whether room in a send queue may never come: completions went with an overrun, or unsignalled requests
    /// fill it.
    fn is_hopeless(&self, qp: usize) -> bool {
        let own = self.program.own(qp);
        let is_patient = own.rnr_retry == RNR_FOR_EVER;
        let random = &self.program.board.random;
        self.program.ledger.seen[self.program.me].overran.get()
            || random.once_in(if is_patient { 20 } else { 200 })
    }

    fn operands(&self, message: usize) -> Operands {
        let Program { ledger, plan, .. } = *self.program;
        let to = &plan.messages[message];
        let length = to.words * 8;
        // All processes have the ledger at one address, and each has its own key of it.
        let rkey = if to.bad_rkey { 1 } else { ledger.seen[to.to.0].rkey.get() };
        let at = |place: *const u8| place as u64;
        let process = to.to.0;
        match to.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite => {
                Operands::Remote { addr: at(ledger.written[message].as_ptr().cast()), rkey, length }
            }
            Opcode::RdmaRead => {
                Operands::Remote { addr: at(ledger.source[process].as_ptr().cast()), rkey, length }
            }
            Opcode::FetchAndAdd => Operands::Atomic {
                addr: at(ledger.counter[process].as_ptr().cast()),
                rkey,
                compare_add: 1,
                swap: 0,
            },
            Opcode::CmpAndSwp => Operands::Atomic {
                addr: at(ledger.swapped[process].as_ptr().cast()),
                rkey,
                compare_add: 0,
                swap: message as u64 + 1,
            },
            _ => Operands::None,
        }
    }
}
