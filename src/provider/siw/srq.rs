//! Shared receive queues.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use queue_lock::QueueLock;

use super::SiwContext;
use super::recv::ReceiveQueue;
use super::slots::Slots;
use crate::abi::uapi::Pod;
use crate::abi::uapi::siw_user::siw_uresp_create_srq;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Srqs;
use crate::provider::{event_name, kernel};
use crate::uverbs::srq::CreateSrq;
use crate::uverbs::{self, Udata};

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    public: UnsafeCell<ibv_srq>,
    queue: QueueLock<ReceiveQueue>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Srq {
    type Public = ibv_srq;
}

/// Posts receive requests; 0 or a negative errno value. Requests before the one that failed are posted.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(object) = (unsafe { Srq::from_c(srq) }) else { return -Errno::EINVAL.0 };
    // SAFETY: the program passes a valid list and a place for the answer, or null.
    unsafe { object.queue.lock().post(list, bad_wr) }
}

impl Srqs for SiwContext {
    /// Creates a queue; `attr` gets the sizes given.
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        let attr = &mut attr.attr;
        // SAFETY: a live handle.
        let pd = unsafe { (*pd.as_ptr()).handle };
        event_name::create(
            |user_handle| {
                let (max_wr, max_sge) = (attr.max_wr, attr.max_sge);
                let request = CreateSrq { user_handle, pd, max_wr, max_sge, srq_limit: attr.srq_limit };
                let mut answer = siw_uresp_create_srq::default();
                let created = uverbs::srq::create(&self.file, &request, Udata::answer(answer.as_bytes_mut()))
                    .inspect_err(|errno| {
                        trace!(
                            Error,
                            "siw: create_srq: {errno:?}; asked {max_wr} requests of {max_sge} entries"
                        );
                    })?;
                attr.max_wr = created.max_wr;
                attr.max_sge = created.max_sge;
                Ok((created, answer))
            },
            |(created, answer)| {
                let queue = ReceiveQueue::new(Slots::map(&self.file, answer.srq_key, answer.num_rqe, 0)?);
                // SAFETY: plain C data of integers, pointers and pthread objects that start as zeros; all zeros
                // is its empty value.
                let mut public: ibv_srq = unsafe { core::mem::zeroed() };
                public.handle = created.handle;
                Ok(Srq { public: UnsafeCell::new(public), queue: QueueLock::new(queue) })
            },
            |(created, _)| {
                let _ = uverbs::srq::destroy(&self.file, created.handle);
            },
        )
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        unsafe { kernel::srq::destroy::<Srq>(&self.file, srq) }
    }
}
