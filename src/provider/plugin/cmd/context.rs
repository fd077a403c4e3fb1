//! Contexts, and what devices and ports say of themselves.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use core::slice;

use super::super::layout;
use super::ioctl::prepared;
use super::{Request, answer, file, heard, live, only_told, udata, value};
use crate::abi::driver::{ibv_command_buffer, verbs_device};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::context::private;
use crate::provider::object::Handle;
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
/// where an old kernel opens it with this command, and what the device keeps.
///
/// # Safety
/// See [the module](super).
unsafe fn get_context(
    verbs: *mut verbs_context,
    files: Option<&[c_int]>,
    udata: Udata<'_>,
) -> crate::errno::Result<()> {
    // SAFETY: see the module.
    unsafe {
        let verbs = NonNull::new(verbs).and_then(|verbs| layout::of_any_size(verbs));
        let context = verbs.ok_or_else(|| Errno::EINVAL.also_set())?.as_ptr();
        let file = file(context)?;
        let got = file.get_context(files, udata)?;
        (*context).num_comp_vectors = got.num_comp_vectors as c_int;
        if file.async_fd() != -1 {
            (*context).async_fd = file.async_fd();
        } else {
            note_core_support(context, got.core_support);
        }
        Ok(())
    }
}

/// See [`get_context`]. `cmd` and `resp` may be null.
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
    value(|| unsafe { get_context(context, None, udata(cmd, cmd_size, resp, resp_size)) })
}

/// A list of open files (`struct ibv_fd_arr`).
#[repr(C)]
pub struct ibv_fd_arr {
    /// The first.
    arr: *mut c_int,
    /// How many.
    count: u32,
}

/// As [`ibv_cmd_get_context`], for a driver that asks for files to be tied to the context; `fd_arr` may be
/// null.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_get_context_57(
    context: *mut verbs_context,
    cmd: *mut Request<ib_uverbs_get_context>,
    cmd_size: usize,
    fd_arr: *mut ibv_fd_arr,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let files = match fd_arr.as_ref() {
            None => None,
            Some(ibv_fd_arr { count: 0, .. }) => Some(&[][..]),
            Some(files) => Some(slice::from_raw_parts(live(files.arr)?.cast_const(), files.count as usize)),
        };
        get_context(context, files, udata(cmd, cmd_size, resp, resp_size))
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
        let device = Handle::from_c(context).map(|context| private(context).device());
        let num_ports = device?.found().map_or(0, |found| found.info().num_ports);

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

thread_local! {
    /// The port attributes that the library itself has asked for, which have their full length.
    static LONG: Cell<*mut ibv_port_attr> = const { Cell::new(null_mut()) };
}

/// While it lives, the attributes at an address are known to have the length that this library knows. A plugin
/// built before rdma-core 49 may ask for such of its own, which are shorter, and nothing in its call tells.
pub struct LongPortAttr(*mut ibv_port_attr);

impl LongPortAttr {
    /// Those at `place`, for calls of this thread.
    pub fn at(place: *mut ibv_port_attr) -> Self {
        Self(LONG.replace(place))
    }
}

impl Drop for LongPortAttr {
    fn drop(&mut self) {
        LONG.set(self.0);
    }
}

/// Length of `ibv_port_attr` before rdma-core 49 (bytes).
const SHORT_PORT_ATTR: usize = 52;

/// Attributes of a port; the first `length` bytes of them.
///
/// # Safety
/// See [the module](super).
unsafe fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    length: usize,
    udata: Udata<'_>,
) -> crate::errno::Result<()> {
    // SAFETY: see the module; the attributes are plain C data.
    unsafe {
        let (file, place) = (file(context)?, live(port_attr)?);
        let length = length.min(size_of::<ibv_port_attr>());
        let mut attr: ibv_port_attr = core::mem::zeroed();
        let local = (&raw mut attr).cast::<u8>();
        local.copy_from_nonoverlapping(place.cast(), length);
        uverbs::device::query_port_with(file, port_num, &mut attr, udata)?;
        place.cast::<u8>().copy_from_nonoverlapping(local, length);
        Ok(())
    }
}

/// Attributes of a port, without those that only later releases know.
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
    let length = if LONG.get() == port_attr { size_of::<ibv_port_attr>() } else { SHORT_PORT_ATTR };
    // SAFETY: see the module.
    value(|| unsafe { query_port(context, port_num, port_attr, length, only_told(cmd, cmd_size)) })
}

/// Attributes of a port.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_port_57(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut Request<ib_uverbs_query_port>,
    cmd_size: usize,
) -> c_int {
    let length = size_of::<ibv_port_attr>();
    // SAFETY: see the module.
    value(|| unsafe { query_port(context, port_num, port_attr, length, only_told(cmd, cmd_size)) })
}

/// Speed of a port (100 Mb/s).
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (file, speed) = (file(context)?, live(speed)?);
        *speed = uverbs::device::query_port_speed(file, port_num)?;
        Ok(())
    })
}
