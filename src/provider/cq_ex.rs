//! The functions of an extended completion queue (`ibv_cq_ex`), by which programs poll completion by
//! completion: which of them a queue has. The functions are each provider's own, since they read its device's
//! form of a completion.

use crate::abi::verbs::*;

/// Makes a provider's `set_functions`. The functions have the names of the table's fields and are in the
/// provider's module; `start_poll` and `end_poll` take as a parameter whether the queue has a lock. The
/// arguments are the functions that not every provider has.
macro_rules! set_functions {
    ($($also:ident),*) => {
        /// Puts the functions into the program's table: the walk, the fields that every completion has, and
        /// those that `wc_flags` (`IBV_WC_EX_WITH_*`) asks for.
        pub fn set_functions(public: &mut ibv_cq_ex, wc_flags: u64, single_threaded: bool) {
            if single_threaded {
                public.start_poll = Some(start_poll::<false>);
                public.end_poll = Some(end_poll::<false>);
            } else {
                public.start_poll = Some(start_poll::<true>);
                public.end_poll = Some(end_poll::<true>);
            }
            public.next_poll = Some(next_poll);
            public.read_opcode = Some(read_opcode);
            public.read_vendor_err = Some(read_vendor_err);
            public.read_wc_flags = Some(read_wc_flags);

            public.read_byte_len = Some(read_byte_len);
            public.read_imm_data = Some(read_imm_data);
            public.read_qp_num = Some(read_qp_num);
            public.read_src_qp = Some(read_src_qp);
            public.read_slid = Some(read_slid);
            public.read_sl = Some(read_sl);
            public.read_dlid_path_bits = Some(read_dlid_path_bits);
            $(public.$also = Some($also);)*
            $crate::provider::cq_ex::keep_asked(public, wc_flags);
        }
    };
}
pub(crate) use set_functions;

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
