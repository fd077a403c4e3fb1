//! Bytes between two processes, or within one: by the kernel, else through shared memory with the other's help.

use std::time::Duration;

use crate::queues::respond::MoveError;
use crate::rules::keys::check_local;
use crate::rules::receive::{MAX_SGE, ReceiveRequest, Sge};
use crate::rules::responder::GRH_BYTES;
use crate::shm::atomics::{self, Failure, Operation};
use crate::shm::bounce::{self, Local, Origin, Piece, Purpose};
use crate::shm::copy::{self, Direction, Fault, Span};
use crate::shm::image::Image;
use crate::shm::keys::{Entry, InUse, Keys, Lookup};

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::peers::Remote;
use crate::carrier::wr::{Data, Wr};

use super::pin::{Use, lookup, pin};

/// How long another process may take with its part of a copy without getting on.
const BOUNCE_LIMIT: Duration = Duration::from_secs(1);
/// How long the lock of an atomic operation is waited for, before it is tried again later.
const ATOMIC_LIMIT: Duration = Duration::from_millis(250);

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
    #[inline(always)]
    fn hold(&mut self, keys: &'a Keys, sge: &Sge) -> Option<()> {
        let place = self.in_use.get_mut(self.count)?;
        let (entry, in_use) = hold(keys, sge)?;
        *place = Some(in_use);
        self.push(entry.translate(sge.addr), u64::from(sge.length));
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

/// The region of an own range, which is in use from here on. It may be another one than the rules looked at.
#[inline(always)]
pub(super) fn hold<'a>(keys: &'a Keys, sge: &Sge) -> Option<(Entry, InUse<'a>)> {
    let (entry, in_use) = keys.hold(sge.lkey)?;
    let covers = entry.key.valid && entry.key.covers(sge.addr, u64::from(sge.length));
    covers.then_some((entry, in_use))
}

/// Does something with the sender's bytes where they are, a datagram's header in front. The keys were looked at
/// before; it is the sender's error when one is gone by now.
#[inline]
pub(crate) fn with_local(
    endpoint: &Endpoint,
    wr: &Wr<'_>,
    act: impl FnOnce(&[Span]) -> Result<(), MoveError>,
) -> Result<(), MoveError> {
    let pieces = match wr.data {
        Data::Inline(_) => 1,
        Data::Sges(sges) | Data::InlineSges(sges) => sges.len(),
    };
    if pieces + usize::from(wr.datagram.is_some()) <= FEW {
        let mut spans = Spans::<FEW>::new();
        local(endpoint, wr, &mut spans).ok_or(MoveError::Sender)?;
        act(spans.all())
    } else {
        let mut spans = Spans::<{ MAX_SGE + 1 }>::new();
        local(endpoint, wr, &mut spans).ok_or(MoveError::Sender)?;
        act(spans.all())
    }
}

#[inline]
fn local<'a, const MOST: usize>(
    endpoint: &'a Endpoint,
    wr: &Wr<'_>,
    spans: &mut Spans<'a, MOST>,
) -> Option<()> {
    if let Some(datagram) = &wr.datagram {
        spans.push(datagram.grh.as_ptr() as u64, GRH_BYTES);
    }
    match wr.data {
        Data::Inline(bytes) => spans.push(bytes.as_ptr() as u64, bytes.len() as u64),
        Data::InlineSges(sges) => sges.iter().for_each(|sge| spans.push(sge.addr, u64::from(sge.length))),
        Data::Sges(sges) => {
            for sge in sges.iter().filter(|sge| sge.length > 0) {
                spans.hold(&endpoint.keys, sge)?;
            }
        }
    }
    Some(())
}

/// Writes bytes to memory of a region of this process's own, as the device; the region is in use by the caller,
/// covers them and may be written.
///
/// # Errors
/// The memory is not there.
#[inline]
pub(crate) fn write(endpoint: &Endpoint, entry: &Entry, addr: u64, bytes: &[u8]) -> Result<(), MoveError> {
    let from = Span { addr: bytes.as_ptr().expose_provenance() as u64, len: bytes.len() as u64 };
    // SAFETY: the bytes are there.
    unsafe { write_from(endpoint, entry, addr, from) }
}

/// As [`write()`], from a range of this process's memory that others may write meanwhile.
///
/// # Safety
/// The range is there, and its provenance is exposed.
#[inline]
pub(super) unsafe fn write_from(
    endpoint: &Endpoint,
    entry: &Entry,
    addr: u64,
    from: Span,
) -> Result<(), MoveError> {
    let addr = entry.translate(addr);
    if !entry.is_in_place() {
        return within(endpoint, Direction::Write, &[from], &[Span { addr, len: from.len }]);
    }
    // SAFETY: the program gave this memory to the device to write: its key is in use by the caller, who looked
    // it up with the right to write and the range. It was there when it was registered, and registered memory
    // counts as mapped. No Rust reference to it is live in this crate. The range by the contract.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::with_exposed_provenance::<u8>(from.addr as usize),
            std::ptr::with_exposed_provenance_mut::<u8>(addr as usize),
            from.len as usize,
        );
    }
    Ok(())
}

/// Moves bytes between two lists of ranges of this process, by the kernel: `here` is read for
/// [`Direction::Write`], else written.
#[cold]
pub(super) fn within(
    endpoint: &Endpoint,
    direction: Direction,
    here: &[Span],
    there: &[Span],
) -> Result<(), MoveError> {
    let own = endpoint.peers.get(endpoint.segment.owner().slot()).ok_or(MoveError::Gone)?;
    let mut pieces = [Piece { key: 0, addr: 0, len: 0 }; MAX_SGE];
    pieces.iter_mut().zip(there).for_each(|(piece, span)| (piece.addr, piece.len) = (span.addr, span.len));
    let purpose = if direction == Direction::Read { Purpose::Read } else { Purpose::Write };
    // The caller has the keys in use, and the own process does not turn into another program.
    let pieces = &pieces[..there.len().min(MAX_SGE)];
    transfer(endpoint, &own, Origin::NONE, purpose, own.direct(), &|| true, here, pieces)
}

/// Takes the eight bytes of an atomic write from where they are.
#[cold]
pub(crate) fn word(endpoint: &Endpoint, wr: &Wr<'_>) -> Result<[u8; 8], MoveError> {
    let mut word = [0; 8];
    with_local(endpoint, wr, |spans| {
        let here = [Span { addr: word.as_mut_ptr() as u64, len: 8 }];
        within(endpoint, Direction::Read, &here, spans).map_err(|_| MoveError::Sender)
    })?;
    Ok(word)
}

/// Writes the answer of an atomic operation to the sender's memory.
pub(crate) fn answer(endpoint: &Endpoint, sges: &[Sge], value: u64) -> Result<(), MoveError> {
    let bytes = value.to_ne_bytes();
    let mut rest = &bytes[..];
    for sge in sges {
        let (now, later) = rest.split_at(rest.len().min(sge.length as usize));
        if !now.is_empty() {
            let (entry, _in_use) = hold(&endpoint.keys, sge).ok_or(MoveError::Sender)?;
            write(endpoint, &entry, sge.addr, now).map_err(|_| MoveError::Sender)?;
        }
        rest = later;
    }
    Ok(())
}

/// Moves a payload that waits for a receive request of the target to its buffers.
pub(crate) fn into_taken(
    endpoint: &Endpoint,
    remote: &Remote,
    here: &[Span],
    pd: u32,
    receive: &ReceiveRequest,
) -> Result<(), MoveError> {
    let (origin, used) =
        (Origin { wr_id: receive.wr_id, ..Origin::NONE }, here.iter().map(|span| span.len).sum());
    scatter::<MAX_SGE>(endpoint, remote, origin, pd, receive, used, here)
}

/// Moves a send's payload into buffers of the target, of which only so many bytes are used.
pub(crate) fn into_receive(
    endpoint: &Endpoint,
    remote: &Remote,
    wr: &Wr<'_>,
    origin: Origin,
    pd: u32,
    receive: &ReceiveRequest,
    used: u64,
) -> Result<(), MoveError> {
    let origin = Origin { wr_id: receive.wr_id, ..origin };
    with_local(endpoint, wr, |here| {
        if receive.sges.len() <= FEW {
            scatter::<FEW>(endpoint, remote, origin, pd, receive, used, here)
        } else {
            scatter::<MAX_SGE>(endpoint, remote, origin, pd, receive, used, here)
        }
    })
}

/// Moves bytes into buffers of the target, which are at most so many.
fn scatter<const MOST: usize>(
    endpoint: &Endpoint,
    remote: &Remote,
    origin: Origin,
    pd: u32,
    receive: &ReceiveRequest,
    used: u64,
    here: &[Span],
) -> Result<(), MoveError> {
    let mut pins: [Option<(u32, Use<'_>)>; MOST] = [const { None }; MOST];
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
                let pin = pin(endpoint, remote, sge.lkey).map_err(why)?;
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
    admit(endpoint, remote, origin, Purpose::Receive, &there[..count])?;
    let mut images = pins.iter().map_while(|pin| pin.as_ref().map(|(_, pin)| pin.image));
    // One that the kernel does not reach, and all of them take the other way.
    let image = match images.next() {
        Some(first) => first.filter(|_| images.all(|image| image.is_some())),
        None => remote.direct(),
    };
    let held = |entry: &Entry, key| lookup(endpoint, remote, key).as_ref() == Ok(entry);
    let unchanged = || pins.iter().map_while(Option::as_ref).all(|(key, pin)| held(&pin.entry, *key));
    transfer(endpoint, remote, origin, Purpose::Receive, image, &unchanged, here, &there[..count])
}

/// Moves bytes between the own process and memory of a key that is in use.
pub(crate) fn transfer_used(
    endpoint: &Endpoint,
    remote: &Remote,
    origin: Origin,
    purpose: Purpose,
    used: &Use<'_>,
    here: &[Span],
    piece: Piece,
) -> Result<(), MoveError> {
    admit(endpoint, remote, origin, purpose, &[piece])?;
    let unchanged = || lookup(endpoint, remote, piece.key) == Ok(used.entry);
    transfer(endpoint, remote, origin, purpose, used.image, &unchanged, here, &[piece])
}

/// Asks the own permissions, where there are some, whether an operation on this process itself may use its
/// memory so. Another target asks its own.
#[inline]
fn admit(
    endpoint: &Endpoint,
    remote: &Remote,
    origin: Origin,
    purpose: Purpose,
    there: &[Piece],
) -> Result<(), MoveError> {
    let refused = endpoint.permissions.is_some()
        && remote.is_own()
        && !there.iter().all(|piece| endpoint.admits(purpose, &origin, piece));
    if refused { Err(MoveError::Target) } else { Ok(()) }
}

/// What a lookup that failed means for a payload.
pub(crate) fn why(lookup: Lookup) -> MoveError {
    match lookup {
        Lookup::NoKey => MoveError::Target,
        Lookup::Torn | Lookup::Busy => MoveError::Gone,
    }
}

/// Calls of the kernel for one copy, or atomic operation, to a target whose image changes all the time.
const IMAGES: u32 = 3;

/// Does something to the target's memory, whose keys are in use, and to its image of before they were looked
/// up. When the target let nobody in any more by that, they are looked up anew: to find them `unchanged` by
/// another image is as good.
#[inline]
fn reach<T>(
    remote: &Remote,
    image: Image,
    unchanged: &dyn Fn() -> bool,
    mut act: impl FnMut(&Image) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut image = image;
    for _ in 1..IMAGES {
        match act(&image) {
            Err(Fault::Replaced) => {
                image = remote.direct_anew(image).ok_or(Fault::Replaced)?;
                if !unchanged() {
                    return Err(Fault::Replaced);
                }
            }
            Err(Fault::Gone) if remote.lives_on() => image = remote.direct().ok_or(Fault::Denied)?,
            other => return other,
        }
    }
    act(&image)
}

/// Moves bytes between the own process and another, or within the own: by the kernel, else through shared
/// memory with the other's help. `image` is what [`Remote::direct`] said before the keys were looked up.
fn transfer(
    endpoint: &Endpoint,
    remote: &Remote,
    origin: Origin,
    purpose: Purpose,
    image: Option<Image>,
    unchanged: &dyn Fn() -> bool,
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
    if let Some(image) = image {
        // SAFETY: what is overwritten was given to the device for it: the caller looked its key up.
        let copy = |image: &Image| unsafe { copy::transfer(image, direction, here, spans) };
        match reach(remote, image, unchanged, copy) {
            Err(Fault::Denied) => remote.close(),
            other => return other.map_err(|fault| failed(remote, fault)),
        }
    }
    match remote.peer() {
        Some(peer) => {
            let local = Local::Memory(here);
            // SAFETY: as above.
            let moved = unsafe {
                bounce::transfer(&endpoint.segment, peer, origin, purpose, there, local, BOUNCE_LIMIT)
            };
            moved.map_err(not_bounced)
        }
        None => {
            let scratch = remote.scratch().ok_or(MoveError::Gone)?;
            // SAFETY: as above.
            unsafe { scratch.transfer(direction, here, spans) }.map_err(not_bounced)
        }
    }
}

/// Carries out an atomic operation on eight bytes of the target; answers the value before.
pub(crate) fn atomic(
    endpoint: &Endpoint,
    remote: &Remote,
    origin: Origin,
    used: &Use<'_>,
    piece: Piece,
    operation: Operation,
) -> Result<u64, MoveError> {
    let purpose = if let Operation::Write(_) = operation { Purpose::Write } else { Purpose::Atomic };
    admit(endpoint, remote, origin, purpose, &[piece])?;
    let (lock, segment) = (remote.atomics_lock(piece.addr).map_err(|_| MoveError::Gone)?, &*endpoint.segment);
    if let Some(image) = used.image {
        let unchanged = || lookup(endpoint, remote, piece.key) == Ok(used.entry);
        let execute = |image: &Image| {
            // SAFETY: the eight bytes are within memory that its owner registered for this.
            let done = unsafe {
                atomics::execute(lock, segment.owner(), segment, ATOMIC_LIMIT, image, piece.addr, operation)
            };
            match done {
                Err(Failure::Fault(fault)) => Err(fault),
                other => Ok(other),
            }
        };
        match reach(remote, image, &unchanged, execute) {
            Err(Fault::Denied) => remote.close(),
            Err(fault) => return Err(failed(remote, fault)),
            Ok(Ok(before)) => return Ok(before),
            Ok(Err(Failure::Unaligned)) => return Err(MoveError::Target),
            Ok(Err(Failure::Busy)) if lock.owner() != Some(remote.owner()) => return Err(MoveError::Held),
            Ok(Err(Failure::Busy | Failure::Fault(_))) => return Err(MoveError::Gone),
        }
    }
    match remote.peer() {
        Some(peer) => {
            bounce::atomic(segment, peer, origin, piece, operation, BOUNCE_LIMIT).map_err(not_bounced)
        }
        None => {
            let scratch = remote.scratch().ok_or(MoveError::Gone)?;
            // SAFETY: as above.
            unsafe { scratch.atomic(segment, piece.addr, operation, ATOMIC_LIMIT) }.map_err(not_bounced)
        }
    }
}

/// What a fault means for the request.
#[cold]
fn failed(remote: &Remote, fault: Fault) -> MoveError {
    match fault {
        Fault::Local => MoveError::Sender,
        Fault::Remote => MoveError::Target,
        Fault::Replaced => {
            // Its death need not have been noticed yet.
            remote.doubt();
            MoveError::Gone
        }
        Fault::Gone | Fault::Denied | Fault::Os(_) => MoveError::Gone,
    }
}

/// The same for what went through shared memory.
fn not_bounced(failure: bounce::Failure) -> MoveError {
    match failure {
        bounce::Failure::Local => MoveError::Sender,
        bounce::Failure::Remote | bounce::Failure::Refused => MoveError::Target,
        bounce::Failure::Unclear => MoveError::Unclear,
        bounce::Failure::Busy => MoveError::Held,
        bounce::Failure::Gone | bounce::Failure::NoAnswer | bounce::Failure::Os(_) => MoveError::Gone,
    }
}
