//! Devices and contexts.

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use ironverbs_os::growth::{TryPush, try_box, try_room};

use super::super::{device, entry, gid, port};
use super::layout::*;
use super::{made, post, publish, release, with};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::UNNAMED;

/// A NULL-terminated array of devices. Today's array stands in the place before the first, where 1.0's
/// `ibv_free_device_list` finds it.
#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_list@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_get_device_list(num: *mut c_int) -> *mut *mut ibv_device_1_0 {
    let mut count = 0;
    // SAFETY: a place to write.
    let real_list = unsafe { device::ibv_get_device_list(&raw mut count) };
    if real_list.is_null() {
        return null_mut();
    }
    let list = {
        let mut devices = Vec::new();
        let boxed = (0..count as usize).try_for_each(|place| {
            devices.try_push(try_box(ibv_device_1_0 {
                obsolete_sysfs_dev: null_mut(),
                obsolete_sysfs_ibdev: null_mut(),
                // SAFETY: the array has `count` elements.
                real_device: unsafe { *real_list.add(place) },
                obsolete_ops: [null_mut(); 2],
            })?)
        });
        boxed.and_then(|()| try_room(count as usize + 2)).map(|list| (devices, list))
    };
    let Ok((devices, mut list)) = list else {
        // SAFETY: the array that was just made, which nobody else has.
        unsafe { device::ibv_free_device_list(real_list) };
        Errno::ENOMEM.set();
        return null_mut();
    };
    list.push_reserved(real_list.cast::<ibv_device_1_0>());
    for device in devices {
        list.push_reserved(Box::into_raw(device));
    }
    list.push_reserved(null_mut());
    // SAFETY: null or the program's to write.
    if let Some(num) = unsafe { num.as_mut() } {
        *num = count;
    }
    // SAFETY: the array has two elements at least.
    unsafe { Box::into_raw(list.into_boxed_slice()).cast::<*mut ibv_device_1_0>().add(1) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_free_device_list@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device_1_0) {
    entry::nothing(UNNAMED, || {
        if list.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: an array of `ibv_get_device_list` that the program gives up: a place before the first, then
        // devices, then NULL.
        unsafe {
            let first = list.sub(1);
            let mut devices = 0;
            while !(*list.add(devices)).is_null() {
                drop(Box::from_raw(*list.add(devices)));
                devices += 1;
            }
            device::ibv_free_device_list((*first).cast());
            drop(Box::from_raw(core::ptr::slice_from_raw_parts_mut(first, devices + 2)));
        }
        Ok(())
    });
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_name@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device_1_0) -> *const c_char {
    // SAFETY: the caller passes a live device.
    unsafe { device::ibv_get_device_name(real(device)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_get_device_guid@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device_1_0) -> __be64 {
    // SAFETY: the caller passes a live device.
    unsafe { device::ibv_get_device_guid(real(device)) }
}

/// Today's device, NULL for NULL.
///
/// # Safety
/// `device` is null or live.
unsafe fn real(device: *mut ibv_device_1_0) -> *mut ibv_device {
    // SAFETY: by the contract.
    unsafe { device.as_ref() }.map_or(null_mut(), |device| device.real_device)
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_open_device@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device_1_0) -> *mut ibv_context_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes a live device; what is opened is live.
        let real_context = unsafe { made(device::ibv_open_device(real(device))) }?.as_ptr();
        publish(ibv_context_1_0 {
            device,
            ops: ibv_context_ops_1_0 {
                poll_cq: Some(post::poll_cq),
                req_notify_cq: Some(post::req_notify_cq),
                post_send: Some(post::post_send),
                post_recv: Some(post::post_recv),
                post_srq_recv: Some(post::post_srq_recv),
                ..Default::default()
            },
            cmd_fd: 0,
            async_fd: 0,
            num_comp_vectors: 0,
            real_context,
        })
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_close_device@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context_1_0) -> c_int {
    // SAFETY: the caller gives up an open context.
    unsafe { release(context, |context| device::ibv_close_device(context.real_context)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_query_device@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_device(context: *mut ibv_context_1_0, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the caller passes an open context and a place to write.
    unsafe { with(context, |context| device::ibv_query_device(context.real_context, attr)) }
}

/// Fills in what the struct had in 2006. rdma-core's function clears 4 bytes behind that, which are not the
/// library's to write in such a program.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_port@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context_1_0,
    port_num: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the caller passes an open context and a place to write.
    unsafe { with(context, |context| port::ibv_query_port(context.real_context, port_num, attr)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_query_gid@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context_1_0,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: the caller passes an open context and a place to write.
    unsafe { with(context, |context| gid::ibv_query_gid(context.real_context, port_num, index, gid)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_query_pkey@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context_1_0,
    port_num: u8,
    index: c_int,
    pkey: *mut __be16,
) -> c_int {
    // SAFETY: the caller passes an open context and a place to write.
    unsafe { with(context, |context| port::ibv_query_pkey(context.real_context, port_num, index, pkey)) }
}
