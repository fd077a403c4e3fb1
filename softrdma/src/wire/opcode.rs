//! Opcodes of packets of the transports RC, UC and UD (IBA vol. 1 §9.2.1, table "OpCode field").
//!
//! Not here, and so unknown to who receives: FLUSH and ATOMIC WRITE, XRC, RD.

use std::fmt;

/// Transport service of a packet: the upper three bits of its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// None: congestion notification (annex A17.9.3).
    Cnp,
}

/// What a packet is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Operation {
    /// A send.
    Send,
    /// An RDMA write.
    Write,
    /// The request of an RDMA read.
    ReadRequest,
    /// What an RDMA read asked for.
    ReadResponse,
    /// An acknowledgement, positive or negative.
    Acknowledge,
    /// The answer to an atomic operation.
    AtomicAcknowledge,
    /// The request of an atomic compare and swap.
    CompareSwap,
    /// The request of an atomic fetch and add.
    FetchAdd,
    /// Packets of the queue pair that it is for have come with a mark of congestion.
    CongestionNotification,
}

impl Operation {
    /// Whether who receives sends it, to the requester.
    #[must_use]
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self,
            Self::ReadResponse | Self::Acknowledge | Self::AtomicAcknowledge | Self::CongestionNotification
        )
    }
}

/// Where a packet stands in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Position {
    /// The position of a packet that begins its message or not, and ends it or not.
    #[must_use]
    #[inline]
    pub const fn of(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether the message begins with the packet.
    #[must_use]
    #[inline]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether the message ends with the packet.
    #[must_use]
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What the last packet of a send or write hands over beside its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Extra {
    /// Nothing.
    #[default]
    Nothing,
    /// Immediate data.
    Immediate,
    /// A key of the receiver that is to be invalidated.
    Invalidate,
}

/// A set of extended transport headers, which stand behind the BTH in the order of these constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct HeaderSet(u8);

impl HeaderSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// Datagram extended transport header.
    pub const DETH: Self = Self(1);
    /// RDMA extended transport header.
    pub const RETH: Self = Self(2);
    /// Atomic extended transport header.
    pub const ATOMIC_ETH: Self = Self(4);
    /// Acknowledge extended transport header.
    pub const AETH: Self = Self(8);
    /// Atomic acknowledge extended transport header.
    pub const ATOMIC_ACK_ETH: Self = Self(16);
    /// Immediate data.
    pub const IMM_DT: Self = Self(32);
    /// Invalidate extended transport header.
    pub const IETH: Self = Self(64);
    /// What is reserved in a congestion notification.
    pub const RESERVED: Self = Self(128);

    /// All of them.
    pub(super) const ALL: Self = Self(u8::MAX);

    /// Bytes of each, in their order.
    const BYTES: [usize; 8] = [8, 16, 28, 4, 8, 4, 4, 16];

    /// Whether all of these are in it.
    #[must_use]
    #[inline]
    pub const fn has(self, headers: Self) -> bool {
        self.0 & headers.0 == headers.0
    }

    /// Those that are in both.
    #[must_use]
    #[inline]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The headers of both.
    #[must_use]
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Bytes of all of them.
    #[must_use]
    pub const fn bytes(self) -> usize {
        let (mut header, mut bytes) = (0, 0);
        while header < Self::BYTES.len() {
            if self.0 >> header & 1 != 0 {
                bytes += Self::BYTES[header];
            }
            header += 1;
        }
        bytes
    }
}

/// What the lower five bits of an opcode mean.
#[derive(Clone, Copy)]
struct Meaning {
    operation: Operation,
    position: Position,
    extra: Extra,
}

/// What is asked of the opcode of each packet that comes or goes.
#[derive(Clone, Copy)]
struct Shape {
    headers: HeaderSet,
    has_payload: bool,
}

/// That of each number, so that it is worked out once.
static SHAPES: [Shape; 256] = {
    let mut shapes = [Shape { headers: HeaderSet::NONE, has_payload: false }; 256];
    let mut byte = 0;
    while byte < shapes.len() {
        if let Some(opcode) = Opcode::from_byte(byte as u8) {
            shapes[byte] = opcode.shape();
        }
        byte += 1;
    }
    shapes
};

/// The opcode of a packet: one of those that RC, UC and UD have.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(u8);

impl Opcode {
    /// The request of an RDMA read.
    pub const READ_REQUEST: Self = Self(0x0c);
    /// An acknowledgement, positive or negative.
    pub const ACKNOWLEDGE: Self = Self(0x11);
    /// The answer to an atomic operation.
    pub const ATOMIC_ACKNOWLEDGE: Self = Self(0x12);
    /// The request of an atomic compare and swap.
    pub const COMPARE_SWAP: Self = Self(0x13);
    /// The request of an atomic fetch and add.
    pub const FETCH_ADD: Self = Self(0x14);
    /// A congestion notification (annex A17.9.3).
    pub const CONGESTION_NOTIFICATION: Self = Self(0x81);

    /// The opcode with this number, if it is one of RC, UC or UD, or congestion notification.
    #[must_use]
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            // RC: 0x15 is reserved.
            0x00..=0x14 | 0x16 | 0x17 => Some(Self(byte)),
            // UC: sends and writes.
            0x20..=0x2b => Some(Self(byte)),
            // UD: sends of one packet.
            0x64 | 0x65 => Some(Self(byte)),
            0x81 => Some(Self(byte)),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The opcode of such a packet, where the transport has it: UC has sends and writes alone, UD sends of one
    /// packet; immediate data and invalidation are at a message's end, the latter at that of a send of RC.
    /// Requests of reads and atomic operations, and acknowledgements, are of one packet.
    #[must_use]
    pub const fn new(
        transport: Transport,
        operation: Operation,
        position: Position,
        extra: Extra,
    ) -> Option<Self> {
        let base = match transport {
            Transport::Rc => 0x00,
            Transport::Uc => 0x20,
            Transport::Ud => 0x60,
            Transport::Cnp => 0x80,
        };
        let of_position = match position {
            Position::First => 0,
            Position::Middle => 1,
            Position::Last => 2,
            Position::Only => 4,
        };
        let low = match (operation, extra, position) {
            (Operation::Send, Extra::Nothing, _) => of_position,
            (Operation::Send, Extra::Immediate, Position::Last | Position::Only) => of_position + 1,
            (Operation::Send, Extra::Invalidate, Position::Last) => 0x16,
            (Operation::Send, Extra::Invalidate, Position::Only) => 0x17,
            (Operation::Write, Extra::Nothing, _) => 6 + of_position,
            (Operation::Write, Extra::Immediate, Position::Last | Position::Only) => 6 + of_position + 1,
            (Operation::ReadResponse, Extra::Nothing, Position::Only) => 0x10,
            (Operation::ReadResponse, Extra::Nothing, _) => 0x0d + of_position,
            (Operation::ReadRequest, Extra::Nothing, Position::Only) => Self::READ_REQUEST.0,
            (Operation::Acknowledge, Extra::Nothing, Position::Only) => Self::ACKNOWLEDGE.0,
            (Operation::AtomicAcknowledge, Extra::Nothing, Position::Only) => Self::ATOMIC_ACKNOWLEDGE.0,
            (Operation::CompareSwap, Extra::Nothing, Position::Only) => Self::COMPARE_SWAP.0,
            (Operation::FetchAdd, Extra::Nothing, Position::Only) => Self::FETCH_ADD.0,
            (Operation::CongestionNotification, Extra::Nothing, Position::Only) => {
                return if let Transport::Cnp = transport {
                    Some(Self::CONGESTION_NOTIFICATION)
                } else {
                    None
                };
            }
            _ => return None,
        };
        if let Transport::Cnp = transport { None } else { Self::from_byte(base + low) }
    }

    /// A response of an RDMA read.
    #[must_use]
    #[inline]
    pub const fn read_response(position: Position) -> Self {
        Self(match position {
            Position::First => 0x0d,
            Position::Middle => 0x0e,
            Position::Last => 0x0f,
            Position::Only => 0x10,
        })
    }

    /// Its transport service.
    #[must_use]
    #[inline]
    pub const fn transport(self) -> Transport {
        match self.0 >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            4 => Transport::Cnp,
            _ => Transport::Ud,
        }
    }

    /// What the packet is part of.
    #[must_use]
    #[inline]
    pub const fn operation(self) -> Operation {
        self.meaning().operation
    }

    /// Where the packet stands in its message. Requests of reads and atomic operations, and acknowledgements,
    /// are the only packet of theirs.
    #[must_use]
    #[inline]
    pub const fn position(self) -> Position {
        self.meaning().position
    }

    /// What it hands over beside the payload.
    #[must_use]
    #[inline]
    pub const fn extra(self) -> Extra {
        self.meaning().extra
    }

    /// Which extended transport headers stand behind the BTH (IBA vol. 1 §9.2.1, same table; §9.3).
    #[must_use]
    #[inline]
    pub const fn headers(self) -> HeaderSet {
        SHAPES[self.0 as usize].headers
    }

    /// Whether payload may follow the headers.
    #[must_use]
    #[inline]
    pub const fn has_payload(self) -> bool {
        SHAPES[self.0 as usize].has_payload
    }

    const fn shape(self) -> Shape {
        // rule: wire-headers
        let meaning = self.meaning();
        let of_operation = match meaning.operation {
            Operation::Send => HeaderSet::NONE,
            Operation::Write if meaning.position.begins() => HeaderSet::RETH,
            Operation::Write => HeaderSet::NONE,
            Operation::ReadRequest => HeaderSet::RETH,
            Operation::ReadResponse if matches!(meaning.position, Position::Middle) => HeaderSet::NONE,
            Operation::ReadResponse | Operation::Acknowledge => HeaderSet::AETH,
            Operation::AtomicAcknowledge => HeaderSet::AETH.union(HeaderSet::ATOMIC_ACK_ETH),
            Operation::CompareSwap | Operation::FetchAdd => HeaderSet::ATOMIC_ETH,
            Operation::CongestionNotification => HeaderSet::RESERVED,
        };
        let of_transport = match self.transport() {
            Transport::Rc | Transport::Uc | Transport::Cnp => HeaderSet::NONE,
            Transport::Ud => HeaderSet::DETH,
        };
        let of_extra = match meaning.extra {
            Extra::Nothing => HeaderSet::NONE,
            Extra::Immediate => HeaderSet::IMM_DT,
            Extra::Invalidate => HeaderSet::IETH,
        };
        Shape {
            headers: of_operation.union(of_transport).union(of_extra),
            has_payload: matches!(
                meaning.operation,
                Operation::Send | Operation::Write | Operation::ReadResponse
            ),
        }
    }

    /// Whether a mark of congestion on it is answered: not on what answers without payload, which takes little
    /// of any way.
    #[must_use]
    #[inline]
    pub const fn is_heavy(self) -> bool {
        self.has_payload() || !self.operation().is_response()
    }

    /// Whether who receives sends it, as [`Operation::is_response`].
    #[must_use]
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(self.0, 0x0d..=0x12 | 0x81)
    }

    /// Whether it is a send of one packet.
    #[must_use]
    #[inline]
    pub const fn is_whole_send(self) -> bool {
        matches!(self.0 & 0x1f, 0x04 | 0x05 | 0x17)
    }

    const fn meaning(self) -> Meaning {
        const fn meaning(operation: Operation, position: Position, extra: Extra) -> Meaning {
            Meaning { operation, position, extra }
        }
        use Extra::{Immediate, Invalidate, Nothing};
        use Operation::{
            Acknowledge, AtomicAcknowledge, CompareSwap, CongestionNotification, FetchAdd, ReadRequest,
            ReadResponse, Send, Write,
        };
        use Position::{First, Last, Middle, Only};
        if let Transport::Cnp = self.transport() {
            return meaning(CongestionNotification, Only, Nothing);
        }
        match self.0 & 0x1f {
            0x00 => meaning(Send, First, Nothing),
            0x01 => meaning(Send, Middle, Nothing),
            0x02 => meaning(Send, Last, Nothing),
            0x03 => meaning(Send, Last, Immediate),
            0x04 => meaning(Send, Only, Nothing),
            0x05 => meaning(Send, Only, Immediate),
            0x06 => meaning(Write, First, Nothing),
            0x07 => meaning(Write, Middle, Nothing),
            0x08 => meaning(Write, Last, Nothing),
            0x09 => meaning(Write, Last, Immediate),
            0x0a => meaning(Write, Only, Nothing),
            0x0b => meaning(Write, Only, Immediate),
            0x0c => meaning(ReadRequest, Only, Nothing),
            0x0d => meaning(ReadResponse, First, Nothing),
            0x0e => meaning(ReadResponse, Middle, Nothing),
            0x0f => meaning(ReadResponse, Last, Nothing),
            0x10 => meaning(ReadResponse, Only, Nothing),
            0x11 => meaning(Acknowledge, Only, Nothing),
            0x12 => meaning(AtomicAcknowledge, Only, Nothing),
            0x13 => meaning(CompareSwap, Only, Nothing),
            0x14 => meaning(FetchAdd, Only, Nothing),
            0x16 => meaning(Send, Last, Invalidate),
            0x17 => meaning(Send, Only, Invalidate),
            // `from_byte` makes no other.
            _ => unreachable!(),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.transport(), self.operation(), self.position())?;
        match self.extra() {
            Extra::Nothing => Ok(()),
            extra => write!(f, " {extra:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Extra::{Immediate, Invalidate, Nothing};
    use Position::{First, Last, Middle, Only};

    fn all() -> impl Iterator<Item = Opcode> {
        (0..=u8::MAX).filter_map(Opcode::from_byte)
    }

    #[test]
    fn each_transport_has_its_own() {
        let count = |transport| all().filter(|opcode| opcode.transport() == transport).count();
        assert_eq!((count(Transport::Rc), count(Transport::Uc), count(Transport::Ud)), (23, 12, 2));
        assert_eq!(count(Transport::Cnp), 1);
        for byte in [0x15, 0x18, 0x1c, 0x1d, 0x1f, 0x2c, 0x40, 0x60, 0x66, 0x80, 0x82, 0xa4, 0xff] {
            assert_eq!(Opcode::from_byte(byte), None, "{byte:#x}");
        }
    }

    #[test]
    fn an_opcode_is_what_it_means() {
        let mut made = 0;
        for transport in [Transport::Rc, Transport::Uc, Transport::Ud, Transport::Cnp] {
            for operation in [
                Operation::Send,
                Operation::Write,
                Operation::ReadRequest,
                Operation::ReadResponse,
                Operation::Acknowledge,
                Operation::AtomicAcknowledge,
                Operation::CompareSwap,
                Operation::FetchAdd,
                Operation::CongestionNotification,
            ] {
                for position in [First, Middle, Last, Only] {
                    for extra in [Nothing, Immediate, Invalidate] {
                        let Some(opcode) = Opcode::new(transport, operation, position, extra) else {
                            continue;
                        };
                        made += 1;
                        let meant =
                            (opcode.transport(), opcode.operation(), opcode.position(), opcode.extra());
                        assert_eq!(meant, (transport, operation, position, extra));
                        assert_eq!(Opcode::from_byte(opcode.byte()), Some(opcode));
                        assert_eq!(opcode.is_response(), operation.is_response());
                        let is_whole_send = operation == Operation::Send && position == Only;
                        assert_eq!(opcode.is_whole_send(), is_whole_send, "{opcode:?}");
                    }
                }
            }
        }
        assert_eq!(made, all().count());
        for position in [First, Middle, Last, Only] {
            let by_meaning = Opcode::new(Transport::Rc, Operation::ReadResponse, position, Nothing);
            assert_eq!(by_meaning, Some(Opcode::read_response(position)));
        }
    }

    #[test]
    // rule: wire-headers
    fn headers_of_the_specification() {
        // Of each opcode the bytes behind the BTH, and whether payload follows.
        let rc = [0, 0, 0, 4, 0, 4, 16, 0, 0, 4, 16, 20, 16, 4, 0, 4, 4, 4, 12, 28, 28];
        let without_payload = [0x0c, 0x11, 0x12, 0x13, 0x14, 0x81];
        let bytes = (0x00..=0x14).zip(rc).chain((0x20..=0x2b).zip(rc)).chain([
            (0x16, 4),
            (0x17, 4),
            (0x64, 8),
            (0x65, 12),
            (0x81, 16),
        ]);
        let mut seen = 0;
        for (byte, bytes) in bytes {
            let opcode = Opcode::from_byte(byte).unwrap();
            assert_eq!(opcode.headers().bytes(), bytes, "{opcode:?}");
            assert_eq!(opcode.has_payload(), !without_payload.contains(&byte), "{opcode:?}");
            seen += 1;
        }
        assert_eq!(seen, all().count());
    }

    #[test]
    fn names_say_what_it_is() {
        assert_eq!(format!("{:?}", Opcode::from_byte(0x29).unwrap()), "Uc Write Last Immediate");
        assert_eq!(format!("{:?}", Opcode::ACKNOWLEDGE), "Rc Acknowledge Only");
    }
}
