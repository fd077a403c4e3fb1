//! What a forked child inherits of the port, and gives up at once.
//!
//! A child has the parent's descriptors, and may live on without ever calling the library: it would keep the
//! sockets, the place and the name under which the processes meet, and answer nobody. So a handler of
//! `pthread_atfork` puts a file that nothing can be done with in their places; numbers stay taken, since
//! objects of the parent still have them. Children made past the C library's `fork` keep all until they exec.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use ironverbs_os::descriptor::Descriptor;

/// Descriptors that are given up. Beyond, children keep them.
const PLACES: usize = 64;

struct Place {
    /// -1: free. -2: somebody is filling it in.
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

const FREE: i32 = -1;
const BUSY: i32 = -2;

static TABLE: [Place; PLACES] =
    [const { Place { fd: AtomicI32::new(FREE), device: AtomicU64::new(0), inode: AtomicU64::new(0) } };
        PLACES];
/// Whether the handler is there. Two threads that register it at once do no harm.
static HANDLED: AtomicI32 = AtomicI32::new(0);

/// Children have it no more.
pub(super) fn give_up_in_children(descriptor: &Descriptor) {
    if HANDLED.load(Ordering::Acquire) == 0 {
        // SAFETY: the handler makes system calls that may be made there; the library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        HANDLED.store(1, Ordering::Release);
    }
    let fd = descriptor.number();
    let Some((device, inode)) = file(fd) else { return };
    for place in &TABLE {
        if place.fd.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            place.device.store(device, Ordering::Relaxed);
            place.inode.store(inode, Ordering::Relaxed);
            place.fd.store(fd, Ordering::Release);
            return;
        }
    }
}

/// It is about to be closed.
pub(super) fn forget(descriptor: &Descriptor) {
    for place in &TABLE {
        let fd = descriptor.number();
        if place.fd.compare_exchange(fd, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

fn file(fd: libc::c_int) -> Option<(u64, u64)> {
    // SAFETY: stat is made of integers, for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one struct.
    (unsafe { libc::fstat(fd, &raw mut stat) } == 0).then_some((stat.st_dev, stat.st_ino))
}

extern "C" fn in_child() {
    // SAFETY: reads the thread's errno, which the program's fork leaves as it is.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: plain system calls that may be made in a forked child. Each number is replaced only while it
    // means the file that this library put there.
    unsafe {
        let nothing = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        for place in &TABLE {
            let fd = place.fd.swap(FREE, Ordering::Acquire);
            let known = (place.device.load(Ordering::Relaxed), place.inode.load(Ordering::Relaxed));
            if fd < 0 || file(fd) != Some(known) {
                continue;
            }
            if nothing < 0 || libc::dup3(nothing, fd, libc::O_CLOEXEC) < 0 {
                libc::close(fd);
            }
        }
        if nothing >= 0 {
            libc::close(nothing);
        }
        *libc::__errno_location() = errno;
    }
}
