//! REJ: refuses, or gives up.

use super::field::{Fields, FieldsMut};

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

/// A refusal. Additional information is not spoken: zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rej {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub refused: Refused,
    pub reason: u16,
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
            private_data: from.bytes(84),
        }
    }
}
