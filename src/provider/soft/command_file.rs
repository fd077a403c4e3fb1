//! The descriptor of a context (`ibv_context.cmd_fd`). Nothing is behind it; it is there so that programs can treat it as that
//! of any other device: set its flags, copy it, and import the context by the copy, within one process.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::errno::{Errno, Result};

const NAME: &CStr = c"ironverbs-context";
/// How the kernel shows such a file.
const SHOWN: &str = "/memfd:ironverbs-context (deleted)";
/// Longest content: a process number and the name of a device file (bytes).
const CONTENT_MAX: u64 = 128;

/// A new descriptor for a context of the device whose file is called `device`.
pub fn create(device: &str) -> Result<OwnedFd> {
    // SAFETY: a C string that lives across the call.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: opened just above.
    let mut file = unsafe { File::from_raw_fd(fd) };
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
    let mut content = String::new();
    (&*file).rewind().ok()?;
    (&*file).take(CONTENT_MAX).read_to_string(&mut content).ok()?;
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
        drop(file);
        assert_eq!(device_of(copy.as_raw_fd()).as_deref(), Some("uverbs-soft0"));
        let other = File::open("/dev/null").unwrap();
        assert_eq!(device_of(other.as_raw_fd()), None);
        assert_eq!(device_of(-1), None);
    }
}
