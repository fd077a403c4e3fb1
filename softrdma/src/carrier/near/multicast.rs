//! The members of multicast groups: a table in each process's segment, which senders read.
//!
//! A sender looks at the tables of all living processes and sends to each member by itself. An entry is the
//! queue pair's index plus one, 0 when it is free, and the two halves of the group's address. Only the owner
//! writes.

use std::sync::atomic::Ordering;

use ironverbs_os::growth::TryPush;

use crate::error::{Error, Result};
use crate::shm::memory::Memory;
use crate::shm::slot;

use super::endpoint::Endpoint;
use super::number::{MAX_NUMBERED, number};

/// Root offset of the table in the segment's header.
const ROOT: usize = 4;
/// Memberships that a process can have.
pub(crate) const MEMBERS: usize = 1024;
const WORDS: usize = 3;

/// The own table.
#[derive(Debug)]
pub(crate) struct Table {
    offset: u64,
    members: Vec<Option<(u32, [u8; 16])>>,
}

fn halves(gid: &[u8; 16]) -> [u64; 2] {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    first.copy_from_slice(&gid[..8]);
    second.copy_from_slice(&gid[8..]);
    [u64::from_ne_bytes(first), u64::from_ne_bytes(second)]
}

impl Table {
    /// An empty one.
    ///
    /// # Errors
    /// [`Error::Host`] without room for it.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self> {
        let block = endpoint.segment.alloc((8 * WORDS * MEMBERS) as u64, 64)?;
        endpoint.segment.root(ROOT)?.store(block.offset, Ordering::Release);
        Ok(Self { offset: block.offset, members: Vec::new() })
    }

    fn write(&mut self, endpoint: &Endpoint, place: usize, member: Option<(u32, [u8; 16])>) -> Result<()> {
        let at = self.offset + (8 * WORDS * place) as u64;
        let words = endpoint.segment.memory().words(at, WORDS)?;
        words[0].store(0, Ordering::SeqCst);
        if let Some((index, gid)) = member {
            let halves = halves(&gid);
            words[1].store(halves[0], Ordering::Relaxed);
            words[2].store(halves[1], Ordering::Relaxed);
            words[0].store(u64::from(index) + 1, Ordering::Release);
        }
        self.members[place] = member;
        Ok(())
    }

    /// Puts an own queue pair, by index, into a group; `false` where it is in it already.
    ///
    /// # Errors
    /// [`Error::NoMemory`] at the limits.
    pub(crate) fn add(&mut self, endpoint: &Endpoint, index: u32, gid: &[u8; 16]) -> Result<bool> {
        let member = (index, *gid);
        if self.members.contains(&Some(member)) {
            return Ok(false);
        }
        let place = match self.members.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.members.len() < MEMBERS => {
                self.members.try_push(None)?;
                self.members.len() - 1
            }
            None => return Err(Error::NoMemory),
        };
        self.write(endpoint, place, Some(member))?;
        Ok(true)
    }

    /// The own queue pairs in a group, by index.
    pub(crate) fn members(&self, gid: [u8; 16]) -> impl Iterator<Item = u32> {
        self.members.iter().flatten().filter(move |(_, other)| *other == gid).map(|(index, _)| *index)
    }

    /// Takes an own queue pair out of a group; `false` where it is not in it.
    ///
    /// # Errors
    /// The table is out of reach.
    pub(crate) fn remove(&mut self, endpoint: &Endpoint, index: u32, gid: &[u8; 16]) -> Result<bool> {
        let member = Some((index, *gid));
        let Some(place) = self.members.iter().position(|other| *other == member) else { return Ok(false) };
        self.write(endpoint, place, None)?;
        Ok(true)
    }
}

/// Tells the numbers of a group's members in all living processes.
pub(crate) fn each_member(endpoint: &Endpoint, gid: &[u8; 16], mut tell: impl FnMut(u32)) {
    for slot in slot::claimed(endpoint.segment.folder()).unwrap_or_default() {
        let Some(remote) = endpoint.peers.get(slot) else { continue };
        let table = match remote.peer() {
            Some(peer) => peer.root(ROOT).unwrap_or(0),
            None => endpoint.segment.root(ROOT).map_or(0, |root| root.load(Ordering::Acquire)),
        };
        if let Some(peer) = remote.peer()
            && remote.memory().words(table, WORDS * MEMBERS).is_err()
        {
            // It has grown since it was mapped.
            let _ = peer.refresh();
        }
        members(remote.memory(), table, gid, |index| {
            if index < MAX_NUMBERED {
                tell(number(slot, index));
            }
        });
    }
}

/// Tells the members of a group in one process, by index.
fn members(memory: &Memory, table: u64, gid: &[u8; 16], mut tell: impl FnMut(u32)) {
    let Some(words) = (table != 0).then(|| memory.words(table, WORDS * MEMBERS)).and_then(|w| w.ok()) else {
        return;
    };
    let halves = halves(gid);
    for entry in words.chunks_exact(WORDS) {
        let member = entry[0].load(Ordering::Acquire);
        let same =
            entry[1].load(Ordering::Acquire) == halves[0] && entry[2].load(Ordering::Acquire) == halves[1];
        // A peer wrote it.
        let index = u32::try_from(member).ok().and_then(|member| member.checked_sub(1));
        if let Some(index) = index.filter(|_| same && entry[0].load(Ordering::Relaxed) == member) {
            tell(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::testing::memory_of;

    #[test]
    fn whatever_stands_in_a_table_is_a_member_or_none() {
        let gid = [0xff; 16];
        let [first, second] = halves(&gid);
        let mut words = vec![0u64; 512 + WORDS * MEMBERS];
        for (entry, member) in [0, 1, 7, 1 << 32, u64::from(u32::MAX), u64::MAX].into_iter().enumerate() {
            words[512 + WORDS * entry..][..WORDS].copy_from_slice(&[member, first, second]);
        }
        words[512 + WORDS * 9..][..WORDS].copy_from_slice(&[5, first, 0]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (memory, _file) = memory_of(&bytes);
        let mut told = Vec::new();
        members(&memory, 4096, &gid, |index| told.push(index));
        assert_eq!(told, [0, 6, u32::MAX - 1]);
        for table in [0, bytes.len() as u64, u64::MAX - 7] {
            members(&memory, table, &gid, |index| panic!("{index} from nowhere"));
        }
    }
}
