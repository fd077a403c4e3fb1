//! From the table that a provider hands over, in the layout of its release, to the tables that are called: the
//! library's own ([`verbs_context_ops`], the newest layout) and the public ones in the context.

use core::ffi::c_void;
use core::mem::transmute;

use crate::abi::driver::ops::{op, with_v44_operations};
use crate::abi::driver::{v44, verbs_context_ops};
use crate::abi::verbs::verbs_context;

/// The table of rdma-core 44's layout in the newest one; what that release did not know is NULL.
pub fn newest(given: &v44::verbs_context_ops) -> verbs_context_ops {
    macro_rules! fields {
        ($($name:ident)+) => {
            verbs_context_ops {
                $($name: given.$name,)+
                alloc_buf: None,
                alloc_dmah: None,
                create_comp_cntr: None,
                dealloc_dmah: None,
                destroy_comp_cntr: None,
                dm_export_dmabuf_fd: None,
                free_buf: None,
                inc_comp_cntr: None,
                inc_err_comp_cntr: None,
                qp_attach_comp_cntr: None,
                query_comp_cntr_caps: None,
                query_port_speed: None,
                read_comp_cntr: None,
                read_err_comp_cntr: None,
                reg_mr_ex: None,
                set_comp_cntr: None,
                set_err_comp_cntr: None,
            }
        };
    }
    with_v44_operations!(fields)
}

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
        /// Puts every operation that `given` has into its public slot in the context, if there is one.
        pub fn publish(verbs: &mut verbs_context, given: &verbs_context_ops) {
            $(
                if given.$name.is_some() {
                    publish!(@$kind verbs, $slot, given.$name, $name);
                }
            )+
        }
    };
    (@verbs $verbs:ident, $slot:ident, $function:expr, $name:ident) => { $verbs.$slot = $function };
    (@context $verbs:ident, $slot:ident, $function:expr, $name:ident) => { $verbs.context.ops.$slot = $function };
    // Nobody calls these slots through their declared type; a function pointer keeps its value.
    (@old $verbs:ident, $slot:ident, $function:expr, $name:ident) => {
        // SAFETY: both are nullable C function pointers.
        $verbs.context.ops.$slot = unsafe { transmute::<Option<op::$name>, OldSlot>($function) }
    };
}

/// The type of the slots of the old ABI in `ibv_context_ops`.
type OldSlot = Option<unsafe extern "C" fn() -> *mut c_void>;

// Not here: operations that only the library calls, and those whose public slot is the library's own function.
publish! {
    advise_mr => verbs advise_mr;
    alloc_dm => verbs alloc_dm;
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
    dealloc_td => verbs dealloc_td;
    destroy_counters => verbs destroy_counters;
    destroy_flow => verbs ibv_destroy_flow;
    destroy_flow_action => verbs destroy_flow_action;
    destroy_rwq_ind_table => verbs destroy_rwq_ind_table;
    destroy_wq => verbs destroy_wq;
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
    use super::*;
    use core::mem::{offset_of, size_of};

    /// Every operation of rdma-core 65 with its offset there, and in rdma-core 36 to 58 or -1; measured in C.
    const OFFSETS: &[(&str, usize, isize)] = &[
        ("advise_mr", 0, 0),
        ("alloc_buf", 8, -1),
        ("alloc_dm", 16, 8),
        ("alloc_dmah", 24, -1),
        ("alloc_mw", 32, 16),
        ("alloc_null_mr", 40, 24),
        ("alloc_parent_domain", 48, 32),
        ("alloc_pd", 56, 40),
        ("alloc_td", 64, 48),
        ("async_event", 72, 56),
        ("attach_counters_point_flow", 80, 64),
        ("attach_mcast", 88, 72),
        ("bind_mw", 96, 80),
        ("close_xrcd", 104, 88),
        ("cq_event", 112, 96),
        ("create_ah", 120, 104),
        ("create_comp_cntr", 128, -1),
        ("create_counters", 136, 112),
        ("create_cq", 144, 120),
        ("create_cq_ex", 152, 128),
        ("create_flow", 160, 136),
        ("create_flow_action_esp", 168, 144),
        ("create_qp", 176, 152),
        ("create_qp_ex", 184, 160),
        ("create_rwq_ind_table", 192, 168),
        ("create_srq", 200, 176),
        ("create_srq_ex", 208, 184),
        ("create_wq", 216, 192),
        ("dealloc_dmah", 224, -1),
        ("dealloc_mw", 232, 200),
        ("dealloc_pd", 240, 208),
        ("dealloc_td", 248, 216),
        ("dereg_mr", 256, 224),
        ("destroy_ah", 264, 232),
        ("destroy_comp_cntr", 272, -1),
        ("destroy_counters", 280, 240),
        ("destroy_cq", 288, 248),
        ("destroy_flow", 296, 256),
        ("destroy_flow_action", 304, 264),
        ("destroy_qp", 312, 272),
        ("destroy_rwq_ind_table", 320, 280),
        ("destroy_srq", 328, 288),
        ("destroy_wq", 336, 296),
        ("detach_mcast", 344, 304),
        ("dm_export_dmabuf_fd", 352, -1),
        ("free_buf", 360, -1),
        ("free_context", 368, 312),
        ("free_dm", 376, 320),
        ("get_srq_num", 384, 328),
        ("import_dm", 392, 336),
        ("import_mr", 400, 344),
        ("import_pd", 408, 352),
        ("inc_comp_cntr", 416, -1),
        ("inc_err_comp_cntr", 424, -1),
        ("modify_cq", 432, 360),
        ("modify_flow_action_esp", 440, 368),
        ("modify_qp", 448, 376),
        ("modify_qp_rate_limit", 456, 384),
        ("modify_srq", 464, 392),
        ("modify_wq", 472, 400),
        ("open_qp", 480, 408),
        ("open_xrcd", 488, 416),
        ("poll_cq", 496, 424),
        ("post_recv", 504, 432),
        ("post_send", 512, 440),
        ("post_srq_ops", 520, 448),
        ("post_srq_recv", 528, 456),
        ("qp_attach_comp_cntr", 536, -1),
        ("query_comp_cntr_caps", 544, -1),
        ("query_device_ex", 552, 464),
        ("query_ece", 560, 472),
        ("query_port", 568, 480),
        ("query_port_speed", 576, -1),
        ("query_qp", 584, 488),
        ("query_qp_data_in_order", 592, 496),
        ("query_rt_values", 600, 504),
        ("query_srq", 608, 512),
        ("read_comp_cntr", 616, -1),
        ("read_counters", 624, 520),
        ("read_err_comp_cntr", 632, -1),
        ("reg_dm_mr", 640, 528),
        ("reg_dmabuf_mr", 648, 536),
        ("reg_mr", 656, 544),
        ("reg_mr_ex", 664, -1),
        ("req_notify_cq", 672, 552),
        ("rereg_mr", 680, 560),
        ("resize_cq", 688, 568),
        ("set_comp_cntr", 696, -1),
        ("set_ece", 704, 576),
        ("set_err_comp_cntr", 712, -1),
        ("unimport_dm", 720, 584),
        ("unimport_mr", 728, 592),
        ("unimport_pd", 736, 600),
    ];

    /// Public slots and their offsets in `verbs_context`, measured in C.
    const PUBLIC: &[(&str, usize)] = &[
        ("advise_mr", 8),
        ("alloc_dm", 64),
        ("alloc_mw", 384),
        ("alloc_null_mr", 16),
        ("alloc_parent_domain", 112),
        ("alloc_pd", 344),
        ("alloc_td", 128),
        ("async_event", 576),
        ("attach_counters_point_flow", 32),
        ("attach_mcast", 560),
        ("bind_mw", 392),
        ("close_xrcd", 296),
        ("cq_event", 432),
        ("create_ah", 544),
        ("create_counters", 40),
        ("create_cq", 408),
        ("create_flow", 240),
        ("create_flow_action_esp", 96),
        ("create_qp", 496),
        ("create_qp_ex", 264),
        ("create_rwq_ind_table", 160),
        ("create_srq", 456),
        ("create_srq_ex", 280),
        ("create_wq", 184),
        ("dealloc_mw", 400),
        ("dealloc_pd", 352),
        ("dealloc_td", 120),
        ("dereg_mr", 376),
        ("destroy_ah", 552),
        ("destroy_counters", 48),
        ("destroy_cq", 448),
        ("destroy_flow", 224),
        ("destroy_flow_action", 88),
        ("destroy_qp", 520),
        ("destroy_rwq_ind_table", 152),
        ("destroy_srq", 480),
        ("destroy_wq", 168),
        ("detach_mcast", 568),
        ("free_dm", 72),
        ("get_srq_num", 272),
        ("modify_cq", 136),
        ("modify_flow_action_esp", 80),
        ("modify_qp", 512),
        ("modify_qp_rate_limit", 104),
        ("modify_srq", 464),
        ("modify_wq", 176),
        ("open_qp", 256),
        ("open_xrcd", 288),
        ("poll_cq", 416),
        ("post_recv", 536),
        ("post_send", 528),
        ("post_srq_ops", 144),
        ("post_srq_recv", 488),
        ("query_device_ex", 216),
        ("query_qp", 504),
        ("query_rt_values", 192),
        ("query_srq", 472),
        ("read_counters", 24),
        ("reg_dm_mr", 56),
        ("reg_mr", 360),
        ("req_notify_cq", 424),
        ("rereg_mr", 368),
        ("resize_cq", 440),
    ];

    const WORD: usize = size_of::<usize>();

    /// A table of the older layout in which the slot at offset N holds the number 0x10000 + N.
    fn numbered() -> v44::verbs_context_ops {
        let words: [usize; size_of::<v44::verbs_context_ops>() / WORD] =
            core::array::from_fn(|slot| 0x10000 + slot * WORD);
        // SAFETY: nullable function pointers of one word each, which are moved and never called.
        unsafe { transmute(words) }
    }

    fn words<T>(table: &T) -> &[usize] {
        // SAFETY: T is a table of words, initialised and borrowed for as long as the slice.
        unsafe { core::slice::from_raw_parts((&raw const *table).cast(), size_of::<T>() / WORD) }
    }

    fn empty<T>() -> T {
        // SAFETY: used for tables of nullable function pointers and plain C data alone.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn offsets_are_those_of_c() {
        macro_rules! offsets {
            ($table:ty: $($name:ident)+) => { vec![$((stringify!($name), offset_of!($table, $name))),+] };
        }
        macro_rules! v44_offsets {
            ($($name:ident)+) => { offsets!(v44::verbs_context_ops: $($name)+) };
        }
        let expected: Vec<_> =
            OFFSETS.iter().filter(|row| row.2 >= 0).map(|row| (row.0, row.2 as usize)).collect();
        assert_eq!(with_v44_operations!(v44_offsets), expected);
        assert_eq!(OFFSETS.len() * WORD, size_of::<verbs_context_ops>());
    }

    #[test]
    fn every_operation_comes_to_its_place() {
        let mut table: verbs_context_ops = empty();
        merge(&mut table, &newest(&numbered()));
        for (place, (name, offset, old)) in OFFSETS.iter().enumerate() {
            assert_eq!(place * WORD, *offset, "{name}");
            let expected = if *old < 0 { 0 } else { 0x10000 + *old as usize };
            assert_eq!(words(&table)[place], expected, "{name}");
        }
    }

    #[test]
    fn public_slots_get_what_belongs_there_and_nothing_else_changes() {
        let mut verbs: verbs_context = empty();
        publish(&mut verbs, &newest(&numbered()));
        let mut expected = vec![0_usize; size_of::<verbs_context>() / WORD];
        for (name, slot) in PUBLIC {
            let old = OFFSETS.iter().find(|row| row.0 == *name).expect("an operation").2;
            expected[slot / WORD] = 0x10000 + old as usize;
        }
        assert_eq!(words(&verbs), expected);
    }

    #[test]
    fn a_second_table_changes_only_what_it_has() {
        let (mut table, mut verbs): (verbs_context_ops, verbs_context) = (empty(), empty());
        merge(&mut table, &newest(&numbered()));
        publish(&mut verbs, &newest(&numbered()));
        let before = (words(&table).to_vec(), words(&verbs).to_vec());
        let mut second: v44::verbs_context_ops = empty();
        second.poll_cq = super::super::dummy::DUMMY.poll_cq;
        merge(&mut table, &newest(&second));
        publish(&mut verbs, &newest(&second));
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
