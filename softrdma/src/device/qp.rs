//! Queue pairs.

mod broken;
pub(super) mod datagrams;
mod direct;
mod end;
mod shown;
pub(super) mod sides;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ironverbs_os::growth::try_arc_cyclic;
use queue_lock::QueueLock;

use crate::queues::flush::reset;
use crate::queues::shared::{Claim, Memory, Object, QpWord, Word};
use crate::queues::transport::Operation;
use crate::rules::qp::{self, Effect};
use crate::rules::receive::{ReceiveRequest, Sge};
use crate::rules::request;
use crate::rules::requester::{Requester, Retry};
use crate::rules::verbs::{Attr, QpState, QpType};
use crate::shm::lock::Owner;
use crate::shm::objects::{HeldWord, Shape};
use crate::wire::psn::Psn;

use super::qp_attributes::{Attributes, Capabilities, Queried};
use super::receive::{ReceiveRing, ring};
use super::send::SendSide;
use super::srq::SrqType;
use super::stuck::SOON;
use super::{
    CompletionQueue, Device, Error, EventQueue, MANY_DOMAINS, Rejected, Result, SharedReceiveQueue,
    XrcDomain, busy,
};
use crate::carrier::Carrier;
use crate::carrier::far::datagram::Mailbox;
use crate::carrier::far::{Arrivals, Sides};
use crate::carrier::initiator::Initiator;
use crate::carrier::near::direct::{Datagrams, Direct};
use crate::carrier::near::number::MAX_NUMBERED;
use crate::carrier::near::peers::shortage;

/// In place of a slot: no process has messages for the queue pair that are not dropped.
const NOBODY: u32 = u32::MAX;
/// The same: any process may have.
const ANYBODY: u32 = u32::MAX - 1;

/// The place of one that is in no list of those that wait for other hosts.
pub(super) const NOT_LISTED: usize = usize::MAX;

/// Times at which a queue pair is looked at that is connected to another host.
pub(super) mod due {
    /// Nothing waits.
    pub(in crate::device) const NEVER: u64 = u64::MAX;
    /// What waits has no time of its own: the thread looks every now and then.
    pub(in crate::device) const SOMETIME: u64 = u64::MAX - 1;
}

/// What a queue pair is made of (`struct ibv_qp_init_attr_ex`).
#[derive(Debug, Clone)]
pub struct QpInit {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain; for an XRC target, which has none, 0.
    pub pd: u32,
    /// Where send requests complete; none for an XRC target.
    pub send_cq: Option<Arc<CompletionQueue>>,
    /// Where receive requests complete; none for XRC.
    pub recv_cq: Option<Arc<CompletionQueue>>,
    /// The shared receive queue it receives from.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// Sizes.
    pub cap: Capabilities,
    /// Every send request asks for a completion.
    pub sq_sig_all: bool,
    /// Datagrams: what it sends to a group that it is in does not come back to it.
    pub blocks_own_multicast: bool,
    /// XRC target: the domain.
    pub xrcd: Option<Arc<XrcDomain>>,
    /// Where its asynchronous events go.
    pub events: Arc<EventQueue>,
    /// Comes back with its events.
    pub cookie: usize,
}

/// A queue pair (`struct ibv_qp`).
#[derive(Debug)]
pub struct QueuePair {
    device: Arc<Device>,
    me: Weak<QueuePair>,
    index: u32,
    qp_num: u32,
    init: QpInit,
    limits: request::Limits,
    /// Where its state stands in the segment.
    state_word: HeldWord,
    send: QueueLock<SendSide>,
    receive: Option<QueueLock<ReceiveRing>>,
    /// Receive requests that it can have at a time.
    receives: u32,
    /// Its direct ring. Changed behind its lock.
    direct: QueueLock<Option<Arc<Direct>>>,
    /// The rings of its datagrams, likewise.
    datagrams: QueueLock<Option<Arc<Datagrams>>>,
    /// The slot of the process whose messages it takes, or [`NOBODY`] or [`ANYBODY`].
    partner: AtomicU32,
    /// Multicast groups that it is in.
    pub(super) groups: AtomicU32,
    /// Whoever made it, and whoever opened it since.
    handles: AtomicU32,
    /// Connected to another host, and what arrives from there.
    pub(super) far: AtomicBool,
    pub(super) arrivals: Arrivals,
    /// Datagrams: what comes from other hosts.
    pub(super) mailbox: Mailbox,
    /// Its place in the list of those that wait, and are connected to other hosts. Changed behind that's lock.
    pub(super) timed_at: AtomicUsize,
    /// When that list's entry is to be looked at: a time of the device's clock, or one of [`due`].
    pub(super) due_at: AtomicU64,
    /// Its send queue was kept when it was wanted last.
    is_kept: AtomicBool,
    /// Its receiving side has an acknowledgement that was missed.
    pub(super) has_missed: AtomicBool,
    closed: AtomicBool,
}

impl QueuePair {
    /// A new queue pair in RESET.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sizes out of range or queues that the type needs and that are missing,
    /// [`Error::NoMemory`].
    pub fn new(device: &Arc<Device>, init: &QpInit) -> Result<Arc<Self>> {
        let init = Self::check(init)?;
        if init.qp_type != QpType::XrcRecv {
            device.hold_pd(init.pd)?;
        }
        let made = Self::create(device, &init);
        if made.is_err() && init.qp_type != QpType::XrcRecv {
            device.release_pd(init.pd);
        }
        let made = made?;
        made.hold_queues();
        // Where this fails, everything ends with what was made.
        init.send_cq.iter().try_for_each(|cq| cq.hold_sends(init.cap.max_send_wr))?;
        init.srq.iter().for_each(|srq| srq.hold());
        init.xrcd.iter().for_each(|xrcd| xrcd.hold());
        let shown = made.shown(&made.send_side().attributes);
        device
            .endpoint
            .permissions
            .iter()
            .try_for_each(|permissions| permissions.add_queue_pair(made.index, shown))?;
        made.publish(shown, Some(QpState::Reset));
        made.show(&Attributes::default());
        device.retries.make_room(made.index)?;
        device.deferred.make_room(Object::Qp(made.index))?;
        if init.qp_type == QpType::Ud {
            // Nobody says before who sends.
            device.endpoint.expect_strangers();
        }
        super::remember(&device.queue_pairs, made.index, &made)?;
        device.subscribers.add(Object::Qp(made.index), &init.events, init.cookie)?;
        Ok(made)
    }

    /// Checks sizes and queues, and leaves out what the type has no use for.
    fn check(init: &QpInit) -> Result<QpInit> {
        let mut init = init.clone();
        let missing = Err(Error::Invalid("a queue or domain is missing"));
        match init.qp_type {
            QpType::Rc | QpType::Uc | QpType::Ud => {
                if init.send_cq.is_none() || init.recv_cq.is_none() {
                    return missing;
                }
                init.xrcd = None;
            }
            QpType::XrcSend => {
                if init.send_cq.is_none() {
                    return missing;
                }
                (init.recv_cq, init.srq, init.xrcd) = (None, None, None);
            }
            QpType::XrcRecv => {
                if init.xrcd.is_none() {
                    return missing;
                }
                (init.send_cq, init.recv_cq, init.srq) = (None, None, None);
                (init.pd, init.cap) = (0, Capabilities::default());
            }
        }
        if init.srq.as_ref().is_some_and(|srq| srq.srq_type() != SrqType::Basic) {
            return Err(Error::Invalid("a shared receive queue of another kind"));
        }
        if init.srq.is_some() || init.recv_cq.is_none() {
            (init.cap.max_recv_wr, init.cap.max_recv_sge) = (0, 0);
        }
        init.cap.check()?;
        init.cap.round_up();
        Ok(init)
    }

    fn create(device: &Arc<Device>, init: &QpInit) -> Result<Arc<Self>> {
        let own_ring = init.recv_cq.is_some() && init.srq.is_none();
        let (capacity, receive_words) =
            if own_ring { ring(init.cap.max_recv_wr, init.cap.max_recv_sge)? } else { (0, 2) };
        let shape = Shape { capacity, receive_words, bell: None, alert: Some(init.events.bell()) };
        device.finish_deferred();
        let object = device.endpoint.objects.create(Object::Qp(0), shape)?;
        let made = Self::assemble(device, init, object, own_ring);
        if made.is_err() {
            device.end(object);
        }
        made
    }

    fn assemble(device: &Arc<Device>, init: &QpInit, object: Object, own_ring: bool) -> Result<Arc<Self>> {
        let index = match object {
            Object::Qp(index) if index < MAX_NUMBERED => index,
            _ => return Err(Error::NoMemory),
        };
        let qp_num = device.endpoint.number(index);
        let receive = own_ring
            .then(|| ReceiveRing::new(device, object, 0, init.cap.max_recv_wr, init.cap.max_recv_sge))
            .transpose()?;
        let own = &device.endpoint.own;
        let state_word = own.offset(Word::Qp(index, QpWord::State)).and_then(|at| own.hold_word(at));
        let state_word = state_word.ok_or(Error::NoMemory)?;
        let limits = request::Limits {
            max_send_wr: init.cap.max_send_wr,
            max_send_sge: init.cap.max_send_sge,
            max_inline: init.cap.max_inline_data,
        };
        device.unpolled(index).store(0, Ordering::Relaxed);
        let receive_pd = match (&init.srq, init.qp_type) {
            (_, QpType::XrcRecv) => MANY_DOMAINS,
            (srq, _) => srq.as_ref().map_or(init.pd, |srq| srq.pd()),
        };
        device.receive_pds[index as usize].store(receive_pd, Ordering::Relaxed);
        let requester = Requester::new(qp_num, init.qp_type, init.sq_sig_all);
        let initiator = Initiator::new(qp_num, init.qp_type, init.pd);
        let initiator = Initiator { blocks_own_multicast: init.blocks_own_multicast, ..initiator };
        let carrier = Carrier::new(init.qp_type, limits.max_send_wr)?;
        let attributes = Attributes { cap: init.cap, ..Attributes::default() };
        let side = SendSide::new(requester, initiator, carrier, &limits, attributes)?;
        Ok(try_arc_cyclic(|me| Self {
            device: device.clone(),
            me: me.clone(),
            index,
            qp_num,
            init: init.clone(),
            limits,
            state_word,
            send: QueueLock::new(side),
            receive: receive.map(QueueLock::new),
            receives: init.srq.as_ref().map_or(init.cap.max_recv_wr, |srq| srq.max_wr()),
            direct: QueueLock::new(None),
            datagrams: QueueLock::new(None),
            partner: NOBODY.into(),
            groups: 0.into(),
            handles: 1.into(),
            far: false.into(),
            arrivals: Arrivals::default(),
            mailbox: Mailbox::default(),
            timed_at: NOT_LISTED.into(),
            due_at: due::NEVER.into(),
            is_kept: false.into(),
            has_missed: false.into(),
            closed: false.into(),
        })?)
    }

    /// Its number.
    #[must_use]
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// Its type.
    #[must_use]
    pub fn qp_type(&self) -> QpType {
        self.init.qp_type
    }

    /// The sizes it was made with: at least what was asked for.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.init.cap
    }

    /// Its state, which peers change to ERR.
    #[must_use]
    pub fn state(&self) -> QpState {
        let number = self.state_word.get().load(Ordering::Acquire);
        QpState::from_number(number as u32).unwrap_or(QpState::Err)
    }

    /// Changes attributes (`ibv_modify_qp`). `mask` names those of `attributes` that count.
    ///
    /// # Errors
    /// [`Error::Modify`] when the change is not legal now, [`Error::Invalid`] for a value out of range,
    /// [`Error::Host`] and [`Error::NoMemory`] when a peer is named and what it takes to reach it cannot be
    /// had. Nothing has changed then.
    pub fn modify(&self, mask: Attr, attributes: &Attributes) -> Result<()> {
        // Later it would be a request that fails, and the connection with it.
        let prepared = match self.init.qp_type {
            QpType::Rc | QpType::Uc | QpType::XrcSend if mask.has(Attr::DEST_QPN) => {
                let own = &self.device.endpoint.own;
                let bells = self.cqs().try_for_each(|cq| shortage(own.find_bell(cq.index())));
                bells.and_then(|()| self.device.endpoint.prepare(attributes.dest_qp_num))
            }
            QpType::XrcRecv if mask.has(Attr::DEST_QPN) => {
                // It answers, and needs nothing for that but that its peer gets at its memory.
                let _ = self.device.endpoint.prepare(attributes.dest_qp_num);
                Ok(())
            }
            _ => Ok(()),
        };
        let (sides, way) = (self.far_sides(mask, attributes)?, self.new_way(mask, attributes)?);
        // What has come until now came before the change.
        self.settle_datagrams(SOON);
        let mut side = self.send_side();
        let side = &mut *side;
        let object = Object::Qp(self.index);
        let own = &self.device.endpoint.own;
        let mut operation = Operation::new(own);
        operation.lock(object).map_err(busy)?;
        self.device.watched.had(object);
        // Peers change the state behind the lock, too.
        let current = self.state();
        let next = if mask.has(Attr::STATE) { attributes.state } else { current };
        let draining = current == QpState::Sqd && !side.is_drained();
        let checked = attributes.check_change(self.init.qp_type, mask, current, next, draining);
        let checked = checked.and_then(|effect| prepared.map(|()| effect).map_err(Error::from));
        if checked.is_err() {
            operation.unlock(object);
        }
        let effect = checked?;
        side.attributes = side.attributes.merged(mask, attributes);
        if matches!((current, next), (QpState::Init, QpState::Rtr) | (_, QpState::Reset)) {
            self.set_far(sides.is_some());
        }
        match next {
            QpState::Reset => {
                self.end_direct();
                self.end_datagrams(true);
            }
            // Stale completions would count as those of the ring's messages.
            QpState::Rtr if current == QpState::Init && !side.has_stale && sides.is_none() => {
                self.open_direct(side.attributes.dest_qp_num);
                self.open_datagrams(side.attributes.qkey);
            }
            _ => self.set_datagrams_key(side.attributes.qkey),
        }
        self.publish(self.shown(&side.attributes), mask.has(Attr::STATE).then_some(next));
        self.show(&side.attributes);
        let (mut held, mut is_whole) = (None, true);
        let set_state = |state: QpState| own.store(Word::Qp(self.index, QpWord::State), state as u64);
        match effect {
            Effect::Clear => held = reset(own, self.index),
            Effect::Flush => {
                set_state(QpState::Err);
                // Without the lock of its completion queue, who finds the queue pair so flushes it.
                is_whole = self.flush_receives(&mut operation).is_ok();
            }
            Effect::None | Effect::Drain | Effect::Send if next != current => set_state(next),
            Effect::None | Effect::Drain | Effect::Send => {}
        }
        if is_whole {
            operation.unlock(object);
        }
        drop(operation);
        self.put_back(held);
        self.change_far(side, mask, way);
        self.follow(side, mask, (current, next), sides);
        Ok(())
    }

    /// What a change means for the send queue.
    fn follow(
        &self,
        side: &mut SendSide,
        mask: Attr,
        (current, next): (QpState, QpState),
        sides: Option<Sides>,
    ) {
        let attributes = &side.attributes;
        let retry = Retry {
            timeout: attributes.timeout,
            retry_cnt: attributes.retry_cnt,
            rnr_retry: attributes.rnr_retry,
        };
        side.requester.set_retry(retry);
        if let Some(far) = &mut side.far {
            far.requester.set_retry(retry);
            far.requester.set_max_rd_atomic(attributes.max_rd_atomic);
        }
        let initiator = &mut side.initiator;
        initiator.dest_qp_num = attributes.dest_qp_num;
        initiator.dgid = attributes.path.destination();
        initiator.qkey = attributes.qkey;
        initiator.max_rd_atomic = attributes.max_rd_atomic;
        if mask.has(Attr::STATE) && matches!(next, QpState::Reset | QpState::Rtr) || mask.has(Attr::AV) {
            side.carrier.reconnect();
        }
        if !mask.has(Attr::STATE) {
            return;
        }
        side.requester.set_state(next);
        if (current, next) == (QpState::Rtr, QpState::Rts) {
            side.datagram_psn = Psn::new(side.attributes.sq_psn);
            side.alone.begin(side.attributes.sq_psn);
        }
        if next == QpState::Reset {
            self.talks_afar(false);
        }
        self.follow_far(side, (current, next), retry, sides);
        if next == QpState::Reset {
            side.ring.clear();
            (side.silent, side.tells_drained, side.unflushed) = (0, false, false);
            // What a stopped peer keeps from being removed is polled, as if the reset had come a little later.
            side.has_stale = self.forget_completions().iter().any(Option::is_some);
            if let Some(permissions) = &self.device.endpoint.permissions {
                permissions.clear(Object::Qp(self.index));
            }
        }
        if next == QpState::Sqd && current != QpState::Sqd && side.attributes.en_sqd_async_notify {
            side.tells_drained = true;
        }
        self.work(side, false);
        self.tell_drained(side);
    }

    /// Whether a process may have its lock and change something behind it, by what this process knows itself.
    pub(super) fn may_be_held_by(&self, peer: Owner) -> bool {
        match self.partner.load(Ordering::Acquire) {
            NOBODY => false,
            ANYBODY => true,
            // A peer may have put it in error.
            slot => slot == u32::from(peer.slot()) || self.state() == QpState::Err,
        }
    }

    /// The queue pair broke: what its peer does from here on is refused, whatever the state in the segment is.
    fn broke(&self) {
        if let Some(permissions) = &self.device.endpoint.permissions {
            permissions.set_state(self.index, QpState::Err);
        }
    }

    /// Attributes as they are now (`ibv_query_qp`).
    #[must_use]
    pub fn query(&self) -> Queried {
        let side = self.send_side();
        let state = self.state();
        let attributes = Attributes { state, cur_state: state, ..side.attributes };
        let sq_draining = state == QpState::Sqd && !side.is_drained();
        Queried { attributes, sq_draining, sq_sig_all: self.init.sq_sig_all }
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// [`Rejected::State`] in RESET and on a queue pair with a shared receive queue, [`Rejected::TooManySges`],
    /// [`Rejected::Full`].
    pub fn post_receive(&self, wr_id: u64, sges: &[Sge]) -> std::result::Result<(), Rejected> {
        let receive = self.receive.as_ref().ok_or(Rejected::State)?;
        let mut poster = receive.lock();
        if !qp::may_post_receive(self.state()) {
            return Err(Rejected::State);
        }
        let posted = poster.post(&self.device, wr_id, sges);
        drop(poster);
        if let Err(why) = posted {
            self.post_after_all(receive, wr_id, sges, why)?;
        }
        if self.state() == QpState::Err {
            self.flush_if_broken();
        }
        Ok(())
    }

    /// Posts a request again that the queue pair held from a shared receive queue.
    fn put_back(&self, held: Option<(Claim, ReceiveRequest)>) {
        if let Some((claim, request)) = held
            && let Some(srq) = self.device.shared_queue(claim.srq)
        {
            srq.put_back(request.wr_id, &request.sges);
        }
    }

    /// The queues where it completes, each once.
    fn cqs(&self) -> impl Iterator<Item = &Arc<CompletionQueue>> {
        self.each_cq().into_iter().flatten()
    }

    fn each_cq(&self) -> [Option<&Arc<CompletionQueue>>; 2] {
        let (send, recv) = (self.init.send_cq.as_ref(), self.init.recv_cq.as_ref());
        let is_send = |cq: &Arc<CompletionQueue>| send.is_some_and(|send| Arc::ptr_eq(send, cq));
        [send, recv.filter(|recv| !is_send(recv))]
    }

    /// The queues where it completes learn with how many requests at a time.
    fn hold_queues(&self) {
        let QpInit { send_cq, recv_cq, srq, cap, .. } = &self.init;
        send_cq.iter().for_each(|cq| cq.hold(cap.max_send_wr));
        recv_cq.iter().for_each(|cq| match srq {
            Some(srq) => cq.hold_shared(srq.index(), self.receives),
            None => cq.hold(self.receives),
        });
    }

    /// Takes back [`QueuePair::hold_queues`].
    fn release_queues(&self) {
        let QpInit { send_cq, recv_cq, srq, cap, .. } = &self.init;
        send_cq.iter().for_each(|cq| cq.release(cap.max_send_wr));
        recv_cq.iter().for_each(|cq| match srq {
            Some(srq) => cq.release_shared(srq.index(), self.receives),
            None => cq.release(self.receives),
        });
    }

    /// Removes completions that nobody polled; those queues where that was not possible are left.
    fn forget_completions(&self) -> [Option<Weak<CompletionQueue>>; 2] {
        let own = &self.device.endpoint.own;
        let left = self.each_cq().map(|cq| cq.filter(|cq| !cq.clean(own, self.qp_num)).map(Arc::downgrade));
        self.unpolled().store(0, Ordering::Relaxed);
        left
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn limits(&self) -> &request::Limits {
        &self.limits
    }

    pub(super) fn send_cq(&self) -> Option<&Arc<CompletionQueue>> {
        self.init.send_cq.as_ref()
    }

    pub(super) fn recv_cq(&self) -> Option<&Arc<CompletionQueue>> {
        self.init.recv_cq.as_ref()
    }

    /// Its XRC domain.
    pub(super) fn domain(&self) -> Option<u32> {
        self.init.xrcd.as_ref().map(|xrcd| xrcd.number())
    }

    #[inline(always)]
    pub(super) fn unpolled(&self) -> &AtomicU32 {
        self.device.unpolled(self.index)
    }

    /// Its protection domain.
    pub(super) fn pd(&self) -> u32 {
        self.init.pd
    }

    /// Puts it into the list of those that wait.
    pub(super) fn list(&self) {
        if let Some(me) = self.me.upgrade() {
            self.device.retries.add(&me);
        }
    }
}
