//! REJ: refuses, or gives up.

use super::field::{Fields, FieldsMut};

/// Bytes of a GUID.
const GUID: usize = 8;

/// Reasons (`enum ib_cm_rej_reason`) that the machine gives itself.
pub mod reason {
    #![allow(missing_docs)] // The names are the specification's.
    pub const TIMEOUT: u16 = 4;
    pub const INVALID_SERVICE_ID: u16 = 8;
    pub const INVALID_GID: u16 = 12;
    pub const STALE_CONNECTION: u16 = 10;
    pub const CONSUMER_DEFINED: u16 = 28;
    pub const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;
}

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// REQ.
    Req,
    /// REP.
    Rep,
    /// None of them, or nothing yet.
    None,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rej {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub refused: Refused,
    pub reason: u16,
    /// Additional information: whose refusal it is, where that gives up before it has heard of the other side
    /// ([`reason::TIMEOUT`]). Other kinds of it are not spoken: zeros.
    pub ca_guid: Option<[u8; 8]>,
    pub private_data: [u8; 148],
}

impl Rej {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        let refused = match self.refused {
            Refused::Req => 0,
            Refused::Rep => 1,
            Refused::None => 2,
        };
        to.put_part(8, 0, 2, refused);
        to.put(10, 16, self.reason.into());
        if let Some(guid) = &self.ca_guid {
            to.put_part(9, 0, 7, GUID as u8);
            to.put_bytes(12, guid);
        }
        to.put_bytes(84, &self.private_data);
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> Rej {
        Rej {
            local_comm_id: from.get(0, 32) as u32,
            remote_comm_id: from.get(4, 32) as u32,
            refused: match from.part(8, 0, 2) {
                0 => Refused::Req,
                1 => Refused::Rep,
                _ => Refused::None,
            },
            reason: from.get(10, 16) as u16,
            ca_guid: (usize::from(from.part(9, 0, 7)) >= GUID).then(|| from.bytes(12)),
            private_data: from.bytes(84),
        }
    }
}
