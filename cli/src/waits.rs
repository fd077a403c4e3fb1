//! Waiting for children, also where the caller had SIGCHLD ignored: then the kernel keeps no status for
//! anybody.

use core::mem::MaybeUninit;

/// While it lives, children of this process are there to be waited for.
pub struct Waits {
    before: libc::sigaction,
}

impl Waits {
    pub fn begin() -> Self {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a sigaction of zeros is the default action, and there is room for the one before.
        unsafe {
            libc::sigaction(libc::SIGCHLD, MaybeUninit::zeroed().as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        // SAFETY: the action that there was before.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const self.before, core::ptr::null_mut()) };
    }
}
