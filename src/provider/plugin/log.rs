//! The trace of plugins: lines that they format themselves, between ours in the same file.
//!
//! The function that they call takes arguments as `printf` does, which Rust cannot define; `variadic.c` formats
//! and calls the functions here.

use core::ffi::{c_char, c_int};

use crate::abi::driver::verbs_sysfs_dev;
use crate::abi::verbs::verbs_context;
use crate::log;

unsafe extern "C" {
    fn __verbs_log(context: *mut verbs_context, level: u32, format: *const c_char, ...);
    fn ibv_read_ibdev_sysfs_file(
        buffer: *mut c_char,
        size: usize,
        device: *const verbs_sysfs_dev,
        format: *const c_char,
        ...
    ) -> c_int;
}

/// The functions of `variadic.c`.
pub type Variadic = (
    unsafe extern "C" fn(*mut verbs_context, u32, *const c_char, ...),
    unsafe extern "C" fn(*mut c_char, usize, *const verbs_sysfs_dev, *const c_char, ...) -> c_int,
);

/// Nothing in Rust calls them: the shared library refers to them here, to have them linked.
pub const VARIADIC: Variadic = (__verbs_log, ibv_read_ibdev_sysfs_file);

/// Whether lines of `level` are written.
#[unsafe(no_mangle)]
extern "C" fn ironverbs_log_enabled(level: u32) -> bool {
    log::enabled_number(level)
}

/// Appends `length` bytes, which a plugin has formatted, to the trace.
#[unsafe(no_mangle)]
unsafe extern "C" fn ironverbs_log_write(text: *const u8, length: usize) {
    if !text.is_null() {
        // SAFETY: `variadic.c` passes a buffer of that length.
        log::append(unsafe { core::slice::from_raw_parts(text, length) });
    }
}
