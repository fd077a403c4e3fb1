//! Making, resizing, resetting and destroying the queues of a context whose queues are ours: what is done
//! beside libmlx5.

use core::ffi::c_int;
use core::ptr::{NonNull, without_provenance_mut};

use queue_lock::QueueLock;

use super::cq::{Cq, Parts};
use super::cqe::Cqe;
use super::creation::{self, MadeCq, MadeQp, MadeSrq};
use super::qp::{Qp, ReceiveQueue};
use super::queue::{Origin, Receives, Sends, Source};
use super::ring::Shadow;
use super::send::{Kind, SendQueue};
use super::srq::Srq;
use super::{Mlx5, cq_ex, found, wr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log;
use crate::provider::data_path::DataPath;
use crate::provider::object::Handle;

/// What a program asks of a queue pair, by either way of making one.
pub struct Wanted {
    /// `IBV_QPT_*`.
    pub qp_type: u32,
    /// See `ibv_qp_init_attr`.
    pub send_cq: *mut ibv_cq,
    /// See `ibv_qp_init_attr`.
    pub recv_cq: *mut ibv_cq,
    /// See `ibv_qp_init_attr`.
    pub srq: *mut ibv_srq,
    /// See `ibv_qp_init_attr`.
    pub all_signaled: bool,
    /// Sends are built by calls.
    pub builders: bool,
    /// Something that ordinary queue pairs do not have.
    pub special: bool,
}

impl Wanted {
    /// What `ibv_create_qp` is given.
    pub fn plain(attr: &ibv_qp_init_attr) -> Self {
        Self {
            qp_type: attr.qp_type,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            all_signaled: attr.sq_sig_all != 0,
            builders: false,
            special: false,
        }
    }

    /// What `ibv_create_qp_ex` is given.
    pub fn extended(attr: &ibv_qp_init_attr_ex) -> Self {
        let has = |bit: ibv_qp_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        Self {
            qp_type: attr.qp_type,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            all_signaled: attr.sq_sig_all != 0,
            builders: has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS),
            special: has(IBV_QP_INIT_ATTR_RX_HASH)
                || has(IBV_QP_INIT_ATTR_IND_TABLE)
                || has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0,
        }
    }
}

/// Whether a completion queue is ours.
fn is_ours(cq: *mut ibv_cq) -> bool {
    // SAFETY: the program passes a live queue or null.
    unsafe { Cq::of(cq) }.is_some()
}

/// Adds what is kept beside an object; ENOMEM.
fn add<O, T>(object: *const O, value: Box<T>) -> Result<NonNull<T>> {
    let value = NonNull::from(Box::leak(value));
    if found::add(object, value.cast()) {
        return Ok(value);
    }
    // SAFETY: leaked just above, and nobody else knows it.
    drop(unsafe { Box::from_raw(value.as_ptr()) });
    Err(Errno::ENOMEM.also_set())
}

/// Takes away what was kept beside an object as a `T`.
///
/// # Safety
/// It was added as one, and nobody uses it any more.
unsafe fn remove<O, T>(object: *const O) -> Option<Box<T>> {
    // SAFETY: by the contract.
    found::remove(object).map(|found| unsafe { Box::from_raw(found.cast::<T>().as_ptr()) })
}

impl Mlx5 {
    /// Takes over the completion queue that libmlx5 has just made in memory of ours.
    ///
    /// # Safety
    /// It is, and nobody else knows it yet; `plugins` is libmlx5's data path.
    pub unsafe fn take_cq(
        &self,
        public: *mut ibv_cq_ex,
        extended: bool,
        single_threaded: bool,
        made: MadeCq,
        plugins: DataPath,
    ) -> Result<()> {
        // SAFETY: by the contract.
        unsafe {
            let direct = self.direct.cq(public.cast()).ok_or_else(|| Errno::EINVAL.also_set())?;
            let (ring, page) = (NonNull::new(direct.buf), NonNull::new(direct.cq_uar));
            let (Some(ring), Some(page)) = (ring, page) else { return Err(Errno::EINVAL.also_set()) };
            let shadow = Shadow::new(ring, direct.cqe_cnt, 0).ok_or_else(|| Errno::EINVAL.also_set())?;
            let parts = Parts {
                public,
                extended,
                ring: made.ring,
                record: made.record,
                shadow,
                cqn: direct.cqn,
                page,
                single_threaded,
                plugins,
            };
            add(public, Box::new(Cq::new(self, parts)))?;
            if extended {
                cq_ex::set_functions(public);
            }
        }
        Ok(())
    }

    /// Resizes a completion queue of ours by a call of libmlx5.
    pub fn resize_cq(&self, cq: Handle<ibv_cq>, resize: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: a live handle.
        let Some(object) = (unsafe { Cq::of(cq.as_ptr()) }) else { return resize() };
        let mut queue = object.queue.lock();
        let taken = queue.shadow.taken();
        // libmlx5 looks for the end of its ring when the kernel has answered.
        queue.shadow.end();
        let (done, ring) = creation::while_resizing(resize);
        // SAFETY: a live handle.
        let direct = unsafe { self.direct.cq(cq.as_ptr()) };
        let shadow = direct.and_then(|direct| {
            let next = if ring.is_some() && done.is_ok() { queue.shadow.taken() } else { taken };
            // SAFETY: libmlx5's ring, of which it has taken so many.
            unsafe { Shadow::new(NonNull::new(direct.buf)?, direct.cqe_cnt, next) }
        });
        if let Some(shadow) = shadow {
            queue.shadow = shadow;
        }
        if let (Some(ring), Ok(())) = (ring, done) {
            let before = object.consumed.load(core::sync::atomic::Ordering::Relaxed);
            if queue.ring.move_to(&ring, before) {
                object.publish(before.wrapping_add(1));
            }
            queue.ring = ring;
        }
        done
    }

    /// Takes over the shared receive queue that libmlx5 has just made.
    ///
    /// # Safety
    /// It is, and nobody else knows it yet.
    pub unsafe fn take_srq(
        &self,
        srq: *mut ibv_srq,
        xrc_cq: Option<*mut ibv_cq>,
        made: MadeSrq,
    ) -> Result<()> {
        if made.signed || xrc_cq.is_some_and(|cq| !is_ours(cq)) {
            return Ok(());
        }
        // SAFETY: by the contract.
        let shared = unsafe {
            let direct = self.direct.srq(srq).ok_or_else(|| Errno::EINVAL.also_set())?;
            Srq::new(&direct, made.count)?
        };
        let shared = add(srq, Box::new(shared))?;
        if xrc_cq.is_some() {
            let tag = Cqe::tag_of(made.uidx);
            let origin =
                Box::new(Origin { tag, sends: None, plugins_sends: false, receives: Source::Shared(shared) });
            let origin = NonNull::from(Box::leak(origin));
            self.origins.set(made.uidx, origin)?;
            // SAFETY: just added, and nobody else knows it.
            unsafe { (*shared.as_ptr()).set_origin(made.uidx, origin) };
        }
        Ok(())
    }

    /// The kernel has made a queue pair, perhaps one of libmlx5's own.
    pub fn note_qp(&self, qp: *mut ibv_qp, made: &MadeQp) {
        let tag = Cqe::tag_of(made.uidx);
        let origin = Origin { tag, sends: None, plugins_sends: true, receives: Source::Plugin };
        // Where there is no memory, what it has in completion queues stays there when it goes.
        let _ = add(qp, Box::new(Qp { origin, send: None, receive: None, builders: false }));
    }

    /// Takes over the queue pair that libmlx5 has just made, as far as its queues are ours; `given` are the
    /// sizes that the program is told. EOPNOTSUPP where only its shared receive queue is.
    ///
    /// # Safety
    /// It is, and nobody else knows it yet.
    pub unsafe fn take_qp(
        &self,
        qp: *mut ibv_qp,
        wanted: &Wanted,
        given: &ibv_qp_cap,
        made: Option<MadeQp>,
    ) -> Result<()> {
        let kinds = [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND].map(|kind| kind as u32);
        let shared = found::get(wanted.srq).map(NonNull::cast::<Srq>);
        let ours = kinds.contains(&wanted.qp_type) && !wanted.special;
        let (Some(made), true) = (made, ours) else {
            if made.is_some() {
                // SAFETY: by the contract.
                unsafe { self.share_register(qp) };
            }
            return if shared.is_some() { Err(conflict()) } else { Ok(()) };
        };
        if shared.is_some() && !is_ours(wanted.recv_cq) {
            return Err(conflict());
        }
        // SAFETY: by the contract; rings and record are libmlx5's, and live as long as the queue pair.
        let object = unsafe {
            let direct = self.direct.qp(qp).ok_or_else(|| Errno::EINVAL.also_set())?;
            let record = NonNull::new(direct.dbrec).ok_or_else(|| Errno::EINVAL.also_set())?.cast();
            let mut object = Qp {
                origin: Origin {
                    tag: Cqe::tag_of(made.uidx),
                    sends: None,
                    plugins_sends: direct.sq.wqe_cnt != 0,
                    receives: if wanted.srq.is_null() && direct.rq.wqe_cnt == 0 {
                        Source::None
                    } else {
                        Source::Plugin
                    },
                },
                send: None,
                receive: None,
                builders: false,
            };
            if let Some(shared) = shared {
                object.origin.receives = Source::Shared(shared);
            } else if let (Some(ring), true) = (
                NonNull::new(direct.rq.buf),
                wanted.srq.is_null() && direct.rq.wqe_cnt != 0 && !made.signed && is_ours(wanted.recv_cq),
            ) {
                let receives = Receives::new(ring, direct.rq.wqe_cnt, direct.rq.stride)?;
                let segments = given.max_recv_sge as c_int;
                if segments as usize > receives.segments() {
                    return Err(Errno::EINVAL.also_set());
                }
                object.origin.receives = Source::Own(receives);
                object.receive = Some(QueueLock::new(ReceiveQueue::new(record, segments)));
            }
            if let (Some(ring), Some(register), true) = (
                NonNull::new(direct.sq.buf),
                NonNull::new(direct.bf_reg),
                direct.sq.wqe_cnt != 0 && !made.signed && is_ours(wanted.send_cq),
            ) {
                let kind = Kind {
                    qp_type: wanted.qp_type,
                    qp_num: (*qp).qp_num,
                    max_post: given.max_send_wr,
                    max_sge: made.cap.max_send_sge as c_int,
                    max_inline: made.cap.max_inline_data as usize,
                    all_signaled: wanted.all_signaled,
                    atomics: self.atomics,
                    mlx5: NonNull::from(self),
                };
                let reliable = wanted.qp_type == IBV_QPT_RC as u32;
                object.origin.sends = Some(Sends::new(ring, direct.sq.wqe_cnt, reliable)?);
                object.origin.plugins_sends = false;
                let register = self.register(register, direct.bf_size);
                object.builders = wanted.builders;
                object.send = Some(QueueLock::new(SendQueue::new(kind, register, record.add(1))));
            }
            object
        };
        if object.send.is_none() {
            // SAFETY: by the contract.
            unsafe { self.share_register(qp) };
        }
        // SAFETY: what was noted of it, which nobody knows.
        drop(unsafe { remove::<_, Qp>(qp) });
        let object = add(qp, Box::new(object))?;
        // SAFETY: just added. A queue pair with builders is an extended one.
        let origin = unsafe {
            if object.as_ref().builders
                && let Some(public) = NonNull::new(qp.cast())
            {
                wr::set_functions(public);
            }
            &object.as_ref().origin
        };
        if origin.is_plugins() { Ok(()) } else { self.origins.set(made.uidx, NonNull::from(origin)) }
    }

    /// libmlx5 writes to a queue pair's register, by a lock and halves of its own.
    ///
    /// # Safety
    /// libmlx5 has just made the queue pair.
    unsafe fn share_register(&self, qp: *mut ibv_qp) {
        // SAFETY: by the contract.
        let direct = unsafe { self.direct.qp(qp) };
        if let Some(base) = direct.as_ref().and_then(|direct| NonNull::new(direct.bf_reg)) {
            self.register(base, direct.map_or(0, |direct| direct.bf_size)).share();
        }
    }

    /// The kernel has reset or destroyed a queue pair: its completions go.
    ///
    /// # Safety
    /// A live queue pair of libmlx5's.
    pub unsafe fn purge_qp(&self, qp: *mut ibv_qp) {
        // SAFETY: by the contract; its completion queues are live.
        unsafe {
            let Some(object) = Qp::of(qp) else { return };
            let origin = &object.origin;
            let (send_cq, recv_cq) = ((*qp).send_cq, (*qp).recv_cq);
            for cq in [recv_cq, send_cq].into_iter().take(1 + usize::from(send_cq != recv_cq)) {
                if let Some(cq) = Cq::of(cq) {
                    cq.purge(origin.tag, Some(origin));
                }
            }
        }
    }

    /// The kernel has destroyed a queue pair.
    ///
    /// # Safety
    /// libmlx5's queue pair, which nobody uses any more.
    pub unsafe fn qp_gone(&self, qp: *mut ibv_qp) {
        // SAFETY: by the contract. Polls that know what the index stands for hold the lock of a completion
        // queue, which `purge_qp` takes after nobody can learn it any more.
        unsafe {
            let Some(object) = Qp::of(qp) else { return };
            if !object.origin.is_plugins() {
                self.origins.clear(Cqe::uidx_of(object.origin.tag));
            }
            self.purge_qp(qp);
            drop(remove::<_, Qp>(qp));
        }
    }

    /// The kernel has destroyed a shared receive queue.
    ///
    /// # Safety
    /// libmlx5's queue, which nobody uses any more.
    pub unsafe fn srq_gone(&self, srq: *mut ibv_srq) {
        // SAFETY: by the contract.
        unsafe {
            let Some(object) = remove::<_, Srq>(srq) else { return };
            if let Some((uidx, origin)) = object.origin() {
                self.origins.clear(uidx);
                // SAFETY: leaked when the queue was taken over.
                drop(Box::from_raw(origin.as_ptr()));
            }
        }
    }

    /// The kernel has made a work queue with this user index.
    pub fn note_wq(&self, wq: *mut ibv_wq, uidx: u32) {
        if let Some(tag) = NonNull::new(without_provenance_mut(Cqe::tag_of(uidx) as usize | 1)) {
            found::add(wq, tag);
        }
    }

    /// The kernel has destroyed a work queue.
    ///
    /// # Safety
    /// libmlx5's work queue, whose completion queue is live.
    pub unsafe fn wq_gone(&self, wq: *mut ibv_wq) {
        // SAFETY: by the contract.
        unsafe {
            if let (Some(tag), Some(cq)) = (found::remove(wq), Cq::of((*wq).cq)) {
                cq.purge(tag.addr().get() as u32 & !0xff, None);
            }
        }
    }
}

/// The kernel has destroyed a completion queue.
///
/// # Safety
/// libmlx5's queue, which nobody uses any more.
pub unsafe fn cq_gone(cq: *mut ibv_cq) {
    // SAFETY: by the contract.
    drop(unsafe { remove::<_, Cq>(cq) });
}

/// A queue pair that libmlx5 would have to poll takes its receives from a queue that is ours.
fn conflict() -> Errno {
    log::warn(format_args!(
        "IRONVERBS_MLX5: this kind of queue pair cannot use a shared receive queue that libmlx5 does not drive"
    ));
    Errno::EOPNOTSUPP.also_set()
}
