//! Completion queues.

use core::ffi::c_int;

use super::{PluginContext, call, done, made, pointer};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::Context;
use crate::provider::mlx5::Mlx5;
use crate::provider::mlx5::cq::Cq;
use crate::provider::mlx5::creation::{self, MadeCq};
use crate::provider::object::Handle;
use crate::provider::verbs::Cqs;

impl PluginContext {
    /// The plugin has made a queue, in this memory of ours if any; `kind` says whether it is an extended one,
    /// and for one thread at a time. Where it cannot be taken over it is destroyed again.
    fn taken_cq(
        &self,
        mlx5: &Mlx5,
        cq: *mut ibv_cq_ex,
        memory: Option<MadeCq>,
        kind: (bool, bool),
    ) -> Result<()> {
        let Some(memory) = memory else { return Ok(()) };
        // SAFETY: the plugin has just made it; its table holds its own functions.
        unsafe { mlx5.take_cq(cq, kind.0, kind.1, memory, self.data_path()) }.inspect_err(|_| {
            call!(self.destroy_cq(cq.cast()));
        })
    }
}

impl Cqs for PluginContext {
    fn create_cq(
        &self,
        cqe: c_int,
        channel: Option<Handle<ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> Result<Handle<ibv_cq>> {
        let make = || made(call!(self.create_cq(self.context, cqe, pointer(channel), comp_vector)));
        let Some(mlx5) = self.mlx5() else { return make() };
        let (cq, memory) = creation::while_making_cq(make);
        let cq = cq?;
        self.taken_cq(mlx5, cq.as_ptr().cast(), memory, (false, false))?;
        Ok(cq)
    }

    fn create_cq_ex(&self, attr: &ibv_cq_init_attr_ex) -> Result<Handle<ibv_cq_ex>> {
        let make = || made(call!(self.create_cq_ex(self.context, core::ptr::from_ref(attr).cast_mut())));
        // libmlx5 alone knows the clock.
        let wallclock = attr.wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64 != 0;
        let Some(mlx5) = self.mlx5().filter(|_| !wallclock) else { return make() };
        let (cq, memory) = creation::while_making_cq(make);
        let cq = cq?;
        let single_threaded = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 != 0
            && attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED as u32 != 0;
        self.taken_cq(mlx5, cq.as_ptr(), memory, (true, single_threaded))?;
        Ok(cq)
    }

    fn resize_cq(&self, cq: Handle<ibv_cq>, cqe: c_int) -> Result<()> {
        let resize = || done(call!(self.resize_cq(cq.as_ptr(), cqe)));
        match self.mlx5() {
            Some(mlx5) => mlx5.resize_cq(cq, resize),
            None => resize(),
        }
    }

    fn modify_cq(&self, cq: Handle<ibv_cq>, attr: &mut ibv_modify_cq_attr) -> Result<()> {
        done(call!(self.modify_cq(cq.as_ptr(), attr)))
    }

    fn destroy_cq(&self, cq: Handle<ibv_cq>) -> Result<()> {
        done(call!(self.destroy_cq(cq.as_ptr())))
    }

    fn cq_event(&self, cq: Handle<ibv_cq>) {
        call!(self.cq_event(cq.as_ptr()));
        if self.mlx5().is_some()
            // SAFETY: the queue that the event names, which is live.
            && let Some(object) = unsafe { Cq::of(cq.as_ptr()) }
        {
            object.event();
        }
    }
}
