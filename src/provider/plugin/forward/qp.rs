//! Queue pairs.

use core::ffi::{c_int, c_uint};

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::mlx5::Mlx5;
use crate::provider::mlx5::creation::{self, MadeQp};
use crate::provider::mlx5::qp::Qp;
use crate::provider::mlx5::taking::Wanted;
use crate::provider::object::Handle;
use crate::provider::verbs::Qps;

impl PluginContext {
    /// The plugin has made a queue pair: takes it over as far as it can be, or destroys it again.
    fn taken_qp(
        &self,
        mlx5: &Mlx5,
        qp: Handle<ibv_qp>,
        wanted: &Wanted,
        given: &ibv_qp_cap,
        created: Option<MadeQp>,
    ) -> Result<Handle<ibv_qp>> {
        // SAFETY: the plugin has just made it.
        let taken = unsafe { mlx5.take_qp(qp.as_ptr(), wanted, given, created) };
        taken.map(|()| qp).inspect_err(|_| {
            call!(self.destroy_qp(qp.as_ptr()));
        })
    }
}

impl Qps for PluginContext {
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        let Some(mlx5) = self.mlx5() else { return made(call!(self.create_qp(pd.as_ptr(), attr))) };
        let wanted = Wanted::plain(attr);
        let (qp, created) = creation::while_making_qp(|| made(call!(self.create_qp(pd.as_ptr(), attr))));
        self.taken_qp(mlx5, qp?, &wanted, &attr.cap, created)
    }

    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        let Some(mlx5) = self.mlx5() else { return made(call!(self.create_qp_ex(self.context, attr))) };
        let wanted = Wanted::extended(attr);
        let (qp, created) = creation::while_making_qp(|| made(call!(self.create_qp_ex(self.context, attr))));
        self.taken_qp(mlx5, qp?, &wanted, &attr.cap, created)
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
        let state = attr.qp_state;
        done(call!(self.modify_qp(qp.as_ptr(), attr, attr_mask)))?;
        if self.mlx5().is_some()
            && attr_mask & IBV_QP_STATE as c_int != 0
            // SAFETY: the program's live queue pair.
            && let Some(object) = unsafe { Qp::of(qp.as_ptr()) }
        {
            // SAFETY: it is kept beside this queue pair.
            unsafe { object.moved(qp.as_ptr(), state) };
        }
        Ok(())
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
