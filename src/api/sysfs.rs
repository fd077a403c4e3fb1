//! Help with sysfs that librdmacm and others take from here.

use core::ffi::{CStr, c_char, c_int};

use super::entry;
use crate::errno::Errno;
use crate::observe::call;
use crate::observe::shown::Address;
use crate::uverbs::sysfs;

/// Where sysfs is: `/sys`, or what SYSFS_PATH says (which a setuid program ignores).
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    entry::plain(call!("ibv_get_sysfs_path"), || sysfs::path().as_ptr())
}

/// Reads the file `dir`/`file` of at most `size` bytes into `buf`, without its last newline and NUL-terminated;
/// its length, or -1 with `errno` where it cannot be opened or read, -1 also where it does not fit.
///
/// # Safety
/// `dir` and `file` are null or NUL-terminated; `buf` is null or can be written for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    entry::number(
        call!("ibv_read_sysfs_file", dir, file, buf = Address(buf), size),
        || {
            if dir.is_null() || file.is_null() || (buf.is_null() && size != 0) {
                return Err(Errno::EINVAL.also_set());
            }
            // SAFETY: by the contract, now that none is null; an empty buffer needs no memory.
            let (dir, file, buf) = unsafe {
                let buf = if size == 0 {
                    &mut []
                } else {
                    core::slice::from_raw_parts_mut(buf.cast(), size.min(isize::MAX as usize))
                };
                (CStr::from_ptr(dir), CStr::from_ptr(file), buf)
            };
            sysfs::read(dir.to_bytes(), file.to_bytes(), buf).map(|length| length as c_int)
        },
        |_| -1,
    )
}
