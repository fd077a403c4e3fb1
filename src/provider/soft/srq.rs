//! Shared receive queues.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::sync::Arc;

use softrdma::device::{Device, EventQueue, LIMITS, SharedReceiveQueue, SrqInit, SrqType};

use super::SoftContext;
use super::channel::Reported;
use super::convert::{refused, rejected, sges};
use super::cq::Cq;
use super::xrcd::Xrcd;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Srqs;
use crate::provider::{event_name, public_fields, wait};

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    public: UnsafeCell<ibv_srq>,
    /// The engine's.
    pub queue: Arc<SharedReceiveQueue>,
    /// Scatter/gather entries of a request.
    max_sge: u32,
    /// Events that the program got.
    pub events: Reported,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Srq {
    type Public = ibv_srq;
}

/// Posts receive requests, ENOMEM for one that the queue has no room for, or of a list longer than any queue;
/// those before the one that failed are posted.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(object) = (unsafe { Srq::from_c(srq) }) else { return Errno::EINVAL.0 };
    let mut next = list;
    // Messages take requests as they come: room alone would not end a list that goes round.
    let mut left = LIMITS.max_srq_wr;
    // SAFETY: the program passes a valid list or null.
    while let Some(wr) = unsafe { next.as_ref() } {
        // SAFETY: a valid request, with its list.
        let answer = if left == 0 { Err(Errno::ENOMEM) } else { unsafe { object.post(wr) } };
        if let Err(errno) = answer {
            // SAFETY: the program's place for the answer.
            if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
                *bad_wr = next;
            }
            return errno.0;
        }
        (left, next) = (left - 1, wr.next);
    }
    0
}

impl Srq {
    /// # Safety
    /// `wr` is a valid request.
    #[inline(always)]
    unsafe fn post(&self, wr: &ibv_recv_wr) -> Result<()> {
        // SAFETY: by the contract.
        let list = unsafe { sges(wr.sg_list, wr.num_sge as usize, self.max_sge) }.ok_or(Errno::EINVAL)?;
        self.queue.post(wr.wr_id, list).map_err(rejected)
    }
}

impl Srqs for SoftContext {
    /// Creates a basic queue; `attr` gets the sizes given.
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        create_any(&self.engine, &self.events, SrqType::Basic, pd.as_ptr(), &mut attr.attr, None)
    }

    /// Creates a basic queue or one for XRC; there is no tag matching (EOPNOTSUPP).
    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        const BASIC: u32 = IBV_SRQT_BASIC as u32;
        const XRC: u32 = IBV_SRQT_XRC as u32;
        let has = |bit: ibv_srq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        if attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED as u32 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        let invalid = || Errno::EINVAL.also_set();
        if !has(IBV_SRQ_INIT_ATTR_PD) || attr.pd.is_null() {
            return Err(invalid());
        }
        let srq = match if has(IBV_SRQ_INIT_ATTR_TYPE) { attr.srq_type } else { BASIC } {
            BASIC => create_any(&self.engine, &self.events, SrqType::Basic, attr.pd, &mut attr.attr, None)?,
            XRC => {
                if !has(IBV_SRQ_INIT_ATTR_XRCD) || !has(IBV_SRQ_INIT_ATTR_CQ) {
                    return Err(invalid());
                }
                // SAFETY: the mask says that these count, so they are live or null.
                let parts = unsafe {
                    Handle::optional(attr.xrcd).zip(Handle::optional(attr.cq)).ok_or_else(invalid)?
                };
                create_any(&self.engine, &self.events, SrqType::Xrc, attr.pd, &mut attr.attr, Some(parts))?
            }
            _ => return Err(Errno::EOPNOTSUPP.also_set()),
        };
        public_fields::finish_srq(srq, attr.pd, attr.srq_context);
        Ok(srq)
    }

    /// Arms the limit event, or resizes.
    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        let asked = |bit: ibv_srq_attr_mask, value: u32| (attr_mask & bit as c_int != 0).then_some(value);
        // SAFETY: queues of this provider are published as Srq.
        let queue = unsafe { &srq.object::<Srq>().queue };
        queue
            .modify(asked(IBV_SRQ_LIMIT, attr.srq_limit), asked(IBV_SRQ_MAX_WR, attr.max_wr))
            .map_err(refused)
    }

    /// Sizes and limit.
    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        let queue = unsafe { &srq.object::<Srq>().queue };
        *attr = ibv_srq_attr { max_wr: queue.max_wr(), max_sge: queue.max_sge(), srq_limit: queue.limit() };
        Ok(())
    }

    /// The number that XRC peers name the queue by.
    fn get_srq_num(&self, srq: Handle<ibv_srq>) -> Result<u32> {
        // SAFETY: queues of this provider are published as Srq.
        Ok(unsafe { srq.object::<Srq>() }.queue.number())
    }

    /// Destroys a queue, then waits until the program has acknowledged every event that it got of it.
    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        let object = unsafe { srq.object::<Srq>() };
        object.queue.destroy().map_err(refused)?;
        wait::for_srq_events(srq, object.events.asynchronous());
        // SAFETY: the program gives up the handle, which was published as an Srq.
        drop(unsafe { srq.reclaim::<Srq>() });
        Ok(())
    }
}

/// `pd` is live.
fn create_any(
    engine: &Arc<Device>,
    events: &Arc<EventQueue>,
    srq_type: SrqType,
    pd: *mut ibv_pd,
    attr: &mut ibv_srq_attr,
    xrc: Option<(Handle<ibv_xrcd>, Handle<ibv_cq>)>,
) -> Result<Handle<ibv_srq>> {
    let srq = event_name::create(
        |cookie| {
            // SAFETY: live handles of this provider, published as these.
            let (pd, xrcd, cq) = unsafe {
                let xrcd = xrc.map(|(xrcd, _)| Arc::clone(&xrcd.object::<Xrcd>().domain));
                ((*pd).handle, xrcd, xrc.map(|(_, cq)| Arc::clone(&cq.object::<Cq>().queue)))
            };
            let init = SrqInit {
                pd,
                srq_type,
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                xrcd,
                cq,
                events: Arc::clone(events),
                cookie: cookie as usize,
            };
            SharedReceiveQueue::new(engine, &init).map_err(refused)
        },
        |queue| {
            // SAFETY: plain C data of integers, pointers and pthread objects that start as zeros; all zeros is
            // its empty value.
            let mut public: ibv_srq = unsafe { core::mem::zeroed() };
            public.handle = queue.number();
            Ok(Srq {
                public: UnsafeCell::new(public),
                queue: Arc::clone(queue),
                max_sge: queue.max_sge(),
                events: Reported::default(),
            })
        },
        |_| {},
    )?;
    // SAFETY: just made, of this type.
    let queue = unsafe { &srq.object::<Srq>().queue };
    attr.max_wr = queue.max_wr();
    attr.max_sge = queue.max_sge();
    Ok(srq)
}
