//! Payload that came in a completion entry, moved to the buffer that it is for when the entry is taken.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::keys::check_local;
use crate::shm::keys::Entry;

use super::payload::{STAGED, is_in_place, write};
use super::site::Site;

/// Moves a payload that came in a completion entry to the buffer that it is for, by this process's own books of
/// keys. `pd` is the protection domain of the receive request. `None` when there is no such buffer any more, or
/// no memory behind it, or not so many bytes came.
#[inline]
pub fn land(site: &Site, pd: u32, addr: u64, lkey: u32, payload: &[AtomicU64], bytes: usize) -> Option<()> {
    let (entry, _in_use) = site.keys.hold(lkey)?;
    check_local(Some(&entry.key), pd, addr, u32::try_from(bytes).ok()?, true).ok()?;
    let payload = payload.get(..bytes.div_ceil(8))?;
    if !is_in_place(&entry) {
        return land_anywhere(site, &entry, addr, payload, bytes);
    }
    let mut to = std::ptr::with_exposed_provenance_mut::<u8>(entry.translate(addr) as usize);
    let mut left = bytes;
    for word in payload {
        let word = word.load(Ordering::Relaxed).to_ne_bytes();
        let count = left.min(word.len());
        // SAFETY: as in `write`, for all of the bytes together; `to` is where the next of them goes.
        unsafe {
            if count == word.len() {
                to.cast::<[u8; 8]>().write(word);
            } else {
                std::ptr::copy_nonoverlapping(word.as_ptr(), to, count);
            }
            to = to.add(count);
        }
        left -= count;
    }
    Some(())
}

/// As [`land`], where the memory may not be there.
#[cold]
fn land_anywhere(site: &Site, entry: &Entry, addr: u64, payload: &[AtomicU64], bytes: usize) -> Option<()> {
    let mut copy = [0; STAGED];
    for (to, from) in copy.chunks_exact_mut(8).zip(payload) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    write(site, entry, addr, copy.get(..bytes)?).ok()
}
