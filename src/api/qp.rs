//! Queue pairs (`man ibv_create_qp`, `man ibv_open_qp`, `man ibv_modify_qp`, `man ibv_query_ece`). Posting is
//! the provider's own.

use core::ffi::{c_int, c_uint};

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::names::{Flags, Named};
use crate::observe::{self, attributes, call, names};
use crate::provider::context;
use crate::provider::object::Handle;

/// A queue pair in state RESET; `qp_init_attr->cap` gets the capacities really given. NULL and `errno` on
/// failure.
///
/// # Safety
/// `pd` is null or live, `qp_init_attr` null or valid with live objects in it.
#[cfg_attr(not(test), unsafe(export_name = "ibv_create_qp@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    entry::pointer(call!("ibv_create_qp", pd, qp_init_attr), || {
        // SAFETY: the caller passes a live protection domain and attributes of its own.
        let ((pd, provider), attr) =
            unsafe { (context::of(pd)?, qp_init_attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.create_qp(pd, attr)
    })
}

/// `ibv_create_qp_ex`: a queue pair with the extended attributes, perhaps with `ibv_wr_*` builders.
pub(super) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    entry::pointer(call!("ibv_create_qp_ex", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let qp = provider.create_qp_ex(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*qp.as_ptr()).context = context };
        Ok(qp)
    })
}

/// `ibv_open_qp`: a queue pair of an extended connection domain, which another process may have made; NULL and
/// `errno` on failure.
pub(super) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    entry::pointer(call!("ibv_open_qp", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.open_qp(attr)
    })
}

/// The extended side of a queue pair that was created by `ibv_create_qp_ex`, else NULL.
///
/// # Safety
/// `qp` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    entry::number(
        call!("ibv_qp_to_qp_ex", qp),
        || {
            // SAFETY: handed on to the caller.
            let (qp, provider) = unsafe { context::of(qp) }?;
            let Some(extended) = provider.qp_to_qp_ex(qp) else { return Ok(core::ptr::null_mut()) };
            if observe::may_be_seen() {
                // Here, since a provider's own library may have made it. Plugins of old releases have a shorter
                // struct.
                // SAFETY: a live queue pair, which the program cannot use as an extended one before.
                unsafe { observe::data::builder::observe_qp(extended.as_ptr(), provider.plugin().is_none()) };
            }
            Ok(extended.as_ptr())
        },
        |_| core::ptr::null_mut(),
    )
}

/// Attributes (at least those of `attr_mask`) and creation attributes; 0 or an errno value.
///
/// # Safety
/// `qp` is null or live; `attr` and `init_attr` are null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_qp@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    entry::value(
        call!(
            "ibv_query_qp",
            qp,
            out attr = attributes::QpAttr(attr, attr_mask),
            attr_mask = attributes::bits(&names::QP_MASK, attr_mask),
            out init_attr
        ),
        || {
            // SAFETY: the caller passes a live queue pair and places to write.
            let ((qp, provider), attr, init_attr) = unsafe {
                let attr = attr.as_mut().ok_or(Errno::EINVAL)?;
                (context::of(qp)?, attr, init_attr.as_mut().ok_or(Errno::EINVAL)?)
            };
            provider.query_qp(qp, attr, attr_mask, init_attr)?;
            note_state(qp, attr, attr_mask);
            Ok(())
        },
    )
}

/// Sets the attributes of `attr_mask`, among them the state; 0 or an errno value, with which nothing has
/// changed.
///
/// # Safety
/// `qp` is null or live, `attr` null or valid.
#[cfg_attr(not(test), unsafe(export_name = "ibv_modify_qp@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
    entry::value(
        call!(
            "ibv_modify_qp",
            qp,
            attr = attributes::QpAttr(attr, attr_mask),
            attr_mask = attributes::bits(&names::QP_MASK, attr_mask)
        ),
        || {
            // SAFETY: the caller passes a live queue pair and attributes of its own.
            let ((qp, provider), attr) = unsafe { (context::of(qp)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
            provider.modify_qp(qp, attr, attr_mask)?;
            note_state(qp, attr, attr_mask);
            Ok(())
        },
    )
}

/// `ibv_modify_qp_rate_limit`: limits the rate of sending; 0 or an errno value.
pub(super) unsafe extern "C" fn modify_qp_rate_limit(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_rate_limit_attr,
) -> c_int {
    entry::value(call!("ibv_modify_qp_rate_limit", qp, attr), || {
        // SAFETY: the caller passes a live queue pair and attributes of its own.
        let ((qp, provider), attr) = unsafe { (context::of(qp)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.modify_qp_rate_limit(qp, attr)
    })
}

/// Keeps the state that the program may read in the handle in step with the kernel's.
fn note_state(qp: Handle<ibv_qp>, attr: &ibv_qp_attr, attr_mask: c_int) {
    if attr_mask & IBV_QP_STATE as c_int != 0 {
        // SAFETY: a live queue pair; its state field is the library's to write.
        unsafe { (*qp.as_ptr()).state = attr.qp_state };
    }
}

/// Destroys the queue pair once its events are acknowledged; 0 or an errno value, EBUSY while it is in a
/// multicast group.
///
/// # Safety
/// `qp` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_qp@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    entry::value(call!("ibv_destroy_qp", qp), || {
        // SAFETY: handed on to the caller.
        let (qp, provider) = unsafe { context::of(qp) }?;
        provider.destroy_qp(qp)
    })
}

/// What the device guarantees about the order in which data of operation `op` lands in memory: with
/// `IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS` in `flags` bits of `ibv_query_qp_data_in_order_caps`, without it
/// whether the whole message lands in order (1) or perhaps not (0). 0 for a flag that is not known.
///
/// # Safety
/// `qp` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(
    qp: *mut ibv_qp,
    op: ibv_wr_opcode_t,
    flags: u32,
) -> c_int {
    const KNOWN: u32 =
        IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS as u32 | IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY as u32;
    // Other architectures may reorder writes on the way to memory, whatever the device promises.
    let orders = cfg!(any(target_arch = "x86", target_arch = "x86_64"));
    if flags & !KNOWN != 0 || !orders && flags & IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY as u32 == 0 {
        return 0;
    }
    entry::number(
        call!(
            "ibv_query_qp_data_in_order",
            qp,
            op = Named(&names::WR_OPCODE, op.into()),
            flags = Flags(&names::IN_ORDER, flags.into())
        ),
        || {
            // SAFETY: handed on to the caller.
            let (qp, provider) = unsafe { context::of(qp) }?;
            Ok(in_order(provider.query_qp_data_in_order(qp, op as c_uint, flags), flags))
        },
        |_| 0,
    )
}

/// What the program is told of a provider's answer. Plugins of rdma-core 46 and later answer with the bits
/// whatever the flags are; to a program that asked for none every value but 0 means the whole message.
fn in_order(answer: c_int, flags: u32) -> c_int {
    let whole = answer & IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG as c_int != 0;
    if flags & IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS as u32 == 0 {
        return c_int::from(whole);
    }
    if whole { answer | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES as c_int } else { answer }
}

/// Sets the enhanced connection establishment values agreed with the peer; 0 or an errno value.
///
/// # Safety
/// `qp` is null or live, `ece` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    entry::value(call!("ibv_set_ece", qp, ece), || {
        // SAFETY: the caller passes a live queue pair and values of its own.
        let ((qp, provider), ece) = unsafe { (context::of(qp)?, ece.as_mut().ok_or(Errno::EINVAL)?) };
        if ece.vendor_id == 0 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        provider.set_ece(qp, ece)
    })
}

/// The enhanced connection establishment values of the local side; 0 or an errno value.
///
/// # Safety
/// `qp` is null or live, `ece` null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    entry::value(call!("ibv_query_ece", qp, out ece), || {
        // SAFETY: the caller passes a live queue pair and a place to write.
        let ((qp, provider), ece) = unsafe { (context::of(qp)?, ece.as_mut().ok_or(Errno::EINVAL)?) };
        provider.query_ece(qp, ece)
    })
}
