//! REP: accepts a request.

use super::field::{Fields, FieldsMut};
use crate::command::Ece;

/// The answer that accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rep {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub qkey: u32,
    pub qpn: u32,
    /// End-to-end context: the queue pair of an XRC target.
    pub eecn: u32,
    pub starting_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub target_ack_delay: u8,
    pub failover: u8,
    pub flow_control: bool,
    pub rnr_retry_count: u8,
    pub srq: bool,
    pub ca_guid: [u8; 8],
    pub ece: Ece,
    pub private_data: [u8; 196],
}

impl Default for Rep {
    fn default() -> Self {
        Rep {
            local_comm_id: 0,
            remote_comm_id: 0,
            qkey: 0,
            qpn: 0,
            eecn: 0,
            starting_psn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            target_ack_delay: 0,
            failover: 0,
            flow_control: false,
            rnr_retry_count: 0,
            srq: false,
            ca_guid: [0; 8],
            ece: Ece::default(),
            private_data: [0; 196],
        }
    }
}

impl Rep {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(4, 32, self.remote_comm_id.into());
        to.put(8, 32, self.qkey.into());
        to.put(12, 24, self.qpn.into());
        to.put(15, 8, (self.ece.vendor >> 16).into());
        to.put(16, 24, self.eecn.into());
        to.put(19, 8, (self.ece.vendor >> 8).into());
        to.put(20, 24, self.starting_psn.into());
        to.put(23, 8, self.ece.vendor.into());
        to.put(24, 8, self.responder_resources.into());
        to.put(25, 8, self.initiator_depth.into());
        to.put_part(26, 0, 5, self.target_ack_delay);
        to.put_part(26, 5, 2, self.failover);
        to.put_part(26, 7, 1, self.flow_control.into());
        to.put_part(27, 0, 3, self.rnr_retry_count);
        to.put_part(27, 3, 1, self.srq.into());
        to.put_bytes(28, &self.ca_guid);
        to.put_bytes(36, &self.private_data);
        self.ece.options
    }

    pub(super) fn read(from: &Fields<'_>, modifier: u32) -> Rep {
        let vendor = from.get(15, 8) << 16 | from.get(19, 8) << 8 | from.get(23, 8);
        Rep {
            local_comm_id: from.get(0, 32) as u32,
            remote_comm_id: from.get(4, 32) as u32,
            qkey: from.get(8, 32) as u32,
            qpn: from.get(12, 24) as u32,
            eecn: from.get(16, 24) as u32,
            starting_psn: from.get(20, 24) as u32,
            responder_resources: from.part(24, 0, 8),
            initiator_depth: from.part(25, 0, 8),
            target_ack_delay: from.part(26, 0, 5),
            failover: from.part(26, 5, 2),
            flow_control: from.part(26, 7, 1) != 0,
            rnr_retry_count: from.part(27, 0, 3),
            srq: from.part(27, 3, 1) != 0,
            ca_guid: from.bytes(28),
            ece: Ece { vendor: vendor as u32, options: modifier },
            private_data: from.bytes(36),
        }
    }
}
