//! Targets: the queue pairs that one sends to, with where their queues are, looked up once and kept.

use std::cell::RefCell;
use std::sync::Arc;

use ironverbs_os::growth::try_collect;

use crate::queues::respond::Queues;
use crate::queues::shared::{Claim, Memory as _, Object, QpWord, SrqWord, Word};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport as _, acquire};
use crate::rules::qp::receives;
use crate::rules::verbs::{Opcode, QpState, QpType};
use crate::shm::keys::Seen;
use crate::shm::objects::Held;

use super::attributes::{QP_WORDS, QpAttributes, SrqAttributes, load};
use super::endpoint::Endpoint;
use super::number::place_of;
use super::peers::Remote;
use crate::carrier::wr::Wr;

/// Targets that a datagram queue pair knows at a time.
const KNOWN_AT_A_TIME: usize = 16;

/// The targets that a queue pair sends to: the one that it is connected to, or the last that its datagrams went
/// to.
#[derive(Debug)]
pub(crate) struct Targets {
    /// A power of two.
    places: Vec<Option<Box<Target>>>,
}

impl Targets {
    /// Nobody yet, for a queue pair of this service.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(qp_type: QpType) -> crate::error::Result<Self> {
        let count = if qp_type == QpType::Ud { KNOWN_AT_A_TIME } else { 1 };
        Ok(Self { places: try_collect((0..count).map(|_| None))? })
    }

    /// Where the target with this number is kept.
    #[inline]
    pub(crate) fn place_of(&self, qp_num: u32) -> usize {
        (qp_num ^ qp_num >> 14) as usize & (self.places.len() - 1)
    }

    /// The target that is kept there.
    #[inline(always)]
    pub(crate) fn get(&self, place: usize) -> Option<&Target> {
        self.places[place].as_deref()
    }

    /// Where the target with this number is kept, or goes.
    #[inline]
    pub(crate) fn place(&mut self, qp_num: u32) -> &mut Option<Box<Target>> {
        let place = self.place_of(qp_num);
        &mut self.places[place]
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.places.fill_with(|| None);
    }
}

/// Whether a request that met a receiver without a receive request would meet the same now: a look without a
/// lock, for who tries again and again. `false` when that is not known.
pub(crate) fn is_hopeless(targets: &Targets, wr: &Wr<'_>) -> bool {
    let (Some(target), None) = (targets.get(0), wr.datagram) else { return false };
    let (Some(queues), Some(attributes)) = (target.queues, target.attributes) else { return false };
    let view = target.remote.host.with(&target.held);
    let qp = |word| view.load(Word::Qp(queues.qp, word));
    let is_empty = match queues.srq {
        Some(srq) => {
            let srq_word = |word| view.load(Word::Srq(srq, word)) as u32;
            attributes.qp_type != QpType::XrcRecv
                && view.is_current(Object::Srq(srq))
                && Claim::unpack(qp(QpWord::Claim)).is_none()
                && srq_word(SrqWord::Head) == srq_word(SrqWord::Tail)
        }
        None => qp(QpWord::Head) as u32 == qp(QpWord::Tail) as u32,
    };
    let needs = matches!(
        wr.opcode,
        Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::RdmaWriteWithImm
    );
    needs
        && is_empty
        && view.is_current(Object::Qp(queues.qp))
        && QpState::from_number(qp(QpWord::State) as u32).is_some_and(receives)
}

/// A target queue pair and where its queues are.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) qp_num: u32,
    dgid: [u8; 16],
    pub(crate) remote: Arc<Remote>,
    pub(crate) qp: u32,
    pub(crate) generation: u64,
    pub(crate) held: Held,
    /// The target's attributes as they stand there, and what they mean.
    pub(crate) words: [u64; QP_WORDS],
    pub(crate) attributes: Option<QpAttributes>,
    pub(crate) queues: Option<Queues>,
    pub(crate) xrc: Option<Xrc>,
    /// The shared receive queue that it names is being moved just now.
    pub(crate) is_moving: bool,
    /// The key of the target that small messages went to last.
    pub(crate) seen: RefCell<Option<Seen>>,
}

/// The shared receive queue that an XRC request names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Xrc {
    pub(crate) srq_num: u32,
    pub(crate) pd: u32,
}

impl Target {
    /// Whether it is this queue pair at this address.
    #[inline]
    pub(crate) fn is(&self, qp_num: u32, dgid: &[u8; 16]) -> bool {
        self.qp_num == qp_num && self.dgid == *dgid
    }

    /// The address.
    pub(crate) fn dgid(&self) -> [u8; 16] {
        self.dgid
    }

    /// The number names the process and the queue pair, so that nobody else is asked; whether the address is
    /// that process's is looked at once for each target.
    pub(crate) fn find(endpoint: &Endpoint, qp_num: u32, dgid: [u8; 16]) -> Option<Self> {
        let (slot, qp) = place_of(qp_num)?;
        let remote = endpoint.peers.get(slot).filter(|remote| endpoint.reaches(remote, &dgid))?;
        Self::at(remote, (qp_num, qp), dgid)
    }

    /// The own queue pair with this number and index, for what comes from another host.
    ///
    /// # Errors
    /// [`Error::Host`](crate::error::Error::Host): there is none.
    pub(crate) fn own(endpoint: &Endpoint, qp_num: u32, qp: u32) -> crate::error::Result<Self> {
        let gone = || crate::error::Error::Host(crate::shm::Error::Gone);
        let remote = endpoint.peers.get(endpoint.segment.owner().slot()).ok_or_else(gone)?;
        Self::at(remote, (qp_num, qp), [0; 16]).ok_or_else(gone)
    }

    fn at(remote: Arc<Remote>, (qp_num, qp): (u32, u32), dgid: [u8; 16]) -> Option<Self> {
        let held = remote.host.find([Some(Object::Qp(qp)), None, None]);
        let generation = held.generation(Object::Qp(qp))?;
        Some(Self {
            qp_num,
            dgid,
            remote,
            qp,
            generation,
            held,
            words: [0; QP_WORDS],
            attributes: None,
            queues: None,
            xrc: None,
            is_moving: false,
            seen: RefCell::new(None),
        })
    }

    /// Its queues were moved: finds them where they are. `false` where it has ended.
    pub(crate) fn find_queues_again(&mut self) -> bool {
        let object = Object::Qp(self.qp);
        let now = self.remote.host.find([Some(object), None, None]);
        let is_same = now.generation(object) == Some(self.generation);
        if is_same {
            self.held.add(&now);
            self.words = [0; QP_WORDS];
        }
        is_same
    }

    /// Takes the target's lock, as `lock` does. A datagram queue pair is shared by many senders, and
    /// one may be stopped with the lock: that is waited for once, not for each datagram again.
    ///
    /// # Errors
    /// As those of [`acquire`].
    #[inline]
    pub(crate) fn lock(
        &self,
        is_datagram: bool,
        lock: impl FnOnce() -> Result<(), LockError>,
    ) -> Result<(), LockError> {
        if is_datagram && self.remote.is_kept(self.qp) && self.is_kept_still() {
            return Err(LockError::Busy);
        }
        let locked = lock();
        if is_datagram && locked == Err(LockError::Busy) {
            self.remote.set_kept(self.qp, true);
        }
        locked
    }

    #[cold]
    fn is_kept_still(&self) -> bool {
        let (view, qp) = (self.remote.brief.with(&self.held), Object::Qp(self.qp));
        let locked = acquire(&view, qp);
        if locked.is_ok() {
            view.unlock(qp);
        }
        let is_kept = locked == Err(LockError::Busy);
        self.remote.set_kept(self.qp, is_kept);
        is_kept
    }

    /// Looks the target's queues up anew.
    pub(crate) fn refresh(&mut self, words: [u64; QP_WORDS], srq_num: u32) {
        self.words = words;
        self.attributes = QpAttributes::unpack(&words);
        (self.queues, self.xrc, self.is_moving) = (None, None, false);
        let Some(attributes) = self.attributes else { return };
        let host = &self.remote.host;
        let (mut cq, mut srq) = (attributes.cq, attributes.srq);
        if attributes.qp_type == QpType::XrcRecv {
            (cq, srq) = (None, None);
            // A queue of another process of the domain is not within reach of this one's transactions.
            let here = place_of(self.qp_num).map(|place| place.0);
            if let Some((_, index)) = place_of(srq_num).filter(|place| Some(place.0) == here) {
                let object = Object::Srq(index);
                let held = host.find([Some(object), None, None]);
                self.is_moving = !held.has(object) && host.exists(object);
                if held.has(object)
                    && let SrqAttributes { pd, xrc: Some((its_cq, xrcd)), .. } =
                        SrqAttributes::unpack(&load(&host.with(&held), object))
                    && xrcd == attributes.xrcd
                {
                    self.xrc = Some(Xrc { srq_num, pd });
                    (cq, srq) = (Some(its_cq), Some(index));
                }
            }
        }
        let Some(cq) = cq else { return };
        self.held.add(&host.find([None, srq.map(Object::Srq), Some(Object::Cq(cq))]));
        let there = srq.is_none_or(|srq| self.held.has(Object::Srq(srq))) && self.held.has(Object::Cq(cq));
        self.queues = there.then_some(Queues { qp: self.qp, cq, srq });
    }
}
