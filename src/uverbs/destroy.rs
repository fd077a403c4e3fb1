//! Destroying objects: one shape for all kinds.
//!
//! Path: the ioctl method of the kind, else the legacy command. EIO means that the device has gone away with
//! everything on it; where the process allows that ([`super::allow_disassociate_destroy`]), it counts as
//! success.

use super::command::{Command, Path, execute_write, execute_write_ex};
use super::device_file::{DeviceFile, Method};
use super::{Udata, allow_disassociate_destroy};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::{
    ib_uverbs_dealloc_pd, ib_uverbs_destroy_cq, ib_uverbs_ex_destroy_rwq_ind_table,
};
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

/// Makes the disappearance of the device a success, where the process allows that.
pub(super) fn settle(done: Result<()>) -> Result<()> {
    match done {
        Err(Errno::EIO) if allow_disassociate_destroy() => Ok(()),
        done => done,
    }
}

/// Destroys an object that has no legacy command: the ioctl method, which takes its number alone.
pub(super) fn by_ioctl(
    file: &DeviceFile,
    object_id: u16,
    method_id: u16,
    handle_attr: u16,
    handle: u32,
) -> Result<()> {
    let mut cmd = Command::<1>::new(object_id, method_id);
    cmd.object(handle_attr, handle);
    settle(cmd.execute(file))
}

/// As [`plain`], for the kinds whose legacy command is an extended one.
pub(super) fn plain_ex(file: &DeviceFile, kind: &Kind, handle: u32) -> Result<()> {
    let mut cmd = Command::<1>::new(kind.object_id, kind.method_id);
    cmd.object(kind.handle_attr, handle);
    settle(match cmd.execute_or_legacy(file, kind.method) {
        Ok(Path::Ioctl) => Ok(()),
        // The request of all these commands is a mask, 0, and the number of the object.
        Ok(_) => execute_write_ex(
            file,
            kind.command,
            &ib_uverbs_ex_destroy_rwq_ind_table { comp_mask: 0, ind_tbl_handle: handle },
            &mut (),
            Udata::none(),
        ),
        Err(errno) => Err(errno),
    })
}

/// Destroys an object whose kind reports nothing.
pub(super) fn plain(file: &DeviceFile, kind: &Kind, handle: u32) -> Result<()> {
    let mut cmd = Command::<1>::new(kind.object_id, kind.method_id);
    cmd.object(kind.handle_attr, handle);
    settle(match cmd.execute_or_legacy(file, kind.method) {
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
    })
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
    reported(done.map(|()| report))
}

/// What the kernel reported, or that the device has gone away, where the process allows that.
pub(super) fn reported<R>(done: Result<R>) -> Result<Destroyed<R>> {
    match done {
        Ok(report) => Ok(Destroyed::Reported(report)),
        Err(Errno::EIO) if allow_disassociate_destroy() => Ok(Destroyed::Disassociated),
        Err(errno) => Err(errno),
    }
}
