//! Memory regions.

use core::ffi::c_int;

use super::{RxeContext, explain};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::ibv_pd;
use crate::errno::Result;
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::provider::verbs::Mrs;
use crate::uverbs::Udata;

impl Mrs for RxeContext {
    /// Registers `length` bytes at `addr`, known to peers by addresses from `iova`.
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        kernel::mr::register(&self.file, pd, addr, length, iova, access, Udata::none())
            .inspect_err(|errno| explain::reg_mr(&self.file, *errno, addr, length, access))
    }
}
