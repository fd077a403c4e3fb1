//! Contexts, and what devices and ports say of themselves.

use core::ffi::c_int;

use super::ioctl::prepared;
use super::{Request, answer, file, heard, live, only_told, udata, value};
use crate::abi::driver::{ibv_command_buffer, verbs_device};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::uverbs::{self, Udata};

/// Keeps what the kernel core offers with the device.
///
/// # Safety
/// See [the module](super).
unsafe fn note_core_support(context: *mut ibv_context, bits: u64) {
    // SAFETY: see the module; every device starts with the public part of a verbs_device.
    unsafe {
        let device = (*context).device.cast::<verbs_device>();
        if !device.is_null() {
            (*device).core_support = bits;
        }
    }
}

/// Makes the context in the kernel; fills in the number of completion vectors, the file of asynchronous events
/// where an old kernel opens it with this command, and what the device keeps. `cmd` and `resp` may be null.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_get_context(
    context: *mut verbs_context,
    cmd: *mut Request<ib_uverbs_get_context>,
    cmd_size: usize,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let context = &raw mut (*live(context)?).context;
        let file = file(context)?;
        let got = file.get_context(udata(cmd, cmd_size, resp, resp_size))?;
        (*context).num_comp_vectors = got.num_comp_vectors as c_int;
        if file.async_fd() != -1 {
            (*context).async_fd = file.async_fd();
        } else {
            note_core_support(context, got.core_support);
        }
        Ok(())
    })
}

/// Connects to the context of another process; fills in the number of completion vectors and what the device
/// keeps. `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_context(
    ctx: *mut ibv_context,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let got = file(ctx)?.query_context(prepared(driver)?)?;
        (*ctx).num_comp_vectors = got.num_comp_vectors as c_int;
        note_core_support(ctx, got.core_support);
        Ok(())
    })
}

/// Attributes of the device: the first `attr_size` bytes of `attr`, and the kernel's own answer with what the
/// driver adds in `resp`, which may be null; `resp_size` is its size, and then how much of it the kernel has
/// filled. EINVAL for a bit in the mask of `input`, or too little room.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_device_any(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *mut ib_uverbs_ex_query_device_resp,
    resp_size: *mut usize,
) -> c_int {
    // SAFETY: see the module. The program's structure is as long as `attr_size`, whatever release it was built
    // with, so it is written as bytes; all zeros is a value of it.
    value(|| unsafe {
        let (input, file) = (input.as_ref(), file(context)?);
        if input.is_some_and(|input| input.comp_mask != 0) || attr_size < size_of::<ibv_device_attr>() {
            return Err(Errno::EINVAL);
        }
        let attr = live(attr)?.cast::<u8>();
        attr.write_bytes(0, attr_size);
        let output = if resp.is_null() { &mut [] } else { heard(resp, *live(resp_size)?) };
        let sysfs = (*(*context).device.cast::<verbs_device>()).sysfs;
        let num_ports = sysfs.as_ref().map_or(0, |sysfs| sysfs.num_ports);

        let mut found: ibv_device_attr_ex = core::mem::zeroed();
        let mut kernel = ib_uverbs_ex_query_device_resp::default();
        let udata = Udata::answer(output);
        uverbs::device::query_with_answer(file, None, &mut found, attr_size, num_ports, &mut kernel, udata)?;
        let size = attr_size.min(size_of_val(&found));
        attr.copy_from_nonoverlapping((&raw const found).cast(), size);
        answer(resp, kernel);
        if !resp.is_null() {
            *resp_size = kernel.response_length as usize;
        }
        Ok(())
    })
}

/// Attributes of a port.
///
/// Nothing is written behind the fields that the kernel fills: releases from 49 on have a longer structure than
/// the callers of this version.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut Request<ib_uverbs_query_port>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (file, attr) = (file(context)?, live(port_attr)?);
        uverbs::device::query_port_with(file, port_num, &mut *attr, only_told(cmd, cmd_size))
    })
}
