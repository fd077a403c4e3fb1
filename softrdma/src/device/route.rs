//! The way from a queue pair to those it sends to.

use std::cell::RefCell;
use std::sync::Arc;

use crate::growth::try_collect;
use crate::protocol::qp::receives;
use crate::protocol::respond::Queues;
use crate::protocol::responder::Incoming;
use crate::protocol::shared::{Claim, Memory as _, Object, QpWord, SrqWord, Word};
use crate::protocol::transport::{LockError, Transport as _, acquire};
use crate::protocol::verbs::{Opcode, QpState, QpType, SendFlags};
use crate::shm::keys::Seen;
use crate::shm::objects::Held;

use super::attributes::{QP_WORDS, QpAttributes, SrqAttributes, load};
use super::direct::RingWriter;
use super::endpoint::{Endpoint, place_of};
use super::fast_path::FastPath;
use super::peers::Remote;
use super::wr::Wr;

/// Targets that a datagram queue pair knows at a time.
const ROUTES: usize = 16;

/// The sending side of a queue pair, as [`execute`](super::execute::execute) needs it. Its owner changes it
/// with the queue pair, and holds it alone while a request is carried out.
#[derive(Debug)]
pub struct Initiator {
    /// Its number.
    pub qp_num: u32,
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// The peer's number.
    pub dest_qp_num: u32,
    /// The address that the peer is reached at.
    pub dgid: [u8; 16],
    /// Datagrams: the own key.
    pub qkey: u32,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// Longest datagram.
    pub mtu: u32,
    /// A power of two.
    pub(super) routes: Vec<Option<Box<Route>>>,
    pub(super) fast_path: FastPath,
    /// Connected queue pairs: the direct ring of the peer.
    pub(super) ring_writer: Option<RingWriter>,
}

impl Initiator {
    /// That of a fresh queue pair.
    ///
    /// # Errors
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub fn new(qp_num: u32, qp_type: QpType, pd: u32) -> super::Result<Self> {
        let count = if qp_type == QpType::Ud { ROUTES } else { 1 };
        let routes = try_collect((0..count).map(|_| None))?;
        let (dest_qp_num, dgid, qkey, max_rd_atomic, mtu) = (0, [0; 16], 0, 0, 4096);
        Ok(Self {
            qp_num,
            qp_type,
            pd,
            dest_qp_num,
            dgid,
            qkey,
            max_rd_atomic,
            mtu,
            routes,
            fast_path: FastPath::default(),
            ring_writer: None,
        })
    }

    /// The queue pair that a request is for, and the address that it is reached at.
    #[inline]
    pub(super) fn destination(&self, wr: &Wr<'_>) -> (u32, [u8; 16]) {
        wr.datagram.as_ref().map_or((self.dest_qp_num, self.dgid), |to| (to.qp_num, to.dgid))
    }

    /// A request that brings so many bytes, as it arrives.
    #[inline(always)]
    pub(super) fn incoming(&self, wr: &Wr<'_>, length: u64) -> Incoming {
        let qkey = match &wr.datagram {
            // With the top bit set, the sender's own key goes instead (IBA §10.2.5).
            Some(to) if to.qkey >> 31 == 0 => to.qkey,
            _ => self.qkey,
        };
        Incoming {
            qp_type: self.qp_type,
            opcode: wr.opcode,
            src_qp: self.qp_num,
            path_matches: true,
            qkey,
            ipv4: wr.datagram.as_ref().is_some_and(|to| to.grh[0] >> 4 != 6),
            length,
            addr: 0,
            imm_or_key: wr.imm_or_key,
            solicited: wr.flags.has(SendFlags::SOLICITED),
            timestamp: 0,
        }
    }

    /// Where the way to this queue pair is kept.
    #[inline]
    pub(super) fn place_of(&self, qp_num: u32) -> usize {
        (qp_num ^ qp_num >> 14) as usize & (self.routes.len() - 1)
    }

    /// Forgets whom it talked to: on RESET, and on RTR after the attributes were set.
    pub fn reconnect(&mut self) {
        self.ring_writer = None;
        self.routes.fill_with(|| None);
    }
}

/// Whether a request that met a receiver without a receive request would meet the same now: a look without a
/// lock, for who tries again and again. `false` when that is not known.
pub fn is_hopeless(from: &Initiator, wr: &Wr<'_>) -> bool {
    let (Some(Some(route)), None) = (from.routes.first(), wr.datagram) else { return false };
    let (Some(queues), Some(attributes)) = (route.queues, route.attributes) else { return false };
    let view = route.remote.host.with(&route.held);
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
pub(super) struct Route {
    pub(super) qp_num: u32,
    dgid: [u8; 16],
    pub(super) remote: Arc<Remote>,
    pub(super) qp: u32,
    pub(super) generation: u64,
    pub(super) held: Held,
    /// The target's attributes as they stand there, and what they mean.
    pub(super) words: [u64; QP_WORDS],
    pub(super) attributes: Option<QpAttributes>,
    pub(super) queues: Option<Queues>,
    pub(super) xrc: Option<Xrc>,
    /// The shared receive queue that it names is being moved just now.
    pub(super) is_moving: bool,
    /// The key of the target that small messages went to last.
    pub(super) seen: RefCell<Option<Seen>>,
}

/// The shared receive queue that an XRC request names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Xrc {
    pub(super) srq_num: u32,
    pub(super) pd: u32,
}

impl Route {
    /// Whether it is the way to this queue pair at this address.
    #[inline]
    pub(super) fn leads_to(&self, qp_num: u32, dgid: &[u8; 16]) -> bool {
        self.qp_num == qp_num && self.dgid == *dgid
    }

    /// The number names the process and the queue pair, so that nobody else is asked; whether the address is
    /// that process's is looked at once for each target.
    pub(super) fn find(endpoint: &Endpoint, qp_num: u32, dgid: [u8; 16]) -> Option<Self> {
        let (slot, qp) = place_of(qp_num)?;
        let remote = endpoint.peers.get(slot).filter(|remote| endpoint.reaches(remote, &dgid))?;
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

    /// Takes the target's lock, as `lock` does. A datagram queue pair is shared by many senders, and
    /// one may be stopped with the lock: that is waited for once, not for each datagram again.
    ///
    /// # Errors
    /// As those of [`acquire`].
    #[inline]
    pub(super) fn lock(
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
    pub(super) fn refresh(&mut self, words: [u64; QP_WORDS], srq_num: u32) {
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
