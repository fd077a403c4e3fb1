//! Destroying objects: one shape for all kinds.
//!
//! Path: the ioctl method of the kind, else the legacy command. EIO means that the device has gone away with everything
//! on it; where the process allows that ([`super::allow_disassociate_destroy`]), it counts as success.

use super::command::{Command, Path, execute_write};
use super::device_file::{DeviceFile, Method};
use super::{Udata, allow_disassociate_destroy};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::{ib_uverbs_dealloc_pd, ib_uverbs_destroy_cq};
use crate::errno::{Errno, Result};

/// How one kind of object is destroyed.
pub(super) struct Kind {
    pub method: Method,
    pub object_id: u16,
    pub method_id: u16,
    pub handle_attr: u16,
    pub command: u32,
}

/// What became of an object that is to be destroyed.
#[derive(Clone, Copy, Debug)]
pub enum Destroyed<R> {
    /// The kernel destroyed it, and says how many events it had reported for it.
    Reported(R),
    /// It went away with its device; there is nothing to wait for.
    Disassociated,
}

/// Destroys an object whose kind reports nothing.
pub(super) fn plain(file: &DeviceFile, kind: &Kind, handle: u32) -> Result<()> {
    let mut cmd = Command::<1>::new(kind.object_id, kind.method_id);
    cmd.object(kind.handle_attr, handle);
    let done = match cmd.execute_or_legacy(file, kind.method) {
        Ok(Path::Ioctl) => Ok(()),
        // The request of all these commands is the number of the object.
        Ok(_) => execute_write(
            file,
            kind.command,
            &ib_uverbs_dealloc_pd { pd_handle: handle },
            &mut (),
            Udata::none(),
        ),
        Err(errno) => Err(errno),
    };
    match done {
        Err(Errno::EIO) if allow_disassociate_destroy() => Ok(()),
        done => done,
    }
}

/// Destroys an object whose kind reports how many events were delivered.
pub(super) fn reporting<R: Pod>(
    file: &DeviceFile,
    kind: &Kind,
    resp_attr: u16,
    handle: u32,
) -> Result<Destroyed<R>> {
    let mut report = R::zeroed();
    let mut cmd = Command::<2>::new(kind.object_id, kind.method_id);
    cmd.value_out(resp_attr, &mut report);
    cmd.object(kind.handle_attr, handle);
    let done = match cmd.execute_or_legacy(file, kind.method) {
        Ok(Path::Ioctl) => Ok(()),
        // The request of all these commands has the layout of DESTROY_CQ.
        Ok(_) => execute_write(
            file,
            kind.command,
            &ib_uverbs_destroy_cq { cq_handle: handle, ..Pod::zeroed() },
            &mut report,
            Udata::none(),
        ),
        Err(errno) => Err(errno),
    };
    match done {
        Ok(()) => Ok(Destroyed::Reported(report)),
        Err(Errno::EIO) if allow_disassociate_destroy() => Ok(Destroyed::Disassociated),
        Err(errno) => Err(errno),
    }
}
