//! INIT_QP_ATTR: what a queue pair is to be told on its way to a connection.

use crate::answer::{QpAttr, mask};
use crate::errno::Errno;
use crate::file::File;
use crate::id::{Cm, Id, QPT_RC, QPT_XRC_INI, QPT_XRC_TGT};
use crate::manager::Manager;

const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

const REMOTE_WRITE: u32 = 1 << 1;
const REMOTE_READ: u32 = 1 << 2;
const REMOTE_ATOMIC: u32 = 1 << 3;

impl Manager {
    pub(crate) fn init_qp_attr(&mut self, file: File, number: u32, state: u32) -> Result<QpAttr, Errno> {
        if state > ERR {
            return Err(Errno::EINVAL);
        }
        let (id, _) = self.id_with_device(file, number)?;
        let mut attr = if id.connection.cm == Cm::None || id.is_ud() {
            id.first_attr(state)
        } else {
            id.cm_attr(state)?
        };
        if state == RTR {
            attr.rq_psn = id.psn;
        }
        // Either side's own setting comes before what the request said.
        if let Some(code) = id.ack_timeout.filter(|_| attr.mask & mask::TIMEOUT != 0) {
            attr.timeout = code;
        }
        Ok(attr)
    }
}

impl Id {
    /// Before there is a connection, and for datagrams, where the program does the rest itself: whatever the
    /// state.
    fn first_attr(&mut self, state: u32) -> QpAttr {
        let mut attr = QpAttr {
            mask: mask::STATE | mask::PKEY_INDEX | mask::PORT,
            state,
            port: self.device.map_or(0, |device| device.port),
            ..QpAttr::default()
        };
        if self.is_ud() {
            self.set_default_qkey();
            attr.qkey = self.qkey;
            attr.mask |= mask::QKEY;
        } else {
            attr.mask |= mask::ACCESS_FLAGS;
        }
        attr
    }

    fn cm_attr(&self, state: u32) -> Result<QpAttr, Errno> {
        let c = &self.connection;
        let answered = matches!(c.cm, Cm::ReqRcvd | Cm::RepRcvd | Cm::RepSent | Cm::Established);
        let port = self.device.map_or(0, |device| device.port);
        match state {
            INIT if answered || c.cm == Cm::ReqSent => Ok(QpAttr {
                mask: mask::STATE | mask::ACCESS_FLAGS | mask::PKEY_INDEX | mask::PORT,
                state,
                access: REMOTE_WRITE
                    | if c.responder_resources != 0 { REMOTE_READ | REMOTE_ATOMIC } else { 0 },
                port,
                ..QpAttr::default()
            }),
            RTR if answered => {
                let mut attr = QpAttr {
                    mask: mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN,
                    state,
                    ah: self.ah(),
                    path_mtu: c.path_mtu.into(),
                    dest_qp_num: c.remote_qpn,
                    ..QpAttr::default()
                };
                if matches!(self.qp_type, QPT_RC | QPT_XRC_TGT) {
                    attr.mask |= mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
                    attr.max_dest_rd_atomic = c.responder_resources;
                }
                Ok(attr)
            }
            RTS if answered => {
                let mut attr =
                    QpAttr { mask: mask::STATE | mask::SQ_PSN, state, sq_psn: c.sq_psn, ..QpAttr::default() };
                if matches!(self.qp_type, QPT_RC | QPT_XRC_INI) {
                    attr.mask |= mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
                    attr.retry = c.retry;
                    attr.rnr_retry = c.rnr_retry;
                    attr.max_rd_atomic = c.initiator_depth;
                }
                if matches!(self.qp_type, QPT_RC | QPT_XRC_INI | QPT_XRC_TGT) {
                    attr.mask |= mask::TIMEOUT;
                    attr.timeout = c.timeout;
                }
                Ok(attr)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}
