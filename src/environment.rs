//! Variables of the environment that name files or code.

use std::ffi::OsString;

/// A variable, unless the process runs with the rights of another user than the one who started it: then that user must
/// not choose what it opens or loads.
pub fn trusted(name: &str) -> Option<OsString> {
    // Asked only if there is a variable, to save the system calls.
    std::env::var_os(name).filter(|_| own_rights())
}

/// As [`trusted`], for the variables that are not rdma-core's: also not where the kernel gave the process any other rights
/// that its caller does not have, those of a group or of file capabilities.
pub fn secure(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| only_callers_rights())
}

/// Whether the process runs with the rights of the user who started it.
fn own_rights() -> bool {
    // SAFETY: neither call can fail.
    unsafe { libc::getuid() == libc::geteuid() }
}

/// Whether the process got no rights by its program file.
pub fn only_callers_rights() -> bool {
    // SAFETY: reads a word that the kernel left for the process.
    own_rights() && unsafe { libc::getauxval(libc::AT_SECURE) } == 0
}
