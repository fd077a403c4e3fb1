//! Shared receive queues.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use queue_lock::QueueLock;

use super::recv::{self, ReceiveQueue};
use super::{RxeContext, explain};
use crate::abi::uapi::Pod;
use crate::abi::uapi::rdma_user_rxe::{mminfo, rxe_create_srq_resp, rxe_modify_srq_cmd};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Srqs;
use crate::provider::{domain, event_name, kernel, public_fields};
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::srq::{CreateSrq, CreateSrqEx, SrqCreated};
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

/// Posts receive requests; those before the one that failed are posted.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue of a context whose table holds this function.
    let Some(object) = (unsafe { Srq::from_c(srq) }) else { return Errno::EINVAL.0 };
    // SAFETY: the program passes a valid list or null, and its place for the answer or null.
    unsafe { recv::post(&object.queue, list, bad_wr) }
}

impl Srqs for RxeContext {
    /// Creates a basic queue; `attr` gets the sizes given.
    fn create_srq(&self, pd: Handle<ibv_pd>, attr: &mut ibv_srq_init_attr) -> Result<Handle<ibv_srq>> {
        create_any(&self.file, pd.as_ptr(), &mut attr.attr, |request, udata| {
            uverbs::srq::create(&self.file, request, udata)
        })
    }

    /// Creates a queue of any type; the driver has basic ones only, EOPNOTSUPP for the others.
    fn create_srq_ex(&self, attr: &mut ibv_srq_init_attr_ex) -> Result<Handle<ibv_srq>> {
        let known = attr.comp_mask < IBV_SRQ_INIT_ATTR_RESERVED as u32;
        let has = |bit: ibv_srq_init_attr_mask| known && attr.comp_mask & bit as u32 != 0;
        let mut extensions = CreateSrqEx {
            comp_mask: attr.comp_mask,
            srq_type: attr.srq_type,
            // Devices of this kind have no XRC domains.
            xrcd: 0,
            cq: 0,
            max_num_tags: if has(IBV_SRQ_INIT_ATTR_TM) { attr.tm_cap.max_num_tags } else { 0 },
        };
        let mut pd = core::ptr::null_mut();
        let missing = || Errno::EINVAL.also_set();
        // SAFETY: the program passes live objects or null where the mask and the type say that they count;
        // elsewhere the pointers are not followed.
        unsafe {
            if has(IBV_SRQ_INIT_ATTR_PD) {
                pd = Handle::from_c(attr.pd).map_err(|_| missing())?.as_ptr();
            }
            if has(IBV_SRQ_INIT_ATTR_CQ) && extensions.effective_type() != IBV_SRQT_BASIC as u32 {
                extensions.cq = attr.cq.as_ref().ok_or_else(missing)?.handle;
            }
        }
        let srq = create_any(&self.file, pd, &mut attr.attr, |request, udata| {
            uverbs::srq::create_ex(&self.file, request, &extensions, udata)
        })?;
        public_fields::finish_srq(srq, attr.pd, attr.srq_context);
        Ok(srq)
    }

    /// Arms the limit event, or resizes; nobody can post while the requests move to another ring.
    fn modify_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr, attr_mask: c_int) -> Result<()> {
        // SAFETY: the handle belongs to this provider, and its kernel handle never changes.
        let (object, handle) = unsafe { (srq.object::<Srq>(), (*srq.as_ptr()).handle) };
        let mut place = mminfo::default();
        let command = rxe_modify_srq_cmd { mmap_info_addr: (&raw mut place).expose_provenance() as u64 };
        let modify = || {
            let udata = Udata { input: command.as_bytes(), output: &mut [] };
            uverbs::srq::modify(&self.file, handle, attr, attr_mask as u32, udata)
                .inspect_err(|errno| explain::srq_size(&self.file, *errno, "modify_srq", attr))
        };
        if attr_mask & IBV_SRQ_MAX_WR as c_int == 0 {
            return modify();
        }
        let mut queue = object.queue.lock();
        modify()?;
        // SAFETY: the driver has written the place of the new ring through the address in the command;
        // volatile, because the compiler did not see it.
        let place = unsafe { (&raw const place).read_volatile() };
        // When the new ring cannot be mapped the old one stays, out of use but safe to post to.
        queue.remap(&self.file, &place)
    }

    fn query_srq(&self, srq: Handle<ibv_srq>, attr: &mut ibv_srq_attr) -> Result<()> {
        kernel::srq::query(&self.file, srq, attr)
    }

    fn destroy_srq(&self, srq: Handle<ibv_srq>) -> Result<()> {
        // SAFETY: queues of this provider are published as Srq.
        unsafe { kernel::srq::destroy::<Srq>(&self.file, srq) }
    }
}

/// `pd` is live, or null where no protection domain was given.
fn create_any(
    file: &DeviceFile,
    pd: *mut ibv_pd,
    attr: &mut ibv_srq_attr,
    command: impl FnOnce(&CreateSrq, Udata<'_>) -> Result<SrqCreated>,
) -> Result<Handle<ibv_srq>> {
    // SAFETY: live or null.
    let (pd_handle, one_thread) = unsafe { (pd.as_ref().map_or(0, |pd| pd.handle), domain::one_thread(pd)) };
    event_name::create(
        |user_handle| {
            let request = CreateSrq {
                user_handle,
                pd: pd_handle,
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                srq_limit: attr.srq_limit,
            };
            let mut answer = rxe_create_srq_resp::default();
            let created = command(&request, Udata::answer(answer.as_bytes_mut()))
                .inspect_err(|errno| explain::srq_size(file, *errno, "create_srq", attr))?;
            attr.max_wr = created.max_wr;
            attr.max_sge = created.max_sge;
            Ok((created, answer))
        },
        |(created, answer)| {
            let queue = ReceiveQueue::map(file, &answer.mi, created.max_sge)?;
            // SAFETY: plain C data of integers, pointers and pthread objects that start as zeros; all zeros is
            // its empty value.
            let mut public: ibv_srq = unsafe { core::mem::zeroed() };
            public.handle = created.handle;
            Ok(Srq { public: UnsafeCell::new(public), queue: QueueLock::of_domain(queue, one_thread) })
        },
        |(created, _)| {
            let _ = uverbs::srq::destroy(file, created.handle);
        },
    )
}
