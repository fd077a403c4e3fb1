//! The answers of a device for what its provider does not give: rdma-core's, which leave `errno` at EOPNOTSUPP
//! with NULL and alone with a value.

use core::ffi::{c_int, c_uint, c_void};

use crate::abi::driver::ops::*;
use crate::abi::driver::*;
use crate::abi::verbs::*;
use crate::errno::Errno;

/// How a C function says that it is not supported.
trait Refusal {
    fn refusal() -> Self;
}

impl Refusal for c_int {
    fn refusal() -> Self {
        Errno::EOPNOTSUPP.0
    }
}

impl<T> Refusal for *mut T {
    fn refusal() -> Self {
        Errno::EOPNOTSUPP.set();
        core::ptr::null_mut()
    }
}

impl Refusal for () {
    fn refusal() -> Self {}
}

macro_rules! refusals {
    ($($name:ident($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)?;)+) => {
        mod refused {
            use super::*;
            $(
                #[allow(unused_variables)]
                pub unsafe extern "C" fn $name($($argument: $of),*) $(-> $result)? {
                    Refusal::refusal()
                }
            )+
        }
        const REFUSED: verbs_context_ops = verbs_context_ops { $($name: Some(refused::$name),)+ };
    };
}
with_operations!(refusals);

unsafe extern "C" fn rereg_mr(
    _mr: *mut verbs_mr,
    _flags: c_int,
    _pd: *mut ibv_pd,
    _addr: *mut c_void,
    _length: usize,
    _access: c_int,
) -> c_int {
    Errno::EOPNOTSUPP.set();
    IBV_REREG_MR_ERR_INPUT as c_int
}

unsafe extern "C" fn query_qp_data_in_order(_qp: *mut ibv_qp, _op: ibv_wr_opcode_t, _flags: u32) -> c_int {
    0
}

/// The table of a provider that gives nothing; no slot is NULL.
pub static DUMMY: verbs_context_ops = verbs_context_ops {
    rereg_mr: Some(rereg_mr),
    query_qp_data_in_order: Some(query_qp_data_in_order),
    ..REFUSED
};

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null_mut;

    #[test]
    fn each_kind_of_answer_is_rdma_cores() {
        // SAFETY: these functions look at none of their arguments.
        unsafe {
            Errno(0).set();
            assert_eq!(DUMMY.destroy_qp.unwrap()(null_mut()), libc::EOPNOTSUPP);
            assert_eq!(Errno::last(), Errno(0));
            assert!(DUMMY.alloc_pd.unwrap()(null_mut()).is_null());
            assert_eq!(Errno::last(), Errno::EOPNOTSUPP);
            Errno(0).set();
            let rereg_mr = DUMMY.rereg_mr.unwrap();
            assert_eq!(rereg_mr(null_mut(), 0, null_mut(), null_mut(), 0, 0), -1);
            assert_eq!(Errno::last(), Errno::EOPNOTSUPP);
            assert_eq!(DUMMY.query_qp_data_in_order.unwrap()(null_mut(), 0, 0), 0);
        }
    }
}
