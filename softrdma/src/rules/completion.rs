//! Completions.

use super::verbs::{Status, WcFlags, WcOpcode};

/// A completion (`struct ibv_wc`; IBA §11.4.2.1).
///
/// The fields that RoCE has no use for (`pkey_index`, `slid`, `dlid_path_bits`) are always 0 and not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number that the program gave its request.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub opcode: WcOpcode,
    /// More about an error.
    pub vendor_err: u32,
    /// Bytes moved, for receive requests, reads and atomics.
    pub byte_len: u32,
    /// Immediate data as it was posted (network order), or the key that was invalidated.
    pub imm_or_key: u32,
    /// The queue pair it belongs to.
    pub qp_num: u32,
    /// The sender's queue pair (datagrams).
    pub src_qp: u32,
    /// What else is there.
    pub flags: WcFlags,
    /// When it was published, by the publisher's clock in nanoseconds.
    pub timestamp: u64,
    /// Send requests: places of the send queue that are free once this is polled, its own and those of requests
    /// before it that asked for no completion.
    pub places: u32,
}

impl Completion {
    /// A completion of a request that never ran (IBA §10.3.1: error state): only number, status and queue pair
    /// count.
    #[must_use]
    pub fn flushed(wr_id: u64, opcode: WcOpcode, qp_num: u32) -> Self {
        Self {
            wr_id,
            // rule: wc-error-fields
            status: Status::WrFlushErr,
            opcode,
            vendor_err: 0,
            byte_len: 0,
            imm_or_key: 0,
            qp_num,
            src_qp: 0,
            flags: WcFlags::NONE,
            timestamp: 0,
            places: 0,
        }
    }
}
