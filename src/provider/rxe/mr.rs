//! Memory regions.

use core::ffi::c_int;

use super::explain;
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::ibv_pd;
use crate::errno::Result;
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::uverbs::Udata;
use crate::uverbs::device_file::DeviceFile;

/// Registers `length` bytes at `addr`, known to peers by addresses from `iova`.
pub fn register(
    file: &DeviceFile,
    pd: Handle<ibv_pd>,
    addr: usize,
    length: usize,
    iova: u64,
    access: c_int,
) -> Result<Handle<verbs_mr>> {
    kernel::mr::register(file, pd, addr, length, iova, access, Udata::none())
        .inspect_err(|errno| explain::reg_mr(file, *errno, addr, length, access))
}
