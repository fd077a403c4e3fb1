//! The program's memory, which may be anything: an address that is not there is EFAULT, and no fault.
//!
//! What librdmacm hands over stands in its frames on the calling thread's stack, which is there. All else the
//! kernel copies (`process_vm_readv`), to this very process. Where it is forbidden to ask for that, as by the
//! seccomp filter of old container runtimes, the bytes take a way through a file in memory.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// How far above the frames of this crate those of its callers are looked for, in bytes.
const FRAMES: usize = 16 << 10;
/// Stacks that are longer end somewhere else than it seems.
const STACK: usize = 16 << 20;

/// This process's number, 0 before it was asked for.
static OWN: AtomicI32 = AtomicI32::new(0);

fn own() -> libc::pid_t {
    match OWN.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: getpid reads a number of the process and cannot fail.
            let own = unsafe { libc::getpid() };
            OWN.store(own, Ordering::Relaxed);
            own
        }
        own => own,
    }
}

/// This is a child of `fork`: another process.
pub fn forked() {
    OWN.store(0, Ordering::Relaxed);
}

/// Whether these bytes are a part of the calling thread's stack, above the caller's frame.
#[inline(never)]
fn are_on_stack(at: u64, length: usize) -> bool {
    let mark = 0_u8;
    let here = (&raw const mark).addr();
    // At its end a stack has the thread's own data, by the C library, or bytes for the program, by the kernel.
    // SAFETY: both answer a number.
    let (own, given) = unsafe { (libc::pthread_self() as usize, libc::getauxval(libc::AT_RANDOM) as usize) };
    let end = [own, given].into_iter().filter(|end| *end > here && *end - here <= STACK).min();
    let at = usize::try_from(at).ok().filter(|at| *at > here);
    let to = at.and_then(|at| at.checked_add(length)).filter(|to| *to - here <= FRAMES);
    matches!((to, end), (Some(to), Some(end)) if to <= end)
}

/// Copies `to.len()` bytes from the address `from`.
///
/// # Errors
/// EFAULT where not all of them are there; another number where the kernel lets nothing be copied.
pub fn read(from: u64, to: &mut [u8]) -> Result<(), i32> {
    let length = to.len();
    if are_on_stack(from, length) {
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        // SAFETY: the stack is mapped from this frame to its end and can be read; `to` is memory of this length
        // that nobody else uses.
        unsafe { std::ptr::copy(from, to.as_mut_ptr(), length) };
        return Ok(());
    }
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: length };
    if length == 0 {
        return Ok(());
    }
    // SAFETY: the local vector is writable memory of this length that nobody else uses, and the kernel checks
    // the other one.
    let copied = unsafe { libc::process_vm_readv(own(), &raw const local, 1, &raw const remote, 1, 0) };
    match whole(copied, length) {
        Err(libc::EPERM | libc::ENOSYS) => by_file(|file| {
            // SAFETY: the kernel checks the address that it reads from.
            let written = unsafe { libc::pwrite(file, remote.iov_base, length, 0) };
            whole(written, length)?;
            // SAFETY: as above, of the local vector.
            whole(unsafe { libc::pread(file, local.iov_base, length, 0) }, length)
        }),
        other => other,
    }
}

/// Copies `from` to the address `to`.
///
/// # Errors
/// As [`read`]; some of the bytes may be there then.
///
/// # Safety
/// Nothing of what may be written at `to` is in use by this crate: it is what a program named for an answer.
pub unsafe fn write(to: u64, from: &[u8]) -> Result<(), i32> {
    let length = from.len();
    if are_on_stack(to, length) {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: the stack is mapped from this frame to its end and can be written; these bytes of it are the
        // program's by the contract.
        unsafe { std::ptr::copy(from.as_ptr(), to, length) };
        return Ok(());
    }
    let local = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: to as *mut libc::c_void, iov_len: length };
    if length == 0 {
        return Ok(());
    }
    // SAFETY: the local vector is only read; the other one is the program's by the contract, and the kernel
    // checks it.
    let copied = unsafe { libc::process_vm_writev(own(), &raw const local, 1, &raw const remote, 1, 0) };
    match whole(copied, length) {
        Err(libc::EPERM | libc::ENOSYS) => by_file(|file| {
            // SAFETY: the local vector is only read.
            whole(unsafe { libc::pwrite(file, local.iov_base, length, 0) }, length)?;
            // SAFETY: the memory is the program's by the contract, and the kernel checks it.
            whole(unsafe { libc::pread(file, remote.iov_base, length, 0) }, length)
        }),
        other => other,
    }
}

fn whole(copied: isize, length: usize) -> Result<(), i32> {
    if copied < 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EFAULT));
    }
    if copied.cast_unsigned() == length { Ok(()) } else { Err(libc::EFAULT) }
}

fn by_file(copy: impl FnOnce(RawFd) -> Result<(), i32>) -> Result<(), i32> {
    // SAFETY: the name is a C string constant.
    let file = unsafe { libc::memfd_create(c"ironverbs-ucma".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EFAULT));
    }
    let copied = copy(file);
    // SAFETY: the descriptor was just made and nobody else knows it.
    unsafe { libc::syscall(libc::SYS_close, file) };
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_bad_address() {
        let (from, mut to) = ([7u8; 16], [0u8; 16]);
        assert_eq!(read(from.as_ptr() as u64, &mut to), Ok(()));
        assert_eq!(to, from);
        for bad in [0, 8, u64::MAX - 4, 0xffff_8000_0000_0000] {
            assert_eq!(read(bad, &mut to), Err(libc::EFAULT), "{bad:#x}");
            // SAFETY: nothing is at these addresses.
            assert_eq!(unsafe { write(bad, &from) }, Err(libc::EFAULT), "{bad:#x}");
        }
        // SAFETY: `to` is named for the answer and not used meanwhile.
        assert_eq!(unsafe { write(to.as_mut_ptr() as u64, &[9; 16]) }, Ok(()));
        assert_eq!(to, [9; 16]);
        assert_eq!(read(1, &mut []), Ok(()));
    }

    #[test]
    fn frames_of_callers_are_on_the_stack() {
        let frame = [0_u8; 64];
        let (at, heap, far) = (frame.as_ptr() as u64, vec![0_u8; 64], FRAMES as u64);
        assert!(are_on_stack(at, 64) && are_on_stack(at + 63, 1));
        for bad in [0, at - far, at + far, heap.as_ptr() as u64, u64::MAX - 32, 0xffff_8000_0000_0000] {
            assert!(!are_on_stack(bad, 64), "{bad:#x}");
        }
        for length in [FRAMES, usize::MAX] {
            assert!(!are_on_stack(at, length), "{length}");
        }
        assert!(!are_on_stack(&raw const OWN as u64, 4));
    }

    #[test]
    fn nothing_is_on_the_stack_beyond_its_end() {
        // Near the end of its stack a thread has frames of this test's alone, and then its own data.
        let near = || {
            // SAFETY: answers a number.
            let end = unsafe { libc::pthread_self() } as u64;
            let mark = 0_u8;
            assert!(end - (&raw const mark as u64) < FRAMES as u64, "the frames take more than was thought");
            assert!(are_on_stack(end - 8, 8));
            assert!(!are_on_stack(end - 8, 9) && !are_on_stack(end, 1));
        };
        std::thread::spawn(near).join().unwrap();
    }

    #[test]
    fn a_file_carries_as_well() {
        let seen = by_file(|file| {
            // SAFETY: the kernel refuses the address.
            whole(unsafe { libc::pwrite(file, std::ptr::null(), 4, 0) }, 4)
        });
        assert_eq!(seen, Err(libc::EFAULT));
    }
}
