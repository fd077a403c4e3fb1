//! Memory regions.

use core::ffi::c_int;

use super::SiwContext;
use crate::abi::driver::verbs_mr;
use crate::abi::uapi::Pod;
use crate::abi::uapi::siw_user::{siw_ureq_reg_mr, siw_uresp_reg_mr};
use crate::abi::verbs::ibv_pd;
use crate::errno::Result;
use crate::provider::kernel;
use crate::provider::object::Handle;
use crate::provider::verbs::Mrs;
use crate::uverbs::Udata;

impl Mrs for SiwContext {
    fn reg_mr(
        &self,
        pd: Handle<ibv_pd>,
        addr: usize,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> Result<Handle<verbs_mr>> {
        // A key of zero; the driver's answer is the region's key, which the core's answer has as well.
        let asked = siw_ureq_reg_mr::default();
        let mut answer = siw_uresp_reg_mr::default();
        let udata = Udata { input: asked.as_bytes(), output: answer.as_bytes_mut() };
        kernel::mr::register(&self.file, pd, addr, length, iova, access, udata)
    }
}
