//! LAP, APR: another path for a connection, which nobody here takes.

use super::field::{Fields, FieldsMut};

/// Status of an [`Apr`]: alternate paths are not supported.
pub const UNSUPPORTED: u8 = 2;

/// Asks for another path; which one is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Lap {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
}

/// The answer to it. Additional information and private data are not spoken: zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Apr {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub status: u8,
}

impl Lap {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> Lap {
        Lap { local_comm_id: from.get(0, 32) as u32, remote_comm_id: from.get(4, 32) as u32 }
    }
}

impl Apr {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        to.put(9, 8, self.status.into());
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> Apr {
        Apr {
            local_comm_id: from.get(0, 32) as u32,
            remote_comm_id: from.get(4, 32) as u32,
            status: from.part(9, 0, 8),
        }
    }
}
