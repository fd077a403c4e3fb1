//! Fields of the completions of an extended queue (`ibv_cq_ex`): which function answers which flag of the
//! program. The functions are each provider's own, since they read its device's form of a completion.

use crate::abi::verbs::*;

/// Of the functions that a provider has put into the table, which are all that it has, keeps those asked for.
pub fn keep_asked(table: &mut ibv_cq_ex, wc_flags: u64) {
    let asked = |flag: ibv_create_cq_wc_flags| wc_flags & flag as u64 != 0;
    table.read_byte_len = table.read_byte_len.filter(|_| asked(IBV_WC_EX_WITH_BYTE_LEN));
    table.read_imm_data = table.read_imm_data.filter(|_| asked(IBV_WC_EX_WITH_IMM));
    table.read_qp_num = table.read_qp_num.filter(|_| asked(IBV_WC_EX_WITH_QP_NUM));
    table.read_src_qp = table.read_src_qp.filter(|_| asked(IBV_WC_EX_WITH_SRC_QP));
    table.read_slid = table.read_slid.filter(|_| asked(IBV_WC_EX_WITH_SLID));
    table.read_sl = table.read_sl.filter(|_| asked(IBV_WC_EX_WITH_SL));
    table.read_dlid_path_bits = table.read_dlid_path_bits.filter(|_| asked(IBV_WC_EX_WITH_DLID_PATH_BITS));
    table.read_completion_ts =
        table.read_completion_ts.filter(|_| asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
    table.read_completion_wallclock_ns =
        table.read_completion_wallclock_ns.filter(|_| asked(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK));
}
