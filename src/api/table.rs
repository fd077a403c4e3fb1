//! The tables in an open context through which the inline functions of `verbs.h` call. Every slot that any `verbs.h` has
//! called is filled: with the verb where the library has it, with rdma-core's answer of a device that lacks the feature
//! where it has not. The `_compat_` slots that no `verbs.h` ever called stay NULL.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::{cq, device, mw, port, qp, srq};
use crate::abi::verbs::{ibv_flow, ibv_flow_attr, ibv_qp, verbs_context};
use crate::errno::Errno;

/// Answers of a verb that the device cannot do: EOPNOTSUPP, as the returned number or in `errno` beside NULL. One
/// function for each number of arguments, of whatever types the slot has.
macro_rules! unsupported {
    (number: $($number:ident($($n:ident)+))+; pointer: $($pointer:ident($($p:ident)+))+;) => {
        $(unsafe extern "C" fn $number<$($n),+>($(_: $n),+) -> c_int {
            Errno::EOPNOTSUPP.0
        })+

        $(unsafe extern "C" fn $pointer<$($p,)+ R>($(_: $p),+) -> *mut R {
            Errno::EOPNOTSUPP.set();
            core::ptr::null_mut()
        })+
    };
}

unsupported! {
    number: number1(A) number2(A B) number3(A B C) number4(A B C D) number5(A B C D E);
    pointer: pointer1(A) pointer2(A B) pointer5(A B C D E);
}

/// Fills the control slots of a context just opened; the data path is the provider's.
pub(super) fn fill(context: NonNull<verbs_context>) {
    // SAFETY: the context was just made and nobody else knows it yet.
    let verbs = unsafe { &mut *context.as_ptr() };

    let ops = &mut verbs.context.ops;
    ops._compat_query_device = Some(device::ibv_query_device);
    ops._compat_query_port = Some(port::ibv_query_port);
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.bind_mw = Some(mw::bind_mw);

    verbs.query_device_ex = Some(device::query_device_ex);
    verbs.query_rt_values = Some(device::query_rt_values);
    verbs.query_port = Some(port::query_port);
    verbs.create_cq_ex = Some(cq::create_cq_ex);
    verbs.create_srq_ex = Some(srq::create_srq_ex);
    verbs.get_srq_num = Some(srq::get_srq_num);
    verbs.create_qp_ex = Some(qp::create_qp_ex);

    verbs.advise_mr = Some(number5);
    verbs.alloc_null_mr = Some(pointer1);
    verbs.read_counters = Some(number4);
    verbs.attach_counters_point_flow = Some(number3);
    verbs.create_counters = Some(pointer2);
    verbs.destroy_counters = Some(number1);
    verbs.reg_dm_mr = Some(pointer5);
    verbs.alloc_dm = Some(pointer2);
    verbs.free_dm = Some(number1);
    verbs.modify_flow_action_esp = Some(number2);
    verbs.destroy_flow_action = Some(number1);
    verbs.create_flow_action_esp = Some(pointer2);
    verbs.modify_qp_rate_limit = Some(number2);
    verbs.alloc_parent_domain = Some(pointer2);
    verbs.dealloc_td = Some(number1);
    verbs.alloc_td = Some(pointer2);
    verbs.modify_cq = Some(number2);
    verbs.destroy_rwq_ind_table = Some(number1);
    verbs.create_rwq_ind_table = Some(pointer2);
    verbs.destroy_wq = Some(number1);
    verbs.modify_wq = Some(number2);
    verbs.create_wq = Some(pointer2);
    verbs.ibv_destroy_flow = Some(number1);
    verbs.ibv_create_flow = Some(pointer2);
    verbs.open_qp = Some(pointer2);
    verbs.open_xrcd = Some(pointer2);
    verbs.close_xrcd = Some(number1);
    // Programs of 2013 look for the flow functions here.
    type Placeholder = Option<unsafe extern "C" fn()>;
    type CreateFlow = Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow>;
    type DestroyFlow = Option<unsafe extern "C" fn(*mut ibv_flow) -> c_int>;
    // SAFETY: a function pointer keeps its value; those programs call it through its real type.
    unsafe {
        verbs.ABI_placeholder1 = core::mem::transmute::<CreateFlow, Placeholder>(verbs.ibv_create_flow);
        verbs.ABI_placeholder2 = core::mem::transmute::<DestroyFlow, Placeholder>(verbs.ibv_destroy_flow);
    }
}
