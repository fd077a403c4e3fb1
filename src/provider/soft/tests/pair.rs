//! Queue pairs that are connected to each other.

use super::*;

/// Two queue pairs connected to each other, and the completion queue of both.
pub struct Pair {
    pub cq: *mut ibv_cq,
    pub a: *mut ibv_qp,
    pub b: *mut ibv_qp,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        destroy_qps(&[self.a, self.b]);
        destroy_cq(self.cq);
    }
}

impl Room {
    /// A queue of the room's own, and two queue pairs connected to each other on it.
    pub fn pair(&self, qp_type: ibv_qp_type) -> Pair {
        let cq = self.cq();
        self.connected(cq, self.qp(qp_type, cq), self.qp(qp_type, cq))
    }

    /// The same by another way.
    pub fn pair_by(&self, address: ibv_ah_attr, qp_type: ibv_qp_type) -> Pair {
        let cq = self.cq();
        let (a, b) = (self.qp(qp_type, cq), self.qp(qp_type, cq));
        self.bring_up(address, a, b);
        self.bring_up(address, b, a);
        Pair { cq, a, b }
    }

    /// The same as `pair`, the first with a builder for sends.
    pub fn built_pair(&self, qp_type: ibv_qp_type) -> Pair {
        let cq = self.cq();
        self.connected(cq, self.built_qp(qp_type, cq, IBV_QP_EX_WITH_SEND as u64), self.qp(qp_type, cq))
    }

    /// Those of the caller, which the pair destroys.
    pub fn connected(&self, cq: *mut ibv_cq, a: *mut ibv_qp, b: *mut ibv_qp) -> Pair {
        self.connect(a, b);
        Pair { cq, a, b }
    }

    /// Moves both to RTS, each connected to the other.
    pub fn connect(&self, a: *mut ibv_qp, b: *mut ibv_qp) {
        self.bring_up(self.address(), a, b);
        self.bring_up(self.address(), b, a);
    }

    /// Moves a queue pair to RTS, connected to `peer`.
    fn bring_up(&self, address: ibv_ah_attr, qp: *mut ibv_qp, peer: *mut ibv_qp) {
        // SAFETY: live queue pairs; attributes are plain C data.
        unsafe {
            let kind = (*qp).qp_type;
            let ud = kind == IBV_QPT_UD as u32;
            // Of both halves of an XRC connection all may be given.
            let rc = !ud && kind != IBV_QPT_UC as u32;
            let mut attr: ibv_qp_attr = zeroed();
            attr.qp_state = IBV_QPS_INIT as u32;
            attr.port_num = 1;
            attr.qkey = QKEY;
            attr.qp_access_flags = RIGHTS as u32 & 0xf;
            let own = if ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
            let modify = |state: ibv_qp_state, attr: &mut ibv_qp_attr, mask: &[ibv_qp_attr_mask]| {
                attr.qp_state = state as u32;
                let mask = mask.iter().fold(IBV_QP_STATE as c_int, |all, bit| all | *bit as c_int);
                assert_eq!(api::qp::ibv_modify_qp(qp, attr, mask), 0);
            };
            modify(IBV_QPS_INIT, &mut attr, &[IBV_QP_PKEY_INDEX, IBV_QP_PORT, own]);
            attr.path_mtu = IBV_MTU_1024 as u32;
            attr.dest_qp_num = (*peer).qp_num;
            attr.max_dest_rd_atomic = 4;
            attr.min_rnr_timer = 1;
            attr.ah_attr = address;
            let to_rtr: &[ibv_qp_attr_mask] = if ud {
                &[]
            } else if rc {
                &[
                    IBV_QP_AV,
                    IBV_QP_PATH_MTU,
                    IBV_QP_DEST_QPN,
                    IBV_QP_RQ_PSN,
                    IBV_QP_MAX_DEST_RD_ATOMIC,
                    IBV_QP_MIN_RNR_TIMER,
                ]
            } else {
                &[IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN]
            };
            modify(IBV_QPS_RTR, &mut attr, to_rtr);
            attr.timeout = 14;
            attr.retry_cnt = 7;
            attr.rnr_retry = 7;
            attr.max_rd_atomic = 4;
            let to_rts: &[ibv_qp_attr_mask] = if rc {
                &[IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC]
            } else {
                &[IBV_QP_SQ_PSN]
            };
            modify(IBV_QPS_RTS, &mut attr, to_rts);
        }
    }
}
