//! The program's memory, which may be anything: an address that is not there is EFAULT, and no fault.
//!
//! What librdmacm hands over stands in its frames on the calling thread's stack and is copied directly. All
//! else the kernel copies (`process_vm_readv`), to this very process. Where it is forbidden to ask for that, as
//! by the seccomp filter of old container runtimes, the bytes take a way through a file in memory.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::stack;

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

/// Copies `to.len()` bytes from the address `from`.
///
/// # Errors
/// EFAULT where not all of them are there; another number where the kernel lets nothing be copied.
pub fn read(from: u64, to: &mut [u8]) -> Result<(), i32> {
    let length = to.len();
    if stack::holds(from, length) {
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        // SAFETY: by `holds` these bytes can be read; `to` is memory of this length that nobody else uses.
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
    if stack::holds(to, length) {
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: by `holds` these bytes can be written; they are the program's by the contract.
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
    fn a_file_carries_as_well() {
        let seen = by_file(|file| {
            // SAFETY: the kernel refuses the address.
            whole(unsafe { libc::pwrite(file, std::ptr::null(), 4, 0) }, 4)
        });
        assert_eq!(seen, Err(libc::EFAULT));
    }
}
