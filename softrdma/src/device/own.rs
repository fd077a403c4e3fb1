//! Own completions, and why one comes before the answer of the peer that its message is for.
//!
//! On a wire an acknowledgement arrives before anything that the peer sends after it, and programs rely on it:
//! iSCSI targets end a login by the completion of its last answer and refuse commands that come before. Here
//! the peer is told first, and may have answered before this thread goes on. So an own completion says where
//! it stands among the completions that peers write ([`comes_first`]), and whoever polls before it is there
//! does not hand out what may be the answer (`sends`).
//!
//! Own completions stand in memory of this process alone: nobody else writes them, and nobody else's locks and
//! journals are needed for them.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::protocol::breaks::RaiseOnce;
use crate::protocol::completion::Completion;
use crate::protocol::deliver::Delivered;
use crate::protocol::own::{Wake, comes_first, has_room};
use crate::protocol::shared::{CqWord, Events, Memory as _, Object, Word, held};
use crate::protocol::transport::{LockError, Operation, Transport, run};
use crate::protocol::verbs::{Event, Status};

use super::CompletionQueue;
use super::peers::Remote;
use super::site::now;

pub(super) mod ring;
pub(super) mod sends;
pub(super) mod sync;

use ring::{Own, Taker};
use sends::{Frontier, Sends, Share};
use sync::fence;

/// The order of the completions of one request or burst with what is received in the same queue.
#[derive(Debug)]
pub struct Order<'a> {
    cq: &'a CompletionQueue,
    /// 0: nothing is under way.
    share: Cell<Share>,
    /// Where the completions stand.
    after: Cell<u32>,
    /// Completions are there of which nobody was told yet; whether one of them is an error.
    untold: Cell<Option<bool>>,
}

impl<'a> Order<'a> {
    /// That of what completes in this queue.
    #[inline(always)]
    #[must_use]
    pub(super) fn new(cq: &'a CompletionQueue) -> Self {
        Self { cq, share: Cell::new(0), after: Cell::new(0), untold: Cell::new(None) }
    }

    /// Whether the message is received in the queue that its own completion is for.
    #[inline(always)]
    pub(super) fn is_to(&self, remote: &Remote, cq: u32) -> bool {
        remote.is_own() && cq == self.cq.index()
    }

    /// What follows may publish the message: the target has not seen it yet. In a queue that receives its own
    /// messages it is published, and the lock of the queue, without which there is no answer, not given back.
    /// Nothing is waited for until [`Order::end`].
    #[inline(always)]
    pub(super) fn begin(&self) {
        if self.share.get() == 0 {
            self.begin_now();
        }
    }

    /// Not in its callers, which have little to do without it.
    #[inline(never)]
    fn begin_now(&self) {
        self.share.set(self.cq.sends.begin());
        // What is published from here on comes afterwards.
        self.after.set(self.cq.published());
    }

    /// The completions are there, or there will be none.
    #[inline(always)]
    pub(super) fn end(&self) {
        if self.share.get() != 0 {
            self.end_now();
        }
    }

    #[inline(never)]
    fn end_now(&self) {
        self.cq.sends.end(self.share.take());
        self.cq.tell(self.untold.take());
    }

    /// Where the completions stand, of what is under way.
    #[inline(always)]
    fn after(&self) -> Option<u32> {
        (self.share.get() != 0).then(|| self.after.get())
    }
}

impl Drop for Order<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}

impl CompletionQueue {
    /// Appends a completion of this process's own.
    #[inline]
    pub(super) fn append(&self, completion: &Completion, order: Option<&Order<'_>>) -> Delivered {
        let begun = order.and_then(|order| Some((order, order.after()?)));
        let timestamp = if self.flags.timestamps { now() } else { 0 };
        let completion = Completion { timestamp, ..*completion };
        let after = begun.map_or_else(|| self.published(), |(_, after)| after);
        let own = Own { completion, after };
        let mut writer = self.own.lock();
        let is_there = self.takes(writer.len(), writer.capacity()) && writer.push(&own);
        drop(writer);
        if !is_there && let Err(why) = self.take_anyway(&own) {
            return why;
        }
        let is_error = completion.status != Status::Success;
        match begun {
            Some((order, _)) => order.untold.set(Some(is_error || order.untold.get() == Some(true))),
            None => self.tell(Some(is_error)),
        }
        Delivered::Published
    }

    /// Entries that peers published so far, as far as it can be true.
    #[inline(always)]
    fn published(&self) -> u32 {
        let (head, tail) = (self.shared.load(self, CqWord::Head), self.shared.load(self, CqWord::Tail));
        let waiting = held(head, tail, self.shared.capacity()).unwrap_or(0);
        (head as u32).wrapping_add(waiting)
    }

    /// Whether there is room for one more, by a look without locks.
    #[inline(always)]
    fn takes(&self, own: u32, capacity: u32) -> bool {
        let load = |word| self.shared.load(self, word);
        // The tail first: what was polled meanwhile is not to be missed.
        let tail = load(CqWord::Tail);
        has_room(own, load(CqWord::Head), tail, capacity)
            && !Events(load(CqWord::Events)).was_raised(Event::CqErr)
    }

    /// Appends where there was no room at first sight, or raises the error of a queue that overran.
    ///
    /// # Errors
    /// How the completion was lost.
    #[cold]
    fn take_anyway(&self, own: &Own) -> std::result::Result<(), Delivered> {
        let (host, object) = (&self.device.site.own, Object::Cq(self.index()));
        let mut operation = Operation::new(host);
        // Without the lock nobody learns of the completion: as in a queue that has no room.
        operation.lock(object).map_err(|_| Delivered::Overrun)?;
        let load = |word| host.load(Word::Cq(self.index(), word));
        let is_over = Events(load(CqWord::Events)).was_raised(Event::CqErr);
        let mut writer = self.own.lock();
        let (head, tail) = (load(CqWord::Head), load(CqWord::Tail));
        let is_there = !is_over && has_room(writer.len(), head, tail, writer.capacity()) && writer.push(own);
        drop(writer);
        let is_dropped = !is_over && self.flags.ignore_overrun;
        if !is_there && !is_dropped {
            let _ = operation.run(RaiseOnce::new(object, Event::CqErr));
        }
        operation.unlock(object);
        match is_there {
            true => Ok(()),
            false => Err(if is_dropped { Delivered::Dropped } else { Delivered::Overrun }),
        }
    }

    /// More waits to be polled than the queue holds, some of it from peers, who do not see the rest.
    #[cold]
    pub(super) fn overran(&self) {
        let (host, object) = (&self.device.site.own, Object::Cq(self.index()));
        let mut operation = Operation::new(host);
        if operation.lock(object).is_ok() {
            let _ = operation.run(RaiseOnce::new(object, Event::CqErr));
            operation.unlock(object);
        }
    }

    /// Wakes who sleeps on the queue's channel: there is a completion (`Some`: whether it is an error), or a
    /// request has ended.
    #[inline(always)]
    fn tell(&self, untold: Option<bool>) {
        if let Some(channel) = self.channel() {
            let host = &self.device.site.own;
            if rouse(host, &self.sends, self.index(), untold).is_err() {
                channel.fire(self.index());
            }
        }
    }
}

/// What is polled next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// The oldest own completion.
    Own,
    /// The entry of the shared ring that was looked at.
    Shared,
}

/// Looks which entry is next, where it was seen whether that of the shared ring with the count `head` was
/// published. `published` says so of those that follow.
#[inline(always)]
pub(super) fn next(
    is_published: bool,
    head: u32,
    (frontier, sends, own): (&mut Frontier, &Sends, &Taker),
    published: impl Fn(u32) -> bool,
) -> Next {
    let is_free = is_published && frontier.frees(sends, head, published);
    // After the look at the sends: the completion of one that has ended is there.
    match own.after() {
        Some(after) if !is_free || comes_first(after, head) => Next::Own,
        _ if is_free => Next::Shared,
        _ => Next::Nothing,
    }
}

/// See [`CompletionQueue::tell`].
///
/// # Errors
/// The queue is armed and its lock cannot be had.
#[inline(never)]
fn rouse(
    host: &impl Transport,
    sends: &Sends,
    cq: u32,
    untold: Option<bool>,
) -> std::result::Result<(), LockError> {
    // First the completion, then the look at what the bell waits for; who arms looks for completions
    // afterwards.
    fence(Ordering::SeqCst);
    if !host.exists(Object::Cq(cq)) {
        return Ok(());
    }
    let armed = host.load(Word::Cq(cq, CqWord::Armed));
    let any = untold.unwrap_or(false) || sends.kept();
    if (untold.is_some() || any) && Wake::is_due(armed, any) { run(host, Wake::new(cq, any)) } else { Ok(()) }
}

/// Every interleaving of who appends, who answers and who polls or sleeps (`scripts/models`).
#[cfg(all(test, loom))]
mod model;
