//! Descriptors for a moment, where the program has used up all that it may have: binding needs none with the
//! kernel's device.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

/// How many descriptors are made free: a folder, one to read it by, a file in it, and one to spare.
const ROOM: usize = 4;
/// Where no descriptor is needed.
const NONE: RawFd = -1;

/// What a file of the kernel's settings says, also where the program has no descriptor left.
///
/// # Errors
/// Those of reading it; EMFILE as for [`with_room`].
pub fn setting(path: &str) -> Result<String, i32> {
    with_room(NONE, || {
        std::fs::read_to_string(path).map_err(|why| why.raw_os_error().unwrap_or(libc::EINVAL))
    })
}

/// Does something that needs a few descriptors for a moment and leaves none open, also where the program has
/// none left: then in a thread with a table of descriptors of its own, where some are closed but `needed`.
///
/// # Errors
/// Those of `body`; EMFILE where there can be no such thread.
pub fn with_room<R: Send, E: Send + PartialEq + From<i32>>(
    needed: RawFd,
    body: impl Fn() -> Result<R, E> + Sync,
) -> Result<R, E> {
    let none = libc::EMFILE;
    match body() {
        Err(why) if why == none.into() => {}
        done => return done,
    }
    // The thread inherits the mask: no signal handler of the program runs with other descriptors than its own.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before)).map_err(|_| none)?;
    let done = thread::scope(|scope| {
        let alone = || {
            unshare(CloneFlags::CLONE_FILES).map_err(|_| none)?;
            close_some(needed);
            body()
        };
        thread::Builder::new().spawn_scoped(scope, alone).map_err(|_| none)?.join().map_err(|_| none)?
    });
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    done
}

/// Closes the lowest descriptors of this thread's own table: a low number is one that the program's limit,
/// which it may have lowered, lets be used. Numbers of channels stay theirs: the shim would take the end of
/// what has such a number here for the channel's.
fn close_some(needed: RawFd) {
    let closed = |fd: &RawFd| {
        // SAFETY: the table is this thread's alone, and nothing that it runs uses a descriptor but `needed` and
        // those it makes itself.
        *fd != needed && has_type(*fd) && unsafe { libc::syscall(libc::SYS_close, *fd) } == 0
    };
    (0..1024).filter(closed).take(ROOM).for_each(drop);
}

/// Whether a descriptor is open and of a file that has a type, which those of channels, as all of epoll, have
/// not. By a system call, as the shim says something else of channels.
fn has_type(fd: RawFd) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes a `stat` where there is room for one.
    let asked = unsafe { libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) };
    // SAFETY: zeros are a `stat`, and so is what the kernel wrote.
    asked == 0 && unsafe { stat.assume_init() }.st_mode & libc::S_IFMT != 0
}
