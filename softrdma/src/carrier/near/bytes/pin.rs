//! Keys of a target: looked up, and in use while bytes are moved.

use crate::rules::keys::{Key, Kind};
use crate::rules::verbs::Access;
use crate::shm::image::Image;
use crate::shm::keys::{Entry, InUse, Lookup, Pin, Seen};

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::peers::Remote;

/// Whether the kernel reaches the memory for other processes.
#[inline]
pub(super) fn is_pinnable(entry: &Entry) -> bool {
    !entry.key.access.has(Access::UNPINNABLE)
}

/// A key of the target in use: its memory stays in place, or nothing is moved to it and from it any more.
#[derive(Debug)]
pub(crate) struct Use<'a> {
    /// The entry, as it was looked up.
    pub(crate) entry: Entry,
    /// The target as it was before that; `None` where the kernel does not reach this memory.
    pub(crate) image: Option<Image>,
    _kept: Kept<'a>,
}

#[derive(Debug)]
#[allow(dead_code, reason = "what counts is that it is dropped")]
pub(crate) enum Kept<'a> {
    Peer(Pin<'a>),
    Own(InUse<'a>),
}

/// Looks a key of the target up and keeps its memory in place while the answer lives.
#[inline(always)]
pub(crate) fn pin<'a>(endpoint: &'a Endpoint, remote: &'a Remote, key: u32) -> Result<Use<'a>, Lookup> {
    // First the image, then the key: an owner that waits no longer makes the image useless after it ended the
    // key.
    let image = remote.direct();
    if remote.is_own() {
        let (entry, in_use) = endpoint.keys.hold(key).ok_or(Lookup::NoKey)?;
        let entry = believed(remote, key, entry)?;
        let image = image.filter(|_| is_pinnable(&entry));
        return Ok(Use { entry, image, _kept: Kept::Own(in_use) });
    }
    let mut tries = 0;
    loop {
        match remote.keys().pin(key, endpoint.segment.owner(), &*endpoint.segment) {
            Err(Lookup::Busy) if tries < 100 => {
                tries += 1;
                std::thread::yield_now();
            }
            other => {
                let (entry, pin) = other?;
                let image = image.filter(|_| is_pinnable(&entry));
                return Ok(Use { entry, image, _kept: Kept::Peer(pin) });
            }
        }
    }
}

/// Looks a key of the target up.
pub(crate) fn lookup(endpoint: &Endpoint, remote: &Remote, key: u32) -> Result<Entry, Lookup> {
    if remote.is_own() {
        return believed(remote, key, endpoint.keys.local(key).ok_or(Lookup::NoKey)?);
    }
    remote.keys().lookup(key)
}

/// As [`lookup`], for who does so again and again: `seen` is what it found the last time.
#[inline(always)]
pub(crate) fn look_again(
    endpoint: &Endpoint,
    remote: &Remote,
    key: u32,
    seen: &mut Option<Seen>,
) -> Result<Key, Lookup> {
    if remote.is_own() {
        return lookup(endpoint, remote, key).map(|entry| entry.key);
    }
    let keys = remote.keys();
    match seen {
        Some(seen) if keys.is_unchanged(seen, key) => Ok(seen.entry.key),
        _ => {
            let found = keys.look(key)?;
            Ok(seen.insert(found).entry.key)
        }
    }
}

/// What to go by where the own private table of keys have this entry: what stands in the segment, where peers
/// invalidate windows, may take rights away and gives none.
fn believed(remote: &Remote, key: u32, mut own: Entry) -> Result<Entry, Lookup> {
    if let Kind::Window2 { .. } = own.key.kind {
        own.key.valid &= remote.keys().lookup(key)?.key.valid;
    }
    Ok(own)
}
