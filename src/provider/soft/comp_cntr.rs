//! Completion counters.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use ironverbs_os::growth::small_box;
use softrdma::device::{CompletionCounter, Counted, Operations};

use super::SoftContext;
use super::convert::refused;
use super::qp::Qp;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::CompCntrs;

/// A completion counter.
#[repr(C)]
struct Counter {
    public: UnsafeCell<ibv_comp_cntr>,
    /// The engine's.
    inner: Arc<CompletionCounter>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Counter {
    type Public = ibv_comp_cntr;
}

impl Counter {
    /// The engine's counter behind a handle of this provider.
    fn of<'a>(counter: Handle<ibv_comp_cntr>) -> &'a Arc<CompletionCounter> {
        // SAFETY: a live counter of this provider was published as a Counter.
        unsafe { &counter.object::<Self>().inner }
    }
}

impl CompCntrs for SoftContext {
    /// Counters of 64 bits for what the process does itself and receives; EINVAL for less room than the
    /// structure has.
    fn query_comp_cntr_caps(&self, caps: &mut [u8]) -> Result<()> {
        let known = ibv_comp_cntr_caps {
            max_value: u64::MAX,
            max_counters: self.engine.limits().max_comp_cntr,
            supported_qp_attach_ops: Operations::ALL.0,
        };
        let room = caps.get_mut(..size_of_val(&known)).ok_or(Errno::EINVAL)?;
        // SAFETY: as many bytes as the structure has, which is without padding; both do not overlap.
        unsafe { room.as_mut_ptr().cast::<ibv_comp_cntr_caps>().write_unaligned(known) };
        Ok(())
    }

    /// A counter of requests or of bytes; EOPNOTSUPP for any other, and for flags.
    fn create_comp_cntr(&self, attr: &mut ibv_comp_cntr_init_attr) -> Result<Handle<ibv_comp_cntr>> {
        const REQUESTS: u32 = IBV_COMP_CNTR_TYPE_WRS as u32;
        const BYTES: u32 = IBV_COMP_CNTR_TYPE_BYTES as u32;
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let counted = match attr.type_ {
            REQUESTS => Counted::Requests,
            BYTES => Counted::Bytes,
            _ => return Err(Errno::EOPNOTSUPP.also_set()),
        };
        if attr.comp_mask != 0 || attr.flags != 0 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        let inner = CompletionCounter::new(&self.engine, counted).map_err(refused)?;
        // The context is the caller's to fill in.
        let public =
            ibv_comp_cntr { context: core::ptr::null_mut(), handle: NEXT.fetch_add(1, Ordering::Relaxed) };
        Ok(Handle::publish(small_box(Counter { public: UnsafeCell::new(public), inner })))
    }

    /// Frees a counter; EBUSY while a queue pair has it.
    fn destroy_comp_cntr(&self, counter: Handle<ibv_comp_cntr>) -> Result<()> {
        Counter::of(counter).destroy().map_err(refused)?;
        // SAFETY: the program gives up the handle, which was published as a Counter.
        drop(unsafe { counter.reclaim::<Counter>() });
        Ok(())
    }

    fn set_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Counter::of(counter).set_done(value);
        Ok(())
    }

    fn set_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: u64) -> Result<()> {
        Counter::of(counter).set_failed(value);
        Ok(())
    }

    fn inc_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Counter::of(counter).add_done(amount);
        Ok(())
    }

    fn inc_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, amount: u64) -> Result<()> {
        Counter::of(counter).add_failed(amount);
        Ok(())
    }

    fn read_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        *value = Counter::of(counter).done();
        Ok(())
    }

    fn read_err_comp_cntr(&self, counter: Handle<ibv_comp_cntr>, value: &mut u64) -> Result<()> {
        *value = Counter::of(counter).failed();
        Ok(())
    }

    /// Has a counter count operations of a queue pair. EINVAL for none, for a mask of extensions, a queue pair
    /// that is opened or of another context, and one that is neither in RESET nor in INIT; EOPNOTSUPP for what
    /// is not counted, such as the operations of peers; EBUSY for what another counter counts there.
    fn qp_attach_comp_cntr(
        &self,
        qp: Handle<ibv_qp>,
        counter: Handle<ibv_comp_cntr>,
        attr: &mut ibv_qp_attach_comp_cntr_attr,
    ) -> Result<()> {
        // SAFETY: live handles; a queue pair of this provider was published as a Qp.
        let (object, apart) =
            unsafe { (qp.object::<Qp>(), (*qp.as_ptr()).context != (*counter.as_ptr()).context) };
        if attr.comp_mask != 0 || apart || object.is_opened() {
            return Err(Errno::EINVAL.also_set());
        }
        object.queue.attach_counter(Counter::of(counter), Operations(attr.op_mask)).map_err(refused)
    }
}
