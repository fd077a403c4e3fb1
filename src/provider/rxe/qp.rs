//! Queue pairs.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use queue_lock::QueueLock;

use super::recv::{self, ReceiveQueue};
use super::send::SendQueue;
use super::{RxeContext, explain, wr};
use crate::abi::uapi::Pod;
use crate::abi::uapi::rdma_user_rxe::rxe_create_qp_resp;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Qps;
use crate::provider::{domain, event_name, kernel, posting, public_fields, qp_ex};
use crate::uverbs::command::Prepared;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::qp::{CreateQp, QpCreated};
use crate::uverbs::{self, Udata};

/// A queue pair. The public part is that of an extended queue pair, which starts with a plain one.
#[repr(C)]
pub struct Qp {
    public: UnsafeCell<ibv_qp_ex>,
    /// Made by `ibv_create_qp_ex`.
    extended: bool,
    /// Made through a device file that another process may have opened.
    pub imported: bool,
    /// Send queue.
    pub send: QueueLock<SendQueue>,
    /// Receive queue; none where a shared one is used.
    receive: Option<QueueLock<ReceiveQueue>>,
}

// SAFETY: repr(C), and the first field starts with an ibv_qp.
unsafe impl Object for Qp {
    type Public = ibv_qp;
}

impl Qp {
    /// A queue pair, with the public fields that the call of the program does not fill in.
    pub(super) fn new(
        created: QpCreated,
        given: &Attributes,
        receive: Option<ReceiveQueue>,
        send: SendQueue,
    ) -> Self {
        // SAFETY: plain C data of integers, pointers, optional functions and pthread objects that start as
        // zeros; all zeros is its empty value.
        let mut public: ibv_qp_ex = unsafe { core::mem::zeroed() };
        public.qp_base = public_fields::of_qp(created.handle, created.qp_num, given.qp_type);
        if let Some(operations) = given.operations {
            wr::set_functions(&mut public, operations);
        }
        Self {
            public: UnsafeCell::new(public),
            extended: given.extended,
            imported: given.imported,
            send: QueueLock::of_domain(send, given.one_thread),
            receive: receive.map(|receive| QueueLock::of_domain(receive, given.one_thread)),
        }
    }
}

/// Posts receive requests; EINVAL in state RESET and where a shared receive queue is used. Requests before the
/// one that failed are posted.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function, and its
    // place for the answer.
    let Some(object) = (unsafe { posting::begin::<Qp, _>(qp, list, bad_wr) }) else { return Errno::EINVAL.0 };
    let Some(receive) = &object.receive else { return Errno::EINVAL.0 };
    // SAFETY: a live queue pair.
    let state = unsafe { (*qp).state };
    // InfiniBand Architecture Specification, C10-97.2.1: no receives in RESET.
    if state == IBV_QPS_RESET as ibv_qp_state_t {
        return Errno::EINVAL.0;
    }
    // SAFETY: the program passes a valid list.
    unsafe { recv::post(receive, list, bad_wr) }
}

impl Qps for RxeContext {
    /// Creates a queue pair; `attr.cap` gets the sizes given.
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        // SAFETY: a live handle; the program passes live objects or null.
        let (request, one_thread) = unsafe {
            let handle = Some((*pd.as_ptr()).handle);
            let request = kernel::qp::request(
                attr.qp_type,
                handle,
                attr.send_cq,
                attr.recv_cq,
                attr.srq,
                attr.sq_sig_all,
            );
            (request, domain::one_thread(pd.as_ptr()))
        };
        let given = Attributes {
            qp_type: attr.qp_type,
            shared: !attr.srq.is_null(),
            extended: false,
            operations: None,
            one_thread,
            imported: self.file.is_imported(),
        };
        let qp = create_any(&self.file, request, &mut attr.cap, &given, |request, cap, udata| {
            uverbs::qp::create(&self.file, request, cap, udata)
        })?;
        public_fields::name_qp_parts(qp, pd, attr);
        Ok(qp)
    }

    /// Creates an extended queue pair, with builders for the operations asked for. EOPNOTSUPP (`errno` set) for
    /// an attribute, a creation flag or an operation that soft-RoCE does not have.
    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        let builders = wr::operations(attr.qp_type);
        let operations = qp_ex::asked_builders("rxe", attr, 0, 0, builders)?;
        // SAFETY: the program passes live objects or null where the mask and the type say that they count.
        let (mut request, one_thread) = unsafe {
            let has_pd = attr.comp_mask & IBV_QP_INIT_ATTR_PD as u32 != 0;
            let pd = if has_pd { attr.pd } else { core::ptr::null_mut() };
            let handle = pd.as_ref().map(|pd| pd.handle);
            let request = kernel::qp::request(
                attr.qp_type,
                handle,
                attr.send_cq,
                attr.recv_cq,
                attr.srq,
                attr.sq_sig_all,
            );
            (request, domain::one_thread(pd))
        };
        request.comp_mask = attr.comp_mask;
        request.create_flags = attr.create_flags;
        request.source_qpn = attr.source_qpn;
        let given = Attributes {
            qp_type: attr.qp_type,
            shared: !attr.srq.is_null(),
            extended: true,
            operations,
            one_thread,
            imported: self.file.is_imported(),
        };
        let qp = create_any(&self.file, request, &mut attr.cap, &given, |request, cap, udata| {
            uverbs::qp::create_ex2(&self.file, request, cap, udata, Prepared::none())
        })?;
        // SAFETY: just made.
        unsafe { public_fields::name_qp_ex_parts(qp.as_ptr(), attr.pd, attr) };
        Ok(qp)
    }

    /// The builder side, of a queue pair made by `ibv_create_qp_ex`.
    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        // SAFETY: the handle belongs to this provider, and the public part of every Qp is an extended one.
        qp_ex::of_qp(qp, unsafe { qp.object::<Qp>() }.extended)
    }

    /// Moves the queue pair through its states and sets attributes.
    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        kernel::qp::modify(&self.file, qp, attr, attr_mask).inspect_err(|errno| {
            // SAFETY: a live handle.
            explain::modify_qp(*errno, unsafe { &*qp.as_ptr() }, attr, attr_mask);
        })
    }

    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        // SAFETY: queue pairs of this provider are published as Qp.
        unsafe { kernel::qp::destroy::<Qp>(&self.file, qp) }
    }
}

/// What a queue pair is made with, beyond what the kernel is told.
pub(super) struct Attributes {
    /// `IBV_QPT_*`.
    pub qp_type: u32,
    /// Receives come from a shared queue.
    pub shared: bool,
    /// Made by `ibv_create_qp_ex`.
    pub extended: bool,
    /// Operations with builders; none where no builders were asked for.
    pub operations: Option<u64>,
    /// The protection domain says that one thread at a time uses the queue pair.
    pub one_thread: bool,
    /// The device file came from somebody else.
    pub imported: bool,
}

fn create_any(
    file: &DeviceFile,
    mut request: CreateQp,
    cap: &mut ibv_qp_cap,
    given: &Attributes,
    command: impl FnOnce(&CreateQp, &mut ibv_qp_cap, Udata<'_>) -> Result<QpCreated>,
) -> Result<Handle<ibv_qp>> {
    event_name::create(
        |user_handle| {
            request.user_handle = user_handle;
            let mut answer = rxe_create_qp_resp::default();
            let created = command(&request, cap, Udata::answer(answer.as_bytes_mut()))
                .inspect_err(|errno| explain::create_qp(file, *errno, given.qp_type, cap))?;
            Ok((created, answer, *cap))
        },
        |(created, answer, cap)| {
            let (receive, send) = map_rings(file, answer, cap, given)?;
            Ok(Qp::new(*created, given, receive, send))
        },
        |(created, ..)| {
            let _ = uverbs::qp::destroy(file, created.handle);
        },
    )
}

fn map_rings(
    file: &DeviceFile,
    answer: &rxe_create_qp_resp,
    cap: &ibv_qp_cap,
    given: &Attributes,
) -> Result<(Option<ReceiveQueue>, SendQueue)> {
    let receive =
        if given.shared { None } else { Some(ReceiveQueue::map(file, &answer.rq_mi, cap.max_recv_sge)?) };
    let send = SendQueue::map(file, &answer.sq_mi, cap, given.qp_type)?;
    Ok((receive, send))
}
