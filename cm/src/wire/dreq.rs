//! RTU, DREQ, DREP: the end of the beginning, and the end. Their private data is not spoken: zeros.

use super::field::{Fields, FieldsMut};

/// Ready to use: the active side's last word on an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rtu {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
}

/// Asks for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Dreq {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub remote_qpn: u32,
}

/// Agrees to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Drep {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
}

macro_rules! two_ids {
    ($message:ident) => {
        impl $message {
            pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
                to.put(0, 32, self.local_comm_id.into());
                to.put(4, 32, self.remote_comm_id.into());
                0
            }

            pub(super) fn read(from: &Fields<'_>) -> Self {
                $message { local_comm_id: from.get(0, 32) as u32, remote_comm_id: from.get(4, 32) as u32 }
            }
        }
    };
}

two_ids!(Rtu);
two_ids!(Drep);

impl Dreq {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        to.put(8, 24, self.remote_qpn.into());
        0
    }

    pub(super) fn read(from: &Fields<'_>) -> Dreq {
        Dreq {
            local_comm_id: from.get(0, 32) as u32,
            remote_comm_id: from.get(4, 32) as u32,
            remote_qpn: from.get(8, 24) as u32,
        }
    }
}
