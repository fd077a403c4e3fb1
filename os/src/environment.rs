//! Variables of the environment, and whether this process may believe them. Nobody else reads the environment:
//! docs/environment.md lists each variable with the function it is read by.
//!
//! A program with set-user-id or set-group-id bits or file capabilities has rights that its caller lacks, while
//! its environment is the caller's. What then decides is the kernel's own word, `AT_SECURE`, which also the
//! loader and `secure_getenv` go by, and which a security module may set (a domain transition of SELinux, for
//! example). It stays for the life of the program, also after that gave its rights back. Besides, real and
//! effective ids must agree, as rdma-core asks of user ids: a process that acts for somebody else in between
//! takes no orders from either.

use std::env;
use std::ffi::OsString;

use nix::unistd::{getegid, geteuid, getgid, getuid};

/// A variable that names code, files or devices, or says which processes reach this one; None where the process
/// has rights that its caller lacks.
pub fn trusted(name: &str) -> Option<OsString> {
    // The ids are asked for only where there is a variable, to save the system calls.
    env::var_os(name).filter(|_| callers_rights())
}

/// A variable that is a switch or a number, and changes only what the process does within its own memory and
/// writes to its standard error. The caller of a program may set it, whatever rights the program has.
pub fn harmless(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Whether the process has no other rights than its caller.
pub fn callers_rights() -> bool {
    // SAFETY: reads a word that the kernel left for the process.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    !is_secure && getuid() == geteuid() && getgid() == getegid()
}

#[cfg(test)]
mod tests {
    use ironverbs_os_testing::in_child;
    use nix::unistd::{setegid, seteuid};

    use super::*;

    #[test]
    fn a_variable_is_there_or_not() {
        assert!(callers_rights());
        assert_eq!(trusted("PATH"), env::var_os("PATH"));
        assert_eq!(trusted("IRONVERBS_NO_SUCH_VARIABLE"), None);
        assert_eq!(harmless("PATH"), env::var_os("PATH"));
    }

    #[test]
    #[ignore = "needs root"]
    fn ids_that_differ_are_not_the_callers() {
        const OTHER: u32 = 65534;
        assert_eq!(in_child(|| seteuid(OTHER.into()).is_ok() && trusted("PATH").is_none()), 0);
        assert_eq!(in_child(|| setegid(OTHER.into()).is_ok() && trusted("PATH").is_none()), 0);
    }
}
