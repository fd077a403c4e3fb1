//! The present users of a key's memory: pins of other processes, and a count of own threads.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Lookup, PINS, USERS};
use crate::shm::lock::{Liveness, Owner};
use crate::shm::memory::Memory;
use crate::shm::sync::Word;

/// An entry in use by this process: the owner waits for it before it lets the memory go.
#[derive(Debug)]
pub struct Pin<'a> {
    pub(super) words: &'a [AtomicU64; 2],
    pub(super) me: Owner,
}

/// Where a pin is.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct PinPlace([AtomicU64; 2]);

impl PinPlace {
    /// Takes the pin if it is free, and says that this key is in use, before it is looked at.
    #[inline(always)]
    pub(crate) fn take(&self, me: Owner, key: u32) -> Option<Pin<'_>> {
        let words = &self.0;
        words[0].compare_exchange(0, me.word(), Ordering::Acquire, Ordering::Relaxed).ok()?;
        announce(words, key);
        Some(Pin { words, me })
    }
}

/// The pin with this number, less than [`PINS`].
pub(super) fn pin_place(memory: &Memory, table: u64, number: usize) -> Option<&PinPlace> {
    let pins = (table != 0).then(|| memory.words(table, 2 * PINS))?.ok()?;
    let words: &[AtomicU64; 2] = pins.get(2 * number..)?.first_chunk()?;
    // SAFETY: PinPlace is a transparent wrapper of the two words.
    Some(unsafe { &*std::ptr::from_ref(words).cast::<PinPlace>() })
}

/// Takes one of the owner's pins.
pub(super) fn take_pin<'a>(
    memory: &'a Memory,
    table: u64,
    me: Owner,
    liveness: &impl Liveness,
) -> std::result::Result<&'a [AtomicU64; 2], Lookup> {
    let pins =
        (table != 0).then(|| memory.words(table, 2 * PINS)).and_then(Result::ok).ok_or(Lookup::NoKey)?;
    // Processes start at different places; threads of one find the next one free.
    let start = usize::from(me.slot()) % PINS;
    for patient in [false, true] {
        for i in 0..PINS {
            let Some(words) = pins[2 * ((start + i) % PINS)..].first_chunk() else { continue };
            let words: &[AtomicU64; 2] = words;
            let seen = words[0].load(Ordering::Relaxed);
            let free = seen == 0 || (patient && Owner::from_word(seen).is_none_or(|o| !liveness.lives(o)));
            if free
                && words[0].compare_exchange(seen, me.word(), Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Ok(words);
            }
        }
    }
    Err(Lookup::Busy)
}

/// Says in a pin which key is in use, before the key is looked up.
#[inline]
pub(super) fn announce<W: Word>(pin: &[W], key: u32) {
    pin[1].swap(u64::from(key), Ordering::SeqCst);
    W::fence_after_exchange();
}

/// The word of the process that has this key in use, by this pin.
#[inline]
pub(super) fn in_use<W: Word>(pin: &[W], key: u32) -> Option<u64> {
    let owner = pin[0].load(Ordering::Acquire);
    (owner != 0 && pin[1].load(Ordering::Acquire) == u64::from(key)).then_some(owner)
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.words[1].store(0, Ordering::Release);
        let _ = self.words[0].compare_exchange(self.me.word(), 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// An own key in use by a thread of this process: it is waited for as [`Pin`]s are. Not counted where there is
/// one thread, which ends no key while it uses it.
#[derive(Debug)]
pub struct InUse<'a>(pub(super) Option<&'a AtomicU64>);

impl Drop for InUse<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(users) = self.0 {
            users.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Counts a user of an entry. The entry is read after the count; a thread that ends the key changes the entry
/// first and reads the count then.
#[inline]
pub(super) fn enter<W: Word>(words: &[W]) {
    words[USERS].fetch_add(1, Ordering::SeqCst);
    W::fence_after_exchange();
}

/// Counts a change of an entry, after that was published and before its users are looked for. Who sees the
/// count before it has read the entry has it no older than that; who has counted as a user, and then does not
/// see the count, is seen.
#[inline]
pub(super) fn count_change<W: Word>(changes: &W) {
    changes.fetch_add(1, Ordering::AcqRel);
}

/// How many changes [were counted](count_change).
#[inline(always)]
pub(super) fn changes<W: Word>(changes: &W) -> u64 {
    changes.load(Ordering::Acquire)
}
