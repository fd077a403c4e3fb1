//! Completion channels: a file that becomes readable when a completion queue has something to tell.

use std::os::fd::{OwnedFd, RawFd};

use super::Udata;
use super::command::execute_write;
use super::device_file::{DeviceFile, owned};
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::Result;

/// Opens a completion channel.
///
/// Path: legacy command.
pub fn create(file: &DeviceFile) -> Result<OwnedFd> {
    let mut answer = ib_uverbs_create_comp_channel_resp::default();
    execute_write(
        file,
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        &ib_uverbs_create_comp_channel::default(),
        &mut answer,
        Udata::none(),
    )?;
    owned(answer.fd as RawFd)
}
