//! Numbers of the connection manager in words (`rdma/rdma_cma.h`, `rdma/rdma_user_cm.h`, and the
//! specification's reasons of REJ and status of SIDR_REP).

use core::fmt::Write;

use ironverbs_trace::line::Line;

/// Names of numbers that begin at 0; an empty one is none.
pub struct Names(&'static str, &'static [&'static str]);

impl Names {
    /// Writes the name of a number, or the number.
    pub fn put(&self, line: &mut Line, number: u32) {
        match self.1.get(number as usize).filter(|name| !name.is_empty()) {
            Some(name) => {
                line.put(self.0);
                line.put(name);
            }
            None => {
                let _ = write!(line, "{number}");
            }
        }
    }
}

/// `enum rdma_cm_event_type`.
pub const EVENT: Names = Names(
    "RDMA_CM_EVENT_",
    &[
        "ADDR_RESOLVED",
        "ADDR_ERROR",
        "ROUTE_RESOLVED",
        "ROUTE_ERROR",
        "CONNECT_REQUEST",
        "CONNECT_RESPONSE",
        "CONNECT_ERROR",
        "UNREACHABLE",
        "REJECTED",
        "ESTABLISHED",
        "DISCONNECTED",
        "DEVICE_REMOVAL",
        "MULTICAST_JOIN",
        "MULTICAST_ERROR",
        "ADDR_CHANGE",
        "TIMEWAIT_EXIT",
        "ADDRINFO_RESOLVED",
        "ADDRINFO_ERROR",
        "USER",
        "INTERNAL",
    ],
);
/// The event whose status is a reason of REJ.
const REJECTED: u32 = 8;
/// The event whose status is that of SIDR_REP, where it is positive.
const UNREACHABLE: u32 = 7;

/// `enum ibv_qp_type`.
pub const QP_TYPE: Names =
    Names("", &["", "", "RC", "UC", "UD", "", "", "", "RAW_PACKET", "XRC_SEND", "XRC_RECV", "DRIVER"]);
/// `enum ibv_qp_state`.
pub const QP_STATE: Names = Names("", &["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]);
/// Options of the level RDMA_OPTION_ID.
pub const OPTION_ID: Names = Names("RDMA_OPTION_ID_", &["TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT"]);
/// Options of the level RDMA_OPTION_IB.
pub const OPTION_IB: Names = Names("RDMA_OPTION_IB_", &["", "PATH"]);
/// Levels of options.
pub const LEVEL: Names = Names("RDMA_OPTION_", &["ID", "IB"]);
/// What join flags say (`enum rdma_cm_join_mc_attr`).
pub const JOIN: Names = Names("RDMA_MC_JOIN_FLAG_", &["FULLMEMBER", "SENDONLY_FULLMEMBER"]);
/// `enum ibv_event_type`, as far as programs tell rdma_notify() of it.
pub const ASYNC: Names = Names(
    "IBV_EVENT_",
    &[
        "CQ_ERR",
        "QP_FATAL",
        "QP_REQ_ERR",
        "QP_ACCESS_ERR",
        "COMM_EST",
        "SQ_DRAINED",
        "PATH_MIG",
        "PATH_MIG_ERR",
        "DEVICE_FATAL",
        "PORT_ACTIVE",
        "PORT_ERR",
        "LID_CHANGE",
        "PKEY_CHANGE",
        "SM_CHANGE",
        "SRQ_ERR",
        "SRQ_LIMIT_REACHED",
        "QP_LAST_WQE_REACHED",
    ],
);

/// Reasons of REJ.
const REASON: Names = Names(
    "",
    &[
        "",
        "no QP",
        "no EEC",
        "no resources",
        "timeout",
        "unsupported request",
        "invalid CM ID",
        "invalid CM instance",
        "invalid service ID",
        "invalid transport type",
        "stale connection",
        "RDC does not exist",
        "invalid GID",
        "invalid LID",
        "invalid SL",
        "invalid traffic class",
        "invalid hop limit",
        "invalid packet rate",
        "invalid alternate GID",
        "invalid alternate LID",
        "invalid alternate SL",
        "invalid alternate traffic class",
        "invalid alternate hop limit",
        "invalid alternate packet rate",
        "port and CM redirection",
        "port redirection",
        "invalid MTU",
        "insufficient responder resources",
        "consumer defined",
        "invalid RNR retry count",
        "duplicate local communication ID",
        "invalid class version",
        "invalid flow label",
        "invalid alternate flow label",
        "",
        "vendor option not supported",
    ],
);
/// Status of SIDR_REP.
const SIDR: Names =
    Names("", &["", "unsupported service", "rejected", "no QP", "redirected", "unsupported version"]);

/// Port spaces (`enum rdma_port_space`).
pub fn port_space(line: &mut Line, number: u16) {
    match number {
        0x0002 => line.put("RDMA_PS_IPOIB"),
        0x0106 => line.put("RDMA_PS_TCP"),
        0x0111 => line.put("RDMA_PS_UDP"),
        0x013f => line.put("RDMA_PS_IB"),
        other => {
            let _ = write!(line, "{other:#x}");
        }
    }
}

/// The status of an event, and what it says.
pub fn status(line: &mut Line, event: u32, status: i32) {
    let _ = write!(line, "{status}");
    if status < 0 {
        return match nix::errno::Errno::from_raw(status.saturating_neg()) {
            nix::errno::Errno::UnknownErrno => {}
            known => {
                let _ = write!(line, " {known:?} ({})", known.desc());
            }
        };
    }
    let names = match event {
        _ if status == 0 => return,
        REJECTED => REASON,
        UNREACHABLE => SIDR,
        _ => return,
    };
    if names.1.get(status as usize).is_some_and(|name| !name.is_empty()) {
        line.put(" (");
        names.put(line, status as u32);
        line.put(")");
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::shown;
    use super::*;

    #[test]
    fn a_status_says_what_it_means() {
        for (event, number, words) in [
            (9, 0, "0"),
            (REJECTED, 28, "28 (consumer defined)"),
            (REJECTED, 8, "8 (invalid service ID)"),
            (REJECTED, 35, "35 (vendor option not supported)"),
            (REJECTED, 99, "99"),
            (UNREACHABLE, 2, "2 (rejected)"),
            (UNREACHABLE, -110, "-110 ETIMEDOUT (Connection timed out)"),
            (1, -99_999, "-99999"),
            (1, i32::MIN, "-2147483648"),
            (10, 3, "3"),
        ] {
            assert_eq!(shown(|line| status(line, event, number)), words);
        }
    }

    #[test]
    fn numbers_without_names_stay_numbers() {
        assert_eq!(shown(|line| EVENT.put(line, 19)), "RDMA_CM_EVENT_INTERNAL");
        assert_eq!(shown(|line| EVENT.put(line, 20)), "20");
        assert_eq!(shown(|line| QP_TYPE.put(line, 1)), "1");
        assert_eq!(shown(|line| port_space(line, 7)), "0x7");
    }
}
