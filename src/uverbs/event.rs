//! Event files: asynchronous events of a context, and completion events of a channel.

use std::os::fd::{AsRawFd, OwnedFd};

use super::command::Command;
use super::device_file::{DeviceFile, owned};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::{ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};
use crate::errno::{Errno, Result};

/// Opens the file of asynchronous events, and has everything made through `file` from now on report there. To
/// be called once, after GET_CONTEXT.
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

/// Bytes of a record of the file of asynchronous events. A read gives one record, or waits for one unless the
/// file is non-blocking (EAGAIN).
pub const ASYNC_RECORD: usize = size_of::<ib_uverbs_async_event_desc>();
/// The same of a completion channel.
pub const COMPLETION_RECORD: usize = size_of::<ib_uverbs_comp_event_desc>();

/// The asynchronous event that a record tells of; EINVAL for what is no whole record.
pub fn async_event(record: &[u8]) -> Result<ib_uverbs_async_event_desc> {
    whole(record)
}

/// The user handle of the queue that a record of a completion channel tells of; EINVAL for what is no whole
/// record.
pub fn completion(record: &[u8]) -> Result<u64> {
    whole::<ib_uverbs_comp_event_desc>(record).map(|event| event.cq_handle)
}

fn whole<T: Pod>(bytes: &[u8]) -> Result<T> {
    let mut record = T::zeroed();
    let place = record.as_bytes_mut();
    if bytes.len() != place.len() {
        return Err(Errno::EINVAL.also_set());
    }
    place.copy_from_slice(bytes);
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_records_of_the_file() {
        let sent = ib_uverbs_async_event_desc { element: 0x1122_3344_5566_7788, event_type: 3, reserved: 0 };
        let event = async_event(sent.as_bytes()).expect("a whole record");
        assert_eq!((event.element, event.event_type), (0x1122_3344_5566_7788, 3));
        assert_eq!(completion(&7_u64.to_ne_bytes()), Ok(7));
    }

    #[test]
    fn part_of_a_record_is_an_error() {
        assert!(async_event(&[1, 2, 3]).is_err());
        assert!(completion(&[0; 9]).is_err());
    }
}
