//! Messages that are lost on request (`ironverbs run --faults cm=…`).
//!
//! Between hosts nothing is done about it: what asks for an answer is repeated there anyway. Within the host a
//! socket loses nothing, so who sends a message sends it again, at the times at which it would be repeated
//! between hosts at first, and gives up soon: programs under test need not wait for minutes. What follows on
//! its link waits behind it.

use std::collections::VecDeque;
use std::time::Duration;

use ironverbs_cm::Link;
use ironverbs_cm::network::{Patience, Repeated};
use ironverbs_cm::wire::{self, Body, MAD_SIZE};
use ironverbs_cm::world::Message;
use ironverbs_os::thread;
use softrdma::faults;

use super::Net;
use crate::{entry, sys};

/// How often the thread looks at least, as nobody wakes it.
const LOOKS: Duration = Duration::from_millis(50);

/// Whether a message that is about to leave is lost.
pub fn is_lost(message: &[u8; MAD_SIZE]) -> bool {
    // `AttributeID` of the MAD.
    let kind = u16::from_be_bytes([message[16], message[17]]);
    faults::active().is_some_and(|faults| faults.loses_message(kind))
}

/// When a message that was just lost is sent again.
pub fn repeated(message: Message) -> Repeated {
    Repeated::new(message, Patience::while_soon(), sys::now())
}

/// What was lost between processes of the host.
#[derive(Debug, Default)]
pub struct Lost {
    all: Vec<Held>,
    /// A thread sends it again.
    has_thread: bool,
}

/// What is to be sent on a link.
#[derive(Debug)]
struct Held {
    link: Link,
    first: Repeated,
    behind: VecDeque<Message>,
    /// The link is closed behind it.
    closes: bool,
}

/// A message that was repeated in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Its link.
    pub link: Link,
    /// Whether it asked for an answer that establishes a connection.
    pub is_offer: bool,
}

impl Net {
    /// Sends a message to a process of the host, or loses it.
    pub(super) fn send_near(&mut self, link: Link, message: Message) {
        if let Some(held) = self.lost.all.iter_mut().find(|held| held.link == link) {
            held.behind.push_back(message);
        } else if self.links.contains_key(&link) && is_lost(&message) && self.looks_after_lost() {
            let first = repeated(message);
            self.lost.all.push(Held { link, first, behind: VecDeque::new(), closes: false });
        } else {
            self.put(link, &message);
        }
    }

    /// Whether a link that is to be closed has messages to be sent before.
    pub(super) fn closes_later(&mut self, link: Link) -> bool {
        let held = self.lost.all.iter_mut().find(|held| held.link == link);
        held.map(|held| held.closes = true).is_some()
    }

    /// Sends again what is due, and tells what was sent often enough.
    pub fn repeat_lost(&mut self) -> Vec<GivenUp> {
        let (now, mut given_up) = (sys::now(), Vec::new());
        for mut held in std::mem::take(&mut self.lost.all) {
            let link = held.link;
            // The other side may have gone.
            if !self.links.contains_key(&link) {
                continue;
            }
            if held.first.due > now {
                self.lost.all.push(held);
            } else if !is_lost(&held.first.message) {
                self.put(link, &held.first.message);
                self.send_behind(held);
            } else if held.first.again(now) {
                self.lost.all.push(held);
            } else if held.closes {
                self.hang_up(link);
            } else {
                let is_offer = matches!(
                    wire::decode(&held.first.message[..]).map(|mad| mad.body),
                    Ok(Body::Rep(_) | Body::SidrRep(_))
                );
                given_up.push(GivenUp { link, is_offer });
            }
        }
        given_up
    }

    /// Sends what waited behind a message that was lost and has left.
    fn send_behind(&mut self, held: Held) {
        let Held { link, mut behind, closes, .. } = held;
        while let Some(next) = behind.pop_front() {
            if is_lost(&next) {
                let first = repeated(next);
                return self.lost.all.push(Held { link, first, behind, closes });
            }
            self.put(link, &next);
        }
        if closes {
            self.hang_up(link);
        }
    }

    /// When to [send again](Self::repeat_lost) next; `None` where nothing is to be, and the thread ends.
    pub fn next_lost(&mut self) -> Option<Duration> {
        let due = self.lost.all.iter().map(|held| held.first.due).min();
        self.lost.has_thread = due.is_some();
        due.map(|due| due.min(sys::now() + LOOKS))
    }

    /// Sees to it that what is lost is sent again: without a thread it is not lost.
    fn looks_after_lost(&mut self) -> bool {
        let lost = &mut self.lost;
        lost.has_thread = lost.has_thread || thread::start(c"ironverbs-lost", entry::repeat_lost).is_ok();
        lost.has_thread
    }

    fn put(&mut self, link: Link, message: &Message) {
        if let Some(member) = self.links.get(&link).and_then(|number| self.sockets.get(number)) {
            member.send(message);
        }
    }

    pub(super) fn hang_up(&mut self, link: Link) {
        if let Some(number) = self.links.get(&link).copied() {
            self.leave(number);
        }
    }
}
