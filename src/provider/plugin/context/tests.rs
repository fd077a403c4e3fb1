//! A device that does not come from the kernel's list, opened and closed as a plugin's own library does it.

use super::super::cmd::srq::ibv_cmd_create_srq_ex;
use super::layout::LAYOUTS;
use super::*;
use crate::abi::driver::{VERBS_QP_EX, verbs_device, verbs_device_ops, verbs_srq};
use crate::abi::uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_EFA, RDMA_DRIVER_SIW};
use crate::abi::verbs::*;
use crate::api;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

/// What the plugin has of its own before and behind the shared struct (bytes).
const OWN: usize = 8;
/// A driver whose plugins make plain queue pairs.
const DRIVER: u32 = RDMA_DRIVER_SIW;

type Allocate = unsafe extern "C" fn(*mut ibv_device, c_int, usize, *mut verbs_context, u32) -> *mut c_void;

/// A plugin of each layout: what it makes contexts with, and how long they are with its own fields, which are
/// as many as tell release 59 from 62 where that is so.
const PLUGINS: [(Allocate, u32, usize); 7] = [
    (verbs_init_and_alloc_context_33, DRIVER, OWN),
    (_verbs_init_and_alloc_context, DRIVER, OWN),
    (verbs_init_and_alloc_context_57, DRIVER, OWN),
    (verbs_init_and_alloc_context_59, RDMA_DRIVER_EFA, 744 - 672 - OWN),
    (verbs_init_and_alloc_context_59, RDMA_DRIVER_EFA, 752 - 680 - OWN),
    (verbs_init_and_alloc_context_64, DRIVER, OWN),
    (verbs_init_and_alloc_context_65, DRIVER, OWN),
];

thread_local! {
    /// Which of them the test is.
    static PLUGIN: Cell<usize> = const { Cell::new(1) };
}

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
    let (_, _, behind) = PLUGINS[PLUGIN.get()];
    let size = LAYOUTS[PLUGIN.get()].context_size;
    // SAFETY: a context that `alloc_context` made lies between the plugin's own fields in one allocation.
    unsafe {
        let verbs = context.byte_add(size_of::<ibv_context>()).byte_sub(size);
        let own = |at: usize, count| core::slice::from_raw_parts(verbs.cast::<u8>().byte_add(at), count);
        assert!(own(size, behind).iter().all(|byte| *byte == 0), "behind");
        let whole = verbs.byte_sub(OWN);
        assert_eq!(whole.cast::<u64>().read(), 1);
        verbs_uninit_context(verbs.cast());
        libc::free(whole.cast());
    }
}

/// A plugin's table of that layout with some operations.
fn table(layout: &Layout, operations: &[(&str, *const c_void)]) -> Vec<*const c_void> {
    let name_of =
        |name: &&str| operations.iter().find(|(it, _)| it == name).map_or(core::ptr::null(), |it| it.1);
    layout::operations(layout).iter().map(name_of).collect()
}

unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    private_data: *mut c_void,
) -> *mut verbs_context {
    assert_eq!(cmd_fd, -1);
    let (allocate, driver, behind) = PLUGINS[PLUGIN.get()];
    let layout = &LAYOUTS[PLUGIN.get()];
    // SAFETY: the layout that is passed is that of the memory.
    unsafe {
        let size = OWN + layout.context_size + behind;
        let whole = allocate(device, cmd_fd, size, OWN as *mut verbs_context, driver);
        assert!(!whole.is_null());
        whole.cast::<u64>().write(1);
        let verbs = whole.byte_add(OWN).cast::<verbs_context>();
        let first = table(
            layout,
            &[
                ("alloc_pd", alloc_pd as *const c_void),
                ("dealloc_pd", dealloc_pd as *const c_void),
                ("free_context", free_context as *const c_void),
            ],
        );
        verbs_set_ops(verbs, first.as_ptr().cast());
        let second = table(layout, &[("resize_cq", resize_cq as *const c_void)]);
        verbs_set_ops(verbs, second.as_ptr().cast());
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
fn a_context_of_every_layout_is_made_used_and_unmade() {
    for plugin in 0..PLUGINS.len() {
        PLUGIN.set(plugin);
        FREED.set(0);
        made_used_and_unmade();
    }
}

fn made_used_and_unmade() {
    let size = LAYOUTS[PLUGIN.get()].context_size;
    let device = device();
    let mut made: *mut verbs_context = null_mut();
    // SAFETY: live objects of the test's own plugin throughout; none is used after it was freed.
    unsafe {
        let context = api::device::verbs_open_device(device, (&raw mut made).cast());
        assert!(!context.is_null());
        assert_eq!(context, layout::public(NonNull::new_unchecked(made), size).as_ptr());
        // As programs see it, of which the end is there.
        let end = size_of::<verbs_context>().min(size);
        let mut copy: verbs_context = core::mem::zeroed();
        let copied = (&raw mut copy.context).byte_add(size_of::<ibv_context>()).byte_sub(end).cast::<u8>();
        copied.copy_from_nonoverlapping(context.byte_add(size_of::<ibv_context>()).byte_sub(end).cast(), end);
        let verbs = &copy;
        assert_eq!((verbs.sz, verbs.context.cmd_fd, verbs.context.async_fd), (size, -1, -1));
        assert_eq!(verbs.context.abi_compat as usize, usize::MAX);
        assert_eq!(verbs.context.device, device);
        // What the library fills, what the plugin fills, and what nobody does.
        assert!(verbs.query_port.is_some() && verbs.create_cq_ex.is_some());
        assert!(verbs.context.ops._compat_query_device.is_some());
        assert!(verbs.ABI_placeholder1.is_some() && verbs.ABI_placeholder2.is_some());
        assert!(verbs.context.ops._compat_alloc_pd.is_some());
        // What later releases have put in front, as far as this one knows it.
        let slots = [
            verbs.alloc_dmah.is_some() && verbs.dealloc_dmah.is_some() && verbs.reg_mr_ex.is_some(),
            verbs.dm_export_dmabuf_fd.is_some(),
            verbs.alloc_buf.is_some() && verbs.free_buf.is_some(),
        ];
        let before = |release: u32| LAYOUTS[PLUGIN.get()].operations >= release;
        assert_eq!(slots, [59, 62, 64].map(before), "{size}");
        assert_eq!(verbs.context.ops.poll_cq.unwrap()(null_mut(), 1, null_mut()), libc::EOPNOTSUPP);

        let pd = api::pd::ibv_alloc_pd(context);
        assert_eq!(((*pd).context, (*pd).handle), (context, 5));
        // Whose domain a shared receive queue belongs to the plugin says before rdma-core 58, then the library.
        let mut srq: verbs_srq = core::mem::zeroed();
        let mut init: ibv_srq_init_attr_ex = core::mem::zeroed();
        (init.pd, init.comp_mask) = (pd, IBV_SRQ_INIT_ATTR_PD as u32);
        let made = ibv_cmd_create_srq_ex(context, &mut srq, &mut init, null_mut(), 0, null_mut(), 0);
        let by_library = LAYOUTS[PLUGIN.get()].generation >= Generation(57);
        assert_ne!(made, 0, "there is no kernel");
        assert_eq!((srq.srq.context, srq.srq.pd), (context, if by_library { pd } else { null_mut() }));
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
    for (plugin, &(allocate, driver, _)) in PLUGINS.iter().enumerate() {
        let size = LAYOUTS[plugin].context_size;
        let sizes = [(size - 1, 0), (size, 8), (size * 2, 4), (size, usize::MAX - 7)];
        for (alloc_size, offset) in sizes {
            // SAFETY: a constant C string.
            let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
            let device = device();
            // SAFETY: a live device; the offset is not followed.
            unsafe {
                assert!(allocate(device, fd, alloc_size, offset as *mut verbs_context, driver).is_null());
                // Of 59 no provider has such a context.
                let errno = if driver == DRIVER { Errno::EINVAL } else { Errno::EPROTONOSUPPORT };
                assert_eq!(Errno::last(), errno);
                drop(DeviceRef::from_c(Handle::from_c(device).unwrap()));
            }
        }
    }
}

#[test]
fn the_builders_of_a_queue_pair_are_found_by_its_mark() {
    for (plugin, layout) in LAYOUTS.iter().enumerate() {
        PLUGIN.set(plugin);
        for place in layout.qp_masks {
            let mut made: *mut verbs_context = null_mut();
            let device = device();
            // SAFETY: live objects of the test's own plugin throughout.
            unsafe {
                let context = api::device::verbs_open_device(device, (&raw mut made).cast());
                let mut words = [0_u64; 48];
                let qp = words.as_mut_ptr().cast::<ibv_qp>();
                (*qp).context = context;
                words_of(qp)[place / 8] = VERBS_QP_EX.into();
                // A plugin's queue pair that is no more than an ibv_qp has its own fields there.
                if PLUGINS[plugin].1 == DRIVER {
                    assert!(api::qp::ibv_qp_to_qp_ex(qp).is_null());
                }
                of(context).unwrap().qp_mask.note_extended();
                assert_eq!(api::qp::ibv_qp_to_qp_ex(qp), qp.cast());
                words_of(qp)[place / 8] = 0;
                assert!(api::qp::ibv_qp_to_qp_ex(qp).is_null());
                assert_eq!(api::device::ibv_close_device(context), 0);
                drop(DeviceRef::from_c(Handle::from_c(device).unwrap()));
            }
        }
    }
}

/// The words of a queue pair of 48 of them.
///
/// # Safety
/// It has as many, and nobody else uses them meanwhile.
unsafe fn words_of<'a>(qp: *mut ibv_qp) -> &'a mut [u64] {
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(qp.cast(), 48) }
}
