//! What peers need to know of a queue pair, and what it shows to who looks at the folder.

use std::sync::atomic::Ordering;

use super::{ANYBODY, NOBODY, QueuePair};
use crate::carrier::near::attributes::{FAR, QpAttributes, QpShown};
use crate::carrier::near::number::place_of;
use crate::device::qp_attributes::Attributes;
use crate::rules::verbs::{QpState, QpType};

impl QueuePair {
    /// What peers need to know.
    pub(super) fn shown(&self, attributes: &Attributes) -> QpAttributes {
        let (pd, srq) = (self.init.pd, self.init.srq.as_ref());
        QpAttributes {
            qp_type: self.init.qp_type,
            pd,
            receive_pd: srq.map_or(pd, |srq| srq.pd()),
            access: attributes.access,
            dest_qp_num: if self.is_far() { FAR } else { attributes.dest_qp_num },
            qkey: attributes.qkey,
            max_dest_rd_atomic: attributes.max_dest_rd_atomic,
            min_rnr_timer: attributes.min_rnr_timer,
            cq: self.init.recv_cq.as_ref().map(|cq| cq.index()),
            srq: srq.map(|srq| srq.index()),
            xrcd: self.domain().unwrap_or(0),
            direct: self.direct_place(),
        }
    }

    /// Stores what peers need to know. Behind the lock, or before anybody knows the queue pair.
    pub(super) fn publish(&self, attributes: QpAttributes, state: Option<QpState>) {
        let partner = match (state, self.init.qp_type) {
            (None, _) => None,
            // Whatever comes is dropped.
            (Some(QpState::Reset | QpState::Init), _) => Some(NOBODY),
            // In error, whoever comes flushes it.
            (Some(QpState::Err), _) | (_, QpType::Ud) => Some(ANYBODY),
            _ => Some(place_of(attributes.dest_qp_num).map_or(NOBODY, |(slot, _)| u32::from(slot))),
        };
        if let Some(partner) = partner {
            self.partner.store(partner, Ordering::Release);
        }
        if let Some(permissions) = &self.device.endpoint.permissions {
            permissions.set_queue_pair(self.index, attributes, state);
        }
        attributes.store(&self.device.endpoint.own, self.index);
    }

    /// Stores what is shown of it, likewise.
    pub(super) fn show(&self, attributes: &Attributes) {
        let path = &attributes.path;
        let shown = QpShown {
            send_cq: self.init.send_cq.as_ref().map(|cq| cq.index()),
            peer: attributes.dest_qp_num,
            address: if path.is_global { path.dgid } else { [0; 16] },
        };
        shown.store(&self.device.endpoint.own, self.index);
    }
}
