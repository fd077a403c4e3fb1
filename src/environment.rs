//! Variables of the environment that name files or code.

use std::ffi::OsString;

/// A variable, unless the process runs with the rights of another user than the one who started it: then that user must
/// not choose what it opens or loads.
pub fn trusted(name: &str) -> Option<OsString> {
    // Asked only if there is a variable, to save the system calls.
    std::env::var_os(name).filter(|_| own_rights())
}

/// Whether the process runs with the rights of the user who started it.
pub fn own_rights() -> bool {
    // SAFETY: neither call can fail.
    unsafe { libc::getuid() == libc::geteuid() }
}
