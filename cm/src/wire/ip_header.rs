//! The IP header in front of the private data of REQ and SIDR_REQ (not with native addresses).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Its size in bytes.
pub const HEADER_SIZE: usize = 36;

/// Addresses of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The sender's port. The receiver's is in the service id.
    pub port: u16,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, of the same family.
    pub destination: IpAddr,
}

impl IpHeader {
    /// Writes it; two addresses of different families are written as the sender's family says.
    pub fn write(&self, to: &mut [u8]) {
        to[..HEADER_SIZE].fill(0);
        to[1] = if self.source.is_ipv4() { 4 << 4 } else { 6 << 4 };
        to[2..4].copy_from_slice(&self.port.to_be_bytes());
        for (at, address) in [(4, self.source), (20, self.destination)] {
            match address {
                IpAddr::V4(a) => to[at + 12..at + 16].copy_from_slice(&a.octets()),
                IpAddr::V6(a) => to[at..at + 16].copy_from_slice(&a.octets()),
            }
        }
    }

    /// Reads it; `None` of another version, or of one that is neither IPv4 nor IPv6.
    pub fn read(from: &[u8]) -> Option<IpHeader> {
        let from = from.get(..HEADER_SIZE)?;
        if from[0] != 0 {
            return None;
        }
        let bytes = |at: usize| -> [u8; 16] { std::array::from_fn(|i| from[at + i]) };
        let address = |at: usize| -> Option<IpAddr> {
            let b = bytes(at);
            match from[1] >> 4 {
                4 => Some(IpAddr::V4(Ipv4Addr::new(b[12], b[13], b[14], b[15]))),
                6 => Some(IpAddr::V6(Ipv6Addr::from(b))),
                _ => None,
            }
        };
        Some(IpHeader {
            port: u16::from_be_bytes([from[2], from[3]]),
            source: address(4)?,
            destination: address(20)?,
        })
    }
}
