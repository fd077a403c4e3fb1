//! A key of a target that is used again and again: looked up once.

use std::sync::atomic::AtomicU64;

use crate::rules::keys::{Key, Kind};
use crate::shm::keys::{Entry, PinPlace};

use super::pin::{Kept, is_pinnable};
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::mapped::{Mapped, Watched};
use crate::carrier::near::peers::Remote;

/// A region of the target that the kernel reaches, and by what one sees that its key is as it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownKey {
    rkey: u32,
    entry: Entry,
    proof: Proof,
}

#[derive(Debug, Clone, Copy)]
enum Proof {
    /// A peer's: the words of its entry, and a pin.
    Words([Watched; 2], Mapped<PinPlace>),
    /// An own one: how often keys had changed ([`Keys::changes`](crate::shm::keys::Keys::changes)).
    Changes(u64),
}

impl KnownKey {
    /// What the key says now; `None` for a window, which peers may invalidate, or where the kernel does not
    /// reach the memory. Threads that use keys of the target at the same time have different numbers, or are in
    /// each other's way.
    ///
    /// # Safety
    /// `remote` is kept as long as the answer is used.
    pub(crate) unsafe fn look(endpoint: &Endpoint, remote: &Remote, rkey: u32, number: u32) -> Option<Self> {
        let (entry, proof) = if remote.is_own() {
            // What changes in between is looked up anew the next time, too.
            let changes = endpoint.keys.changes();
            (endpoint.keys.local(rkey)?, Proof::Changes(changes))
        } else {
            let keys = remote.keys();
            let seen = keys.look(rkey).ok()?;
            let words = keys.watched(&seen, rkey)?;
            // SAFETY: the words are in mappings of `remote`, which the caller keeps.
            let watch = |(word, value): (&AtomicU64, u64)| unsafe { Watched::new(word, value) };
            // SAFETY: as above.
            let pin = unsafe { Mapped::new(keys.pin_place(number)?) };
            (seen.entry, Proof::Words(words.map(watch), pin))
        };
        let is_good = entry.key.kind == Kind::Region && entry.key.valid && is_pinnable(&entry);
        is_good.then_some(Self { rkey, entry, proof })
    }

    /// What it says.
    #[inline(always)]
    pub(crate) fn key(&self) -> &Key {
        &self.entry.key
    }

    /// Whether it is this key.
    #[inline(always)]
    pub(crate) fn is(&self, rkey: u32) -> bool {
        self.rkey == rkey
    }

    /// Whether it is this key, and as it was.
    pub(crate) fn holds(&self, endpoint: &Endpoint, rkey: u32) -> bool {
        self.is(rkey)
            && match &self.proof {
                Proof::Words(words, _) => words.iter().all(Watched::is_unchanged),
                Proof::Changes(changes) => endpoint.keys.changes() == *changes,
            }
    }

    /// Where `addr`, as users of the key name it, is in the target's memory.
    #[inline(always)]
    pub(crate) fn translate(&self, addr: u64) -> u64 {
        self.entry.translate(addr)
    }

    /// Keeps its memory in place while the answer lives, as [`pin`](super::pin()) does; `None` where the key is
    /// not as it was, or the pin is not free.
    #[inline(always)]
    pub(crate) fn pin<'a>(&'a self, endpoint: &'a Endpoint) -> Option<Kept<'a>> {
        match &self.proof {
            Proof::Words(words, pin) => {
                let pin = pin.get().take(endpoint.segment.owner(), self.rkey)?;
                words.iter().all(Watched::is_unchanged).then_some(Kept::Peer(pin))
            }
            Proof::Changes(changes) => {
                let in_use = endpoint.keys.enter(self.rkey)?;
                (endpoint.keys.changes() == *changes).then_some(Kept::Own(in_use))
            }
        }
    }
}
