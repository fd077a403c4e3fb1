//! Completion counters.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::CompCntrs;

impl CompCntrs for PluginContext {
    fn query_comp_cntr_caps(&self, caps: &mut [u8]) -> Result<()> {
        done(call!(self.query_comp_cntr_caps(self.context, caps.as_mut_ptr().cast(), caps.len())))
    }

    fn create_comp_cntr(&self, attr: &mut ibv_comp_cntr_init_attr) -> Result<Handle<ibv_comp_cntr>> {
        made(call!(self.create_comp_cntr(self.context, attr)))
    }

    fn destroy_comp_cntr(&self, counter: Handle<ibv_comp_cntr>) -> Result<()> {
        done(call!(self.destroy_comp_cntr(counter.as_ptr())))
    }

    fn set_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        done(call!(self.set_comp_cntr(counter.as_ptr(), value)))
    }

    fn set_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        done(call!(self.set_err_comp_cntr(counter.as_ptr(), value)))
    }

    fn inc_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        done(call!(self.inc_comp_cntr(counter.as_ptr(), amount)))
    }

    fn inc_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        done(call!(self.inc_err_comp_cntr(counter.as_ptr(), amount)))
    }

    fn read_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        done(call!(self.read_comp_cntr(counter.as_ptr(), value)))
    }

    fn read_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        done(call!(self.read_err_comp_cntr(counter.as_ptr(), value)))
    }

    fn qp_attach_comp_cntr(
        &self,
        qp: Handle<ibv_qp>,
        counter: Handle<ibv_comp_cntr>,
        attr: &mut ibv_qp_attach_comp_cntr_attr,
    ) -> Result<()> {
        done(call!(self.qp_attach_comp_cntr(qp.as_ptr(), counter.as_ptr(), attr)))
    }
}
