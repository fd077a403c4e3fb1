//! `umad_sort_ca_device_list(3)`

use core::ffi::{CStr, c_int};

use ironverbs_os::errno::{Errno, Result};

use super::entry;
use crate::abi::umad::umad_device_node;

/// Sorts a list of `size` nodes by name; 0 stands for a length that the program does not know. 0; EINVAL where
/// it has another length, or ENOMEM.
///
/// # Safety
/// `head` is null or refers to a list of `umad_get_ca_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_sort_ca_device_list(
    head: *mut *mut umad_device_node,
    size: libc::size_t,
) -> c_int {
    entry::value(|| {
        if head.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: by the contract.
        unsafe { sort(&mut *head, size) }
    })
}

/// # Safety
/// `head` begins a list.
unsafe fn sort(head: &mut *mut umad_device_node, size: usize) -> Result<()> {
    if size == 1 {
        return Ok(());
    }
    let mut nodes: Vec<*mut umad_device_node> = Vec::new();
    nodes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    let mut node = *head;
    while !node.is_null() {
        if size != 0 && nodes.len() == size {
            return Err(Errno::EINVAL);
        }
        nodes.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        nodes.push(node);
        // SAFETY: by the contract.
        node = unsafe { (*node).next };
    }
    if size != 0 && nodes.len() != size {
        return Err(Errno::EINVAL);
    }
    // SAFETY: by the contract each node has a NUL-terminated name.
    nodes.sort_unstable_by_key(|node| unsafe { CStr::from_ptr((**node).ca_name) });
    let mut next = core::ptr::null_mut();
    for node in nodes.iter().rev() {
        // SAFETY: as above; the nodes are the program's to change meanwhile.
        unsafe { (**node).next = next };
        next = *node;
    }
    *head = next;
    Ok(())
}
