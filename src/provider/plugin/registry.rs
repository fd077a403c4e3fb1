//! The drivers that plugins have registered.

use core::cell::Cell;
use core::iter;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CStr;

use super::layout::Generation;
use crate::abi::driver::verbs_device_ops;

/// A registered driver: its operations are static, and no plugin is ever unloaded.
#[derive(Clone, Copy)]
pub struct Driver {
    ops: NonNull<verbs_device_ops>,
    generation: Generation,
}

// SAFETY: the operations are constant data of the plugin.
unsafe impl Send for Driver {}

impl Driver {
    /// The driver behind a plugin's pointer.
    ///
    /// # Safety
    /// The operations are valid for the rest of the process.
    pub unsafe fn new(ops: NonNull<verbs_device_ops>, generation: Generation) -> Self {
        Self { ops, generation }
    }

    /// The private version that it registered for.
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// The operations as the plugin registered them.
    pub fn as_ptr(self) -> *const verbs_device_ops {
        self.ops.as_ptr()
    }

    /// The operations.
    pub fn ops(&self) -> &'static verbs_device_ops {
        // SAFETY: static data of a plugin that is never unloaded.
        unsafe { self.ops.as_ref() }
    }
}

/// A driver and how it came here.
struct Entry {
    driver: Driver,
    /// By the library, because the configuration names it; else the program brought it along.
    loaded: bool,
    next: AtomicPtr<Entry>,
}

/// The first entry, in the order of registration; none is ever removed. Constant until the first constructor
/// runs, which may be before anything of this library. No lock guards the list: a fork could leave it locked in
/// the child.
static DRIVERS: AtomicPtr<Entry> = AtomicPtr::new(null_mut());

thread_local! {
    /// Whether this thread is loading plugins; their constructors run on it.
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `load`: what registers meanwhile on this thread counts as loaded by the library.
pub fn while_loading(load: impl FnOnce()) {
    LOADING.set(true);
    load();
    LOADING.set(false);
}

fn collect(wanted: impl Fn(&Entry) -> bool) -> Vec<Driver> {
    // SAFETY: what stands in the list is never freed nor changed, but for the way to the next.
    let at = |place: &AtomicPtr<Entry>| unsafe { place.load(Ordering::Acquire).as_ref::<'static>() };
    let entries = iter::successors(at(&DRIVERS), |entry| at(&entry.next));
    entries.filter(|entry| wanted(entry)).map(|entry| entry.driver).collect()
}

/// The drivers known now.
pub fn drivers() -> Vec<Driver> {
    collect(|_| true)
}

/// Those of them that the program brought along: linked to it, preloaded, or opened by it.
pub fn linked_drivers() -> Vec<Driver> {
    collect(|entry| !entry.loaded)
}

/// The name that a driver gives itself.
pub fn name_of(ops: &verbs_device_ops) -> String {
    if ops.name.is_null() {
        return String::new();
    }
    // SAFETY: a driver's name is a constant C string.
    unsafe { CStr::from_ptr(ops.name) }.to_string_lossy().into_owned()
}

/// Adds a driver, which from now on is asked about devices.
///
/// # Safety
/// `ops` is null or valid for the rest of the process.
unsafe fn register(ops: *const verbs_device_ops, generation: u32) {
    let Some(ops) = NonNull::new(ops.cast_mut()) else { return };
    // SAFETY: by the contract.
    let driver = unsafe { Driver::new(ops, Generation(generation)) };
    let entry = Entry { driver, loaded: LOADING.get(), next: AtomicPtr::new(null_mut()) };
    let fresh = Box::into_raw(Box::new(entry));
    let mut place = &DRIVERS;
    while let Err(taken) = place.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as in `collect`.
        place = unsafe { &(*taken).next };
    }
}

macro_rules! entries {
    ($($name:ident: $generation:literal;)+) => {$(
        /// What a plugin's ELF constructor calls, at the start of the process or in the middle of `dlopen`.
        ///
        /// # Safety
        /// `ops` is null or valid for the rest of the process.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(ops: *const verbs_device_ops) {
            // SAFETY: by the contract.
            unsafe { register(ops, $generation) };
        }
    )+};
}

entries! {
    verbs_register_driver_33: 33;
    verbs_register_driver_34: 34;
    verbs_register_driver_57: 57;
    verbs_register_driver_59: 59;
    verbs_register_driver_64: 64;
    verbs_register_driver_65: 65;
}
