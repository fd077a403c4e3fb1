//! Who listens at an address.

use std::cmp::Reverse;
use std::ffi::CString;

use ironverbs_cm::Errno;
use ironverbs_cm::address::{Address, Gid};
use ironverbs_cm::ports::Binding;
use softrdma::shm::folder::Folder;

use super::{HAS_ADDRESS, LISTENS, Namespace, OWNERS, OWNERS_AT, Record, Registry};
use super::{of_file_name, socket_name};

/// Somebody who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    socket: u64,
    namespace: Namespace,
}

/// What was found at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Who listens.
    Listener(Found),
    /// Somebody listens at the port, but not at the address.
    OtherAddress,
    /// Nobody yet: an id has the port, or a process may be about to bind it.
    Soon,
    /// Nobody.
    Nobody,
}

impl Found {
    /// The name of the socket in the folder.
    pub fn name(&self) -> CString {
        socket_name(self.namespace, self.socket)
    }
}

impl Registry {
    /// Who listens at an address, in this network namespace or, where `public`, in others. `near` tells whose
    /// requests come to a listener at another address, too: of the same interface.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn find(
        &mut self,
        folder: &Folder,
        service: u64,
        to: &Address,
        public: bool,
        near: &dyn Fn(&Address) -> bool,
    ) -> Result<Search, Errno> {
        let look = |registry: &Registry, records: &[Record]| {
            let best = registry.best(records, service, to, false, near);
            (best, best == Search::Nobody && registry.has_newcomer(records))
        };
        let (mut best, mut newcomer) =
            match self.locked(folder, |registry, records| Ok(look(registry, records))) {
                // Who is about to change something does so in one step for each record.
                Err(Errno::EBUSY) => {
                    let mut records = std::mem::take(&mut self.records);
                    let found =
                        self.living(folder, false, &mut records).map(|count| look(self, &records[..count]));
                    self.records = records;
                    found?
                }
                other => other?,
            };
        if public && !matches!(best, Search::Listener(_)) {
            self.elsewhere(folder, |other, records| {
                match (other.best(records, service, to, true, near), best) {
                    (found @ Search::Listener(_), _) | (found @ Search::OtherAddress, Search::Nobody) => {
                        best = found
                    }
                    _ => {}
                }
                // A server that listens a second time has shown its addresses before.
                let gid = to.gid().unwrap_or_default();
                newcomer |=
                    records.iter().any(|record| record.is_address(&gid)) && other.has_newcomer(records);
                matches!(best, Search::Listener(_))
            });
        }
        Ok(if best == Search::Nobody && newcomer { Search::Soon } else { best })
    }

    /// Whether a process of another network namespace has this address.
    pub fn knows(&mut self, folder: &Folder, gid: &Gid) -> bool {
        let mut known = false;
        self.elsewhere(folder, |_, records| {
            known |= records.iter().any(|record| record.is_address(gid));
            known
        });
        known
    }

    /// Whether another process of the file's network namespace has it open that neither listens nor has
    /// resolved an address: a server, perhaps, that has told its clients the port and is about to bind it.
    fn has_newcomer(&self, records: &[Record]) -> bool {
        let at_work = |record: &&Record| {
            record.owner != 0
                && record.flags & HAS_ADDRESS == 0
                && (record.flags & LISTENS != 0
                    || record.binding().is_some_and(|binding| !binding.destination.is_zero()))
        };
        let mut owners: Vec<u64> = records.iter().filter(at_work).map(|record| record.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        // A lock in between is somebody else's.
        let mut from = 0;
        for owner in owners.into_iter().filter(|owner| *owner < OWNERS).chain([OWNERS]) {
            if owner > from && self.has_lock(OWNERS_AT + from, owner - from) {
                return true;
            }
            from = owner + 1;
        }
        false
    }

    /// Looks at the files of other network namespaces, until `enough`.
    fn elsewhere(&self, folder: &Folder, mut enough: impl FnMut(&Registry, &[Record]) -> bool) {
        let names = folder.names().unwrap_or_default();
        let others =
            names.iter().filter_map(|name| of_file_name(name)).filter(|other| *other != self.namespace);
        for other in others {
            // Who is about to change something does so in one step for each record.
            let Ok(registry) = Registry::of(folder, other) else { continue };
            let mut records = Vec::new();
            let count = registry.living(folder, false, &mut records);
            if count.is_ok_and(|count| enough(&registry, &records[..count])) {
                return;
            }
        }
    }

    fn best(
        &self,
        records: &[Record],
        service: u64,
        to: &Address,
        from_outside: bool,
        near: &dyn Fn(&Address) -> bool,
    ) -> Search {
        let is_bound = |record: &Record| {
            let at = |binding: &Binding| {
                binding.destination.is_zero() && serves(binding, service) && rank(binding, to) > 1
            };
            // A process knows itself whether it listens: the kernel refuses what it asks of a port that it only
            // has.
            record.owner != self.owner
                && record.flags & LISTENS == 0
                && record.may_serve(service)
                && record.binding().is_some_and(|binding| at(&binding))
        };
        let bound = !from_outside && records.iter().any(is_bound);
        // Who may be about to listen at the address comes before those who listen at others.
        let mut best =
            if bound { ((1, Reverse(0)), Search::Soon) } else { ((0, Reverse(0)), Search::Nobody) };
        let gid = to.gid().unwrap_or_default();
        for record in records.iter().filter(|record| record.flags & LISTENS != 0 && record.may_serve(service))
        {
            let Some(binding) = record.binding() else { continue };
            let has_address = |known: &Record| known.owner == record.owner && known.is_address(&gid);
            // From outside a listener at any address is at those that its process showed, and at no other.
            if !serves(&binding, service)
                || from_outside && (binding.source.is_loopback() || !records.iter().any(has_address))
            {
                continue;
            }
            let rank = rank(&binding, to);
            if rank == 1 && !binding.source.is_any() && !near(&binding.source) {
                continue;
            }
            // Of several that suit as well, who came first.
            if (rank, Reverse(record.since)) > best.0 {
                let found = Found { socket: record.socket, namespace: self.namespace };
                let found = if rank > 1 { Search::Listener(found) } else { Search::OtherAddress };
                best = ((rank, Reverse(record.since)), found);
            }
        }
        best.1
    }
}

/// Whether a listener's service id is this one.
fn serves(binding: &Binding, service: u64) -> bool {
    match binding.source {
        Address::Ib(own) => own.service & own.mask == service & own.mask,
        own => u64::from(binding.space as u16) << 16 | u64::from(own.port()) == service,
    }
}

/// How well a listener suits a destination: 1 not at all, 2 by any address, 3 by its own.
fn rank(binding: &Binding, to: &Address) -> u32 {
    let own = &binding.source;
    if own.same_host(to) {
        3
    } else if own.is_any() && (!binding.family_only || own.family() == to.family() || own.family().is_none())
    {
        2
    } else {
        1
    }
}
