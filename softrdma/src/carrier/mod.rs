//! What brings the requests of a queue pair to their targets.
//!
//! | file | what |
//! |---|---|
//! | this | the seam between a queue pair and what carries its requests |
//! | [`wr`] | a send request, borrowed from whoever posts it |
//! | [`initiator`] | who sends |
//! | [`outgoing`] | a request with all that is needed to start it |
//! | [`started`] | what became of a request that was started |
//! | [`near`] | to other processes of this folder, and to the own one |
//! | [`far`] | to other hosts |
//!
//! A queue pair starts one request after the other, oldest first:
//!
//! | what it learns | what it does |
//! |---|---|
//! | [`Started::Ended`] | follows: `rules::requester` says whether it completes, is tried later or fails |
//! | [`Started::Settles`] | goes on; it ends with others at [`Carrier::settle`], within the same call |
//! | [`Started::SettleFirst`] | settles, and [starts it again](Carrier::start_again) |
//!
//! A request that is to be tried again waits with the queue pair (`device/send.rs`), which then
//! [executes](Carrier::execute) it by itself. The wait for a missing answer begins when the carrier says
//! `NoAnswer`, and a program that polls may have it tried before its time.
//!
//! None is under way any longer than a call. That is not so between hosts: a queue pair that is connected to
//! one leaves its requests in the queue until they are answered, goes past this seam (`device/far.rs`), and has
//! what it needs for it beside the carrier ([`far::sender`]).
//!
//! A peer is an address (GID) and a number. What a number means inside is the carrier's own.

pub mod far;
pub mod initiator;
pub mod near;
pub mod outgoing;
pub mod started;
pub mod wr;

use crate::error::Result;
use crate::rules::requester::{Outcome, Posted};
use crate::rules::verbs::{QpType, SendFlags};

use initiator::Initiator;
use near::Near;
use near::completion_order::CompletionOrder;
use near::endpoint::Endpoint;
use outgoing::Outgoing;
use started::{Sent, Started};
use wr::{Datagram, OneSided, PlainSend, Wr};

/// What carries the requests of a queue pair, which holds it alone while one is started.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// To processes of this folder.
    Near(Near),
}

impl Carrier {
    /// That of a fresh queue pair with a send queue of so many requests.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(qp_type: QpType, max_send_wr: u32) -> Result<Self> {
        Ok(Self::Near(Near::new(qp_type, max_send_wr)?))
    }

    /// Forgets whom it talked to: on RESET, on RTR, and where the way changes (`IBV_QP_AV`).
    pub(crate) fn reconnect(&mut self) {
        let Self::Near(near) = self;
        near.reconnect();
    }

    /// Forgets all that it wrote to, at the end.
    pub(crate) fn end(&mut self) {
        let Self::Near(near) = self;
        near.end();
    }

    /// Starts a request; never waits for anything but short locks, and some microseconds for room in a ring.
    #[inline(always)]
    pub(crate) fn start(&mut self, out: &Outgoing<'_, '_>) -> Started {
        let Self::Near(near) = self;
        near.start(out)
    }

    /// Whether [`Carrier::send_plain`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared(&self) -> bool {
        let Self::Near(near) = self;
        near.is_prepared()
    }

    /// Sends a message as the last one went, where nothing has changed since: the short way to what
    /// [`Carrier::start`] does. None is to be settled. Unless it is there, and nobody is to be woken, or
    /// nothing happened, it is [cleared up](Carrier::clear_up).
    pub(crate) fn send_plain(&mut self, endpoint: &Endpoint, from: &Initiator, send: &PlainSend) -> Sent {
        let Self::Near(near) = self;
        near.send_plain(endpoint, from, send)
    }

    /// Whether there is known to be room for a message of eight bytes, as the last one went.
    #[inline(always)]
    pub(crate) fn has_room_for_word(&self) -> bool {
        let Self::Near(near) = self;
        near.has_room_for_word()
    }

    /// Looks for it, and for some that follow.
    #[inline(always)]
    pub(crate) fn find_room_for_word(&mut self) -> bool {
        let Self::Near(near) = self;
        near.find_room_for_word()
    }

    /// As [`Carrier::send_plain`], of eight bytes without immediate data, the most frequent message, for which
    /// there [is room](Carrier::has_room_for_word).
    #[inline(always)]
    pub(crate) fn send_word(&mut self, endpoint: &Endpoint, flags: SendFlags, addr: u64, lkey: u32) -> Sent {
        let Self::Near(near) = self;
        near.send_word(endpoint, flags, addr, lkey)
    }

    /// Whether [`Carrier::send_plain_datagram`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared_for_datagrams(&self) -> bool {
        let Self::Near(near) = self;
        near.is_prepared_for_datagrams()
    }

    /// As [`Carrier::send_plain`], of a datagram; [cleared up](Carrier::clear_up_datagram) likewise.
    #[inline(always)]
    pub(crate) fn send_plain_datagram(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        send: &PlainSend,
        to: &Datagram<'_>,
    ) -> Sent {
        let Self::Near(near) = self;
        near.send_plain_datagram(endpoint, from, send, to)
    }

    /// Ends what [`Carrier::send_plain_datagram`] began; `false` where nothing happened.
    #[cold]
    pub(crate) fn clear_up_datagram(
        &mut self,
        sent: Sent,
        to: &Datagram<'_>,
        solicited: bool,
        order: &CompletionOrder<'_>,
    ) -> bool {
        let Self::Near(near) = self;
        near.clear_up_datagram(sent, to, solicited, order)
    }

    /// Ends what [`Carrier::send_plain`] began; `None` where nothing happened.
    #[cold]
    pub(crate) fn clear_up(&mut self, sent: Sent, out: &Outgoing<'_, '_>) -> Option<Outcome> {
        let Self::Near(near) = self;
        near.clear_up(sent, out)
    }

    /// Whether [`Carrier::access`] is worth a try.
    #[inline(always)]
    pub(crate) fn is_prepared_for_access(&self) -> bool {
        let Self::Near(near) = self;
        near.is_prepared_for_access()
    }

    /// Carries out a write or a read as one before it, where nothing has changed since: the short way to what
    /// [`Carrier::start`] does. None is to be settled. `None`: nothing happened.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        access: &OneSided,
    ) -> Option<Outcome> {
        let Self::Near(near) = self;
        near.access(endpoint, from, access)
    }

    /// Starts a request again, after others were settled that had to be settled first.
    pub(crate) fn start_again(&mut self, out: &Outgoing<'_, '_>) -> Started {
        let Self::Near(near) = self;
        near.start_again(out)
    }

    /// Carries out a request that is not to wait for others to settle: it ends now. None is to be settled.
    pub(crate) fn execute(&mut self, out: &Outgoing<'_, '_>) -> Outcome {
        let Self::Near(near) = self;
        near.execute(out)
    }

    /// Requests that settle.
    #[inline(always)]
    pub(crate) fn unsettled(&self) -> u32 {
        let Self::Near(near) = self;
        near.unsettled()
    }

    /// Ends the requests that settle. The first so many of them, or all, have succeeded; the others failed on
    /// the way. They are [handed out](Carrier::settled) next.
    pub(crate) fn settle(&mut self) -> u32 {
        let Self::Near(near) = self;
        near.settle()
    }

    /// One of the requests that were settled, counted from 0; `None` behind the last.
    pub(crate) fn settled(&self, nth: u32) -> Option<Posted> {
        let Self::Near(near) = self;
        near.settled(nth)
    }

    /// They are all followed.
    pub(crate) fn forget_settled(&mut self) {
        let Self::Near(near) = self;
        near.forget_settled();
    }

    /// Whether a request that met a receiver without a receive request would meet the same now: a look without
    /// a lock, for who tries again and again. `false` when that is not known.
    pub(crate) fn is_hopeless(&self, wr: &Wr<'_>) -> bool {
        let Self::Near(near) = self;
        near.is_hopeless(wr)
    }
}
