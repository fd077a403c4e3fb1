//! Packets: the base transport header (BTH; IBA vol. 1 §9.2), the extended headers behind it (§9.3), and
//! payload.
//!
//! All of it stands in the payload of a UDP datagram (annex A17), behind which the ICRC follows
//! ([`super::icrc`]). Numbers are in network byte order.

use super::opcode::{HeaderSet, Opcode};
use super::psn::Psn;

/// Bytes of a BTH.
pub const BTH_BYTES: usize = 12;

/// Bytes of the longest headers: BTH and AtomicETH.
pub const MAX_HEAD: usize = 40;

/// Bytes that a congestion notification has reserved.
const RESERVED_BYTES: usize = 16;

/// The default partition, with full membership.
pub const DEFAULT_P_KEY: u16 = 0xffff;

/// How many bytes of pad follow a payload, which ends at a multiple of 4 bytes with them.
#[must_use]
#[inline]
pub const fn pad_of(payload: usize) -> u8 {
    (payload.wrapping_neg() & 3) as u8
}

/// Base transport header. Its migration state (MigReq) is written as "migrated", where each connection begins,
/// and not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Whether the message asks for an event at its receiver.
    pub solicited: bool,
    /// Bytes of pad behind the payload: 0 to 3 ([`pad_of`]).
    pub pad: u8,
    /// Partition key.
    pub p_key: u16,
    /// Queue pair that it is for: 24 bits.
    pub dest_qp: u32,
    /// Whether the responder is to acknowledge it.
    pub ack_req: bool,
    /// Its sequence number.
    pub psn: Psn,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
}

impl Bth {
    /// One that asks for nothing, in the default partition, before a payload of 4 · n bytes.
    #[must_use]
    #[inline]
    pub const fn new(opcode: Opcode, dest_qp: u32, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            pad: 0,
            p_key: DEFAULT_P_KEY,
            dest_qp,
            ack_req: false,
            psn,
            fecn: false,
            becn: false,
        }
    }

    /// That of a congestion notification to a queue pair.
    #[must_use]
    pub const fn notification(dest_qp: u32) -> Self {
        Self { becn: true, ..Self::new(Opcode::CONGESTION_NOTIFICATION, dest_qp, Psn::new(0)) }
    }

    #[inline]
    fn write(&self, to: &mut [u8; BTH_BYTES]) {
        const MIGRATED: u8 = 0x40;
        let migrated = if self.opcode == Opcode::CONGESTION_NOTIFICATION { 0 } else { MIGRATED };
        let flags = u8::from(self.solicited) << 7 | migrated | (self.pad & 3) << 4;
        let [p_key_high, p_key_low] = self.p_key.to_be_bytes();
        let congestion = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        let words = [
            u32::from_be_bytes([self.opcode.byte(), flags, p_key_high, p_key_low]),
            u32::from(congestion) << 24 | self.dest_qp & MASK_24,
            u32::from(self.ack_req) << 31 | self.psn.number(),
        ];
        for (to, word) in to.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
    }

    #[inline]
    fn parse(from: &[u8; BTH_BYTES]) -> Option<Self> {
        let transport_version = from[1] & 0x0f;
        // rule: wire-version
        if transport_version != 0 {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        Some(Self {
            opcode: Opcode::from_byte(from[0])?,
            solicited: from[1] & 0x80 != 0,
            pad: from[1] >> 4 & 3,
            p_key: u16::from_be_bytes([from[2], from[3]]),
            dest_qp: word(4) & MASK_24,
            ack_req: from[8] & 0x80 != 0,
            psn: Psn::new(word(8)),
            fecn: from[4] & 0x80 != 0,
            becn: from[4] & 0x40 != 0,
        })
    }
}

/// RDMA extended transport header: which memory a write or read is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// Address in the region.
    pub va: u64,
    /// Key of the region.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// Atomic extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// Address of the 8 bytes in the region.
    pub va: u64,
    /// Key of the region.
    pub rkey: u32,
    /// What is swapped in, or added.
    pub swap_or_add: u64,
    /// What a compare and swap compares with.
    pub compare: u64,
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aeth {
    /// Positive with credits, receiver not ready with a time, or negative with a reason (IBA vol. 1 §9.7.5).
    pub syndrome: u8,
    /// Message sequence number, which counts the messages that the responder has completed: 24 bits.
    pub msn: u32,
}

/// Whether a syndrome says that nothing is missing (IBA vol. 1 §9.7.5): its other bits are credits.
#[must_use]
#[inline]
pub const fn is_positive(syndrome: u8) -> bool {
    syndrome >> 5 == 0
}

/// Datagram extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// Key that the receiving queue pair must have.
    pub qkey: u32,
    /// Queue pair that sent it: 24 bits.
    pub source_qp: u32,
}

/// Extended headers of a packet: those that its opcode has ([`Opcode::headers`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers {
    /// Of datagrams.
    pub deth: Option<Deth>,
    /// Of the first packet of a write, and of reads.
    pub reth: Option<Reth>,
    /// Of atomic operations.
    pub atomic: Option<AtomicEth>,
    /// Of answers.
    pub aeth: Option<Aeth>,
    /// What stood in memory before an atomic operation (AtomicAckETH).
    pub atomic_ack: Option<u64>,
    /// Immediate data, as it stands in the program's memory (ImmDt): four bytes, not a number.
    pub imm: Option<u32>,
    /// Key of the receiver that is to be invalidated (IETH).
    pub ieth: Option<u32>,
    /// The reserved bytes of a congestion notification, which are written as zeroes and not read.
    pub reserved: bool,
}

impl Headers {
    /// None.
    pub const NONE: Self = Self {
        deth: None,
        reth: None,
        atomic: None,
        aeth: None,
        atomic_ack: None,
        imm: None,
        ieth: None,
        reserved: false,
    };

    /// Which there are.
    #[must_use]
    pub const fn set(&self) -> HeaderSet {
        const fn if_there(there: bool, header: HeaderSet) -> HeaderSet {
            if there { header } else { HeaderSet::NONE }
        }
        if_there(self.deth.is_some(), HeaderSet::DETH)
            .union(if_there(self.reth.is_some(), HeaderSet::RETH))
            .union(if_there(self.atomic.is_some(), HeaderSet::ATOMIC_ETH))
            .union(if_there(self.aeth.is_some(), HeaderSet::AETH))
            .union(if_there(self.atomic_ack.is_some(), HeaderSet::ATOMIC_ACK_ETH))
            .union(if_there(self.imm.is_some(), HeaderSet::IMM_DT))
            .union(if_there(self.ieth.is_some(), HeaderSet::IETH))
            .union(if_there(self.reserved, HeaderSet::RESERVED))
    }

    /// Writes those that there are: how many bytes are written then.
    #[inline(never)]
    fn write(&self, mut writer: Writer<'_>) -> usize {
        if let Some(deth) = &self.deth {
            writer.put(deth.qkey.to_be_bytes());
            writer.put((deth.source_qp & MASK_24).to_be_bytes());
        }
        if let Some(reth) = &self.reth {
            writer.put(reth.va.to_be_bytes());
            writer.put(reth.rkey.to_be_bytes());
            writer.put(reth.length.to_be_bytes());
        }
        if let Some(atomic) = &self.atomic {
            writer.put(atomic.va.to_be_bytes());
            writer.put(atomic.rkey.to_be_bytes());
            writer.put(atomic.swap_or_add.to_be_bytes());
            writer.put(atomic.compare.to_be_bytes());
        }
        if let Some(aeth) = &self.aeth {
            writer.aeth(aeth);
        }
        if let Some(original) = self.atomic_ack {
            writer.put(original.to_be_bytes());
        }
        if let Some(imm) = self.imm {
            writer.put(imm.to_ne_bytes());
        }
        if let Some(rkey) = self.ieth {
            writer.put(rkey.to_be_bytes());
        }
        if self.reserved {
            writer.put([0; RESERVED_BYTES]);
        }
        writer.at
    }
}

/// Headers of a packet that is to be sent. Payload and pad ([`Bth::pad`] zero bytes) follow from where they
/// are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Base transport header.
    pub bth: Bth,
    /// Extended headers, exactly those of the opcode.
    pub headers: Headers,
}

impl Head {
    /// How many bytes [`write`](Self::write) writes.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> usize {
        BTH_BYTES + self.headers.set().bytes()
    }

    /// Writes the headers to the beginning of an array, and returns how many bytes they take. Numbers of 24
    /// bits are cut to these.
    pub fn write(&self, to: &mut [u8; MAX_HEAD]) -> usize {
        debug_assert_eq!(self.headers.set(), self.bth.opcode.headers(), "headers of {:?}", self.bth.opcode);
        let mut writer = Writer { to, at: 0 };
        self.bth.write(writer.next());
        // Most packets have no more.
        if !HeaderSet::AETH.has(self.bth.opcode.headers()) {
            return self.headers.write(writer);
        }
        if let Some(aeth) = &self.headers.aeth {
            writer.aeth(aeth);
        }
        writer.at
    }
}

/// A packet that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Extended headers, exactly those of the opcode.
    pub headers: Headers,
    /// Payload, without pad.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Whether it acknowledges requests, and is neither an answer with more nor says that something is missing.
    #[must_use]
    pub fn is_acknowledgement(&self) -> bool {
        self.bth.opcode == Opcode::ACKNOWLEDGE
            && self.headers.aeth.is_some_and(|aeth| is_positive(aeth.syndrome))
    }

    /// Reads a UDP payload, without the ICRC at its end. None where it is no packet of RC, UC or UD, and no
    /// congestion notification: an opcode or a transport version that is not known, headers that are cut off, a
    /// length that is no multiple of 4 bytes, more pad than payload, payload where the opcode has none.
    ///
    /// What contents of the reserved bits and the pad are does not matter. Nor is the payload's length held
    /// against MTU and message here: a responder answers that one (IBA vol. 1 §9.7.4.1, §9.8.2.2), and does
    /// not drop it silently.
    #[must_use]
    #[inline(always)]
    pub fn parse(udp_payload_without_icrc: &'a [u8]) -> Option<Self> {
        let opcode = udp_payload_without_icrc.first().copied().and_then(Opcode::from_byte)?;
        if HeaderSet::AETH.has(opcode.headers()) {
            // Most packets: what reads other headers is not there.
            Self::parse_with(HeaderSet::AETH, udp_payload_without_icrc)
        } else {
            Self::parse_any(udp_payload_without_icrc)
        }
    }

    #[inline(never)]
    fn parse_any(udp_payload_without_icrc: &'a [u8]) -> Option<Self> {
        Self::parse_with(HeaderSet::ALL, udp_payload_without_icrc)
    }

    /// One that has none but these headers.
    #[inline(always)]
    fn parse_with(most: HeaderSet, udp_payload_without_icrc: &'a [u8]) -> Option<Self> {
        if !udp_payload_without_icrc.len().is_multiple_of(4) {
            return None;
        }
        let mut reader = Reader { rest: udp_payload_without_icrc };
        let bth = Bth::parse(reader.next()?)?;
        let headers = reader.headers(bth.opcode.headers().common(most))?;
        let payload = reader.rest.len().checked_sub(usize::from(bth.pad))?;
        if !bth.opcode.has_payload() && !reader.rest.is_empty() {
            return None;
        }
        Some(Self { bth, headers, payload: &reader.rest[..payload] })
    }

    /// Its headers.
    #[must_use]
    #[inline]
    pub const fn head(&self) -> Head {
        Head { bth: self.bth, headers: self.headers }
    }
}

/// What is written so far of an array.
struct Writer<'a> {
    to: &'a mut [u8; MAX_HEAD],
    at: usize,
}

impl Writer<'_> {
    /// The next bytes of the array.
    #[inline]
    fn next<const BYTES: usize>(&mut self) -> &mut [u8; BYTES] {
        let start = self.at;
        self.at += BYTES;
        (&mut self.to[start..start + BYTES]).try_into().expect("so many bytes")
    }

    #[inline]
    fn aeth(&mut self, aeth: &Aeth) {
        self.put((u32::from(aeth.syndrome) << 24 | aeth.msn & MASK_24).to_be_bytes());
    }

    #[inline]
    fn put<const BYTES: usize>(&mut self, bytes: [u8; BYTES]) {
        *self.next() = bytes;
    }
}

/// What is not read yet of a packet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next bytes, if there are so many.
    #[inline]
    fn next<const BYTES: usize>(&mut self) -> Option<&'a [u8; BYTES]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(bytes)
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        self.next().copied().map(u32::from_be_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Option<u64> {
        self.next().copied().map(u64::from_be_bytes)
    }

    /// The headers of a set, in their order.
    #[inline(always)]
    fn headers(&mut self, set: HeaderSet) -> Option<Headers> {
        Some(Headers {
            deth: if set.has(HeaderSet::DETH) { Some(self.deth()?) } else { None },
            reth: if set.has(HeaderSet::RETH) { Some(self.reth()?) } else { None },
            atomic: if set.has(HeaderSet::ATOMIC_ETH) { Some(self.atomic()?) } else { None },
            aeth: if set.has(HeaderSet::AETH) { Some(self.aeth()?) } else { None },
            atomic_ack: if set.has(HeaderSet::ATOMIC_ACK_ETH) { Some(self.u64()?) } else { None },
            imm: if set.has(HeaderSet::IMM_DT) { Some(u32::from_ne_bytes(*self.next()?)) } else { None },
            ieth: if set.has(HeaderSet::IETH) { Some(self.u32()?) } else { None },
            reserved: set.has(HeaderSet::RESERVED) && self.next::<RESERVED_BYTES>().map(|_| true)?,
        })
    }

    fn deth(&mut self) -> Option<Deth> {
        Some(Deth { qkey: self.u32()?, source_qp: self.u32()? & MASK_24 })
    }

    fn reth(&mut self) -> Option<Reth> {
        Some(Reth { va: self.u64()?, rkey: self.u32()?, length: self.u32()? })
    }

    fn atomic(&mut self) -> Option<AtomicEth> {
        let (va, rkey) = (self.u64()?, self.u32()?);
        Some(AtomicEth { va, rkey, swap_or_add: self.u64()?, compare: self.u64()? })
    }

    #[inline]
    fn aeth(&mut self) -> Option<Aeth> {
        let word = self.u32()?;
        Some(Aeth { syndrome: (word >> 24) as u8, msn: word & MASK_24 })
    }
}

/// Bits of a number of 24 bits.
const MASK_24: u32 = 0xff_ffff;

#[cfg(test)]
mod tests;
