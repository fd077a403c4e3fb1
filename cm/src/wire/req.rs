//! REQ: asks for a connection.

use super::field::{Fields, FieldsMut};
use crate::address::Gid;
use crate::command::Ece;

/// A request. The alternate path is not spoken: zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Req {
    pub local_comm_id: u32,
    pub service: u64,
    pub ca_guid: [u8; 8],
    pub qkey: u32,
    pub qpn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub remote_response_timeout: u8,
    pub transport: u8,
    pub flow_control: bool,
    pub starting_psn: u32,
    pub local_response_timeout: u8,
    pub retry_count: u8,
    pub pkey: u16,
    pub mtu: u8,
    pub rnr_retry_count: u8,
    pub max_retries: u8,
    pub srq: bool,
    pub extended_transport: u8,
    pub local_lid: u16,
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: Gid,
    /// The receiver's GID.
    pub remote_gid: Gid,
    pub flow_label: u32,
    pub rate: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub sl: u8,
    pub subnet_local: bool,
    /// The time after which a packet counts as lost: a timer code.
    pub ack_timeout: u8,
    pub ece: Ece,
    pub private_data: [u8; 92],
}

impl Default for Req {
    fn default() -> Self {
        Req {
            local_comm_id: 0,
            service: 0,
            ca_guid: [0; 8],
            qkey: 0,
            qpn: 0,
            responder_resources: 0,
            initiator_depth: 0,
            remote_response_timeout: 0,
            transport: 0,
            flow_control: false,
            starting_psn: 0,
            local_response_timeout: 0,
            retry_count: 0,
            pkey: 0,
            mtu: 0,
            rnr_retry_count: 0,
            max_retries: 0,
            srq: false,
            extended_transport: 0,
            local_lid: 0,
            remote_lid: 0,
            local_gid: [0; 16],
            remote_gid: [0; 16],
            flow_label: 0,
            rate: 0,
            traffic_class: 0,
            hop_limit: 0,
            sl: 0,
            subnet_local: false,
            ack_timeout: 0,
            ece: Ece::default(),
            private_data: [0; 92],
        }
    }
}

impl Req {
    pub(super) fn write(&self, to: &mut FieldsMut<'_>) -> u32 {
        to.put(0, 32, self.local_comm_id.into());
        to.put(5, 24, self.ece.vendor.into());
        to.put(8, 64, self.service);
        to.put_bytes(16, &self.ca_guid);
        to.put(28, 32, self.qkey.into());
        to.put(32, 24, self.qpn.into());
        to.put(35, 8, self.responder_resources.into());
        to.put(39, 8, self.initiator_depth.into());
        to.put_part(43, 0, 5, self.remote_response_timeout);
        to.put_part(43, 5, 2, self.transport);
        to.put_part(43, 7, 1, self.flow_control.into());
        to.put(44, 24, self.starting_psn.into());
        to.put_part(47, 0, 5, self.local_response_timeout);
        to.put_part(47, 5, 3, self.retry_count);
        to.put(48, 16, self.pkey.into());
        to.put_part(50, 0, 4, self.mtu);
        to.put_part(50, 5, 3, self.rnr_retry_count);
        to.put_part(51, 0, 4, self.max_retries);
        to.put_part(51, 4, 1, self.srq.into());
        to.put_part(51, 5, 3, self.extended_transport);
        to.put(52, 16, self.local_lid.into());
        to.put(54, 16, self.remote_lid.into());
        to.put_bytes(56, &self.local_gid);
        to.put_bytes(72, &self.remote_gid);
        to.put(88, 32, u64::from((self.flow_label & 0xf_ffff) << 12 | u32::from(self.rate & 63)));
        to.put(92, 8, self.traffic_class.into());
        to.put(93, 8, self.hop_limit.into());
        to.put_part(94, 0, 4, self.sl);
        to.put_part(94, 4, 1, self.subnet_local.into());
        to.put_part(95, 0, 5, self.ack_timeout);
        to.put_bytes(140, &self.private_data);
        self.ece.options
    }

    pub(super) fn read(from: &Fields<'_>, modifier: u32) -> Req {
        let flow = from.get(88, 32) as u32;
        Req {
            local_comm_id: from.get(0, 32) as u32,
            service: from.get(8, 64),
            ca_guid: from.bytes(16),
            qkey: from.get(28, 32) as u32,
            qpn: from.get(32, 24) as u32,
            responder_resources: from.part(35, 0, 8),
            initiator_depth: from.part(39, 0, 8),
            remote_response_timeout: from.part(43, 0, 5),
            transport: from.part(43, 5, 2),
            flow_control: from.part(43, 7, 1) != 0,
            starting_psn: from.get(44, 24) as u32,
            local_response_timeout: from.part(47, 0, 5),
            retry_count: from.part(47, 5, 3),
            pkey: from.get(48, 16) as u16,
            mtu: from.part(50, 0, 4),
            rnr_retry_count: from.part(50, 5, 3),
            max_retries: from.part(51, 0, 4),
            srq: from.part(51, 4, 1) != 0,
            extended_transport: from.part(51, 5, 3),
            local_lid: from.get(52, 16) as u16,
            remote_lid: from.get(54, 16) as u16,
            local_gid: from.bytes(56),
            remote_gid: from.bytes(72),
            flow_label: flow >> 12,
            rate: (flow & 63) as u8,
            traffic_class: from.part(92, 0, 8),
            hop_limit: from.part(93, 0, 8),
            sl: from.part(94, 0, 4),
            subnet_local: from.part(94, 4, 1) != 0,
            ack_timeout: from.part(95, 0, 5),
            ece: Ece { vendor: from.get(5, 24) as u32, options: modifier },
            private_data: from.bytes(140),
        }
    }
}
