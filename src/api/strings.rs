//! Names of enumerators for people (`man ibv_event_type_str`). They are texts of rdma-core's, which programs
//! print and scripts compare.

use core::ffi::{CStr, c_char, c_uint};

use super::entry;
use crate::abi::verbs::*;
use crate::observe::call;

const UNKNOWN: &CStr = c"unknown";

const NODE_TYPES: [&CStr; 7] = [
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

const PORT_STATES: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

const EVENT_TYPES: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"Device link speed change",
];

const WC_STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

// The tables are indexed by the enumerators, so both must end at the same one.
const _: () = {
    assert!(NODE_TYPES.len() == IBV_NODE_UNSPECIFIED as usize - IBV_NODE_CA as usize + 1);
    assert!(PORT_STATES.len() == IBV_PORT_ACTIVE_DEFER as usize + 1);
    assert!(EVENT_TYPES.len() == IBV_EVENT_DEVICE_SPEED_CHANGE as usize + 1);
    assert!(WC_STATUSES.len() == IBV_WC_TM_RNDV_INCOMPLETE as usize + 1);
};

const WR_OPCODES: [&CStr; 12] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
];

fn name(table: &'static [&CStr], index: Option<usize>) -> *const c_char {
    index.and_then(|index| table.get(index)).unwrap_or(&UNKNOWN).as_ptr()
}

/// The kind of node, for example `InfiniBand channel adapter`; `unknown` for any other number.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: ibv_node_type_t) -> *const c_char {
    entry::plain(call!("ibv_node_type_str", node_type), || {
        name(&NODE_TYPES, (node_type as c_uint as usize).checked_sub(IBV_NODE_CA as usize))
    })
}

/// The state of a port, for example `active`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: ibv_port_state_t) -> *const c_char {
    entry::plain(call!("ibv_port_state_str", port_state), || name(&PORT_STATES, Some(port_state as usize)))
}

/// The kind of an asynchronous event, for example `port error`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: ibv_event_type_t) -> *const c_char {
    entry::plain(call!("ibv_event_type_str", event), || name(&EVENT_TYPES, Some(event as usize)))
}

/// The same for Rust.
#[must_use]
pub fn wc_status(status: ibv_wc_status_t) -> &'static CStr {
    WC_STATUSES.get(status as usize).unwrap_or(&UNKNOWN)
}

/// The status of a completion, for example `remote access error`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: ibv_wc_status_t) -> *const c_char {
    entry::plain(call!("ibv_wc_status_str", status), || name(&WC_STATUSES, Some(status as usize)))
}

/// The kind of a send request, for example `rdma-read`; NULL, as with rdma-core, for the two numbers between
/// those with a meaning. Programs find it under the private version alone.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wr_opcode_str(opcode: ibv_wr_opcode_t) -> *const c_char {
    entry::plain(call!("ibv_wr_opcode_str", opcode), || {
        const FLUSH: ibv_wr_opcode_t = IBV_WR_FLUSH as ibv_wr_opcode_t;
        const ATOMIC_WRITE: ibv_wr_opcode_t = IBV_WR_ATOMIC_WRITE as ibv_wr_opcode_t;
        match opcode {
            12 | 13 => core::ptr::null(),
            FLUSH => c"flush".as_ptr(),
            ATOMIC_WRITE => c"atomic-write".as_ptr(),
            opcode => name(&WR_OPCODES, Some(opcode as usize)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: the functions under test return NUL-terminated statics.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn known_and_unknown_numbers() {
        assert_eq!(text(ibv_node_type_str(IBV_NODE_RNIC as _)), "iWARP NIC");
        assert_eq!(text(ibv_node_type_str(-1i32 as _)), "unknown");
        assert_eq!(text(ibv_node_type_str(0)), "unknown");
        assert_eq!(text(ibv_wr_opcode_str(IBV_WR_TSO as _)), "tso");
        assert!(ibv_wr_opcode_str(13).is_null());
        assert_eq!(text(ibv_wr_opcode_str(14)), "flush");
        assert_eq!(text(ibv_wr_opcode_str(15)), "atomic-write");
        assert_eq!(text(ibv_wr_opcode_str(16)), "unknown");
        assert_eq!(text(ibv_port_state_str(4)), "active");
        assert_eq!(text(ibv_port_state_str(6)), "unknown");
        assert_eq!(text(ibv_event_type_str(19)), "WQ fatal");
        assert_eq!(text(ibv_wc_status_str(5)), "Work Request Flushed Error");
        assert_eq!(text(ibv_wc_status_str(u32::MAX)), "unknown");
    }
}
