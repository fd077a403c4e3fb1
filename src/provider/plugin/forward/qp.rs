//! Queue pairs.

use core::ffi::{c_int, c_uint};

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Qps;

impl Qps for PluginContext {
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        made(call!(self.create_qp(pd.as_ptr(), attr)))
    }

    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        made(call!(self.create_qp_ex(self.context, attr)))
    }

    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        made(call!(self.open_qp(self.context, attr)))
    }

    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        // SAFETY: the program's live queue pair, which the plugin made.
        if !unsafe { self.qp_mask.is_set(qp.as_ptr()) } {
            return None;
        }
        // SAFETY: the plugin says by the mark that the queue pair is the start of an ibv_qp_ex.
        unsafe { Handle::optional(qp.as_ptr().cast()) }
    }

    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        done(call!(self.modify_qp(qp.as_ptr(), attr, attr_mask)))
    }

    fn modify_qp_rate_limit(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_rate_limit_attr) -> Result<()> {
        done(call!(self.modify_qp_rate_limit(qp.as_ptr(), attr)))
    }

    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        done(call!(self.query_qp(qp.as_ptr(), attr, attr_mask, init_attr)))
    }

    fn query_qp_data_in_order(&self, qp: Handle<ibv_qp>, op: c_uint, flags: u32) -> c_int {
        call!(self.query_qp_data_in_order(qp.as_ptr(), op, flags))
    }

    fn query_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        done(call!(self.query_ece(qp.as_ptr(), ece)))
    }

    fn set_ece(&self, qp: Handle<ibv_qp>, ece: &mut ibv_ece) -> Result<()> {
        done(call!(self.set_ece(qp.as_ptr(), ece)))
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        done(call!(self.destroy_qp(qp.as_ptr())))
    }
}
