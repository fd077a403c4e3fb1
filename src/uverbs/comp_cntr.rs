//! Counters of completions.

use super::command::{Command, Prepared};
use super::destroy;
use super::device_file::DeviceFile;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::errno::Result;

/// Which of a counter's two values is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Completions with success.
    Completions = 0,
    /// Completions with an error.
    Errors = 1,
}

/// What is done with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It becomes this.
    Set = 0,
    /// It grows by this.
    Add = 1,
}

/// What the counters of a device can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// How many there may be.
    pub max_counters: u32,
    /// Highest value.
    pub max_value: u64,
    /// What a counter can count of a queue pair (`IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_*`).
    pub qp_operations: u32,
}

/// What the counters of the device can do.
///
/// Path: ioctl QUERY_COMP_CNTR_CAPS only.
pub fn query_capabilities(file: &DeviceFile) -> Result<Capabilities> {
    let Capabilities { mut max_counters, mut max_value, mut qp_operations } = Capabilities::default();
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_COMP_CNTR_CAPS);
    cmd.value_out(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, &mut max_counters);
    cmd.value_out(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, &mut max_value);
    cmd.value_out(UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, &mut qp_operations);
    cmd.execute(file)?;
    Ok(Capabilities { max_counters, max_value, qp_operations })
}

/// Makes a counter and returns its number. `prepared` are the driver's attributes.
///
/// Path: ioctl COMP_CNTR_CREATE only.
pub fn create(file: &DeviceFile, prepared: Prepared<'_>) -> Result<u32> {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_CREATE);
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE);
    cmd.append(prepared);
    cmd.execute(file)?;
    Ok(cmd.created(handle))
}

/// Destroys a counter; EBUSY while it is attached.
///
/// Path: ioctl COMP_CNTR_DESTROY only.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    let (object, method) = (UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY);
    destroy::by_ioctl(file, object, method, UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE, handle)
}

/// Changes one of a counter's values.
///
/// Path: ioctl COMP_CNTR_MODIFY only.
pub fn modify(file: &DeviceFile, handle: u32, entry: Entry, change: Change, value: u64) -> Result<()> {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_MODIFY);
    cmd.object(UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE, handle);
    cmd.number(UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY, entry as u64);
    cmd.number(UVERBS_ATTR_MODIFY_COMP_CNTR_OP, change as u64);
    cmd.number(UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, value);
    cmd.execute(file)
}

/// One of a counter's values.
///
/// Path: ioctl COMP_CNTR_READ only.
pub fn read(file: &DeviceFile, handle: u32, entry: Entry) -> Result<u64> {
    let mut value = 0_u64;
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_READ);
    cmd.object(UVERBS_ATTR_READ_COMP_CNTR_HANDLE, handle);
    cmd.number(UVERBS_ATTR_READ_COMP_CNTR_ENTRY, entry as u64);
    cmd.value_out(UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, &mut value);
    cmd.execute(file)?;
    Ok(value)
}

/// Has a counter count operations of a queue pair (`IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_*`).
///
/// Path: ioctl QP_ATTACH_COMP_CNTR only.
pub fn attach(file: &DeviceFile, qp: u32, handle: u32, operations: u32) -> Result<()> {
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_ATTACH_COMP_CNTR);
    cmd.object(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE, qp);
    cmd.object(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE, handle);
    cmd.number32(UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, operations);
    cmd.execute(file)
}
