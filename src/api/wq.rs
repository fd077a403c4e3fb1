//! Work queues and the tables that spread packets over them (`man ibv_create_wq`, `man
//! ibv_create_rwq_ind_table`). Programs come here through `verbs_context`.

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{self, call};
use crate::provider::context;

/// `ibv_create_wq`: NULL and `errno` on failure. The inline function fills in what it knows.
pub(super) unsafe extern "C" fn create_wq(
    context: *mut ibv_context,
    attr: *mut ibv_wq_init_attr,
) -> *mut ibv_wq {
    entry::pointer(call!("ibv_create_wq", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let wq = provider.create_wq(attr)?;
        if observe::may_be_seen() {
            // SAFETY: just made, and nobody else knows it yet.
            observe::data::context::observe_wq(unsafe { &mut (*wq.as_ptr()).post_recv });
        }
        Ok(wq)
    })
}

/// `ibv_modify_wq`: 0 or an errno value.
pub(super) unsafe extern "C" fn modify_wq(wq: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int {
    entry::value(call!("ibv_modify_wq", wq, attr), || {
        // SAFETY: the caller passes a live queue and attributes of its own.
        let ((wq, provider), attr) = unsafe { (context::of(wq)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.modify_wq(wq, attr)
    })
}

/// `ibv_destroy_wq`: 0 or an errno value.
pub(super) unsafe extern "C" fn destroy_wq(wq: *mut ibv_wq) -> c_int {
    entry::value(call!("ibv_destroy_wq", wq), || {
        // SAFETY: the caller passes a live queue.
        let (wq, provider) = unsafe { context::of(wq) }?;
        provider.destroy_wq(wq)
    })
}

/// `ibv_create_rwq_ind_table`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn create_rwq_ind_table(
    context: *mut ibv_context,
    attr: *mut ibv_rwq_ind_table_init_attr,
) -> *mut ibv_rwq_ind_table {
    entry::pointer(call!("ibv_create_rwq_ind_table", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.create_rwq_ind_table(attr)
    })
}

/// `ibv_destroy_rwq_ind_table`: 0 or an errno value.
pub(super) unsafe extern "C" fn destroy_rwq_ind_table(table: *mut ibv_rwq_ind_table) -> c_int {
    entry::value(call!("ibv_destroy_rwq_ind_table", table), || {
        // SAFETY: the caller passes a live table.
        let (table, provider) = unsafe { context::of(table) }?;
        provider.destroy_rwq_ind_table(table)
    })
}
