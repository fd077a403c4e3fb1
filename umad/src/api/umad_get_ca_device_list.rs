//! `umad_get_ca_device_list(3)`

use core::ptr::null_mut;

use ironverbs_os::errno::Errno;

use super::entry;
use super::umad_free_ca_device_list::free;
use crate::abi::umad::umad_device_node;
use crate::ca::list;

/// List of CAs in no order; null and `errno` on failure, null and `errno` 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_ca_device_list() -> *mut umad_device_node {
    entry::pointer(|| {
        let names = list::in_folders_order()?;
        let mut head = null_mut();
        let mut place: *mut *mut umad_device_node = &raw mut head;
        for name in names.iter() {
            let name = name.to_bytes_with_nul();
            // SAFETY: allocates zeroed memory for a node and behind it its name, or returns null.
            let node: *mut umad_device_node =
                unsafe { libc::calloc(1, size_of::<umad_device_node>() + name.len()) }.cast();
            if node.is_null() {
                // SAFETY: the list was made here.
                unsafe { free(head) };
                return Err(Errno::ENOMEM.also_set());
            }
            // SAFETY: the memory has room for node and name, and `place` is the end of the list.
            unsafe {
                let text: *mut u8 = node.add(1).cast();
                text.copy_from_nonoverlapping(name.as_ptr(), name.len());
                (*node).ca_name = text.cast();
                *place = node;
                place = &raw mut (*node).next;
            }
        }
        Ok(head)
    })
}
