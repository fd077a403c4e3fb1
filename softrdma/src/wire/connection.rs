//! What both sides of a connection's end know of it.

use super::opcode::Transport;
use super::psn::Psn;

/// Path MTU: bytes of payload of each packet of a message but the last. A power of two (IBA vol. 1 §9.2,
/// `enum ibv_mtu`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Mtu {
    shift: u8,
}

impl Mtu {
    /// 256 bytes.
    pub const LEAST: Self = Self { shift: 8 };

    /// 4096 bytes.
    pub const MOST: Self = Self { shift: 12 };

    /// The MTU of so many bytes: 256, 512, 1024, 2048 or 4096.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            256 | 512 | 1024 | 2048 | 4096 => Some(Self { shift: bytes.trailing_zeros() as u8 }),
            _ => None,
        }
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> u32 {
        1 << self.shift
    }

    /// How many packets a message of so many bytes takes: one where there are none.
    #[must_use]
    #[inline]
    pub const fn packets(self, length: u32) -> u32 {
        let packets = (length >> self.shift) + (length & (self.bytes() - 1) != 0) as u32;
        if packets == 0 { 1 } else { packets }
    }

    /// Where the payload of the n-th packet begins, from 0.
    #[must_use]
    #[inline]
    pub const fn offset(self, packet: u32) -> u32 {
        packet << self.shift
    }
}

/// How packets of a connection are made, and which are its.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// RC or UC.
    pub transport: Transport,
    /// Path MTU.
    pub mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qp: u32,
    /// Partition key.
    pub p_key: u16,
    /// Number of the first packet: `sq_psn` of a requester, `rq_psn` of a responder.
    pub psn: Psn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_message() {
        let mtu = Mtu::from_bytes(1024).unwrap();
        for (length, packets) in [(0, 1), (1, 1), (1024, 1), (1025, 2), (2048, 2), (1 << 31, 1 << 21)] {
            assert_eq!(mtu.packets(length), packets, "{length}");
        }
        assert_eq!(Mtu::LEAST.packets(u32::MAX), 1 << 24);
        assert_eq!(Mtu::MOST.offset(3), 12288);
        assert_eq!(Mtu::from_bytes(4096), Some(Mtu::MOST));
        assert_eq!(Mtu::from_bytes(1500), None);
    }
}
