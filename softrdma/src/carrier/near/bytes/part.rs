//! Parts of messages that travel in packets: taken from the memory of one that sends, put where one receives.

use ironverbs_os::thread;

use crate::queues::respond::MoveError;
use crate::rules::keys::{check_local, check_remote};
use crate::rules::receive::{MAX_SGE, Sge};
use crate::rules::verbs::Access;
use crate::shm::copy::{Direction, Span};
use crate::shm::keys::Entry;

use super::transfer::{hold, within, write};
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::wr::{Data, Wr};
use crate::queues::completion::MAX_STAGED;

/// Bytes that a thread of the library copies in place in the memory of the program's own requests. The kernel
/// copies more, and what a peer names, and answers a bad address with an error: the program does nothing with
/// the device just then, and may be about to end. What its own threads move while they post and poll, they
/// copy: the kernel takes as long again to find the pages.
const FEW: usize = MAX_STAGED;

/// Parts of a message that are put where they belong at once, at most: as many packets as the kernel puts
/// together in one datagram of 64 KiB.
pub(crate) const PARTS: usize = 16;

/// Copies so many bytes of what a request sends, from this one on, to `room`. Keys were looked at when it
/// started.
///
/// # Errors
/// A key is gone, or the memory is not there.
pub(crate) fn take_part(
    endpoint: &Endpoint,
    wr: &Wr<'_>,
    offset: usize,
    room: &mut [u8],
) -> Result<(), MoveError> {
    match wr.data {
        Data::Inline(bytes) => {
            let part = bytes.get(offset..).and_then(|bytes| bytes.get(..room.len()));
            room.copy_from_slice(part.ok_or(MoveError::Sender)?);
            Ok(())
        }
        Data::Sges(sges) => {
            let done = each_part(sges, offset, room.len(), |sge, place| {
                let (entry, _in_use) = hold(&endpoint.keys, &sge).ok_or(MoveError::Sender)?;
                read(endpoint, &entry, sge.addr, &mut room[place..][..sge.length as usize])
            });
            done.map_err(|_| MoveError::Sender)
        }
        // Such data were copied when the request was posted.
        Data::InlineSges(_) => Err(MoveError::Sender),
    }
}

/// Whether a part of this length is better taken with others ([`take_parts`]).
pub(crate) fn is_better_together(endpoint: &Endpoint, wr: &Wr<'_>, length: usize) -> bool {
    matches!(wr.data, Data::Sges(_)) && is_left_to_kernel(endpoint, length)
}

/// As [`take_part`], to several ranges that follow one another in the message, by one call for each piece of
/// the program's memory: a call takes as long as the copy of a packet.
///
/// # Safety
/// The ranges are there, nobody else uses them, and their provenance is exposed.
///
/// # Errors
/// A key is gone, or the memory is not there.
pub(crate) unsafe fn take_parts(
    endpoint: &Endpoint,
    wr: &Wr<'_>,
    offset: usize,
    rooms: &mut [Span],
) -> Result<(), MoveError> {
    let Data::Sges(sges) = wr.data else { return Err(MoveError::Sender) };
    let length = rooms.iter().map(|room| room.len as usize).sum();
    let mut left = rooms;
    let done = each_part(sges, offset, length, |sge, _| {
        let (entry, _in_use) = hold(&endpoint.keys, &sge).ok_or(MoveError::Sender)?;
        let mut now = [Span { addr: 0, len: 0 }; MAX_SGE];
        let (mut count, mut bytes) = (0, u64::from(sge.length));
        while bytes > 0 {
            let (Some(room), Some(place)) = (left.first_mut(), now.get_mut(count)) else {
                return Err(MoveError::Sender);
            };
            let taken = bytes.min(room.len);
            *place = Span { addr: room.addr, len: taken };
            (room.addr, room.len) = (room.addr + taken, room.len - taken);
            (count, bytes) = (count + 1, bytes - taken);
            if room.len == 0 {
                left = &mut std::mem::take(&mut left)[1..];
            }
        }
        let there = Span { addr: entry.translate(sge.addr), len: u64::from(sge.length) };
        within(endpoint, Direction::Read, &now[..count], &[there])
    });
    done.map_err(|_| MoveError::Sender)
}

/// Copies bytes that stand in at most [`PARTS`] parts to where the byte with this number of a message goes in
/// pieces of own memory, all of this protection domain.
///
/// # Errors
/// [`MoveError::Target`] where a key does not allow that, or the memory is not there.
pub(crate) fn put_parts(
    endpoint: &Endpoint,
    pd: u32,
    sges: &[Sge],
    offset: usize,
    parts: &[&[u8]],
) -> Result<(), MoveError> {
    let length = parts.iter().map(|part| part.len()).sum();
    let done = each_part(sges, offset, length, |sge, place| {
        let (entry, _in_use) = endpoint.keys.hold(sge.lkey).ok_or(MoveError::Target)?;
        check_local(Some(&entry.key), pd, sge.addr, sge.length, true).map_err(|_| MoveError::Target)?;
        let bytes = some_of(parts, place, sge.length as usize);
        if is_left_to_kernel(endpoint, sge.length as usize) {
            put(endpoint, &entry, sge.addr, bytes)
        } else {
            write_each(endpoint, &entry, sge.addr, bytes)
        }
    });
    done.map_err(|_| MoveError::Target)
}

/// Copies all bytes of a message to the beginning of a piece of own memory of this protection domain, which has
/// room for them.
///
/// # Errors
/// As those of [`put_parts`].
#[inline(always)]
pub(crate) fn put_whole(endpoint: &Endpoint, pd: u32, sge: &Sge, bytes: &[u8]) -> Result<(), MoveError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let (entry, _in_use) = endpoint.keys.hold(sge.lkey).ok_or(MoveError::Target)?;
    check_local(Some(&entry.key), pd, sge.addr, sge.length, true).map_err(|_| MoveError::Target)?;
    if is_left_to_kernel(endpoint, bytes.len()) {
        put(endpoint, &entry, sge.addr, std::iter::once(bytes))
    } else {
        write(endpoint, &entry, sge.addr, bytes)
    }
}

/// The bytes of `parts` from this one on, so many, in parts.
fn some_of<'a>(parts: &'a [&'a [u8]], from: usize, length: usize) -> impl Iterator<Item = &'a [u8]> {
    let (mut skip, mut left) = (from, length);
    parts.iter().filter_map(move |all| {
        let (_, part) = all.split_at(skip.min(all.len()));
        let (part, _) = part.split_at(left.min(part.len()));
        (skip, left) = (skip.saturating_sub(all.len()), left - part.len());
        (!part.is_empty()).then_some(part)
    })
}

/// Copies memory that a peer reads by this key to ranges, one after the other.
///
/// # Safety
/// The ranges are there, nobody else uses them, and their provenance is exposed.
///
/// # Errors
/// [`MoveError::Target`] where the key does not allow that (any more), or the memory is not there.
pub(crate) unsafe fn read_remote(
    endpoint: &Endpoint,
    pd: u32,
    qp_num: u32,
    (addr, rkey): (u64, u32),
    rooms: &[Span],
) -> Result<(), MoveError> {
    let (entry, _in_use) = endpoint.keys.hold(rkey).ok_or(MoveError::Target)?;
    let length = rooms.iter().map(|room| room.len).sum();
    check_remote(Some(&entry.key), pd, qp_num, addr, length, Access::REMOTE_READ)
        .map_err(|_| MoveError::Target)?;
    if !entry.is_in_place() || kernel_copies(endpoint) {
        let there = Span { addr: entry.translate(addr), len: length };
        return within(endpoint, Direction::Read, rooms, &[there]).map_err(|_| MoveError::Target);
    }
    let mut from = addr;
    for room in rooms {
        // SAFETY: the caller's.
        let bytes = unsafe {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(room.addr as usize);
            std::slice::from_raw_parts_mut(to, room.len as usize)
        };
        read(endpoint, &entry, from, bytes).map_err(|_| MoveError::Target)?;
        from += room.len;
    }
    Ok(())
}

/// Writes the bytes of at most [`PARTS`] packets to memory of a region of this process's own, as the device;
/// the region is in use by the caller, covers them and may be written.
///
/// # Errors
/// The memory is not there.
pub(crate) fn put<'a>(
    endpoint: &Endpoint,
    entry: &Entry,
    addr: u64,
    parts: impl Iterator<Item = &'a [u8]>,
) -> Result<(), MoveError> {
    if !kernel_copies(endpoint) {
        return write_each(endpoint, entry, addr, parts);
    }
    let mut here = [Span { addr: 0, len: 0 }; PARTS];
    let (mut count, mut len) = (0, 0);
    for part in parts {
        let place = here.get_mut(count).ok_or(MoveError::Target)?;
        *place = Span { addr: part.as_ptr().expose_provenance() as u64, len: part.len() as u64 };
        (count, len) = (count + 1, len + place.len);
    }
    within(endpoint, Direction::Write, &here[..count], &[Span { addr: entry.translate(addr), len }])
}

fn write_each<'a>(
    endpoint: &Endpoint,
    entry: &Entry,
    addr: u64,
    parts: impl Iterator<Item = &'a [u8]>,
) -> Result<(), MoveError> {
    let mut to = addr;
    for part in parts {
        write(endpoint, entry, to, part)?;
        to = to.wrapping_add(part.len() as u64);
    }
    Ok(())
}

/// Whether the kernel copies within this process: some sandboxes forbid it.
fn kernel_copies(endpoint: &Endpoint) -> bool {
    let own = endpoint.peers.get(endpoint.segment.owner().slot());
    own.is_some_and(|own| own.direct().is_some())
}

/// Whether the kernel copies so many bytes from or to memory of the program's own requests: [`FEW`].
fn is_left_to_kernel(endpoint: &Endpoint, bytes: usize) -> bool {
    bytes > FEW && thread::is_own() && kernel_copies(endpoint)
}

/// Calls `act` for each piece of memory that the bytes of a message from this one on are in, and with where in
/// these bytes it begins.
fn each_part(
    sges: &[Sge],
    offset: usize,
    length: usize,
    mut act: impl FnMut(Sge, usize) -> Result<(), MoveError>,
) -> Result<(), MoveError> {
    let (mut skip, mut done) = (offset, 0);
    for sge in sges {
        let size = sge.length as usize;
        if skip >= size {
            skip -= size;
            continue;
        }
        let count = (size - skip).min(length - done);
        if count == 0 {
            break;
        }
        act(Sge { addr: sge.addr.wrapping_add(skip as u64), length: count as u32, lkey: sge.lkey }, done)?;
        (skip, done) = (0, done + count);
    }
    if done == length { Ok(()) } else { Err(MoveError::Target) }
}

/// Reads memory of a region of this process's own, as the device, in place where that is possible; the region
/// is in use by the caller, and covers it.
fn read(endpoint: &Endpoint, entry: &Entry, addr: u64, room: &mut [u8]) -> Result<(), MoveError> {
    let addr = entry.translate(addr);
    if !entry.is_in_place() || is_left_to_kernel(endpoint, room.len()) {
        let here = Span { addr: room.as_mut_ptr().expose_provenance() as u64, len: room.len() as u64 };
        return within(endpoint, Direction::Read, &[here], &[Span { addr, len: here.len }]);
    }
    // SAFETY: the program gave this memory to the device: its key is in use by the caller, who looked it up
    // with the range. It was there when it was registered, and registered memory counts as mapped. Only bytes
    // are read, by a copy that Rust cannot reason about otherwise.
    unsafe {
        let from = std::ptr::with_exposed_provenance::<u8>(addr as usize);
        std::ptr::copy_nonoverlapping(from, room.as_mut_ptr(), room.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_several_parts_are_parts() {
        let some =
            |from, length| some_of(&[b"abc", b"", b"defg", b"h"], from, length).collect::<Vec<_>>().concat();
        for from in 0..8 {
            for length in 0..=8 - from {
                assert_eq!(some(from, length), &b"abcdefgh"[from..][..length], "{from} {length}");
            }
        }
    }

    #[test]
    fn parts_are_where_the_bytes_of_a_message_are() {
        let sges = [(0x100, 3), (0x200, 0), (0x300, 5)].map(|(addr, length)| Sge { addr, length, lkey: 1 });
        let parts = |offset, length| {
            let mut all = Vec::new();
            each_part(&sges, offset, length, |sge, place| {
                all.push((sge.addr, sge.length, place));
                Ok(())
            })
            .map(|()| all)
        };
        assert_eq!(parts(0, 8).unwrap(), [(0x100, 3, 0), (0x300, 5, 3)]);
        assert_eq!(parts(2, 2).unwrap(), [(0x102, 1, 0), (0x300, 1, 1)]);
        assert_eq!(parts(3, 5).unwrap(), [(0x300, 5, 0)]);
        assert_eq!(parts(8, 0).unwrap(), []);
        assert_eq!(parts(4, 5), Err(MoveError::Target));
    }
}
