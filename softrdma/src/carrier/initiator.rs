//! Who sends: what every request of a queue pair takes from it, whatever carries it.

use crate::rules::responder::Incoming;
use crate::rules::verbs::{QpType, SendFlags};

use super::wr::Wr;

/// The sending side of a queue pair as its requests name it. Its owner changes it with the queue pair.
#[derive(Debug, Clone, Copy)]
pub struct Initiator {
    /// Its number.
    pub qp_num: u32,
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// The peer's number.
    pub dest_qp_num: u32,
    /// The address that the peer is reached at.
    pub dgid: [u8; 16],
    /// Datagrams: the own key.
    pub qkey: u32,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// Longest datagram.
    pub mtu: u32,
    /// Its own datagrams to groups do not come to it (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`).
    pub blocks_own_multicast: bool,
}

impl Initiator {
    /// That of a fresh queue pair.
    #[must_use]
    pub fn new(qp_num: u32, qp_type: QpType, pd: u32) -> Self {
        let (dest_qp_num, dgid, qkey, max_rd_atomic, mtu) = (0, [0; 16], 0, 0, 4096);
        let blocks_own_multicast = false;
        Self { qp_num, qp_type, pd, dest_qp_num, dgid, qkey, max_rd_atomic, mtu, blocks_own_multicast }
    }

    /// The queue pair that a request is for, and the address that it is reached at.
    #[inline]
    pub(crate) fn destination(&self, wr: &Wr<'_>) -> (u32, [u8; 16]) {
        wr.datagram.as_ref().map_or((self.dest_qp_num, self.dgid), |to| (to.qp_num, to.dgid))
    }

    /// The key that a datagram brings which names this one: with the top bit set, the sender's own goes instead
    /// (IBA §10.2.5).
    // rule: rsp-qkey-own
    #[inline(always)]
    pub(crate) fn key_to(&self, qkey: u32) -> u32 {
        if qkey >> 31 == 0 { qkey } else { self.qkey }
    }

    /// A request that brings so many bytes, as it arrives.
    #[inline(always)]
    pub(crate) fn incoming(&self, wr: &Wr<'_>, length: u64) -> Incoming {
        let qkey = wr.datagram.as_ref().map_or(self.qkey, |to| self.key_to(to.qkey));
        Incoming {
            qp_type: self.qp_type,
            opcode: wr.opcode,
            src_qp: self.qp_num,
            path_matches: true,
            qkey,
            ipv4: wr.datagram.as_ref().is_some_and(|to| to.grh[0] >> 4 != 6),
            length,
            addr: 0,
            imm_or_key: wr.imm_or_key,
            solicited: wr.flags.has(SendFlags::SOLICITED),
            timestamp: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wr::{Data, Datagram, Operands};
    use super::*;
    use crate::rules::verbs::Opcode;

    #[test]
    // rule: rsp-qkey-own
    fn a_controlled_key_is_the_senders_own() {
        let from = Initiator { qkey: 5, ..Initiator::new(1, QpType::Ud, 1) };
        let sent = |qkey| {
            let wr = Wr {
                wr_id: 1,
                opcode: Opcode::Send,
                flags: SendFlags::NONE,
                data: Data::Sges(&[]),
                operands: Operands::None,
                imm_or_key: 0,
                srq_num: 0,
                datagram: Some(Datagram { qp_num: 2, qkey, grh: &[0; 40], dgid: [0; 16], route: None }),
            };
            from.incoming(&wr, 0).qkey
        };
        assert_eq!(sent(0x7fff_ffff), 0x7fff_ffff);
        assert_eq!(sent(0x8000_0000), 5);
    }
}
