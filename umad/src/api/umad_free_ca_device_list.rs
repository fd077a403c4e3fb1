//! `umad_free_ca_device_list(3)`

use super::entry;
use crate::abi::umad::umad_device_node;

/// Frees a list.
///
/// # Safety
/// `head` is null or a list of `umad_get_ca_device_list`, which is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_free_ca_device_list(head: *mut umad_device_node) {
    // SAFETY: by the contract.
    entry::nothing(|| unsafe { free(head) });
}

/// # Safety
/// As of [`umad_free_ca_device_list`].
pub(super) unsafe fn free(head: *mut umad_device_node) {
    let mut node = head;
    while !node.is_null() {
        // SAFETY: by the contract; each node is one allocation of the C library.
        unsafe {
            let next = (*node).next;
            libc::free(node.cast());
            node = next;
        }
    }
}
