//! The packets of one message and of its answer, as RoCE v2 has them, for who shows a message that was carried
//! out without any. Among them are packets that never come from another host here: those of XRC (IBA vol. 1
//! annex A14), FLUSH and ATOMIC WRITE (annex A19).

use super::connection::Mtu;
use super::opcode::{Extra, Opcode, Operation, Position, Transport};
use super::packet::{Aeth, AtomicEth, BTH_BYTES, Bth, Head, Headers, MAX_HEAD, Reth, pad_of};
use super::psn::Psn;
use super::responder::syndrome;
use crate::rules::requester::Syndrome;

/// A message of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// What connects its queue pairs.
    pub service: Service,
    /// Path MTU.
    pub mtu: Mtu,
    /// The queue pair that sends it.
    pub from: u32,
    /// The queue pair that it is for.
    pub to: u32,
    /// The number of its first packet.
    pub psn: Psn,
    /// What it does.
    pub kind: Kind,
    /// Immediate data as in memory, or the key that is invalidated.
    pub imm_or_key: u32,
    /// It asks for an event at its receiver.
    pub solicited: bool,
    /// Bytes of the message.
    pub length: u32,
    /// Memory of a write, read, flush or atomic write.
    pub reth: Reth,
    /// Operands of an atomic operation.
    pub atomic: AtomicEth,
}

/// The transport service of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection.
    Xrc {
        /// The shared receive queue that it names: 24 bits.
        srq: u32,
    },
}

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Send, Write, ReadRequest, CompareSwap or FetchAdd, and what its last packet hands over.
    Common(Operation, Extra),
    /// A flush of the bytes that the RETH names, until all see them.
    Flush,
    /// 8 bytes, written at once.
    AtomicWrite,
}

/// Bytes of the longest headers that are shown: those of any packet, XRCETH and FETH.
pub const MAX_SHOWN_HEAD: usize = MAX_HEAD + 4 + 4;

/// Headers of a packet that is shown. They are written like those of a packet of RC or UC which has the same
/// extended headers but for XRCETH and FETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownHead {
    like: Head,
    opcode: u8,
    /// The shared receive queue that an XRCETH names.
    xrceth: Option<u32>,
    /// Placement type and selectivity level of a flush.
    feth: Option<u32>,
}

impl ShownHead {
    /// Opcodes of RC (IBA vol. 1 table "OpCode field", annex A19).
    const FLUSH: u8 = 0x1c;
    const ATOMIC_WRITE: u8 = 0x1d;
    /// Those of XRC are those of RC from here on (annex A14).
    const XRC: u8 = 0xa0;
    /// FETH: bits 0 to 3 are the placement type (1: global visibility, 2: persistence), bits 4 and 5 the
    /// selectivity level (0: the range of the RETH).
    const FETH_GLOBAL_RANGE: u32 = 1;

    /// Writes the headers to the beginning of an array, and returns how many bytes they take.
    pub fn write(&self, to: &mut [u8; MAX_SHOWN_HEAD]) -> usize {
        let mut head = [0; MAX_HEAD];
        let bytes = self.like.write(&mut head);
        let (bth, behind) = head[..bytes].split_at(BTH_BYTES);
        let xrceth = self.xrceth.map(|srq| (srq & 0xff_ffff).to_be_bytes());
        let feth = self.feth.map(u32::to_be_bytes);
        let between = [xrceth, feth].map(|header| header.unwrap_or_default());
        let mut at = 0;
        for piece in
            [bth, &between[0][..4 * xrceth.iter().len()], &between[1][..4 * feth.iter().len()], behind]
        {
            to[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        to[0] = self.opcode;
        at
    }
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
        match self.kind {
            Kind::Common(Operation::Send | Operation::Write | Operation::ReadRequest, _) => {
                self.mtu.packets(self.length)
            }
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

    /// The transport whose packets they are like.
    fn transport(&self) -> Transport {
        match self.service {
            Service::Uc => Transport::Uc,
            Service::Rc | Service::Xrc { .. } => Transport::Rc,
        }
    }

    /// Headers as this service has them.
    fn shown(&self, like: Head, asks: bool) -> ShownHead {
        let of_kind = match self.kind {
            Kind::Flush if asks => ShownHead::FLUSH,
            Kind::AtomicWrite if asks => ShownHead::ATOMIC_WRITE,
            _ => like.bth.opcode.byte(),
        };
        let (base, xrceth) = match self.service {
            Service::Rc | Service::Uc => (0, None),
            Service::Xrc { srq } => (ShownHead::XRC, asks.then_some(srq)),
        };
        let feth = (asks && self.kind == Kind::Flush).then_some(ShownHead::FETH_GLOBAL_RANGE);
        ShownHead { like, opcode: base | of_kind, xrceth, feth }
    }

    /// Tells the packets that ask: headers, and which bytes of the message are their payload.
    pub fn requests(&self, mut tell: impl FnMut(&ShownHead, std::ops::Range<usize>)) {
        let transport = self.transport();
        let is_rc = transport == Transport::Rc;
        let (operation, extra_of_last) = match self.kind {
            Kind::Common(operation, extra) => (operation, extra),
            Kind::Flush => (Operation::ReadRequest, Extra::Nothing),
            Kind::AtomicWrite => (Operation::Write, Extra::Nothing),
        };
        if !matches!(operation, Operation::Send | Operation::Write) {
            let Some(opcode) = Opcode::new(transport, operation, Position::Only, Extra::Nothing) else {
                return;
            };
            let headers = match operation {
                Operation::ReadRequest => Headers { reth: Some(self.reth), ..Headers::NONE },
                _ => Headers { atomic: Some(self.atomic), ..Headers::NONE },
            };
            let bth =
                Bth { ack_req: is_rc, solicited: self.solicited, ..Bth::new(opcode, self.to, self.psn) };
            return tell(&self.shown(Head { bth, headers }, true), 0..0);
        }
        for (nth, at, bytes, position) in self.pieces() {
            let extra = if position.ends() { extra_of_last } else { Extra::Nothing };
            let Some(opcode) = Opcode::new(transport, operation, position, extra) else { return };
            let headers = Headers {
                reth: (operation == Operation::Write && position.begins()).then_some(self.reth),
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
            tell(&self.shown(Head { bth, headers }, true), at..at + bytes);
        }
    }

    /// Tells the packets that answer; nothing of UC.
    pub fn answers(&self, answer: Answer, mut tell: impl FnMut(&ShownHead, std::ops::Range<usize>)) {
        if self.service == Service::Uc {
            return;
        }
        let mut tell = |head: Head, range| tell(&self.shown(head, false), range);
        let (syndrome, msn, psn) = match answer {
            Answer::Done { msn, .. } => (syndrome::ACKNOWLEDGED, msn, self.psn.plus(self.numbers() - 1)),
            Answer::NotReady { msn, code } => (syndrome::NOT_READY | code & 31, msn, self.psn),
            Answer::Refused { msn, why } => (refusal(why), msn, self.psn),
        };
        let aeth = Some(Aeth { syndrome, msn });
        match (answer, self.kind) {
            (Answer::Done { .. }, Kind::Common(Operation::ReadRequest, _)) => {
                for (nth, at, bytes, position) in self.pieces() {
                    let opcode = Opcode::read_response(position);
                    let has = position.begins() || position.ends();
                    let headers = Headers { aeth: aeth.filter(|_| has), ..Headers::NONE };
                    let bth = Bth { pad: pad_of(bytes), ..Bth::new(opcode, self.from, self.psn.plus(nth)) };
                    tell(Head { bth, headers }, at..at + bytes);
                }
            }
            (
                Answer::Done { original, .. },
                Kind::Common(Operation::CompareSwap | Operation::FetchAdd, _),
            ) => {
                let headers = Headers { aeth, atomic_ack: Some(original), ..Headers::NONE };
                tell(Head { bth: Bth::new(Opcode::ATOMIC_ACKNOWLEDGE, self.from, self.psn), headers }, 0..0);
            }
            // They are answered as a read of no bytes is (annex A19).
            (Answer::Done { .. }, Kind::Flush | Kind::AtomicWrite) => {
                let headers = Headers { aeth, ..Headers::NONE };
                let opcode = Opcode::read_response(Position::Only);
                tell(Head { bth: Bth::new(opcode, self.from, psn), headers }, 0..0);
            }
            _ => {
                let headers = Headers { aeth, ..Headers::NONE };
                tell(Head { bth: Bth::new(Opcode::ACKNOWLEDGE, self.from, psn), headers }, 0..0);
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
            service: Service::Rc,
            mtu: Mtu::from_bytes(1024).unwrap(),
            from: 2,
            to: 3,
            psn: Psn::new(0xff_ffff),
            kind: Kind::Common(operation, Extra::Nothing),
            imm_or_key: 7,
            solicited: true,
            length,
            reth: Reth { va: 1, rkey: 2, length },
            atomic: AtomicEth::default(),
        }
    }

    type Told = (String, u32, std::ops::Range<usize>, u8, bool);

    fn told(each: impl FnOnce(&mut dyn FnMut(&ShownHead, std::ops::Range<usize>))) -> Vec<Told> {
        let mut all = Vec::new();
        each(&mut |head, range| {
            let bth = &head.like.bth;
            assert_eq!(head.like.headers.set(), bth.opcode.headers());
            assert_eq!(head.opcode, bth.opcode.byte());
            all.push((format!("{:?}", bth.opcode), bth.psn.number(), range, bth.pad, bth.ack_req));
        });
        all
    }

    /// The bytes of each packet's headers.
    fn bytes(each: impl FnOnce(&mut dyn FnMut(&ShownHead, std::ops::Range<usize>))) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        each(&mut |head, _| {
            let mut bytes = [0; MAX_SHOWN_HEAD];
            let length = head.write(&mut bytes);
            all.push(bytes[..length].to_vec());
        });
        all
    }

    const XRC: Service = Service::Xrc { srq: 0x12_3456 };
    const DONE: Answer = Answer::Done { msn: 5, original: 9 };

    #[test]
    fn a_message_is_cut_at_the_mtu() {
        let one = Exchange {
            kind: Kind::Common(Operation::Write, Extra::Immediate),
            ..exchange(Operation::Write, 2050)
        };
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
        assert_eq!(told(|tell| Exchange { service: Service::Uc, ..one }.answers(done, tell)), []);
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

    #[test]
    fn xrc_names_the_shared_queue_where_it_asks() {
        let one = Exchange { service: XRC, psn: Psn::new(1), ..exchange(Operation::Write, 1028) };
        let asks = bytes(|tell| one.requests(tell));
        // BTH, XRCETH, RETH, or without RETH.
        let first =
            b"\xa6\x40\xff\xff\0\0\0\x03\0\0\0\x01\0\x12\x34\x56\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\x04\x04";
        assert_eq!(asks[0], first);
        assert_eq!(asks[1], b"\xa8\xc0\xff\xff\0\0\0\x03\x80\0\0\x02\0\x12\x34\x56");
        assert_eq!(
            bytes(|tell| one.answers(DONE, tell)),
            [b"\xb1\x40\xff\xff\0\0\0\x02\0\0\0\x02\x1f\0\0\x05"]
        );
        let codes = |kind, length| {
            let one = Exchange { service: XRC, kind, ..exchange(Operation::Send, length) };
            let asks = bytes(|tell| one.requests(tell));
            let answers = bytes(|tell| one.answers(DONE, tell));
            let code = |all: Vec<Vec<u8>>| all.iter().map(|one| (one[0], one.len())).collect::<Vec<_>>();
            (code(asks), code(answers))
        };
        let common = |operation, extra| codes(Kind::Common(operation, extra), 8);
        assert_eq!(common(Operation::Send, Extra::Nothing), (vec![(0xa4, 16)], vec![(0xb1, 16)]));
        assert_eq!(common(Operation::Send, Extra::Immediate), (vec![(0xa5, 20)], vec![(0xb1, 16)]));
        assert_eq!(common(Operation::Send, Extra::Invalidate), (vec![(0xb7, 20)], vec![(0xb1, 16)]));
        assert_eq!(common(Operation::Write, Extra::Immediate), (vec![(0xab, 36)], vec![(0xb1, 16)]));
        assert_eq!(common(Operation::ReadRequest, Extra::Nothing), (vec![(0xac, 32)], vec![(0xb0, 16)]));
        assert_eq!(common(Operation::CompareSwap, Extra::Nothing), (vec![(0xb3, 44)], vec![(0xb2, 24)]));
        assert_eq!(codes(Kind::Flush, 0), (vec![(0xbc, 36)], vec![(0xb0, 16)]));
        assert_eq!(codes(Kind::AtomicWrite, 8), (vec![(0xbd, 32)], vec![(0xb0, 16)]));
    }

    #[test]
    fn a_flush_says_how_far_it_goes() {
        let flush = Exchange { kind: Kind::Flush, psn: Psn::new(1), ..exchange(Operation::ReadRequest, 0) };
        assert_eq!(flush.numbers(), 1);
        let asks = b"\x1c\xc0\xff\xff\0\0\0\x03\x80\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0";
        assert_eq!(bytes(|tell| flush.requests(tell)), [asks]);
        assert_eq!(
            bytes(|tell| flush.answers(DONE, tell)),
            [b"\x10\x40\xff\xff\0\0\0\x02\0\0\0\x01\x1f\0\0\x05"]
        );
        let refused = Answer::Refused { msn: 5, why: Syndrome::Access };
        assert_eq!(bytes(|tell| flush.answers(refused, tell))[0][0], 0x11);
        let write = Exchange { kind: Kind::AtomicWrite, ..exchange(Operation::Write, 8) };
        let mut ranges = Vec::new();
        write.requests(|head, range| ranges.push((head.opcode, range)));
        assert_eq!(ranges, [(0x1d, 0..8)]);
    }
}
