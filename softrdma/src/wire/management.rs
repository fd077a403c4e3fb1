//! Management datagrams (MADs) as packets.

use super::datagram::Datagram;
use super::packet::Head;
use super::psn::Psn;

/// Bytes of a MAD.
pub const MAD_BYTES: usize = 256;
/// The queue pair of general services (GSI), at both ends.
pub const GENERAL_SERVICES: u32 = 1;
/// Its well-known key.
pub const Q_KEY: u32 = 0x8001_0000;

/// The headers of a MAD's packet.
#[must_use]
pub fn management_head(psn: Psn) -> Head {
    let datagram = Datagram {
        psn,
        dest_qp: GENERAL_SERVICES,
        source_qp: GENERAL_SERVICES,
        qkey: Q_KEY,
        imm: None,
        solicited: false,
        length: MAD_BYTES,
    };
    datagram.head()
}
