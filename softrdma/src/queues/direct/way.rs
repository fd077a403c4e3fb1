//! A sender whose messages go both ways: by the ring, and behind the queue pair's lock.

use super::Sender;
use crate::queues::shared::{Memory, QpWord, Word};

/// A sender, and what it knows of how many requests are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    sender: Sender,
    knows: Knows,
}

/// What is known of how many requests are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knows {
    /// The number of the next message.
    All,
    /// That it stands at the head of the queue pair.
    Head,
    /// That it will stand there once the queue pair was locked, and repaired if it must.
    Nothing,
}

impl Way {
    /// That of a sender that was just [attached](Sender::attach).
    #[must_use]
    pub fn new(sender: Sender) -> Self {
        Self { sender, knows: Knows::All }
    }

    /// The sender for a message that goes by the ring, once it knows the number of the next one. `memory` is
    /// that of the queue pair.
    #[inline(always)]
    pub fn sender(&mut self, memory: &impl Memory) -> Option<&mut Sender> {
        match self.knows {
            Knows::All => {}
            Knows::Head => {
                self.sender.go_on_at(memory.load(Word::Qp(self.sender.qp, QpWord::Head)) as u32);
                self.knows = Knows::All;
            }
            Knows::Nothing => return None,
        }
        Some(&mut self.sender)
    }

    /// The same, where it knows that already.
    #[inline(always)]
    pub fn known_sender(&mut self) -> Option<&mut Sender> {
        (self.knows == Knows::All).then_some(&mut self.sender)
    }

    /// [`Sender::has_quick_room`]
    #[inline(always)]
    #[must_use]
    pub fn has_quick_room(&self, bytes: u32) -> bool {
        self.sender.has_quick_room(bytes)
    }

    /// The same, where it has [room](Way::has_quick_room), as it does only while it knows that.
    #[inline(always)]
    pub fn quick_sender(&mut self) -> &mut Sender {
        debug_assert!(self.knows == Knows::All, "room for a message whose number nobody knows");
        &mut self.sender
    }

    /// [`Sender::has_pool`]
    pub fn has_pool(&mut self) {
        self.sender.has_pool();
    }

    /// Whether what goes the other way need not [say](Way::enter) how many requests were taken. `takes`: it
    /// uses one up.
    ///
    /// Where the count stands at the head of the queue pair, it goes on standing there: besides this sender
    /// only the owner changes the head, and that closes the ring before. What uses up no request leaves it as
    /// it is, however it ends: taken from a holder that was stopped, or repaired after it. If it breaks the
    /// queue pair, what it flushes begins at that head, and nothing goes by the ring afterwards.
    #[inline(always)]
    #[must_use]
    pub fn is_settled(&self, takes: bool) -> bool {
        !takes && self.knows == Knows::Head
    }

    /// Before messages go the other way, behind the lock of the queue pair: says how many requests were taken.
    /// The ring is [open](Way::is_open): where it is not, its owner has said how far it goes, and this is over.
    #[inline(always)]
    pub fn enter(&mut self, memory: &impl Memory) {
        if self.knows == Knows::All {
            memory.store(Word::Qp(self.sender.qp, QpWord::Head), u64::from(self.sender.number));
        }
        self.knows = Knows::Nothing;
        self.sender.forget_room();
    }

    /// After messages went the other way, and the lock was given back in order.
    #[inline(always)]
    pub fn left(&mut self) {
        self.knows = Knows::Head;
    }

    /// Number of the last message that went by the ring.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.sender.number.wrapping_sub(1)
    }

    /// [`Sender::is_open`]
    #[must_use]
    pub fn is_open(&self, memory: &impl Memory) -> bool {
        self.sender.is_open(memory)
    }

    /// [`Sender::was_delivered`]
    #[must_use]
    pub fn was_delivered(&self, memory: &impl Memory) -> Option<bool> {
        self.sender.was_delivered(memory)
    }
}
