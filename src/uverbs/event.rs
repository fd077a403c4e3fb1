//! Event files: asynchronous events of a context, and completion events of a channel.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::command::Command;
use super::device_file::{DeviceFile, owned};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::{ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};
use crate::errno::{Errno, Result};

/// Opens the file of asynchronous events, and has everything made through `file` from now on report there. To be called
/// once, after GET_CONTEXT.
///
/// Path: the file that a legacy GET_CONTEXT opened, else ioctl ASYNC_EVENT_ALLOC.
pub fn open_async(file: &DeviceFile) -> Result<OwnedFd> {
    if let Some(fd) = file.claim_async_fd() {
        return Ok(fd);
    }
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    let slot = cmd.file_out(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    cmd.execute(file)?;
    let fd = owned(cmd.opened(slot))?;
    file.set_async_fd(fd.as_raw_fd());
    Ok(fd)
}

/// Takes the next asynchronous event; waits for one unless the file is non-blocking (EAGAIN).
pub fn read_async(async_fd: RawFd) -> Result<ib_uverbs_async_event_desc> {
    read_one(async_fd)
}

/// Takes the next completion event and returns the user handle of its queue; waits for one unless the channel is
/// non-blocking (EAGAIN).
pub fn read_completion(channel_fd: RawFd) -> Result<u64> {
    read_one::<ib_uverbs_comp_event_desc>(channel_fd).map(|event| event.cq_handle)
}

/// One record of an event file. A short read is an error that leaves `errno` alone.
fn read_one<T: Pod>(fd: RawFd) -> Result<T> {
    let mut record = T::zeroed();
    let bytes = record.as_bytes_mut();
    // SAFETY: `bytes` is exclusively held memory of the stated length.
    let got = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    if got != bytes.len() as isize {
        return Err(Errno::last());
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn events_are_records_of_the_file() {
        let (mut kernel, program) = UnixStream::pair().expect("socket pair");
        let sent = ib_uverbs_async_event_desc { element: 0x1122_3344_5566_7788, event_type: 3, reserved: 0 };
        kernel.write_all(sent.as_bytes()).expect("write to the pair");
        let event = read_async(program.as_raw_fd()).expect("a whole record");
        assert_eq!((event.element, event.event_type), (0x1122_3344_5566_7788, 3));

        kernel.write_all(&7_u64.to_ne_bytes()).expect("write to the pair");
        assert_eq!(read_completion(program.as_raw_fd()), Ok(7));
    }

    #[test]
    fn no_event_in_a_non_blocking_file_is_eagain() {
        let (_kernel, program) = UnixStream::pair().expect("socket pair");
        program.set_nonblocking(true).expect("fcntl");
        assert_eq!(read_completion(program.as_raw_fd()), Err(Errno::EAGAIN));
    }

    #[test]
    fn part_of_a_record_is_an_error() {
        let (mut kernel, program) = UnixStream::pair().expect("socket pair");
        kernel.write_all(&[1, 2, 3]).expect("write to the pair");
        assert!(read_async(program.as_raw_fd()).is_err());
    }
}
