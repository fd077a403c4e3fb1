//! The descriptor of a context (`ibv_context.cmd_fd`). Nothing is behind it; it is there so that programs can
//! treat it as that of any other device: set its flags, copy it, and import the context by the copy, within one
//! process.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::errno::{Errno, Result};

const NAME: &CStr = c"ironverbs-context";
/// How the kernel shows such a file.
const SHOWN: &str = "/memfd:ironverbs-context (deleted)";
/// Longest content: a process number and the name of a device file (bytes).
const CONTENT_MAX: usize = 128;

/// A new descriptor for a context of the device whose file is called `device`.
pub fn create(device: &str) -> Result<OwnedFd> {
    let make = |flags| memfd_create(NAME, MFdFlags::MFD_CLOEXEC | flags).map_err(|_| Errno::last());
    // Where vm.memfd_noexec is 2, only files that cannot become programs are made. Kernels before 6.3 do not
    // know the flag.
    let fd = match make(MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL)) {
        Err(Errno::EINVAL) => make(MFdFlags::empty())?,
        made => made?,
    };
    let mut file = File::from(fd);
    write!(file, "{} {device}", std::process::id()).map_err(|_| Errno::last())?;
    Ok(file.into())
}

/// The name of the device whose context of this process the descriptor belongs to.
pub fn device_of(fd: RawFd) -> Option<String> {
    let shown = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    if shown.to_str() != Some(SHOWN) {
        return None;
    }
    // SAFETY: the descriptor is open, as just seen; it stays the program's.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    // At its place: all copies of the descriptor have one position, and other threads may be reading.
    let mut content = [0; CONTENT_MAX];
    let length = file.read_at(&mut content, 0).ok()?;
    let content = std::str::from_utf8(&content[..length]).ok()?;
    let (process, device) = content.split_once(' ')?;
    (process == std::process::id().to_string()).then(|| device.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_of_the_descriptor_names_its_device() {
        let file = create("uverbs-soft0").unwrap();
        let copy = file.try_clone().unwrap();
        assert_eq!(device_of(file.as_raw_fd()).as_deref(), Some("uverbs-soft0"));
        // SAFETY: tells the position of an open file.
        let position = |fd: RawFd| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
        let end = position(file.as_raw_fd());
        drop(file);
        assert_eq!(device_of(copy.as_raw_fd()).as_deref(), Some("uverbs-soft0"));
        assert_eq!(position(copy.as_raw_fd()), end, "moved under others who read it");
        let other = File::open("/dev/null").unwrap();
        assert_eq!(device_of(other.as_raw_fd()), None);
        assert_eq!(device_of(-1), None);
    }
}
