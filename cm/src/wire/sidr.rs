//! SIDR_REQ, SIDR_REP: which queue pair serves a service id, for datagrams.

use super::field::{Fields, FieldsMut};
use crate::command::Ece;

/// Status of a [`SidrRep`].
pub mod status {
    #![allow(missing_docs)] // The names are the specification's.
    pub const SUCCESS: u8 = 0;
    pub const UNSUPPORTED: u8 = 1;
    pub const REJECT: u8 = 2;
}

/// Asks for a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct SidrReq {
    pub request_id: u32,
    pub pkey: u16,
    pub service: u64,
    pub private_data: [u8; 216],
}

/// Names a queue pair, or refuses. Additional information is not spoken: zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct SidrRep {
    pub request_id: u32,
    pub status: u8,
    pub qpn: u32,
    pub service: u64,
    pub qkey: u32,
    pub ece: Ece,
    pub private_data: [u8; 136],
}

impl SidrReq {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.request_id.into());
        to.put(4, 16, self.pkey.into());
        to.put(8, 64, self.service);
        to.put_bytes(16, &self.private_data);
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> SidrReq {
        SidrReq {
            request_id: from.get(0, 32) as u32,
            pkey: from.get(4, 16) as u16,
            service: from.get(8, 64),
            private_data: from.bytes(16),
        }
    }
}

impl SidrRep {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.request_id.into());
        to.put(4, 8, self.status.into());
        to.put(6, 16, (self.ece.vendor >> 8).into());
        to.put(8, 24, self.qpn.into());
        to.put(11, 8, self.ece.vendor.into());
        to.put(12, 64, self.service);
        to.put(20, 32, self.qkey.into());
        to.put_bytes(96, &self.private_data);
        self.ece.options
    }

    pub(super) fn read(from: &Fields<'_>, modifier: u32) -> SidrRep {
        let vendor = from.get(6, 16) << 8 | from.get(11, 8);
        SidrRep {
            request_id: from.get(0, 32) as u32,
            status: from.part(4, 0, 8),
            qpn: from.get(8, 24) as u32,
            service: from.get(12, 64),
            qkey: from.get(20, 32) as u32,
            ece: Ece { vendor: vendor as u32, options: modifier },
            private_data: from.bytes(96),
        }
    }
}
