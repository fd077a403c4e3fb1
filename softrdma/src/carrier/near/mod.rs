//! The way to processes of this folder, and to the own one: what a queue pair's sending side keeps for it.
//!
//! | file | what |
//! |---|---|
//! | [`endpoint`], [`peers`] | the own segment with its tables; other processes |
//! | [`number`], [`attributes`] | what numbers mean; what a queue's owner set, as peers read it |
//! | [`target`] | the queue pairs that one sends to |
//! | [`execute`](mod@execute), [`windows`] | one request, by itself; one that leaves no process |
//! | `at_target` | a request at its target, by the rules of a responder |
//! | [`bytes`], [`key_cache`] | the bytes of messages; a key that is asked for again and again |
//! | `mapped` | places in the memory of a target, looked up once |
//! | [`one_sided`] | writes and reads that go as one before them went |
//! | [`direct`] | small messages of a connection, without a lock |
//! | [`burst`] | small messages to one target, many behind one pair of locks |
//! | [`completion_order`] | own completions, before the answer of a peer that is woken |
//! | [`own_ring`] | own completions of what succeeded, in the process's own memory |
//! | [`entries`] | the entries of an own completion queue |
//! | [`multicast`] | the members of multicast groups |
//! | [`permissions`] | what the own process goes by in the folder of a group |

pub(crate) mod at_target;
pub mod attributes;
pub mod burst;
pub mod bytes;
pub mod completion_order;
pub mod direct;
pub mod endpoint;
pub mod entries;
pub mod execute;
pub mod key_cache;
mod mapped;
pub mod multicast;
pub mod number;
pub mod one_sided;
pub mod own_ring;
pub mod peers;
pub mod permissions;
pub mod target;
pub mod windows;

use crate::carrier::initiator::Initiator;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::{Sent, Started};
use crate::carrier::wr::{Datagram, OneSided, PlainSend, Wr};
use crate::error::Result;
use crate::rules::requester::{Outcome, Posted, Syndrome};
use crate::rules::verbs::{Opcode, QpType, SendFlags};

use self::burst::{BurstOutcome, OpenBurst};
use self::completion_order::CompletionOrder;
use self::direct::{
    DatagramWriters, RingWriter, find_room, send, send_prepared, send_shared_prepared, send_word, wake,
    was_delivered,
};
use self::endpoint::Endpoint;
use self::execute::execute;
use self::multicast::each_member;
use self::one_sided::Accesses;
use self::target::{Targets, is_hopeless};

/// The number of the queue pair that stands for all members of a multicast group.
const MULTICAST: u32 = 0xff_ffff;

/// See the module. Its queue pair holds it alone while a request is under way.
#[derive(Debug)]
pub struct Near {
    targets: Targets,
    burst: OpenBurst,
    /// Connected queue pairs: the peer's direct ring.
    writer: Option<RingWriter>,
    /// Datagram queue pairs: rings of those that they send to.
    datagrams: DatagramWriters,
    accesses: Accesses,
}

impl Near {
    /// That of a fresh queue pair with a send queue of so many requests.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub fn new(qp_type: QpType, max_send_wr: u32) -> Result<Self> {
        let (targets, burst) = (Targets::new(qp_type)?, OpenBurst::new(max_send_wr)?);
        let (datagrams, accesses) = (DatagramWriters::default(), Accesses::default());
        Ok(Self { targets, burst, writer: None, datagrams, accesses })
    }

    /// Forgets whom it talked to. Rings of datagrams stay: what waits there comes before what follows.
    pub fn reconnect(&mut self) {
        self.writer = None;
        self.accesses.forget();
        self.targets.clear();
    }

    /// Its queue pair ends: nobody writes to a ring of its peers any more.
    pub(crate) fn end(&mut self) {
        self.reconnect();
        self.datagrams.forget();
    }

    /// Starts a request, by the first way that takes it: the direct ring, a burst, or executed by itself.
    #[inline(always)]
    pub(crate) fn start(&mut self, out: &Outgoing<'_, '_>) -> Started {
        if is_send(out.wr) && self.writer.is_some() && !self.burst.is_open() {
            match send(&mut self.writer, out, self.targets.get(0), self.burst.bytes()) {
                Sent::Done(false) => return Started::Ended(Outcome::Done(out.request.length as u32)),
                Sent::NotTaken => {}
                sent => {
                    if let Some(outcome) = self.clear_up(sent, out) {
                        return Started::Ended(outcome);
                    }
                }
            }
        } else if let Some(to) = &out.wr.datagram
            && let Some(outcome) = self.start_datagram(out, to)
        {
            return Started::Ended(outcome);
        }
        self.start_again(out)
    }

    /// Starts a datagram by a direct ring, if it goes that way.
    #[inline(never)]
    fn start_datagram(&mut self, out: &Outgoing<'_, '_>, to: &Datagram<'_>) -> Option<Outcome> {
        if self.burst.is_open() {
            return None;
        }
        let Self { targets, burst, datagrams, .. } = self;
        let is_sent = match datagrams.send(out, to, targets, burst.bytes()) {
            Sent::NotTaken => false,
            Sent::Done(false) => true,
            sent => datagrams.clear_up(sent, to, out.wr.flags.has(SendFlags::SOLICITED), out.order),
        };
        is_sent.then_some(Outcome::Done(out.request.length as u32))
    }

    /// Whether [`Near::send_plain_datagram`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared_for_datagrams(&self) -> bool {
        self.datagrams.is_prepared()
    }

    /// Sends a datagram as one before it to the same queue pair went, where nothing has changed since.
    #[inline(always)]
    pub(crate) fn send_plain_datagram(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        send: &PlainSend,
        to: &Datagram<'_>,
    ) -> Sent {
        self.datagrams.send_plain(endpoint, from, send, to)
    }

    /// Ends what [`Near::send_plain_datagram`] began; `false` where nothing happened.
    #[cold]
    pub(crate) fn clear_up_datagram(
        &mut self,
        sent: Sent,
        to: &Datagram<'_>,
        solicited: bool,
        order: &CompletionOrder<'_>,
    ) -> bool {
        self.datagrams.clear_up(sent, to, solicited, order)
    }

    /// Before a datagram goes by a lock of its target: what waits for it in a direct ring comes first.
    ///
    /// # Errors
    /// The target cannot be had.
    #[inline]
    fn settle_datagrams(&mut self, out: &Outgoing<'_, '_>) -> std::result::Result<(), Outcome> {
        let Some(to) = out.wr.datagram.filter(|_| self.is_prepared_for_datagrams()) else { return Ok(()) };
        let Self { targets, burst, datagrams, .. } = self;
        datagrams.settle(out.endpoint, out.from, to.qp_num, targets, burst.bytes())
    }

    /// Whether a message went by the direct ring, and left what it went by.
    #[inline(always)]
    pub(crate) fn is_prepared(&self) -> bool {
        self.writer.as_ref().is_some_and(RingWriter::is_prepared)
    }

    /// Whether the direct ring is known to have room for a message of eight bytes.
    #[inline(always)]
    pub(crate) fn has_room_for_word(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.has_quick_room(8))
    }

    /// Looks for it, and for some that follow.
    #[inline(always)]
    pub(crate) fn find_room_for_word(&mut self) -> bool {
        self.writer.as_mut().is_some_and(|writer| find_room(writer, 8))
    }

    /// Sends a message of eight bytes as the last one went, where nothing has changed since.
    #[inline(always)]
    pub(crate) fn send_word(&mut self, endpoint: &Endpoint, flags: SendFlags, addr: u64, lkey: u32) -> Sent {
        match &mut self.writer {
            Some(writer) => send_word(writer, endpoint, flags, addr, lkey),
            None => Sent::NotTaken,
        }
    }

    /// The same of any message.
    pub(crate) fn send_plain(&mut self, endpoint: &Endpoint, from: &Initiator, send: &PlainSend) -> Sent {
        match &mut self.writer {
            Some(writer) if writer.is_shared() => send_shared_prepared(writer, endpoint, from.pd, send),
            Some(writer) => send_prepared(writer, endpoint, from, send),
            None => Sent::NotTaken,
        }
    }

    /// Whether a write or read left what it went by.
    #[inline(always)]
    pub(crate) fn is_prepared_for_access(&self) -> bool {
        self.accesses.is_prepared()
    }

    /// Carries out a write or a read as one before it, where nothing has changed since.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        access: &OneSided,
    ) -> Option<Outcome> {
        debug_assert!(!self.burst.is_open(), "a target is held");
        self.accesses.carry_out(self.targets.get(0)?, &mut self.writer, endpoint, from, access)
    }

    /// Starts a request by a lock of its target: in a burst, or executed by itself.
    #[inline]
    pub(crate) fn start_again(&mut self, out: &Outgoing<'_, '_>) -> Started {
        if is_send(out.wr) { self.start_in_burst(out) } else { self.start_alone(out) }
    }

    /// What became of a message of the direct ring whose target may have gone to sleep meanwhile, or that
    /// nobody knows of; `None` where nothing happened. The target is woken before anybody learns that the
    /// message was sent: who dies in between has told nobody.
    #[cold]
    pub(crate) fn clear_up(&mut self, sent: Sent, out: &Outgoing<'_, '_>) -> Option<Outcome> {
        let is_there = match sent {
            Sent::Unclear => was_delivered(&mut self.writer, self.targets.get(0)),
            _ => Some(true),
        };
        match is_there {
            Some(true) => {
                if let Some(target) = self.targets.get(0) {
                    wake(target, out.wr.flags.has(SendFlags::SOLICITED), out.order);
                }
                Some(Outcome::Done(out.request.length as u32))
            }
            Some(false) => None,
            // The connection breaks.
            None => Some(Outcome::Refused(Syndrome::Operational)),
        }
    }

    /// Starts a request that no other is under way with.
    #[inline(never)]
    fn start_alone(&mut self, out: &Outgoing<'_, '_>) -> Started {
        if self.unsettled() > 0 {
            return Started::SettleFirst;
        }
        Started::Ended(self.execute(out))
    }

    /// Starts a send behind the lock of its target, with others.
    #[inline(never)]
    fn start_in_burst(&mut self, out: &Outgoing<'_, '_>) -> Started {
        if self.burst.must_end_before(out.wr) {
            return Started::SettleFirst;
        }
        if !self.burst.is_open()
            && let Err(outcome) = self.settle_datagrams(out)
        {
            return Started::Ended(outcome);
        }
        let Self { targets, burst, writer, .. } = self;
        match burst.deliver(out, targets, writer) {
            BurstOutcome::Delivered => Started::Settles,
            BurstOutcome::NotTaken => self.start_alone(out),
            BurstOutcome::NoAnswer => Started::Ended(Outcome::NoAnswer),
            BurstOutcome::Held => Started::Ended(Outcome::Held),
        }
    }

    /// Carries out one request now; never waits for anything but short locks. None is to be settled.
    #[inline]
    pub fn execute(&mut self, out: &Outgoing<'_, '_>) -> Outcome {
        debug_assert!(!self.burst.is_open(), "a target is held");
        let outcome = match &out.wr.datagram {
            Some(datagram) if datagram.qp_num == MULTICAST => self.multicast(out, datagram),
            _ => self.settle_datagrams(out).map_or_else(
                |outcome| outcome,
                |()| {
                    let Self { targets, burst, writer, .. } = self;
                    execute(out, targets, writer, burst.bytes())
                },
            ),
        };
        self.accesses.follow(self.targets.get(0));
        if !matches!(outcome, Outcome::Done(_)) {
            out.order.give_back();
        } else if let Some(access) = OneSided::of(out.wr)
            && let Some(target) = self.targets.get(0)
        {
            self.accesses.prepare(target, out, &access);
        }
        outcome
    }

    /// Sends a datagram to every member of its group, to the sender too where it is one, unless it was made
    /// not to get its own.
    fn multicast(&mut self, out: &Outgoing<'_, '_>, datagram: &Datagram<'_>) -> Outcome {
        // Several are woken, one after the other.
        let (order, mut outcome) = (CompletionOrder::new(None), None);
        let (from, out) = (out.from, Outgoing { order: &order, ..*out });
        let Self { targets, burst, writer, datagrams, .. } = self;
        let room = burst.bytes();
        // The sender has no lock of its own that a member's side needs: it is reached as by its number.
        each_member(out.endpoint, &datagram.dgid, |qp_num| {
            let is_refused = matches!(outcome, Some(Outcome::Local(_)));
            if !is_refused && (qp_num != from.qp_num || !from.blocks_own_multicast) {
                let wr = Wr { datagram: Some(Datagram { qp_num, ..*datagram }), ..*out.wr };
                let settled = datagrams.settle(out.endpoint, from, qp_num, targets, room);
                let one = settled.map_or_else(
                    |outcome| outcome,
                    |()| execute(&Outgoing { wr: &wr, ..out }, targets, writer, room),
                );
                if outcome.is_none() || matches!(one, Outcome::Local(_)) {
                    outcome = Some(one);
                }
            }
        });
        // Nobody is in the group: the request is checked as any other, and lost.
        outcome.unwrap_or_else(|| execute(&out, targets, writer, room))
    }

    /// Messages of a burst that nobody was told of.
    #[inline(always)]
    pub(crate) fn unsettled(&self) -> u32 {
        self.burst.requests().len() as u32
    }

    /// Ends the burst; the first so many of its messages, or all, are there.
    pub(crate) fn settle(&mut self) -> u32 {
        if self.burst.is_open() {
            self.burst.end(&self.targets, &mut self.writer);
        }
        self.burst.kept()
    }

    /// One of the requests of the burst that has ended.
    pub(crate) fn settled(&self, nth: u32) -> Option<Posted> {
        self.burst.requests().get(nth as usize).copied()
    }

    /// Whoever sent them knows what became of them.
    pub(crate) fn forget_settled(&mut self) {
        self.burst.forget();
    }

    /// Whether a request that met a receiver without a receive request would meet the same now.
    #[must_use]
    pub fn is_hopeless(&self, wr: &Wr<'_>) -> bool {
        is_hopeless(&self.targets, wr)
    }
}

/// Whether it may go by a direct ring, or in a burst.
#[inline(always)]
fn is_send(wr: &Wr<'_>) -> bool {
    matches!(wr.opcode, Opcode::Send | Opcode::SendWithImm)
}
