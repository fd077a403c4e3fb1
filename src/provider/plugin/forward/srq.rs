//! Shared receive queues.

use core::ffi::c_int;

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::mlx5::Mlx5;
use crate::provider::mlx5::creation::{self, MadeSrq};
use crate::provider::object::Handle;
use crate::provider::verbs::Srqs;

impl PluginContext {
    /// The plugin has made a queue: takes it over where it can be, or destroys it again.
    fn taken_srq(
        &self,
        mlx5: &Mlx5,
        srq: Handle<ibv_srq>,
        xrc_cq: Option<*mut ibv_cq>,
        created: Option<MadeSrq>,
    ) -> Result<Handle<ibv_srq>> {
        let Some(created) = created else { return Ok(srq) };
        // SAFETY: the plugin has just made it.
        let taken = unsafe { mlx5.take_srq(srq.as_ptr(), xrc_cq, created) };
        taken.map(|()| srq).inspect_err(|_| {
            call!(self.destroy_srq(srq.as_ptr()));
        })
    }
}

impl Srqs for PluginContext {
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        let Some(mlx5) = self.mlx5() else { return made(call!(self.create_srq(pd.as_ptr(), attr))) };
        let (srq, created) = creation::while_making_srq(|| made(call!(self.create_srq(pd.as_ptr(), attr))));
        self.taken_srq(mlx5, srq?, None, created)
    }

    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        let has = |bit: ibv_srq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) { attr.srq_type } else { IBV_SRQT_BASIC as ibv_srq_type_t };
        let xrc_cq = (kind == IBV_SRQT_XRC as ibv_srq_type_t).then_some(attr.cq);
        let make = |attr| made(call!(self.create_srq_ex(self.context, attr)));
        match self.mlx5().filter(|_| xrc_cq.is_some() || kind == IBV_SRQT_BASIC as ibv_srq_type_t) {
            None => make(attr),
            Some(mlx5) => {
                let (srq, created) = creation::while_making_srq(|| make(attr));
                self.taken_srq(mlx5, srq?, xrc_cq, created)
            }
        }
    }

    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        done(call!(self.modify_srq(srq.as_ptr(), attr, attr_mask)))
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        done(call!(self.query_srq(srq.as_ptr(), attr)))
    }

    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        let mut number = 0;
        done(call!(self.get_srq_num(srq.as_ptr(), &mut number)))?;
        Ok(number)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        done(call!(self.destroy_srq(srq.as_ptr())))
    }
}
