//! MRA: the answer will take longer.

use super::field::{Fields, FieldsMut};

/// Says that a message arrived and its answer will take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Mra {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    /// 0 REQ, 1 REP, 2 LAP.
    pub message: u8,
    /// A timer code.
    pub service_timeout: u8,
}

impl Mra {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        to.put_part(8, 0, 2, self.message);
        to.put_part(9, 0, 5, self.service_timeout);
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> Mra {
        Mra {
            local_comm_id: from.get(0, 32) as u32,
            remote_comm_id: from.get(4, 32) as u32,
            message: from.part(8, 0, 2),
            service_timeout: from.part(9, 0, 5),
        }
    }
}
