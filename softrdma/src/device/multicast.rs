//! Multicast groups: which queue pairs are in which, in a table that senders read.
//!
//! A sender looks at the tables of all living processes and sends to each member by itself. An entry is the
//! queue pair's index plus one, 0 when it is free, and the two halves of the group's address. Only the owner
//! writes.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::growth::TryPush;
use crate::rules::requester::Outcome;
use crate::rules::verbs::QpType;
use crate::shm::memory::Memory;
use crate::shm::slot;

use super::completion_order::CompletionOrder;
use super::endpoint::{self, Endpoint};
use super::initiator::Initiator;
use super::near::Near;
use super::wr::{Datagram, Wr};
use super::{Device, Error, QueuePair, Result};

/// Root offset of the table in the segment's header.
const ROOT: usize = 4;
/// Memberships that a process can have.
pub(super) const MEMBERS: usize = 1024;
const WORDS: usize = 3;

/// The own table.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Its offset in the segment, and a private copy of what stands there.
    table: Mutex<Option<Table>>,
}

#[derive(Debug)]
struct Table {
    offset: u64,
    members: Vec<Option<(u32, [u8; 16])>>,
}

fn halves(gid: &[u8; 16]) -> [u64; 2] {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    first.copy_from_slice(&gid[..8]);
    second.copy_from_slice(&gid[8..]);
    [u64::from_ne_bytes(first), u64::from_ne_bytes(second)]
}

/// Whether an address is a group's: IPv6, or IPv4 in IPv6.
pub(super) fn is_group(gid: &[u8; 16]) -> bool {
    let ipv4 = gid[..10].iter().all(|byte| *byte == 0) && gid[10..12] == [0xff, 0xff];
    gid[0] == 0xff || ipv4 && (224..240).contains(&gid[12])
}

/// Whether a group's address has the scope of one interface (RFC 4291, 2.7), which no other namespace shares.
pub(super) fn is_interface_local(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff && gid[1] & 0xf == 1
}

impl Table {
    fn new(endpoint: &Endpoint) -> Result<Self> {
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
}

impl Device {
    /// Puts a datagram queue pair into a group (`ibv_attach_mcast`). Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another kind of queue pair or an address that is no group's; [`Error::NoMemory`]
    /// at the limits.
    pub fn attach_multicast(&self, qp: &QueuePair, gid: &[u8; 16]) -> Result<()> {
        if qp.qp_type() != QpType::Ud || !is_group(gid) {
            return Err(Error::Invalid("queue pair or address of a multicast group"));
        }
        let mut table = self.groups.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.is_none() {
            *table = Some(Table::new(&self.endpoint)?);
        }
        let Some(table) = table.as_mut() else { return Err(Error::NoMemory) };
        let member = (qp.index(), *gid);
        if table.members.contains(&Some(member)) {
            return Ok(());
        }
        let place = match table.members.iter().position(Option::is_none) {
            Some(place) => place,
            None if table.members.len() < MEMBERS => {
                table.members.try_push(None)?;
                table.members.len() - 1
            }
            None => return Err(Error::NoMemory),
        };
        table.write(&self.endpoint, place, Some(member))?;
        qp.groups.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Takes a queue pair out of a group.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not in it.
    pub fn detach_multicast(&self, qp: &QueuePair, gid: &[u8; 16]) -> Result<()> {
        let mut table = self.groups.table.lock().unwrap_or_else(PoisonError::into_inner);
        let member = Some((qp.index(), *gid));
        let found = table.as_mut().and_then(|table| {
            let place = table.members.iter().position(|other| *other == member)?;
            Some((table, place))
        });
        let Some((table, place)) = found else { return Err(Error::Invalid("not in this group")) };
        table.write(&self.endpoint, place, None)?;
        qp.groups.fetch_sub(1, Ordering::AcqRel);
        Ok(())
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

impl QueuePair {
    /// Sends a datagram to every member of its group, to the sender too where it is one, unless it was made
    /// not to get its own.
    pub(super) fn multicast(
        &self,
        from: &Initiator,
        near: &mut Near,
        wr: &Wr<'_>,
        datagram: &Datagram<'_>,
    ) -> Outcome {
        let endpoint = &self.device().endpoint;
        // Several are woken, one after the other.
        let (order, mut outcome) = (CompletionOrder::new(None), None);
        // The sender has no lock of its own that a member's side needs: it is reached as by its number.
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
            members(remote.memory(), table, &datagram.dgid, |index| {
                if index >= endpoint::MAX_NUMBERED || matches!(outcome, Some(Outcome::Local(_))) {
                    return;
                }
                let qp_num = endpoint::number(slot, index);
                if qp_num != self.qp_num() || !self.blocks_own_multicast() {
                    let wr = Wr { datagram: Some(Datagram { qp_num, ..*datagram }), ..*wr };
                    let one = near.execute(endpoint, from, &wr, &order);
                    if outcome.is_none() || matches!(one, Outcome::Local(_)) {
                        outcome = Some(one);
                    }
                }
            });
        }
        // Nobody is in the group: the request is checked as any other, and lost.
        outcome.unwrap_or_else(|| near.execute(endpoint, from, wr, &order))
    }
}

impl Groups {
    pub(super) fn new() -> Self {
        Self::default()
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
