//! Reading the rings of traced processes. What stands in them is whatever those processes wrote: positions,
//! sizes and kinds are checked, and a ring that is not what it should be is left, with a word about it.
//!
//! A ring is read by system calls and never mapped, since its file may be shortened at any time.

use std::fs::File;
use std::mem::size_of;
use std::os::unix::fs::FileExt;

use ironverbs_trace::record::{
    DATA, EMPTIES, EMPTY_PLACES, ENDED, Empty, Head, Header, LARGEST, MAGIC, RING, ROOM, TAKEN, Text,
    WRITTEN, kind,
};

/// A record as it was taken.
#[derive(Clone, Debug)]
pub struct Record {
    pub header: Header,
    pub body: Body,
}

/// What stands behind a header.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Name, whether an object ended, arguments, answer.
    Text {
        name: Vec<u8>,
        ends: bool,
        arguments: Vec<u8>,
        answer: Vec<u8>,
    },
    Words(Vec<u64>),
}

/// The ring of one thread.
pub struct Ring {
    file: File,
    pub head: Head,
    taken: u64,
    /// What was read of it is no ring any more.
    spoiled: bool,
}

/// A plain struct of integers, from bytes.
///
/// # Safety
/// `T` is made of integers alone.
unsafe fn from_bytes<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: by the contract any bytes are a value, and there are enough of them.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

impl Ring {
    /// A ring over its file; None where that is none.
    pub fn open(file: File) -> Option<Self> {
        let mut bytes = [0; size_of::<Head>()];
        let is_file = file.metadata().is_ok_and(|file| file.is_file() && file.len() == RING as u64);
        file.read_exact_at(&mut bytes, 0).ok().filter(|()| is_file)?;
        // SAFETY: integers.
        let head: Head = unsafe { from_bytes(&bytes) }?;
        (head.magic == MAGIC).then_some(Self { file, head, taken: 0, spoiled: false })
    }

    /// Whether it turned out to be none.
    pub fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Whether the thread has said that it ends.
    pub fn has_ended(&self) -> bool {
        let mut word = [0; 4];
        self.file.read_exact_at(&mut word, ENDED as u64).is_err() || u32::from_ne_bytes(word) != 0
    }

    /// How far records are there; None where the position is just being written, or is none.
    fn written(&mut self) -> Option<u64> {
        let mut words = [0; 16];
        if self.file.read_exact_at(&mut words, WRITTEN as u64).is_err() {
            self.spoiled = true;
            return None;
        }
        let (position, inverted) = words.split_at(8);
        let position = u64::from_ne_bytes(position.try_into().ok()?);
        if position != !u64::from_ne_bytes(inverted.try_into().ok()?) {
            return None;
        }
        let fits = position.checked_sub(self.taken).is_some_and(|bytes| bytes <= ROOM as u64);
        if !fits || !position.is_multiple_of(8) {
            self.spoiled = true;
            return None;
        }
        Some(position)
    }

    /// Takes all records that are there.
    pub fn take(&mut self, into: &mut Vec<Record>) {
        if self.spoiled {
            return;
        }
        let Some(written) = self.written() else { return };
        if written == self.taken {
            return;
        }
        let bytes = (written - self.taken) as usize;
        let begin = self.taken as usize % ROOM;
        let mut room = vec![0; bytes];
        let first = bytes.min(ROOM - begin);
        let (before, behind) = room.split_at_mut(first);
        let read = self
            .file
            .read_exact_at(before, (DATA + begin) as u64)
            .and_then(|()| self.file.read_exact_at(behind, DATA as u64));
        let taken = match read {
            Ok(()) => records(&room, begin, into),
            Err(_) => None,
        };
        if taken.is_none() {
            self.spoiled = true;
            return;
        }
        self.taken = written;
        let mut words = [0; 16];
        words[..8].copy_from_slice(&written.to_ne_bytes());
        words[8..].copy_from_slice(&(!written).to_ne_bytes());
        if self.file.write_all_at(&words, TAKEN as u64).is_err() {
            self.spoiled = true;
        }
    }

    /// Polls that found nothing, and that no record tells of.
    pub fn empties(&self) -> Vec<Empty> {
        const EACH: usize = size_of::<Empty>();
        let mut bytes = [0; EACH * EMPTY_PLACES];
        if self.spoiled || self.file.read_exact_at(&mut bytes, EMPTIES as u64).is_err() {
            return Vec::new();
        }
        // SAFETY: integers.
        let all = bytes.chunks_exact(EACH).filter_map(|one| unsafe { from_bytes::<Empty>(one) });
        all.filter(|empty| empty.count > 0).collect()
    }
}

/// The records in bytes that begin at `at` of the room; None where one is none.
fn records(mut bytes: &[u8], mut at: usize, into: &mut Vec<Record>) -> Option<()> {
    while !bytes.is_empty() {
        let first = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let size = first as u32 as usize;
        let is_pad = (first >> 32) as u16 == kind::PAD;
        let rest = ROOM - at;
        if size == 0 || !size.is_multiple_of(8) || size > bytes.len() || size > rest {
            return None;
        }
        if is_pad {
            if size != rest {
                return None;
            }
        } else {
            if size > LARGEST {
                return None;
            }
            into.push(record(bytes.get(..size)?)?);
        }
        bytes = &bytes[size..];
        at = (at + size) % ROOM;
    }
    Some(())
}

fn record(bytes: &[u8]) -> Option<Record> {
    const HEAD: usize = size_of::<Header>();
    // SAFETY: integers.
    let header: Header = unsafe { from_bytes(bytes) }?;
    let behind = bytes.get(HEAD..)?;
    let body = match header.kind {
        kind::TEXT => {
            // SAFETY: integers.
            let text: Text = unsafe { from_bytes(behind) }?;
            let mut rest = behind.get(size_of::<Text>()..)?;
            let mut part = |length: usize| {
                let (part, after) = rest.split_at_checked(length)?;
                rest = after;
                Some(part.to_vec())
            };
            Body::Text {
                name: part(text.name.into())?,
                ends: text.ends != 0,
                arguments: part(text.arguments as usize)?,
                answer: part(text.answer as usize)?,
            }
        }
        kind::DATA => Body::Words(
            behind
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
                .collect(),
        ),
        _ => return None,
    };
    Some(Record { header, body })
}

#[cfg(test)]
mod tests;
