//! The functions of an extended queue pair (`ibv_qp_ex`), by which programs build send requests: which
//! operations a service has, and which builder each is. The functions are each provider's own, since they write
//! its device's form of a request.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::Handle;

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

/// Makes a provider's `set_functions`. The functions have the names of the table's fields and are in the
/// provider's module. The arguments are the functions that not every provider has.
macro_rules! set_functions {
    ($($also:ident),*) => {
        /// Puts the builders that were asked for (`IBV_QP_EX_WITH_*`), and all setters, into the program's
        /// table.
        pub fn set_functions(public: &mut ibv_qp_ex, asked: u64) {
            public.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
            public.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
            public.wr_bind_mw = Some(wr_bind_mw);
            public.wr_local_inv = Some(wr_local_inv);
            public.wr_atomic_write = Some(wr_atomic_write);
            public.wr_rdma_read = Some(wr_rdma_read);
            public.wr_rdma_write = Some(wr_rdma_write);
            public.wr_rdma_write_imm = Some(wr_rdma_write_imm);
            public.wr_send = Some(wr_send);
            public.wr_send_imm = Some(wr_send_imm);
            public.wr_send_inv = Some(wr_send_inv);
            $(public.$also = Some($also);)*
            $crate::provider::qp_ex::keep_asked(public, asked);

            public.wr_set_ud_addr = Some(wr_set_ud_addr);
            public.wr_set_inline_data = Some(wr_set_inline_data);
            public.wr_set_inline_data_list = Some(wr_set_inline_data_list);
            public.wr_set_sge = Some(wr_set_sge);
            public.wr_set_sge_list = Some(wr_set_sge_list);
            public.wr_start = Some(wr_start);
            public.wr_complete = Some(wr_complete);
            public.wr_abort = Some(wr_abort);
        }
    };
}
pub(crate) use set_functions;

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

/// The operations (`IBV_QP_EX_WITH_*`) that an extended queue pair is to have builders for; none where the
/// program asks for no builders. EOPNOTSUPP (`errno` set) for an attribute that `also_known`
/// (`IBV_QP_INIT_ATTR_*`) does not name beside those that every provider has, for a creation flag that is not
/// among `flags` (`IBV_QP_CREATE_*`), and for an operation that is not among `builders`, both those of this
/// type of queue pair. `provider` is for the trace.
pub fn asked_builders(
    provider: &str,
    attr: &ibv_qp_init_attr_ex,
    also_known: u32,
    flags: u32,
    builders: Option<u64>,
) -> Result<Option<u64>> {
    let known = also_known
        | IBV_QP_INIT_ATTR_PD as u32
        | IBV_QP_INIT_ATTR_CREATE_FLAGS as u32
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS as u32;
    let has = |bit: ibv_qp_init_attr_mask| attr.comp_mask & bit as u32 != 0;
    let asked = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
    if attr.comp_mask & !known != 0
        || (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags & !flags != 0)
        || asked.is_some_and(|asked| builders.is_none_or(|builders| asked & !builders != 0))
    {
        trace!(
            Debug,
            "{provider}: create_qp_ex: no support for comp_mask {:#x}, create_flags {:#x}, \
             send_ops_flags {:#x} with type {}",
            attr.comp_mask,
            attr.create_flags,
            attr.send_ops_flags,
            attr.qp_type
        );
        return Err(Errno::EOPNOTSUPP.also_set());
    }
    Ok(asked)
}

/// The builder side of a queue pair whose public part is an extended one, if it was made as such.
pub fn of_qp(qp: Handle<ibv_qp>, made_extended: bool) -> Option<Handle<ibv_qp_ex>> {
    // SAFETY: a live handle. It is cast itself, not a reference to its field: builders reach the provider's
    // whole object through this pointer.
    if made_extended { unsafe { Handle::optional(qp.as_ptr().cast()) } } else { None }
}

/// Bytes of inline data in several pieces; ENOSPC for more than `max`.
#[inline(always)]
pub fn inline_length(pieces: &[ibv_data_buf], max: u32) -> Result<usize> {
    let mut length = 0usize;
    for piece in pieces {
        length =
            length.checked_add(piece.length).filter(|length| *length <= max as usize).ok_or(Errno::ENOSPC)?;
    }
    Ok(length)
}
