//! The answers of a device for what its provider does not give: rdma-core's, which leave `errno` at EOPNOTSUPP
//! with NULL and alone with a value.

use core::ffi::{c_int, c_uint, c_void};

use crate::abi::driver::ops::*;
use crate::abi::driver::*;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::object::Handle;
use crate::provider::{buffer, context, kernel};

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

unsafe extern "C" fn alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void {
    // SAFETY: the library passes a live domain and a place to write.
    let made = unsafe { Handle::from_c(pd).and_then(|pd| buffer::allocate(pd, size, &mut *buf)) };
    made.unwrap_or_else(|errno| {
        errno.set();
        core::ptr::null_mut()
    })
}

unsafe extern "C" fn free_buf(buf: *mut ibv_buf) {
    // SAFETY: the library passes what `alloc_buf` made.
    if let Ok(buf) = unsafe { Handle::from_c(buf) } {
        buffer::free(buf);
    }
}

unsafe extern "C" fn dm_export_dmabuf_fd(_dm: *mut ibv_dm) -> c_int {
    Errno::EOPNOTSUPP.set();
    -1
}

unsafe extern "C" fn reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: the library passes a live domain and attributes.
    let made = unsafe { context::of(pd) }.and_then(|(pd, device)| {
        kernel::mr::register_described(
            pd,
            // SAFETY: as above.
            unsafe { &*attr },
            |pd, addr, length, iova, access| device.reg_mr(pd, addr, length, iova, access),
            |pd, offset, length, iova, fd, access| device.reg_dmabuf_mr(pd, offset, length, iova, fd, access),
        )
    });
    match made {
        Ok(mr) => mr.as_ptr().cast(),
        Err(errno) => {
            errno.set();
            core::ptr::null_mut()
        }
    }
}

/// The table of a provider that gives nothing; no slot is NULL.
pub static DUMMY: verbs_context_ops = verbs_context_ops {
    rereg_mr: Some(rereg_mr),
    query_qp_data_in_order: Some(query_qp_data_in_order),
    alloc_buf: Some(alloc_buf),
    free_buf: Some(free_buf),
    dm_export_dmabuf_fd: Some(dm_export_dmabuf_fd),
    reg_mr_ex: Some(reg_mr_ex),
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
