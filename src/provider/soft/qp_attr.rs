//! Attributes of queue pairs: those of verbs into the engine's, and back.

use core::ffi::c_int;

use softrdma::device::{Attributes, Capabilities, Queried, Settings, Source};
use softrdma::rules::verbs::{Access, Attr, QpState, QpType};

use super::SoftContext;
use super::{ah, convert, network};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

/// Attributes that the interface has room for; `IBV_QP_RATE_LIMIT` lies beyond.
const KNOWN: c_int = (1 << 25) - 1;

/// Attributes that there are.
const STANDARD: c_int = (1 << 21) - 1;

/// Attributes of the other half of an XRC connection, which the kernel leaves out as well when a program gives
/// all of both.
fn of_other_half(qp_type: QpType) -> Attr {
    match qp_type {
        QpType::XrcSend => Attr::MAX_DEST_RD_ATOMIC.union(Attr::MIN_RNR_TIMER),
        QpType::XrcRecv => Attr::MAX_QP_RD_ATOMIC.union(Attr::RETRY_CNT).union(Attr::RNR_RETRY),
        QpType::Rc | QpType::Uc | QpType::Ud => Attr::NONE,
    }
}

/// EOPNOTSUPP, without `errno`, for attributes of newer interfaces.
pub fn check_mask(attr_mask: c_int) -> Result<()> {
    if attr_mask & !KNOWN == 0 { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// The address that packets of this path have, where it is on the network.
pub fn source(context: &SoftContext, attr: &ibv_ah_attr) -> Option<Source> {
    if attr.is_global == 0 || !Settings::asks_for_network() {
        return None;
    }
    let gid = context.gid(u32::from(attr.port_num), u32::from(attr.grh.sgid_index)).ok()?;
    network::source(&gid)
}

/// What a call of `ibv_modify_qp` asks for. EOPNOTSUPP for attributes of newer interfaces, EINVAL for numbers
/// that are none.
pub fn asked(
    context: &SoftContext,
    qp_type: QpType,
    attr: &ibv_qp_attr,
    attr_mask: c_int,
) -> Result<(Attr, Attributes)> {
    check_mask(attr_mask)?;
    if attr_mask & !STANDARD != 0 {
        return Err(Errno::EOPNOTSUPP.also_set());
    }
    let mask = Attr(attr_mask as u32 & !of_other_half(qp_type).0);
    let mut asked = Attributes::default();
    let state = |number| QpState::from_number(number).ok_or_else(|| Errno::EINVAL.also_set());
    if mask.has(Attr::STATE) {
        asked.state = state(attr.qp_state)?;
    }
    if mask.has(Attr::CUR_STATE) {
        asked.cur_state = state(attr.cur_qp_state)?;
    }
    if mask.has(Attr::AV) {
        let sgid = ah::source(context, &attr.ah_attr).map_err(Errno::also_set)?;
        asked.path = convert::path(&attr.ah_attr);
        asked.path.sgid = sgid.unwrap_or_default();
        asked.path.source = source(context, &attr.ah_attr);
    }
    if mask.has(Attr::ALT_PATH) {
        ah::source(context, &attr.alt_ah_attr).map_err(Errno::also_set)?;
        asked.alt_path = convert::path(&attr.alt_ah_attr);
    }
    asked.path_mtu = attr.path_mtu;
    asked.path_mig_state = attr.path_mig_state;
    asked.qkey = attr.qkey;
    asked.rq_psn = attr.rq_psn;
    asked.sq_psn = attr.sq_psn;
    asked.dest_qp_num = attr.dest_qp_num;
    asked.access = Access(attr.qp_access_flags);
    asked.cap = capabilities(&attr.cap);
    asked.pkey_index = attr.pkey_index;
    asked.alt_pkey_index = attr.alt_pkey_index;
    asked.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    asked.max_rd_atomic = attr.max_rd_atomic;
    asked.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    asked.min_rnr_timer = attr.min_rnr_timer;
    asked.port_num = attr.port_num;
    asked.timeout = attr.timeout;
    asked.retry_cnt = attr.retry_cnt;
    asked.rnr_retry = attr.rnr_retry;
    asked.alt_port_num = attr.alt_port_num;
    asked.alt_timeout = attr.alt_timeout;
    Ok((mask, asked))
}

/// What `ibv_query_qp` answers.
pub fn answer(queried: &Queried) -> ibv_qp_attr {
    let found = &queried.attributes;
    ibv_qp_attr {
        qp_state: found.state as ibv_qp_state_t,
        cur_qp_state: found.cur_state as ibv_qp_state_t,
        path_mtu: found.path_mtu,
        path_mig_state: found.path_mig_state,
        qkey: found.qkey,
        rq_psn: found.rq_psn,
        sq_psn: found.sq_psn,
        dest_qp_num: found.dest_qp_num,
        qp_access_flags: found.access.0,
        cap: sizes(&found.cap),
        ah_attr: convert::address_vector(&found.path),
        alt_ah_attr: convert::address_vector(&found.alt_path),
        pkey_index: found.pkey_index,
        alt_pkey_index: found.alt_pkey_index,
        en_sqd_async_notify: found.en_sqd_async_notify.into(),
        sq_draining: queried.sq_draining.into(),
        max_rd_atomic: found.max_rd_atomic,
        max_dest_rd_atomic: found.max_dest_rd_atomic,
        min_rnr_timer: found.min_rnr_timer,
        port_num: found.port_num,
        timeout: found.timeout,
        retry_cnt: found.retry_cnt,
        rnr_retry: found.rnr_retry,
        alt_port_num: found.alt_port_num,
        alt_timeout: found.alt_timeout,
        rate_limit: 0,
    }
}

/// Sizes as a program asks for them.
pub fn capabilities(cap: &ibv_qp_cap) -> Capabilities {
    Capabilities {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Sizes as a program gets them.
pub fn sizes(cap: &Capabilities) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}
