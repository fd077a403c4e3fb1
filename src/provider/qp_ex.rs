//! Builders of an extended queue pair (`ibv_qp_ex`): which operations a service has, and which builder each is.
//! The functions are each provider's own, since they write its device's form of a request.

use crate::abi::verbs::*;
use crate::log::trace;

/// The operations (`IBV_QP_EX_WITH_*`) of datagrams.
pub const DATAGRAM: u64 = IBV_QP_EX_WITH_SEND as u64 | IBV_QP_EX_WITH_SEND_WITH_IMM as u64;

/// Those of an unreliable connection that every device has.
pub const UNRELIABLE: u64 = DATAGRAM
    | IBV_QP_EX_WITH_RDMA_WRITE as u64
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM as u64
    | IBV_QP_EX_WITH_BIND_MW as u64
    | IBV_QP_EX_WITH_SEND_WITH_INV as u64;

/// Those of a reliable connection.
pub const RELIABLE: u64 = UNRELIABLE
    | IBV_QP_EX_WITH_RDMA_READ as u64
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP as u64
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD as u64
    | IBV_QP_EX_WITH_LOCAL_INV as u64
    | IBV_QP_EX_WITH_ATOMIC_WRITE as u64;

/// Says which attributes of an extended queue pair a provider refuses.
pub fn trace_unsupported(provider: &str, attr: &ibv_qp_init_attr_ex) {
    trace!(
        Debug,
        "{provider}: create_qp_ex: no support for comp_mask {:#x}, create_flags {:#x}, send_ops_flags {:#x} \
         with type {}",
        attr.comp_mask,
        attr.create_flags,
        attr.send_ops_flags,
        attr.qp_type
    );
}

/// Of the builders that a provider has put into the table, which are all that it has, keeps those asked for.
pub fn keep_asked(table: &mut ibv_qp_ex, asked: u64) {
    let has = |operation: ibv_qp_create_send_ops_flags| asked & operation as u64 != 0;
    table.wr_atomic_cmp_swp = table.wr_atomic_cmp_swp.filter(|_| has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP));
    table.wr_atomic_fetch_add =
        table.wr_atomic_fetch_add.filter(|_| has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD));
    table.wr_bind_mw = table.wr_bind_mw.filter(|_| has(IBV_QP_EX_WITH_BIND_MW));
    table.wr_local_inv = table.wr_local_inv.filter(|_| has(IBV_QP_EX_WITH_LOCAL_INV));
    table.wr_atomic_write = table.wr_atomic_write.filter(|_| has(IBV_QP_EX_WITH_ATOMIC_WRITE));
    table.wr_flush = table.wr_flush.filter(|_| has(IBV_QP_EX_WITH_FLUSH));
    table.wr_rdma_read = table.wr_rdma_read.filter(|_| has(IBV_QP_EX_WITH_RDMA_READ));
    table.wr_rdma_write = table.wr_rdma_write.filter(|_| has(IBV_QP_EX_WITH_RDMA_WRITE));
    table.wr_rdma_write_imm = table.wr_rdma_write_imm.filter(|_| has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM));
    table.wr_send = table.wr_send.filter(|_| has(IBV_QP_EX_WITH_SEND));
    table.wr_send_imm = table.wr_send_imm.filter(|_| has(IBV_QP_EX_WITH_SEND_WITH_IMM));
    table.wr_send_inv = table.wr_send_inv.filter(|_| has(IBV_QP_EX_WITH_SEND_WITH_INV));
}
