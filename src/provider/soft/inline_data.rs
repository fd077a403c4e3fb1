//! Inline data of several pieces, put together to be sent as one.
//!
//! A header and what it is for are two pieces in most programs, and what the engine sends fastest has one.

use core::mem::MaybeUninit;
use core::ptr;

use softrdma::device::Data;
use softrdma::rules::receive::Sge;

/// Bytes that are put together at most: as many as a direct ring takes, and a few more.
const MOST: usize = 256;

/// Where they are put together.
pub type Room = [MaybeUninit<u8>; MOST];

/// Room with nothing in it, which costs nothing.
#[inline(always)]
pub fn room() -> Room {
    [const { MaybeUninit::uninit() }; MOST]
}

/// The bytes of these pieces as one, in `room`; `None`, and none is read, where they are more than `most`, or
/// than there is room for.
///
/// # Safety
/// Each piece is readable if they are no more than `most`.
#[inline(never)]
pub unsafe fn put_together(pieces: &[Sge], most: u32, room: &mut Room) -> Option<Sge> {
    let length = Data::InlineSges(pieces).length();
    if length > u64::from(most) || length > MOST as u64 {
        return None;
    }
    let mut rest = room.as_mut_slice();
    for piece in pieces {
        let (to, behind) = rest.split_at_mut_checked(piece.length as usize)?;
        let from = ptr::with_exposed_provenance::<MaybeUninit<u8>>(piece.addr as usize);
        // SAFETY: by the contract; the length is that of the room.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        rest = behind;
    }
    Some(Sge { addr: room.as_ptr().expose_provenance() as u64, length: length as u32, lkey: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(data: &[u8], lengths: &[usize]) -> Vec<Sge> {
        let mut from = 0;
        let piece = |length: &usize| {
            let addr = data[from..].as_ptr().expose_provenance() as u64;
            from += length;
            Sge { addr, length: *length as u32, lkey: 7 }
        };
        lengths.iter().map(piece).collect()
    }

    #[test]
    fn pieces_follow_one_another() {
        let data: Vec<u8> = (0..=255).collect();
        for lengths in [&[][..], &[0, 0], &[9, 8], &[1, 8, 8], &[0, 64, 0, 1], &[200, 56]] {
            let (list, mut room, sum) = (pieces(&data, lengths), room(), lengths.iter().sum::<usize>());
            // SAFETY: the data is there.
            let one = unsafe { put_together(&list, MOST as u32, &mut room) }.unwrap();
            let bytes = ptr::with_exposed_provenance::<u8>(one.addr as usize);
            // SAFETY: as many bytes are in the room.
            let bytes = unsafe { core::slice::from_raw_parts(bytes, one.length as usize) };
            assert_eq!(bytes, &data[..sum], "{lengths:?}");
        }
    }

    #[test]
    fn nothing_is_read_of_too_many() {
        let nowhere = |length| Sge { addr: 8, length, lkey: 0 };
        let lists = [&[nowhere(40), nowhere(25)][..], &[nowhere(u32::MAX); 3], &[nowhere(0), nowhere(65)]];
        for list in lists {
            // SAFETY: they are more than may be.
            assert!(unsafe { put_together(list, 64, &mut room()) }.is_none());
        }
        // SAFETY: as above.
        assert!(unsafe { put_together(&[nowhere(200), nowhere(57)], 1000, &mut room()) }.is_none());
    }
}
