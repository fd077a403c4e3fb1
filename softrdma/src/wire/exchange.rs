//! The packets of one message and of its answer, as RoCE v2 has them, for who shows a message that was carried
//! out without any.

use super::connection::Mtu;
use super::opcode::{Extra, Opcode, Operation, Position, Transport};
use super::packet::{Aeth, AtomicEth, Bth, Head, Headers, Reth, pad_of};
use super::psn::Psn;
use super::responder::syndrome;
use crate::rules::requester::Syndrome;

/// A message of RC or UC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// RC or UC.
    pub transport: Transport,
    /// Path MTU.
    pub mtu: Mtu,
    /// The queue pair that sends it.
    pub from: u32,
    /// The queue pair that it is for.
    pub to: u32,
    /// The number of its first packet.
    pub psn: Psn,
    /// Send, Write, ReadRequest, CompareSwap or FetchAdd.
    pub operation: Operation,
    /// Immediate data as in memory, or the key that is invalidated.
    pub extra: Extra,
    /// The value of that.
    pub imm_or_key: u32,
    /// It asks for an event at its receiver.
    pub solicited: bool,
    /// Bytes of the message.
    pub length: u32,
    /// Memory of a write or read.
    pub reth: Reth,
    /// Operands of an atomic operation.
    pub atomic: AtomicEth,
}

/// What its receiver says to a message of RC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done: the number of messages that were until then, and what an atomic operation found.
    Done {
        /// Message sequence number.
        msn: u32,
        /// What stood there.
        original: u64,
    },
    /// It has no receive request; its timer's code.
    NotReady {
        /// Message sequence number.
        msn: u32,
        /// `min_rnr_timer`
        code: u8,
    },
    /// It refuses.
    Refused {
        /// Message sequence number.
        msn: u32,
        /// Why.
        why: Syndrome,
    },
}

impl Exchange {
    /// How many numbers the message takes: one for each packet, of a read for each of its answers.
    #[must_use]
    pub fn numbers(&self) -> u32 {
        match self.operation {
            Operation::Send | Operation::Write | Operation::ReadRequest => self.mtu.packets(self.length),
            _ => 1,
        }
    }

    /// Pieces of so many bytes: number, first byte, bytes, position.
    fn pieces(&self) -> impl Iterator<Item = (u32, usize, usize, Position)> {
        let (count, mtu, length) = (self.numbers(), self.mtu.bytes(), self.length);
        (0..count).map(move |nth| {
            let at = nth * mtu;
            (nth, at as usize, mtu.min(length - at) as usize, Position::of(nth == 0, nth + 1 == count))
        })
    }

    /// Tells the packets that ask: headers, and which bytes of the message are their payload.
    pub fn requests(&self, mut tell: impl FnMut(&Head, std::ops::Range<usize>)) {
        let is_rc = self.transport == Transport::Rc;
        if !matches!(self.operation, Operation::Send | Operation::Write) {
            let Some(opcode) = Opcode::new(self.transport, self.operation, Position::Only, Extra::Nothing)
            else {
                return;
            };
            let headers = match self.operation {
                Operation::ReadRequest => Headers { reth: Some(self.reth), ..Headers::NONE },
                _ => Headers { atomic: Some(self.atomic), ..Headers::NONE },
            };
            let bth =
                Bth { ack_req: is_rc, solicited: self.solicited, ..Bth::new(opcode, self.to, self.psn) };
            return tell(&Head { bth, headers }, 0..0);
        }
        for (nth, at, bytes, position) in self.pieces() {
            let extra = if position.ends() { self.extra } else { Extra::Nothing };
            let Some(opcode) = Opcode::new(self.transport, self.operation, position, extra) else { return };
            let headers = Headers {
                reth: (self.operation == Operation::Write && position.begins()).then_some(self.reth),
                imm: (extra == Extra::Immediate).then_some(self.imm_or_key),
                ieth: (extra == Extra::Invalidate).then_some(self.imm_or_key),
                ..Headers::NONE
            };
            let bth = Bth {
                ack_req: is_rc && position.ends(),
                solicited: self.solicited && position.ends(),
                pad: pad_of(bytes),
                ..Bth::new(opcode, self.to, self.psn.plus(nth))
            };
            tell(&Head { bth, headers }, at..at + bytes);
        }
    }

    /// Tells the packets that answer; nothing of UC.
    pub fn answers(&self, answer: Answer, mut tell: impl FnMut(&Head, std::ops::Range<usize>)) {
        if self.transport != Transport::Rc {
            return;
        }
        let (syndrome, msn, psn) = match answer {
            Answer::Done { msn, .. } => (syndrome::ACKNOWLEDGED, msn, self.psn.plus(self.numbers() - 1)),
            Answer::NotReady { msn, code } => (syndrome::NOT_READY | code & 31, msn, self.psn),
            Answer::Refused { msn, why } => (refusal(why), msn, self.psn),
        };
        let aeth = Some(Aeth { syndrome, msn });
        match (answer, self.operation) {
            (Answer::Done { .. }, Operation::ReadRequest) => {
                for (nth, at, bytes, position) in self.pieces() {
                    let opcode = Opcode::read_response(position);
                    let has = position.begins() || position.ends();
                    let headers = Headers { aeth: aeth.filter(|_| has), ..Headers::NONE };
                    let bth = Bth { pad: pad_of(bytes), ..Bth::new(opcode, self.from, self.psn.plus(nth)) };
                    tell(&Head { bth, headers }, at..at + bytes);
                }
            }
            (Answer::Done { original, .. }, Operation::CompareSwap | Operation::FetchAdd) => {
                let headers = Headers { aeth, atomic_ack: Some(original), ..Headers::NONE };
                tell(&Head { bth: Bth::new(Opcode::ATOMIC_ACKNOWLEDGE, self.from, self.psn), headers }, 0..0);
            }
            _ => {
                let headers = Headers { aeth, ..Headers::NONE };
                tell(&Head { bth: Bth::new(Opcode::ACKNOWLEDGE, self.from, psn), headers }, 0..0);
            }
        }
    }
}

fn refusal(why: Syndrome) -> u8 {
    match why {
        Syndrome::InvalidRequest => syndrome::INVALID_REQUEST,
        Syndrome::Access => syndrome::ACCESS,
        Syndrome::Operational => syndrome::OPERATIONAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(operation: Operation, length: u32) -> Exchange {
        Exchange {
            transport: Transport::Rc,
            mtu: Mtu::from_bytes(1024).unwrap(),
            from: 2,
            to: 3,
            psn: Psn::new(0xff_ffff),
            operation,
            extra: Extra::Nothing,
            imm_or_key: 7,
            solicited: true,
            length,
            reth: Reth { va: 1, rkey: 2, length },
            atomic: AtomicEth::default(),
        }
    }

    type Told = (String, u32, std::ops::Range<usize>, u8, bool);

    fn told(each: impl FnOnce(&mut dyn FnMut(&Head, std::ops::Range<usize>))) -> Vec<Told> {
        let mut all = Vec::new();
        each(&mut |head, range| {
            let bth = &head.bth;
            assert_eq!(head.headers.set(), bth.opcode.headers());
            all.push((format!("{:?}", bth.opcode), bth.psn.number(), range, bth.pad, bth.ack_req));
        });
        all
    }

    #[test]
    fn a_message_is_cut_at_the_mtu() {
        let one = Exchange { extra: Extra::Immediate, ..exchange(Operation::Write, 2050) };
        assert_eq!(one.numbers(), 3);
        assert_eq!(
            told(|tell| one.requests(tell)),
            [
                ("Rc Write First".to_owned(), 0xff_ffff, 0..1024, 0, false),
                ("Rc Write Middle".to_owned(), 0, 1024..2048, 0, false),
                ("Rc Write Last Immediate".to_owned(), 1, 2048..2050, 2, true),
            ]
        );
        let done = Answer::Done { msn: 1, original: 0 };
        assert_eq!(
            told(|tell| one.answers(done, tell)),
            [("Rc Acknowledge Only".to_owned(), 1, 0..0, 0, false)]
        );
        let not_ready = Answer::NotReady { msn: 1, code: 12 };
        assert_eq!(told(|tell| one.answers(not_ready, tell))[0].1, 0xff_ffff);
        assert_eq!(told(|tell| Exchange { transport: Transport::Uc, ..one }.answers(done, tell)), []);
    }

    #[test]
    fn what_has_no_bytes_has_a_packet() {
        let one = exchange(Operation::Send, 0);
        assert_eq!(told(|tell| one.requests(tell)), [("Rc Send Only".to_owned(), 0xff_ffff, 0..0, 0, true)]);
    }

    #[test]
    fn the_answers_of_a_read_take_the_numbers() {
        let one = exchange(Operation::ReadRequest, 1025);
        assert_eq!(told(|tell| one.requests(tell)).len(), 1);
        assert_eq!(
            told(|tell| one.answers(Answer::Done { msn: 5, original: 0 }, tell)),
            [
                ("Rc ReadResponse First".to_owned(), 0xff_ffff, 0..1024, 0, false),
                ("Rc ReadResponse Last".to_owned(), 0, 1024..1025, 3, false),
            ]
        );
        let refused = Answer::Refused { msn: 5, why: Syndrome::Access };
        assert_eq!(told(|tell| one.answers(refused, tell)).len(), 1);
        let atomic = exchange(Operation::FetchAdd, 8);
        assert_eq!(atomic.numbers(), 1);
        let found = told(|tell| atomic.answers(Answer::Done { msn: 5, original: 9 }, tell));
        assert_eq!(found[0].0, "Rc AtomicAcknowledge Only");
    }
}
