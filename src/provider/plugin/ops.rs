//! From the table that a provider hands over, in the newest layout ([`layout::newest`](super::layout::newest)),
//! to the tables that are called: the library's own and the public ones in the context.

use core::ffi::c_void;
use core::mem::{offset_of, size_of, transmute};
use core::ptr::NonNull;

use crate::abi::driver::ops::op;
use crate::abi::driver::verbs_context_ops;
use crate::abi::verbs::{ibv_context, verbs_context};

/// Copies every operation that `given` has into `table`; the others stay.
pub fn merge(table: &mut verbs_context_ops, given: &verbs_context_ops) {
    macro_rules! copy {
        ($($name:ident)+) => {
            // A pattern without `..`: an operation that the list lacks does not compile.
            let verbs_context_ops { $($name,)+ } = given;
            $(
                if $name.is_some() {
                    table.$name = *$name;
                }
            )+
        };
    }
    copy! {
        advise_mr alloc_buf alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain alloc_pd
        alloc_td async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd cq_event
        create_ah create_comp_cntr create_counters create_cq create_cq_ex create_flow
        create_flow_action_esp create_qp create_qp_ex create_rwq_ind_table create_srq create_srq_ex
        create_wq dealloc_dmah dealloc_mw dealloc_pd dealloc_td dereg_mr destroy_ah
        destroy_comp_cntr destroy_counters destroy_cq destroy_flow destroy_flow_action destroy_qp
        destroy_rwq_ind_table destroy_srq destroy_wq detach_mcast dm_export_dmabuf_fd free_buf
        free_context free_dm get_srq_num import_dm import_mr import_pd inc_comp_cntr
        inc_err_comp_cntr modify_cq modify_flow_action_esp modify_qp modify_qp_rate_limit modify_srq
        modify_wq open_qp open_xrcd poll_cq post_recv post_send post_srq_ops post_srq_recv
        qp_attach_comp_cntr query_comp_cntr_caps query_device_ex query_ece query_port
        query_port_speed query_qp query_qp_data_in_order query_rt_values query_srq read_comp_cntr
        read_counters read_err_comp_cntr reg_dm_mr reg_dmabuf_mr reg_mr reg_mr_ex req_notify_cq
        rereg_mr resize_cq set_comp_cntr set_ece set_err_comp_cntr unimport_dm unimport_mr
        unimport_pd
    }
}

macro_rules! publish {
    ($($name:ident => $kind:ident $slot:ident;)+) => {
        /// Puts every operation that `given` has into its public slot, if there is one in a context of so many
        /// bytes.
        ///
        /// # Safety
        /// `context` is the end of a `verbs_context` of `context_size` bytes that nobody else uses.
        pub unsafe fn publish(context: NonNull<ibv_context>, context_size: usize, given: &verbs_context_ops) {
            $(
                if given.$name.is_some() {
                    publish!(@$kind context, context_size, $slot, given.$name, $name);
                }
            )+
        }
    };
    (@verbs $context:ident, $size:ident, $slot:ident, $function:expr, $name:ident) => {
        let _same_type: fn(&mut verbs_context) -> &mut Option<op::$name> = |verbs| &mut verbs.$slot;
        const BEFORE: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, $slot);
        if BEFORE + size_of::<ibv_context>() <= $size {
            // SAFETY: the contract says that the slot is there; its type is that of the function.
            unsafe { $context.byte_sub(BEFORE).cast().write($function) };
        }
    };
    (@context $context:ident, $size:ident, $slot:ident, $function:expr, $name:ident) => {
        // SAFETY: by the contract.
        unsafe { (*$context.as_ptr()).ops.$slot = $function };
    };
    // Nobody calls these slots through their declared type; a function pointer keeps its value.
    (@old $context:ident, $size:ident, $slot:ident, $function:expr, $name:ident) => {
        // SAFETY: by the contract; both are nullable C function pointers.
        unsafe { (*$context.as_ptr()).ops.$slot = transmute::<Option<op::$name>, OldSlot>($function) };
    };
}

/// The type of the slots of the old ABI in `ibv_context_ops`.
type OldSlot = Option<unsafe extern "C" fn() -> *mut c_void>;

// Not here: operations that only the library calls, and those whose public slot is the library's own function.
publish! {
    advise_mr => verbs advise_mr;
    alloc_buf => verbs alloc_buf;
    alloc_dm => verbs alloc_dm;
    alloc_dmah => verbs alloc_dmah;
    alloc_null_mr => verbs alloc_null_mr;
    alloc_parent_domain => verbs alloc_parent_domain;
    alloc_td => verbs alloc_td;
    attach_counters_point_flow => verbs attach_counters_point_flow;
    close_xrcd => verbs close_xrcd;
    create_counters => verbs create_counters;
    create_flow => verbs ibv_create_flow;
    create_flow_action_esp => verbs create_flow_action_esp;
    create_qp_ex => verbs create_qp_ex;
    create_rwq_ind_table => verbs create_rwq_ind_table;
    create_srq_ex => verbs create_srq_ex;
    create_wq => verbs create_wq;
    dealloc_dmah => verbs dealloc_dmah;
    dealloc_td => verbs dealloc_td;
    destroy_counters => verbs destroy_counters;
    destroy_flow => verbs ibv_destroy_flow;
    destroy_flow_action => verbs destroy_flow_action;
    destroy_rwq_ind_table => verbs destroy_rwq_ind_table;
    destroy_wq => verbs destroy_wq;
    dm_export_dmabuf_fd => verbs dm_export_dmabuf_fd;
    free_buf => verbs free_buf;
    free_dm => verbs free_dm;
    get_srq_num => verbs get_srq_num;
    modify_cq => verbs modify_cq;
    modify_flow_action_esp => verbs modify_flow_action_esp;
    modify_qp_rate_limit => verbs modify_qp_rate_limit;
    modify_wq => verbs modify_wq;
    open_qp => verbs open_qp;
    open_xrcd => verbs open_xrcd;
    post_srq_ops => verbs post_srq_ops;
    query_device_ex => verbs query_device_ex;
    query_rt_values => verbs query_rt_values;
    read_counters => verbs read_counters;
    reg_dm_mr => verbs reg_dm_mr;
    reg_mr_ex => verbs reg_mr_ex;
    alloc_mw => context alloc_mw;
    bind_mw => context bind_mw;
    dealloc_mw => context dealloc_mw;
    poll_cq => context poll_cq;
    post_recv => context post_recv;
    post_send => context post_send;
    post_srq_recv => context post_srq_recv;
    req_notify_cq => context req_notify_cq;
    alloc_pd => old _compat_alloc_pd;
    async_event => old _compat_async_event;
    attach_mcast => old _compat_attach_mcast;
    cq_event => old _compat_cq_event;
    create_ah => old _compat_create_ah;
    create_cq => old _compat_create_cq;
    create_qp => old _compat_create_qp;
    create_srq => old _compat_create_srq;
    dealloc_pd => old _compat_dealloc_pd;
    dereg_mr => old _compat_dereg_mr;
    destroy_ah => old _compat_destroy_ah;
    destroy_cq => old _compat_destroy_cq;
    destroy_qp => old _compat_destroy_qp;
    destroy_srq => old _compat_destroy_srq;
    detach_mcast => old _compat_detach_mcast;
    modify_qp => old _compat_modify_qp;
    modify_srq => old _compat_modify_srq;
    query_qp => old _compat_query_qp;
    query_srq => old _compat_query_srq;
    reg_mr => old _compat_reg_mr;
    rereg_mr => old _compat_rereg_mr;
    resize_cq => old _compat_resize_cq;
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;

    /// Public slots and their offsets in `verbs_context`, measured in C.
    const PUBLIC: &[(&str, usize)] = &[
        ("advise_mr", 56),
        ("alloc_dm", 112),
        ("alloc_mw", 432),
        ("alloc_null_mr", 64),
        ("alloc_parent_domain", 160),
        ("alloc_pd", 392),
        ("alloc_td", 176),
        ("async_event", 624),
        ("attach_counters_point_flow", 80),
        ("attach_mcast", 608),
        ("bind_mw", 440),
        ("close_xrcd", 344),
        ("cq_event", 480),
        ("create_ah", 592),
        ("create_counters", 88),
        ("create_cq", 456),
        ("create_flow", 288),
        ("create_flow_action_esp", 144),
        ("create_qp", 544),
        ("create_qp_ex", 312),
        ("create_rwq_ind_table", 208),
        ("create_srq", 504),
        ("create_srq_ex", 328),
        ("create_wq", 232),
        ("dealloc_mw", 448),
        ("dealloc_pd", 400),
        ("dealloc_td", 168),
        ("dereg_mr", 424),
        ("destroy_ah", 600),
        ("destroy_counters", 96),
        ("destroy_cq", 496),
        ("destroy_flow", 272),
        ("destroy_flow_action", 136),
        ("destroy_qp", 568),
        ("destroy_rwq_ind_table", 200),
        ("destroy_srq", 528),
        ("destroy_wq", 216),
        ("detach_mcast", 616),
        ("free_dm", 120),
        ("get_srq_num", 320),
        ("modify_cq", 184),
        ("modify_flow_action_esp", 128),
        ("modify_qp", 560),
        ("modify_qp_rate_limit", 152),
        ("modify_srq", 512),
        ("modify_wq", 224),
        ("open_qp", 304),
        ("open_xrcd", 336),
        ("poll_cq", 464),
        ("post_recv", 584),
        ("post_send", 576),
        ("post_srq_ops", 192),
        ("post_srq_recv", 536),
        ("query_device_ex", 264),
        ("query_qp", 552),
        ("query_rt_values", 240),
        ("query_srq", 520),
        ("read_counters", 72),
        ("reg_dm_mr", 104),
        ("reg_mr", 408),
        ("req_notify_cq", 472),
        ("rereg_mr", 416),
        ("resize_cq", 488),
    ];

    const WORD: usize = size_of::<usize>();

    /// A table in which each operation of release 36 holds the number 0x10000 and its offset there.
    fn numbered() -> verbs_context_ops {
        let layout = &layout::LAYOUTS[1];
        let given: Vec<usize> =
            (0..layout::operations(layout).len()).map(|slot| 0x10000 + slot * WORD).collect();
        // SAFETY: words in the place of function pointers, which are moved and never called.
        unsafe { layout::newest(layout, NonNull::from(&*given).cast()) }
    }

    fn words<T>(table: &T) -> &[usize] {
        // SAFETY: T is a table of words, initialised and borrowed for as long as the slice.
        unsafe { core::slice::from_raw_parts((&raw const *table).cast(), size_of::<T>() / WORD) }
    }

    fn empty<T>() -> T {
        // SAFETY: used for tables of nullable function pointers and plain C data alone.
        unsafe { core::mem::zeroed() }
    }

    /// [`publish`] into a whole context of which only the last `size` bytes are said to be there.
    fn published(verbs: &mut verbs_context, size: usize, given: &verbs_context_ops) {
        let whole = NonNull::from(verbs);
        // SAFETY: the end of the whole.
        unsafe { publish(layout::public(whole, size_of::<verbs_context>()), size, given) };
    }

    #[test]
    fn public_slots_get_what_belongs_there_and_nothing_else_changes() {
        const SIZE: usize = size_of::<verbs_context>();
        let names = layout::operations(&layout::LAYOUTS[1]);
        for missing in [0, 2 * WORD] {
            let mut verbs: verbs_context = empty();
            published(&mut verbs, SIZE - missing, &numbered());
            let mut expected = vec![0_usize; SIZE / WORD];
            for (name, slot) in PUBLIC.iter().filter(|(_, slot)| *slot >= missing) {
                let place = names.iter().position(|operation| operation == name).expect("an operation");
                expected[slot / WORD] = 0x10000 + place * WORD;
            }
            assert_eq!(words(&verbs), expected);
        }
    }

    #[test]
    fn a_second_table_changes_only_what_it_has() {
        let (mut table, mut verbs): (verbs_context_ops, verbs_context) = (empty(), empty());
        merge(&mut table, &numbered());
        published(&mut verbs, size_of::<verbs_context>(), &numbered());
        let before = (words(&table).to_vec(), words(&verbs).to_vec());
        let mut second: verbs_context_ops = empty();
        second.poll_cq = super::super::dummy::DUMMY.poll_cq;
        merge(&mut table, &second);
        published(&mut verbs, size_of::<verbs_context>(), &second);
        let changed = |old: &[usize], new: &[usize]| {
            old.iter()
                .zip(new)
                .enumerate()
                .filter(|(_, (a, b))| a != b)
                .map(|(place, _)| place * WORD)
                .collect::<Vec<_>>()
        };
        assert_eq!(changed(&before.0, words(&table)), [offset_of!(verbs_context_ops, poll_cq)]);
        assert_eq!(changed(&before.1, words(&verbs)), [offset_of!(verbs_context, context.ops.poll_cq)]);
    }
}
