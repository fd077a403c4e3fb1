//! Epoll sets by system calls, with libc's results and `errno`.
//!
//! librspreload puts functions of its own in front of libc's. From rdma-core 65 on it has some for epoll too,
//! which make no epoll set, and wait for a lock that librdmacm holds while it opens the device or the
//! connection manager.

use std::os::fd::RawFd;

/// `epoll_create1(2)`: a descriptor, or -1.
pub fn create(flags: libc::c_int) -> libc::c_int {
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_epoll_create1, flags) as libc::c_int }
}

/// `epoll_ctl(2)`: 0, or -1.
pub fn control(
    set: RawFd,
    operation: libc::c_int,
    fd: RawFd,
    event: Option<libc::epoll_event>,
) -> libc::c_int {
    let event = event.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the event, where there is one, is readable across the call; the kernel refuses a null one where
    // it needs one.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, fd, event) as libc::c_int }
}

/// `epoll_pwait(2)` without a mask of signals and without waiting: how many of the places have an event, or -1.
pub fn ready(set: RawFd, events: &mut [libc::epoll_event]) -> libc::c_int {
    let room = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    let no_mask: *const libc::sigset_t = std::ptr::null();
    // The last of six arguments stands on the stack, where the kernel takes a whole word.
    const NO_BYTES: usize = 0;
    // SAFETY: there is room for so many events.
    unsafe {
        libc::syscall(libc::SYS_epoll_pwait, set, events.as_mut_ptr(), room, 0, no_mask, NO_BYTES)
            as libc::c_int
    }
}
