//! Protection domains, also those of somebody else.

use crate::abi::verbs::{ibv_context, ibv_pd};
use crate::errno::Result;
use crate::provider::domain;
use crate::provider::object::Handle;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::{self, Udata};

/// Allocates a protection domain.
pub fn alloc(file: &DeviceFile) -> Result<Handle<ibv_pd>> {
    uverbs::pd::alloc(file, Udata::none()).map(domain::publish)
}

/// The protection domain of this number that somebody else allocated through the same file; ENOENT or EINVAL if
/// there is none. [`dealloc`] frees it for everybody.
pub fn import(file: &DeviceFile, context: Handle<ibv_context>, handle: u32) -> Result<Handle<ibv_pd>> {
    uverbs::pd::check(file, handle)?;
    Ok(domain::publish_imported(context, handle))
}

/// Frees a protection domain, EBUSY while something uses it; or a parent domain, EBUSY while another one stands
/// for it.
pub fn dealloc(file: &DeviceFile, pd: Handle<ibv_pd>) -> Result<()> {
    domain::dealloc(pd, |handle| uverbs::pd::dealloc(file, handle))
}
