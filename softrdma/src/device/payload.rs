//! Bytes of messages: taken from the sender's memory, moved to the target's, landed where a completion entry brought them.
//!
//! What a program registered counts as mapped for as long as it is registered, as a real device's pinned pages do, and stays
//! registered while it is used, by whichever thread: deregistration waits. Few
//! bytes are read and written there in place. Many, and everything in other processes, the kernel moves, which answers a bad
//! address with an error.

use std::time::Duration;

use crate::core::completion::{STAGE_WORDS, Staged};
use crate::core::keys::check_local;
use crate::core::receive::{MAX_SGE, ReceiveRequest, Sge};
use crate::core::respond::MoveError;
use crate::core::responder::GRH_BYTES;
use crate::host::atomics::{self, Failure, Operation};
use crate::host::copy::{self, Direction, Fault, Span};
use crate::host::ferry::{self, Local, Piece, Purpose};
use crate::host::keys::{self, Entry, InUse, Keys, Lookup, Pin};

use super::peers::Remote;
use super::site::Site;
use super::wr::{Data, Wr};

/// How long another process may take with its part of a copy without getting on.
const FERRY_LIMIT: Duration = Duration::from_secs(1);
/// How long the lock of an atomic operation is waited for, before it is tried again later.
const ATOMIC_LIMIT: Duration = Duration::from_millis(250);

/// Most bytes that travel in a completion entry.
pub const STAGED: usize = 8 * STAGE_WORDS;

/// Pieces of memory that most requests have no more of. To prepare for many costs more than to move a little.
const FEW: usize = 2;
const NO_SPAN: Span = Span { addr: 0, len: 0 };

/// Ranges of memory in order, at most so many. Those of own keys stay registered meanwhile.
#[derive(Debug)]
struct Spans<'a, const MOST: usize> {
    all: [Span; MOST],
    count: usize,
    in_use: [Option<InUse<'a>>; MOST],
}

impl<'a, const MOST: usize> Spans<'a, MOST> {
    /// None yet.
    #[inline(always)]
    fn new() -> Self {
        Self { all: [NO_SPAN; MOST], count: 0, in_use: [const { None }; MOST] }
    }

    /// A range of an own key.
    fn hold(&mut self, keys: &'a Keys, sge: &Sge) -> Option<()> {
        let place = self.in_use.get_mut(self.count)?;
        let (addr, in_use) = hold(keys, sge)?;
        *place = Some(in_use);
        self.push(addr, u64::from(sge.length));
        Some(())
    }

    fn push(&mut self, addr: u64, len: u64) {
        if let Some(place) = self.all.get_mut(self.count) {
            *place = Span { addr, len };
            self.count += 1;
        }
    }

    fn all(&self) -> &[Span] {
        &self.all[..self.count]
    }
}

/// Where an own range is, which is in use from here on. The region may be another one than the rules looked at.
#[inline]
fn hold<'a>(keys: &'a Keys, sge: &Sge) -> Option<(u64, InUse<'a>)> {
    let (entry, in_use) = keys.hold(sge.lkey)?;
    let covers = entry.key.valid && entry.key.covers(sge.addr, u64::from(sge.length));
    covers.then(|| (entry.translate(sge.addr), in_use))
}

/// Does something with the sender's bytes where they are, a datagram's header in front. The keys were looked at before; it is
/// the sender's error when one is gone by now.
#[inline]
pub(super) fn with_local(
    site: &Site,
    wr: &Wr<'_>,
    act: impl FnOnce(&[Span]) -> Result<(), MoveError>,
) -> Result<(), MoveError> {
    let pieces = match wr.data {
        Data::Inline(_) => 1,
        Data::Sges(sges) | Data::InlineSges(sges) => sges.len(),
    };
    if pieces + usize::from(wr.datagram.is_some()) <= FEW {
        let mut spans = Spans::<FEW>::new();
        local(site, wr, &mut spans).ok_or(MoveError::Sender)?;
        act(spans.all())
    } else {
        let mut spans = Spans::<{ MAX_SGE + 1 }>::new();
        local(site, wr, &mut spans).ok_or(MoveError::Sender)?;
        act(spans.all())
    }
}

#[inline]
fn local<'a, const MOST: usize>(site: &'a Site, wr: &Wr<'_>, spans: &mut Spans<'a, MOST>) -> Option<()> {
    if let Some(datagram) = &wr.datagram {
        spans.push(datagram.grh.as_ptr() as u64, GRH_BYTES);
    }
    match wr.data {
        Data::Inline(bytes) => spans.push(bytes.as_ptr() as u64, bytes.len() as u64),
        Data::InlineSges(sges) => sges.iter().for_each(|sge| spans.push(sge.addr, u64::from(sge.length))),
        Data::Sges(sges) => {
            for sge in sges.iter().filter(|sge| sge.length > 0) {
                spans.hold(&site.keys, sge)?;
            }
        }
    }
    Some(())
}

/// The sender's bytes, copied.
#[derive(Debug)]
pub struct Gathered<'a> {
    bytes: &'a mut [u8; STAGED],
    len: usize,
}

impl<'a> Gathered<'a> {
    /// Nothing yet.
    #[inline(always)]
    pub(super) fn new(bytes: &'a mut [u8; STAGED]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Takes the sender's bytes, a datagram's header in front; `None` when they are too many, or a key is gone, or, where
    /// nobody has looked yet, is not one of this protection domain's for these bytes.
    #[inline]
    pub(super) fn fill(
        mut self,
        site: &Site,
        wr: &Wr<'_>,
        length: u64,
        unchecked: Option<u32>,
    ) -> Option<&'a [u8]> {
        let header = wr.datagram.map_or(&[][..], |datagram| datagram.grh);
        if length > (STAGED - header.len()) as u64 {
            return None;
        }
        let all = &mut self;
        all.take(header);
        match wr.data {
            Data::Inline(bytes) => all.take(bytes),
            Data::InlineSges(sges) => {
                for sge in sges {
                    all.take_from(sge.addr, sge.length)?;
                }
            }
            Data::Sges(sges) => {
                for sge in sges.iter().filter(|sge| sge.length > 0) {
                    let (entry, _in_use) = site.keys.hold(sge.lkey)?;
                    let pd = unchecked.unwrap_or(entry.key.pd);
                    check_local(Some(&entry.key), pd, sge.addr, sge.length, false).ok()?;
                    all.take_from(entry.translate(sge.addr), sge.length)?;
                }
            }
        }
        Some(&self.bytes[..self.len])
    }

    fn take(&mut self, bytes: &[u8]) {
        let end = (self.len + bytes.len()).min(STAGED);
        let room = &mut self.bytes[self.len..end];
        room.copy_from_slice(&bytes[..room.len()]);
        self.len = end;
    }

    #[inline]
    fn take_from(&mut self, addr: u64, length: u32) -> Option<()> {
        let length = length as usize;
        let room = self.bytes.get_mut(self.len..)?.get_mut(..length)?;
        // SAFETY: the program named these bytes as what it sends: memory that is registered and in use by us, which counts
        // as mapped, or data to be taken when posting. Only bytes are read, by a copy that Rust cannot reason about otherwise.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(addr as usize),
                room.as_mut_ptr(),
                length,
            );
        }
        self.len += length;
        Some(())
    }
}

/// Writes bytes to the process's own registered memory, as the device.
fn write(addr: u64, bytes: &[u8]) {
    // SAFETY: the program gave this memory to the device to write: its key is in use by us, was looked up with the right to
    // write and the range, and registered memory counts as mapped. No Rust reference to it is live in this crate.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            std::ptr::with_exposed_provenance_mut::<u8>(addr as usize),
            bytes.len(),
        );
    }
}

/// Moves a payload that came in a completion entry to the buffer that it is for. `pd` is the protection domain of the
/// receive request. `false` when there is no such buffer any more, by the owner's own books.
#[must_use]
pub fn land(keys: &Keys, pd: u32, staged: &Staged) -> bool {
    if staged.is_empty() {
        return true;
    }
    let Some((entry, _in_use)) = keys.hold(staged.lkey) else { return false };
    if check_local(Some(&entry.key), pd, staged.addr, staged.len() as u32, true).is_err() {
        return false;
    }
    let words = staged.words();
    // SAFETY: the words hold at least that many bytes, and any of them is a valid byte.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), staged.len()) };
    write(entry.translate(staged.addr), bytes);
    true
}

/// Writes the answer of an atomic operation to the sender's memory.
pub(super) fn answer(site: &Site, sges: &[Sge], value: u64) -> Result<(), MoveError> {
    let bytes = value.to_ne_bytes();
    let mut rest = &bytes[..];
    for sge in sges {
        let (now, later) = rest.split_at(rest.len().min(sge.length as usize));
        if !now.is_empty() {
            let (addr, _in_use) = hold(&site.keys, sge).ok_or(MoveError::Sender)?;
            write(addr, now);
        }
        rest = later;
    }
    Ok(())
}

/// Looks a key of the target up and keeps its memory in place while the pin lives.
pub(super) fn pin<'a>(site: &Site, remote: &'a Remote, key: u32) -> Result<Pin<'a>, Lookup> {
    let mut tries = 0;
    loop {
        match keys::pin(remote.memory(), remote.keys(), key, site.segment.owner(), &*site.segment) {
            Err(Lookup::Busy) if tries < 100 => {
                tries += 1;
                std::thread::yield_now();
            }
            other => {
                let mut pin = other?;
                pin.entry = believed(site, remote, key, pin.entry)?;
                return Ok(pin);
            }
        }
    }
}

/// Looks a key of the target up.
pub(super) fn lookup(site: &Site, remote: &Remote, key: u32) -> Result<Entry, Lookup> {
    let shared = keys::lookup(remote.memory(), remote.keys(), key)?;
    believed(site, remote, key, shared)
}

/// What to go by where the target's segment has this entry. Its own keys this process knows from its private books: what
/// stands in the segment, where peers write, may take rights away and gives none.
fn believed(site: &Site, remote: &Remote, key: u32, shared: Entry) -> Result<Entry, Lookup> {
    if !remote.is_own() {
        return Ok(shared);
    }
    let mut own = site.keys.local(key).ok_or(Lookup::NoKey)?;
    own.key.valid &= shared.key.valid;
    Ok(own)
}

/// Moves a send's payload into buffers of the target, of which only so many bytes are used.
pub(super) fn into_receive(
    site: &Site,
    remote: &Remote,
    wr: &Wr<'_>,
    pd: u32,
    receive: &ReceiveRequest,
    used: u64,
) -> Result<(), MoveError> {
    with_local(site, wr, |here| {
        if receive.sges.len() <= FEW {
            scatter::<FEW>(site, remote, pd, receive, used, here)
        } else {
            scatter::<MAX_SGE>(site, remote, pd, receive, used, here)
        }
    })
}

/// Moves bytes into buffers of the target, which are at most so many.
fn scatter<const MOST: usize>(
    site: &Site,
    remote: &Remote,
    pd: u32,
    receive: &ReceiveRequest,
    used: u64,
    here: &[Span],
) -> Result<(), MoveError> {
    let mut pins: [Option<(u32, Pin<'_>)>; MOST] = [const { None }; MOST];
    let mut there = [Piece { key: 0, addr: 0, len: 0 }; MOST];
    let mut count = 0;
    let mut left = used;
    for sge in receive.sges.iter().filter(|sge| sge.length > 0) {
        if left == 0 {
            break;
        }
        let known = pins.iter().map_while(Option::as_ref).find(|(key, _)| *key == sge.lkey);
        let entry: Entry = match known {
            Some((_, pin)) => pin.entry,
            None => {
                let pin = pin(site, remote, sge.lkey).map_err(why)?;
                let entry = pin.entry;
                if let Some(place) = pins.iter_mut().find(|place| place.is_none()) {
                    *place = Some((sge.lkey, pin));
                }
                entry
            }
        };
        // It may be another one than the rules looked at.
        check_local(Some(&entry.key), pd, sge.addr, sge.length, true).map_err(|_| MoveError::Target)?;
        let len = u64::from(sge.length).min(left);
        there[count] = Piece { key: sge.lkey, addr: entry.translate(sge.addr), len };
        count += 1;
        left -= len;
    }
    transfer(site, remote, Purpose::Receive, here, &there[..count])
}

/// What a lookup that failed means for a payload.
pub(super) fn why(lookup: Lookup) -> MoveError {
    match lookup {
        Lookup::NoKey => MoveError::Target,
        Lookup::Torn | Lookup::Busy => MoveError::Gone,
    }
}

/// Moves bytes between the own process and another, or within the own: by the kernel, else through shared memory with the
/// other's help.
pub(super) fn transfer(
    site: &Site,
    remote: &Remote,
    purpose: Purpose,
    here: &[Span],
    there: &[Piece],
) -> Result<(), MoveError> {
    let direction = if purpose == Purpose::Read { Direction::Read } else { Direction::Write };
    let span = |piece: &Piece| Span { addr: piece.addr, len: piece.len };
    let (one, mut many);
    let spans: &[Span] = if let [piece] = there {
        one = [span(piece)];
        &one
    } else {
        many = [NO_SPAN; MAX_SGE];
        many.iter_mut().zip(there).for_each(|(to, piece)| *to = span(piece));
        &many[..there.len().min(MAX_SGE)]
    };
    if let Some(pid) = remote.direct()? {
        // SAFETY: what is overwritten was given to the device for it: the caller looked its key up.
        match unsafe { copy::transfer(pid, direction, here, spans) } {
            Err(Fault::Denied) => remote.close(),
            other => return other.map_err(failed),
        }
    }
    match remote.peer() {
        Some(peer) => {
            let local = Local::Memory(here);
            // SAFETY: as above.
            let moved = unsafe { ferry::transfer(&site.segment, peer, purpose, there, local, FERRY_LIMIT) };
            moved.map_err(not_ferried)
        }
        None => {
            let scratch = remote.scratch().ok_or(MoveError::Gone)?;
            // SAFETY: as above.
            unsafe { scratch.transfer(direction, here, spans) }.map_err(not_ferried)
        }
    }
}

/// Carries out an atomic operation on eight bytes of the target; answers the value before.
pub(super) fn atomic(
    site: &Site,
    remote: &Remote,
    piece: Piece,
    operation: Operation,
) -> Result<u64, MoveError> {
    let (lock, segment) = (remote.atomics_lock(piece.addr).map_err(|_| MoveError::Gone)?, &*site.segment);
    if let Some(pid) = remote.direct()? {
        // SAFETY: the eight bytes are within memory that its owner registered for this.
        let done = unsafe {
            atomics::execute(lock, segment.owner(), segment, ATOMIC_LIMIT, pid, piece.addr, operation)
        };
        match done {
            Err(Failure::Fault(Fault::Denied)) => remote.close(),
            Err(Failure::Fault(fault)) => return Err(failed(fault)),
            Err(Failure::Unaligned) => return Err(MoveError::Target),
            Err(Failure::Busy) if lock.owner() == Some(remote.owner()) => return Err(MoveError::Gone),
            Err(Failure::Busy) => return Err(MoveError::Held),
            Ok(before) => return Ok(before),
        }
    }
    match remote.peer() {
        Some(peer) => ferry::atomic(segment, peer, piece, operation, FERRY_LIMIT).map_err(not_ferried),
        None => {
            let scratch = remote.scratch().ok_or(MoveError::Gone)?;
            // SAFETY: as above.
            unsafe { scratch.atomic(segment, piece.addr, operation, ATOMIC_LIMIT) }.map_err(not_ferried)
        }
    }
}

/// What a fault means for the request.
fn failed(fault: Fault) -> MoveError {
    match fault {
        Fault::Local => MoveError::Sender,
        Fault::Remote => MoveError::Target,
        Fault::Gone | Fault::Denied | Fault::Os(_) => MoveError::Gone,
    }
}

/// The same for what went through shared memory.
fn not_ferried(failure: ferry::Failure) -> MoveError {
    match failure {
        ferry::Failure::Local => MoveError::Sender,
        ferry::Failure::Remote | ferry::Failure::Refused => MoveError::Target,
        ferry::Failure::Unclear => MoveError::Unclear,
        ferry::Failure::Busy => MoveError::Held,
        ferry::Failure::Gone | ferry::Failure::NoAnswer | ferry::Failure::Os(_) => MoveError::Gone,
    }
}
