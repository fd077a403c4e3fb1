//! Whether packets make a message: what may follow what, and how long packets are (IBA vol. 1 §9.7.4.1 for RC,
//! §9.8.2 for UC).

use super::step::Piece;
use crate::wire::connection::Mtu;
use crate::wire::opcode::{Operation, Position};
use crate::wire::packet::{AtomicEth, Packet, Reth};

/// Longest message (IBA vol. 1 §9.7.4.1): 2^31 bytes.
const MAX_MESSAGE: u32 = 1 << 31;

/// The message of which the last packets are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// None.
    Idle,
    /// A send, of which so many bytes came.
    Send { received: u32 },
    /// A write to this memory, of which so many bytes came.
    Write { memory: Reth, received: u32 },
}

impl Piece {
    /// The request of a read.
    pub(super) fn read(memory: Reth) -> Self {
        Self { memory: Some(memory), ..Self::only(Operation::ReadRequest) }
    }

    fn atomic(operation: Operation, atomic: AtomicEth) -> Self {
        Self { atomic: Some(atomic), ..Self::only(operation) }
    }

    fn only(operation: Operation) -> Self {
        Self {
            operation,
            begins: true,
            ends: true,
            offset: 0,
            memory: None,
            atomic: None,
            imm: None,
            invalidate: None,
            solicited: false,
            again: false,
        }
    }
}

impl Progress {
    /// What a packet adds, and how far the message is behind it. `None` where it may not follow.
    #[inline(always)]
    pub(super) fn follow(self, packet: &Packet<'_>, mtu: Mtu) -> Option<(Piece, Self)> {
        if !packet.bth.opcode.is_whole_send() {
            return self.follow_part(packet, mtu);
        }
        // rule: wire-packet-length, wire-sequence
        let may_follow = self == Self::Idle && packet.payload.len() <= mtu.bytes() as usize;
        let piece = Piece {
            imm: packet.headers.imm,
            invalidate: packet.headers.ieth,
            solicited: packet.bth.solicited,
            ..Piece::only(Operation::Send)
        };
        may_follow.then_some((piece, Self::Idle))
    }

    /// The same of any packet: of a send of one packet, too, [`follow`](Self::follow) only says it sooner.
    #[inline(never)]
    fn follow_part(self, packet: &Packet<'_>, mtu: Mtu) -> Option<(Piece, Self)> {
        let opcode = packet.bth.opcode;
        let headers = &packet.headers;
        match opcode.operation() {
            Operation::Send | Operation::Write => {}
            Operation::ReadRequest => {
                let memory = headers.reth?;
                return (self == Self::Idle && memory.length <= MAX_MESSAGE)
                    .then_some((Piece::read(memory), Self::Idle));
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let piece = Piece::atomic(opcode.operation(), headers.atomic?);
                return (self == Self::Idle).then_some((piece, Self::Idle));
            }
            _ => return None,
        }
        let position = opcode.position();
        let length = u32::try_from(packet.payload.len()).ok()?;
        // rule: wire-packet-length
        let fits = match position {
            Position::First | Position::Middle => length == mtu.bytes(),
            Position::Last => (1..=mtu.bytes()).contains(&length),
            Position::Only => length <= mtu.bytes(),
        };
        // rule: wire-sequence
        let (memory, received) = match (opcode.operation(), position.begins(), self) {
            (Operation::Send, true, Self::Idle) => (None, 0),
            (Operation::Write, true, Self::Idle) => (Some(headers.reth?), 0),
            (Operation::Send, false, Self::Send { received }) => (None, received),
            (Operation::Write, false, Self::Write { memory, received }) => (Some(memory), received),
            _ => return None,
        };
        let so_far = received.checked_add(length)?;
        let whole = memory.map_or(MAX_MESSAGE, |memory| memory.length);
        // rule: wire-write-length
        let long_enough = match (memory.is_some(), position.ends()) {
            (true, true) => so_far == whole,
            (true, false) => so_far < whole,
            (false, _) => so_far <= whole,
        };
        if !fits || !long_enough || whole > MAX_MESSAGE {
            return None;
        }
        let after = match (position.ends(), memory) {
            (true, _) => Self::Idle,
            (false, None) => Self::Send { received: so_far },
            (false, Some(memory)) => Self::Write { memory, received: so_far },
        };
        let piece = Piece {
            begins: position.begins(),
            ends: position.ends(),
            offset: received,
            memory,
            imm: headers.imm,
            invalidate: headers.ieth,
            solicited: packet.bth.solicited && position.ends(),
            ..Piece::only(opcode.operation())
        };
        Some((piece, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::opcode::{Extra, Opcode, Transport};
    use crate::wire::packet::{Bth, Headers};
    use crate::wire::psn::Psn;

    /// What says so straight away says what is said of any packet.
    #[test]
    // rule: wire-packet-length, wire-sequence
    fn a_send_of_one_packet_is_as_any_other() {
        let bytes = [0; 257];
        let before = [
            Progress::Idle,
            Progress::Send { received: 256 },
            Progress::Write { memory: Reth { va: 1, rkey: 2, length: 512 }, received: 256 },
        ];
        let (mut taken, mut refused) = (0, 0);
        for (extra, transport) in [
            (Extra::Nothing, Transport::Rc),
            (Extra::Immediate, Transport::Rc),
            (Extra::Invalidate, Transport::Rc),
            (Extra::Nothing, Transport::Uc),
            (Extra::Immediate, Transport::Uc),
        ] {
            let opcode = Opcode::new(transport, Operation::Send, Position::Only, extra).unwrap();
            assert!(opcode.is_whole_send());
            for (length, solicited) in [(0, false), (8, true), (256, false), (257, true)] {
                let headers = Headers {
                    imm: (extra == Extra::Immediate).then_some(3),
                    ieth: (extra == Extra::Invalidate).then_some(4),
                    ..Headers::NONE
                };
                let bth = Bth { solicited, ..Bth::new(opcode, 1, Psn::new(5)) };
                let packet = Packet { bth, headers, payload: &bytes[..length] };
                for progress in before {
                    let said = progress.follow(&packet, Mtu::LEAST);
                    assert_eq!(said, progress.follow_part(&packet, Mtu::LEAST), "{packet:?} {progress:?}");
                    *(if said.is_some() { &mut taken } else { &mut refused }) += 1;
                }
            }
        }
        assert_eq!((taken, refused), (15, 45));
    }
}
