//! What posting a list of requests begins with on a queue pair of soft-RoCE and of the software device.

use crate::provider::object::Object;

/// The object behind `qp`; none, which is EINVAL, where a pointer is null. `bad_wr` names no request yet.
///
/// # Safety
/// `qp` is null, or live and published as an `O`; `bad_wr` is null or the program's place for the answer.
#[inline(always)]
pub unsafe fn begin<'a, O: Object, W>(
    qp: *mut O::Public,
    list: *mut W,
    bad_wr: *mut *mut W,
) -> Option<&'a O> {
    // SAFETY: by the contract.
    unsafe {
        let object = O::from_c(qp)?;
        *bad_wr.as_mut()? = core::ptr::null_mut();
        if list.is_null() { None } else { Some(object) }
    }
}
