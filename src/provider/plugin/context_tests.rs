//! A device that does not come from the kernel's list, opened and closed as a plugin's own library does it.

use super::*;
use crate::abi::driver::{VERBS_QP_EX, verbs_device, verbs_device_ops};
use crate::abi::verbs::*;
use crate::api;
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// A plugin's context: fields of its own on both sides of the shared struct.
#[repr(C)]
struct PluginsContext {
    before: u64,
    verbs: verbs_context,
    after: u64,
}

const DRIVER: u32 = 14;

unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    Box::into_raw(Box::new(ibv_pd { context, handle: 5 }))
}

unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: what `alloc_pd` made, given back once.
    drop(unsafe { Box::from_raw(pd) });
    0
}

unsafe extern "C" fn resize_cq(_cq: *mut ibv_cq, _cqe: c_int) -> c_int {
    -7
}

unsafe extern "C" fn free_context(context: *mut ibv_context) {
    // SAFETY: a context that `alloc_context` made lies in a PluginsContext of its own allocation.
    unsafe {
        let verbs = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        let whole = verbs.byte_sub(offset_of!(PluginsContext, verbs)).cast::<PluginsContext>();
        assert_eq!(((*whole).before, (*whole).after), (1, 2));
        verbs_uninit_context(verbs);
        libc::free(whole.cast());
    }
}

fn empty_table() -> v44::verbs_context_ops {
    // SAFETY: a table of nullable function pointers.
    unsafe { core::mem::zeroed() }
}

unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    private_data: *mut c_void,
) -> *mut verbs_context {
    assert_eq!(cmd_fd, -1);
    let offset = offset_of!(PluginsContext, verbs) as *mut verbs_context;
    let size = size_of::<PluginsContext>();
    // SAFETY: the layout that is passed is that of the struct.
    unsafe {
        let whole: *mut PluginsContext =
            _verbs_init_and_alloc_context(device, cmd_fd, size, offset, DRIVER).cast();
        assert!(!whole.is_null());
        (*whole).before = 1;
        (*whole).after = 2;
        let verbs = &raw mut (*whole).verbs;
        let first = v44::verbs_context_ops {
            alloc_pd: Some(alloc_pd),
            dealloc_pd: Some(dealloc_pd),
            free_context: Some(free_context),
            ..empty_table()
        };
        verbs_set_ops(verbs, &first);
        verbs_set_ops(verbs, &v44::verbs_context_ops { resize_cq: Some(resize_cq), ..empty_table() });
        *private_data.cast::<*mut verbs_context>() = verbs;
        verbs
    }
}

thread_local! {
    /// Devices that this test has given back.
    static FREED: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: the box that the test leaked, given back once.
    drop(unsafe { Box::from_raw(device) });
    FREED.set(FREED.get() + 1);
}

fn operations() -> &'static verbs_device_ops {
    // SAFETY: pointers and numbers; all zeros is a driver that can do nothing.
    let mut ops: verbs_device_ops = unsafe { core::mem::zeroed() };
    ops.alloc_context = Some(alloc_context);
    ops.uninit_device = Some(uninit_device);
    Box::leak(Box::new(ops))
}

fn device() -> *mut ibv_device {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut device: Box<verbs_device> = Box::new(unsafe { core::mem::zeroed() });
    device.ops = operations();
    device.refcount.store(1, Ordering::Relaxed);
    Box::into_raw(device).cast()
}

#[test]
fn a_context_is_made_used_and_unmade() {
    let device = device();
    let mut made: *mut verbs_context = null_mut();
    // SAFETY: live objects of the test's own plugin throughout; none is used after it was freed.
    unsafe {
        let context = api::device::verbs_open_device(device, (&raw mut made).cast());
        assert!(!context.is_null());
        let verbs = &mut *made;
        assert_eq!(context, &raw mut verbs.context);
        assert_eq!((verbs.sz, verbs.context.cmd_fd, verbs.context.async_fd), (648, -1, -1));
        assert_eq!(verbs.context.abi_compat as usize, usize::MAX);
        assert_eq!(verbs.context.device, device);
        // What the library fills, what the plugin fills, and what nobody does.
        assert!(verbs.query_port.is_some() && verbs.create_cq_ex.is_some());
        assert!(verbs.context.ops._compat_query_device.is_some());
        assert!(verbs.ABI_placeholder1.is_some() && verbs.ABI_placeholder2.is_some());
        assert!(verbs.context.ops._compat_alloc_pd.is_some());
        assert_eq!(verbs.context.ops.poll_cq.unwrap()(null_mut(), 1, null_mut()), libc::EOPNOTSUPP);

        let pd = api::pd::ibv_alloc_pd(context);
        assert_eq!(((*pd).context, (*pd).handle), (context, 5));
        assert_eq!(api::pd::ibv_dealloc_pd(pd), 0);
        // A value goes through as it is, without errno.
        let mut cq: ibv_cq = core::mem::zeroed();
        cq.context = context;
        Errno(0).set();
        assert_eq!(api::cq::ibv_resize_cq(&mut cq, 1), -7);
        assert_eq!(Errno::last(), Errno(0));
        assert!(api::cq::ibv_create_cq(context, 1, null_mut(), null_mut(), 0).is_null());
        assert_eq!(Errno::last(), Errno::EOPNOTSUPP);
        // What the plugin does not write stays as the program had it.
        let mut attr: ibv_device_attr = core::mem::zeroed();
        attr.max_qp = 77;
        assert_eq!(api::device::ibv_query_device(context, &mut attr), libc::EOPNOTSUPP);
        assert_eq!(attr.max_qp, 77);
        // Commands fail as they do on a file that is not there.
        assert!(api::channel::ibv_create_comp_channel(context).is_null());
        assert_eq!(Errno::last(), Errno::EBADF);
        // Nothing in sysfs either.
        let mut pkey = 0;
        assert_eq!(api::port::ibv_query_pkey(context, 1, 0, &mut pkey), -1);
        assert_eq!(Errno::last(), Errno::EINVAL);
        assert_eq!(api::device::ibv_get_device_index(device), -1);
        assert_eq!(api::device::ibv_get_device_guid(device), 0);

        assert_eq!(api::device::ibv_close_device(context), 0);
        assert_eq!(FREED.get(), 0);
        let list = libc::calloc(2, size_of::<*mut ibv_device>()).cast::<*mut ibv_device>();
        *list = device;
        api::device::ibv_free_device_list(list);
    }
    assert_eq!(FREED.get(), 1);
}

#[test]
fn a_layout_that_does_not_fit_is_refused_and_the_file_closed() {
    let size = size_of::<verbs_context>();
    for (alloc_size, offset) in [(size - 1, 0), (size, 8), (size * 2, 4), (size, usize::MAX - 7)] {
        // SAFETY: a constant C string.
        let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let device = device();
        // SAFETY: a live device; the offset is not followed.
        unsafe {
            let offset = offset as *mut verbs_context;
            assert!(_verbs_init_and_alloc_context(device, fd, alloc_size, offset, DRIVER).is_null());
            assert_eq!(Errno::last(), Errno::EINVAL);
            drop(DeviceRef::from_c(Handle::from_c(device).unwrap()));
        }
    }
}

#[test]
fn the_builders_of_a_queue_pair_are_found_by_its_mark() {
    let mut made: *mut verbs_context = null_mut();
    let device = device();
    // SAFETY: live objects of the test's own plugin throughout.
    unsafe {
        let context = api::device::verbs_open_device(device, (&raw mut made).cast());
        let mut qp: v44::verbs_qp = core::mem::zeroed();
        qp.qp_ex.qp_base.context = context;
        let public = (&raw mut qp).cast::<ibv_qp>();
        assert!(api::qp::ibv_qp_to_qp_ex(public).is_null());
        (*public.cast::<v44::verbs_qp>()).comp_mask = VERBS_QP_EX;
        assert_eq!(api::qp::ibv_qp_to_qp_ex(public), public.cast());
        assert_eq!(api::device::ibv_close_device(context), 0);
        drop(DeviceRef::from_c(Handle::from_c(device).unwrap()));
    }
}
