//! Queue pairs.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use queue_lock::QueueLock;
use softrdma::device::{Capabilities, Device, EventQueue, OpenedQp, QpInit, QueuePair};
use softrdma::rules::verbs::QpType;

use super::channel::Reported;
use super::convert::{refused, rejected, sges};
use super::cq::Cq;
use super::srq::Srq;
use super::wr::{self, Batch};
use super::xrcd::Xrcd;
use super::{SoftContext, qp_attr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Qps;
use crate::provider::{domain, event_name, posting, public_fields, qp_ex, wait};

/// A queue pair. The public part is that of an extended queue pair, which starts with a plain one.
#[repr(C)]
pub struct Qp {
    public: UnsafeCell<ibv_qp_ex>,
    /// The engine's.
    pub queue: Arc<QueuePair>,
    /// The handle by which it was opened, where another one made it.
    opened: Option<Arc<OpenedQp>>,
    /// Transport service.
    pub qp_type: QpType,
    /// Sizes that were given.
    pub cap: Capabilities,
    /// Made by `ibv_create_qp_ex`.
    extended: bool,
    /// Has builders (`ibv_wr_*`).
    pub builders: bool,
    /// Requests being built by them.
    pub batch: QueueLock<Batch>,
    /// Events that the program got.
    pub events: Reported,
    /// Multicast groups, with the LID that each was joined with: there are no LIDs here, but whoever leaves
    /// names it again.
    groups: Mutex<Vec<([u8; 16], u16)>>,
}

// SAFETY: repr(C), and the first field starts with an ibv_qp.
unsafe impl Object for Qp {
    type Public = ibv_qp;
}

impl Qp {
    /// Whether another handle than this one made it.
    pub fn is_opened(&self) -> bool {
        self.opened.is_some()
    }

    /// # Safety
    /// `wr` is a valid request.
    #[inline(always)]
    unsafe fn post_receive(&self, wr: &ibv_recv_wr) -> Result<()> {
        // SAFETY: by the contract.
        let list = unsafe { sges(wr.sg_list, wr.num_sge as usize, self.cap.max_recv_sge) };
        self.queue.post_receive(wr.wr_id, list.ok_or(Errno::EINVAL)?).map_err(rejected)
    }
}

/// Posts receive requests; EINVAL in state RESET and where a shared receive queue is used, ENOMEM for one more
/// than the queue holds. Requests before the one that failed are posted.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function, and its
    // place for the answer.
    let Some(object) = (unsafe { posting::begin::<Qp, _>(qp, list, bad_wr) }) else { return Errno::EINVAL.0 };
    let mut next = list;
    // Messages and flushes take requests as they come: room alone would not end a list that goes round.
    let mut posted = 0;
    // SAFETY: the program passes a valid list.
    while let Some(wr) = unsafe { next.as_ref() } {
        // The first is looked at in any case: a queue pair may have no queue of its own.
        let answer = if posted > 0 && posted >= object.cap.max_recv_wr {
            Err(Errno::ENOMEM)
        } else {
            // SAFETY: a valid request, with its list.
            unsafe { object.post_receive(wr) }
        };
        if let Err(errno) = answer {
            // SAFETY: as above.
            unsafe { *bad_wr = next };
            return errno.0;
        }
        (posted, next) = (posted + 1, wr.next);
    }
    0
}

/// The transport service of that number. EOPNOTSUPP for those that the device has not, EINVAL for what is none.
fn service(qp_type: ibv_qp_type_t) -> Result<QpType> {
    const RAW_PACKET: u32 = IBV_QPT_RAW_PACKET as u32;
    const DRIVER: u32 = IBV_QPT_DRIVER as u32;
    QpType::from_number(qp_type).ok_or_else(|| {
        match qp_type {
            RAW_PACKET | DRIVER => Errno::EOPNOTSUPP,
            _ => Errno::EINVAL,
        }
        .also_set()
    })
}

impl Qps for SoftContext {
    /// Creates a queue pair; `attr.cap` gets the sizes given.
    fn create_qp(&self, pd: Handle<ibv_pd>, attr: &mut ibv_qp_init_attr) -> Result<Handle<ibv_qp>> {
        let parts = Parts {
            qp_type: service(attr.qp_type)?,
            pd: Some(pd),
            xrcd: None,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            sq_sig_all: attr.sq_sig_all != 0,
            blocks_own_multicast: false,
        };
        let qp = create_any(&self.engine, &self.events, &parts, &mut attr.cap, None, false)?;
        public_fields::name_qp_parts(qp, pd, attr);
        Ok(qp)
    }

    /// Creates an extended queue pair, with builders for the operations asked for. EOPNOTSUPP (`errno` set) for
    /// an attribute, a creation flag or an operation that the device does not have.
    fn create_qp_ex(&self, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<ibv_qp>> {
        let builders = QpType::from_number(attr.qp_type).and_then(wr::operations);
        // Of the flags, one means something to what has no wire, and that to datagrams alone.
        let is_datagram = attr.qp_type == IBV_QPT_UD as u32;
        let flags = if is_datagram { IBV_QP_CREATE_BLOCK_SELF_MCAST_LB as u32 } else { 0 };
        let also_known = IBV_QP_INIT_ATTR_XRCD as u32;
        let operations = qp_ex::asked_builders("soft", attr, also_known, flags, builders)?;
        let has = |bit: ibv_qp_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        // SAFETY: the program passes live objects or null where the mask says that they count.
        let (pd, xrcd) = unsafe {
            let pd = if has(IBV_QP_INIT_ATTR_PD) { Handle::optional(attr.pd) } else { None };
            (pd, if has(IBV_QP_INIT_ATTR_XRCD) { Handle::optional(attr.xrcd) } else { None })
        };
        let parts = Parts {
            qp_type: service(attr.qp_type)?,
            pd,
            xrcd,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            sq_sig_all: attr.sq_sig_all != 0,
            blocks_own_multicast: has(IBV_QP_INIT_ATTR_CREATE_FLAGS)
                && attr.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB as u32 != 0,
        };
        let mut cap = attr.cap;
        let qp = create_any(&self.engine, &self.events, &parts, &mut cap, operations, true)?;
        attr.cap = cap;
        // SAFETY: just made.
        unsafe {
            public_fields::name_qp_ex_parts(qp.as_ptr(), pd.map_or(null_mut(), Handle::as_ptr), attr);
        }
        Ok(qp)
    }

    /// Opens the XRC target queue pair of that number, which perhaps another context of the process made.
    fn open_qp(&self, attr: &mut ibv_qp_open_attr) -> Result<Handle<ibv_qp>> {
        const NEEDED: u32 =
            IBV_QP_OPEN_ATTR_NUM as u32 | IBV_QP_OPEN_ATTR_XRCD as u32 | IBV_QP_OPEN_ATTR_TYPE as u32;
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED as u32 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != IBV_QPT_XRC_RECV as u32 {
            return Err(Errno::EINVAL.also_set());
        }
        // SAFETY: the mask says that the domain counts, so it is live or null; it was published as an Xrcd.
        let (context, domain) = unsafe {
            let xrcd = Handle::from_c(attr.xrcd).map_err(Errno::also_set)?;
            ((*xrcd.as_ptr()).context, &xrcd.object::<Xrcd>().domain)
        };
        let qp = event_name::create(
            |cookie| OpenedQp::open(domain, attr.qp_num, &self.events, cookie as usize).map_err(refused),
            |opened| Qp::new(opened.queue_pair(), Some(Arc::clone(opened)), None, false, false),
            |_| {},
        )?;
        let has_context = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT as u32 != 0;
        let qp_context = if has_context { attr.qp_context } else { null_mut() };
        // SAFETY: just made.
        unsafe { public_fields::name_opened_qp(qp.as_ptr(), context, qp_context) };
        Ok(qp)
    }

    /// The builder side, of a queue pair made by `ibv_create_qp_ex`.
    fn qp_to_qp_ex(&self, qp: Handle<ibv_qp>) -> Option<Handle<ibv_qp_ex>> {
        // SAFETY: the handle belongs to this provider, and the public part of every Qp is an extended one.
        qp_ex::of_qp(qp, unsafe { qp.object::<Qp>() }.extended)
    }

    /// Moves the queue pair through its states and sets attributes.
    fn modify_qp(&self, qp: Handle<ibv_qp>, attr: &mut ibv_qp_attr, attr_mask: c_int) -> Result<()> {
        let object = object(qp);
        let (mask, asked) = qp_attr::asked(self, object.qp_type, attr, attr_mask)?;
        object.queue.modify(mask, &asked).map_err(refused)
    }

    /// Attributes, and what the queue pair was made with.
    fn query_qp(
        &self,
        qp: Handle<ibv_qp>,
        attr: &mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: &mut ibv_qp_init_attr,
    ) -> Result<()> {
        qp_attr::check_mask(attr_mask)?;
        let queried = object(qp).queue.query();
        *attr = qp_attr::answer(&queried);
        public_fields::answer_qp_parts(qp, init_attr);
        init_attr.cap = attr.cap;
        init_attr.sq_sig_all = queried.sq_sig_all.into();
        Ok(())
    }

    /// Destroys a queue pair, or closes an opened one, then waits until the program has acknowledged every
    /// event that it got.
    fn destroy_qp(&self, qp: Handle<ibv_qp>) -> Result<()> {
        let object = object(qp);
        match &object.opened {
            Some(opened) => opened.close(),
            None => object.queue.destroy(),
        }
        .map_err(refused)?;
        wait::for_qp_events(qp, object.events.asynchronous());
        // SAFETY: the program gives up the handle, which was published as a Qp.
        drop(unsafe { qp.reclaim::<Qp>() });
        Ok(())
    }
}

/// What a queue pair is made of. Pointers are followed where they count for the service.
struct Parts {
    qp_type: QpType,
    pd: Option<Handle<ibv_pd>>,
    xrcd: Option<Handle<ibv_xrcd>>,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    sq_sig_all: bool,
    blocks_own_multicast: bool,
}

impl Parts {
    /// What the engine makes a queue pair of; EINVAL where something is missing.
    fn init(&self, events: &Arc<EventQueue>, cap: &ibv_qp_cap, cookie: usize) -> Result<QpInit> {
        let target = self.qp_type == QpType::XrcRecv;
        let receives = !target && self.qp_type != QpType::XrcSend;
        // SAFETY: the objects that count are live or null, and published as these.
        unsafe {
            let queue = |cq: *mut ibv_cq| Cq::from_c(cq).map(|cq| Arc::clone(&cq.queue));
            let srq = if receives { Srq::from_c(self.srq) } else { None };
            let xrcd = if target { self.xrcd } else { None };
            let pd = match self.pd {
                Some(pd) if !target => (*pd.as_ptr()).handle,
                None if !target => return Err(Errno::EINVAL.also_set()),
                _ => 0,
            };
            Ok(QpInit {
                qp_type: self.qp_type,
                pd,
                send_cq: if target { None } else { queue(self.send_cq) },
                recv_cq: if receives { queue(self.recv_cq) } else { None },
                srq: srq.map(|srq| Arc::clone(&srq.queue)),
                cap: qp_attr::capabilities(cap),
                sq_sig_all: self.sq_sig_all,
                blocks_own_multicast: self.blocks_own_multicast,
                xrcd: xrcd.map(|xrcd| Arc::clone(&xrcd.object::<Xrcd>().domain)),
                events: Arc::clone(events),
                cookie,
            })
        }
    }
}

fn create_any(
    engine: &Arc<Device>,
    events: &Arc<EventQueue>,
    parts: &Parts,
    cap: &mut ibv_qp_cap,
    operations: Option<u64>,
    extended: bool,
) -> Result<Handle<ibv_qp>> {
    // SAFETY: a live domain or null.
    let one_thread = parts.pd.is_some_and(|pd| unsafe { domain::one_thread(pd.as_ptr()) });
    event_name::create(
        |cookie| {
            let init = parts.init(events, cap, cookie as usize)?;
            let queue = QueuePair::new(engine, &init).map_err(refused)?;
            *cap = qp_attr::sizes(&queue.capabilities());
            Ok(queue)
        },
        |queue| Qp::new(queue, None, operations, extended, one_thread),
        |_| {},
    )
}

impl Qp {
    /// A queue pair, with the public fields that the call of the program does not fill in.
    fn new(
        queue: &Arc<QueuePair>,
        opened: Option<Arc<OpenedQp>>,
        operations: Option<u64>,
        extended: bool,
        one_thread: bool,
    ) -> Result<Self> {
        // SAFETY: plain C data of integers, pointers, optional functions and pthread objects that start as
        // zeros; all zeros is its empty value.
        let mut public: ibv_qp_ex = unsafe { core::mem::zeroed() };
        let number = queue.qp_num();
        public.qp_base = public_fields::of_qp(number, number, queue.qp_type() as ibv_qp_type_t);
        public.qp_base.state = queue.state() as ibv_qp_state_t;
        if let Some(operations) = operations {
            wr::set_functions(&mut public, operations);
        }
        let cap = queue.capabilities();
        let batch = if operations.is_some() { Batch::with_room(&cap)? } else { Batch::default() };
        Ok(Self {
            public: UnsafeCell::new(public),
            queue: Arc::clone(queue),
            opened,
            qp_type: queue.qp_type(),
            cap,
            extended,
            builders: operations.is_some(),
            batch: QueueLock::of_domain(batch, one_thread),
            events: Reported::default(),
            groups: Mutex::default(),
        })
    }

    /// Its multicast groups.
    pub(super) fn groups(&self) -> MutexGuard<'_, Vec<([u8; 16], u16)>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue pair behind a handle of this provider.
pub(super) fn object<'a>(qp: Handle<ibv_qp>) -> &'a Qp {
    // SAFETY: queue pairs of this provider are published as Qp.
    unsafe { qp.object::<Qp>() }
}
