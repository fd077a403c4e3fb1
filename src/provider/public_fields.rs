//! The public fields of queues and queue pairs that were just made, which nobody else knows yet. Who fills them
//! in is as with rdma-core; where it is the provider, a plugin does it by itself.
//!
//! | made by | filled in |
//! |---|---|
//! | `ibv_create_cq`, `ibv_create_cq_ex` | by the C entry: [`finish_cq`] |
//! | `ibv_create_srq` | by the C entry: [`finish_srq`] |
//! | `ibv_create_srq_ex` | by the provider: [`finish_srq`]; the context by the C entry |
//! | `ibv_create_qp` | by the provider: [`of_qp`], [`name_qp_parts`] |
//! | `ibv_create_qp_ex` | by the provider: [`of_qp`], [`name_qp_ex_parts`]; the context by the C entry |
//! | `ibv_open_qp` | by the provider: [`of_qp`], and the two contexts |

use core::ffi::c_void;

use crate::abi::verbs::*;
use crate::provider::object::Handle;

/// Fills in what the library keeps in a completion queue.
pub fn finish_cq(
    cq: Handle<ibv_cq>,
    context: *mut ibv_context,
    channel: Option<Handle<ibv_comp_channel>>,
    cq_context: *mut c_void,
) {
    let public = cq.as_ptr();
    // SAFETY: just made. A plugin's may have fields that nobody has written yet, so there is no reference.
    unsafe {
        (*public).context = context;
        (*public).channel = channel.map_or(core::ptr::null_mut(), Handle::as_ptr);
        (*public).cq_context = cq_context;
        (*public).comp_events_completed = 0;
        (*public).async_events_completed = 0;
        (*public).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*public).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// Fills in what the library keeps in a shared receive queue, but for the context.
pub fn finish_srq(srq: Handle<ibv_srq>, pd: *mut ibv_pd, srq_context: *mut c_void) {
    let public = srq.as_ptr();
    // SAFETY: just made. A plugin's may have fields that nobody has written yet, so there is no reference.
    unsafe {
        (*public).srq_context = srq_context;
        (*public).pd = pd;
        (*public).events_completed = 0;
        (*public).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*public).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// A queue pair in state RESET, without the objects that it is made of.
pub fn of_qp(handle: u32, qp_num: u32, qp_type: ibv_qp_type_t) -> ibv_qp {
    // SAFETY: plain C data of integers, pointers and pthread objects that are initialised below; all zeros is
    // its empty value.
    let mut public: ibv_qp = unsafe { core::mem::zeroed() };
    public.handle = handle;
    public.qp_num = qp_num;
    public.qp_type = qp_type;
    public.state = IBV_QPS_RESET as ibv_qp_state_t;
    public.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    public.cond = libc::PTHREAD_COND_INITIALIZER;
    public
}

/// Names the context and the objects that a queue pair of `ibv_create_qp` is made of.
pub fn name_qp_parts(qp: Handle<ibv_qp>, pd: Handle<ibv_pd>, attr: &ibv_qp_init_attr) {
    // SAFETY: just made; a live domain.
    unsafe {
        let public = &mut *qp.as_ptr();
        public.context = (*pd.as_ptr()).context;
        public.qp_context = attr.qp_context;
        public.pd = pd.as_ptr();
        public.send_cq = attr.send_cq;
        public.recv_cq = attr.recv_cq;
        public.srq = attr.srq;
    }
}

/// Names the objects that a queue pair of `ibv_create_qp_ex` is made of.
pub fn name_qp_ex_parts(qp: Handle<ibv_qp>, pd: *mut ibv_pd, attr: &ibv_qp_init_attr_ex) {
    // SAFETY: just made.
    let public = unsafe { &mut *qp.as_ptr() };
    public.qp_context = attr.qp_context;
    public.pd = pd;
    public.send_cq = attr.send_cq;
    public.recv_cq = attr.recv_cq;
    public.srq = attr.srq;
}

/// What a query answers of the objects that a queue pair is made of.
pub fn answer_qp_parts(qp: Handle<ibv_qp>, init_attr: &mut ibv_qp_init_attr) {
    // SAFETY: a live handle.
    let public = unsafe { &*qp.as_ptr() };
    init_attr.qp_context = public.qp_context;
    init_attr.send_cq = public.send_cq;
    init_attr.recv_cq = public.recv_cq;
    init_attr.srq = public.srq;
    init_attr.qp_type = public.qp_type;
}
