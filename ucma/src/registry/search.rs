//! Who listens at an address.

use std::cmp::Reverse;
use std::ffi::CStr;
use std::time::Duration;

use ironverbs_cm::address::{Address, Gid, PortSpace};
use ironverbs_cm::ports::{Binding, NoPort};
use softrdma::shm::folder::Folder;

use super::Registry;
use super::namespace::{Name, Namespace, parse, socket_name};
use super::owner;
use super::port::{Port, Record};
use crate::sys;

/// Somebody who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    namespace: Namespace,
    owner: u64,
    socket: u64,
}

impl Found {
    /// Whose it is.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// The name of the socket.
    pub fn socket(&self) -> u64 {
        self.socket
    }
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

/// Whether there is a newcomer, as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newcomer {
    is_there: bool,
    looked: Duration,
    /// How the folder was then.
    changed: Option<u64>,
}

/// How long it is believed that there is a newcomer, who says in no name that he is none any more.
const IS_NEW: Duration = Duration::from_millis(5);
/// How long it is believed that there is none, in a folder that changes.
const NONE_CAME: Duration = Duration::from_millis(1);

impl Newcomer {
    fn holds(&self, now: Duration, changed: Option<u64>) -> bool {
        let age = now.saturating_sub(self.looked);
        let is_same = changed.is_some() && changed == self.changed;
        if self.is_there { age < IS_NEW } else { is_same || age < NONE_CAME }
    }
}

/// Whom somebody looks for.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    service: u64,
    to: &'a Address,
    /// Whose requests come to a listener at another address, too.
    near: &'a dyn Fn(&Address) -> bool,
    /// The process that asks, which knows itself whether it listens, and what it is about to do.
    asks: Option<u64>,
}

impl Registry {
    /// Who listens at an address, in this network namespace or, where `public`, in others. `near` tells whose
    /// requests come to a listener at another address, too: of the same interface.
    ///
    /// # Errors
    /// Those of reading the folder, for which a descriptor must be free, as for the connection then.
    pub fn find(
        &self,
        main: &Folder,
        service: u64,
        to: &Address,
        public: bool,
        near: &dyn Fn(&Address) -> bool,
    ) -> Result<Search, NoPort> {
        let wanted = Wanted { service, to, near, asks: Some(self.owner.number()) };
        let mut best = self.best(self.namespace, &self.folder, wanted, false)?;
        let mut newcomer = best == Search::Nobody && has_newcomer(&self.folder, wanted.asks);
        if public && !matches!(best, Search::Listener(_)) {
            let gid = to.gid().unwrap_or_default();
            self.elsewhere(main, |namespace, folder| {
                let found = self.best(namespace, folder, wanted, true).unwrap_or(Search::Nobody);
                match (found, best) {
                    (Search::Listener(_), _) | (Search::OtherAddress, Search::Nobody) => best = found,
                    _ => {}
                }
                // A server that listens a second time has shown its addresses before.
                newcomer |= has(folder, &gid) && has_newcomer(folder, wanted.asks);
                matches!(best, Search::Listener(_))
            });
        }
        Ok(if best == Search::Nobody && newcomer { Search::Soon } else { best })
    }

    /// Who listens at an address in this network namespace, for somebody on another host.
    ///
    /// # Errors
    /// Those of [`Registry::find`].
    pub fn find_for_others(
        &mut self,
        service: u64,
        to: &Address,
        near: &dyn Fn(&Address) -> bool,
    ) -> Result<Search, NoPort> {
        let wanted = Wanted { service, to, near, asks: None };
        let best = self.best(self.namespace, &self.folder, wanted, false)?;
        let soon = best == Search::Nobody && self.has_newcomer();
        Ok(if soon { Search::Soon } else { best })
    }

    /// [`has_newcomer`], of whom nobody asks, for requests of which anybody can send many: looked at again once
    /// the folder has changed or some time is over, since all processes are looked at.
    fn has_newcomer(&mut self) -> bool {
        let (now, changed) = (sys::now(), self.folder.changed());
        if let Some(known) = self.newcomer.filter(|known| known.holds(now, changed)) {
            return known.is_there;
        }
        let is_there = has_newcomer(&self.folder, None);
        self.newcomer = Some(Newcomer { is_there, looked: now, changed });
        is_there
    }

    /// Does something with the folder and the name of a socket that was found.
    ///
    /// # Errors
    /// ENOENT where it is gone; those of `body`.
    pub fn reach<R>(
        &self,
        main: &Folder,
        found: &Found,
        body: impl FnOnce(&Folder, &CStr) -> Result<R, i32>,
    ) -> Result<R, i32> {
        let name = socket_name(found.owner, found.socket);
        if found.namespace == self.namespace {
            return body(&self.folder, &name);
        }
        body(&main.existing_folder(&found.namespace.name()).map_err(|why| why.errno())?, &name)
    }

    /// Whether a process of another network namespace has this address.
    pub fn knows(&self, main: &Folder, gid: &Gid) -> bool {
        let mut known = false;
        self.elsewhere(main, |_, folder| {
            known = has(folder, gid);
            known
        });
        known
    }

    /// The best of the records in a network namespace, for somebody there or `from_outside`.
    fn best(
        &self,
        namespace: Namespace,
        folder: &Folder,
        Wanted { service, to, near, asks }: Wanted<'_>,
        from_outside: bool,
    ) -> Result<Search, NoPort> {
        let records = self.records(folder, service)?;
        let is_bound = |record: &Record| {
            let binding = &record.binding;
            // The kernel refuses what a process asks of a port that it only has.
            Some(record.owner) != asks
                && !record.listens()
                && binding.destination.is_zero()
                && serves(binding, service)
                && rank(binding, to) > 1
        };
        let bound = !from_outside && records.iter().any(is_bound);
        // Who may be about to listen at the address comes before those who listen at others.
        let mut best =
            if bound { ((1, Reverse(0)), Search::Soon) } else { ((0, Reverse(0)), Search::Nobody) };
        let gid = to.gid().unwrap_or_default();
        for record in records.iter().filter(|record| record.listens()) {
            let binding = &record.binding;
            // From outside a listener at any address is at those that its process showed, and at no other.
            let has_address = || owner::look(folder, record.owner).is_some_and(|shown| shown.has(&gid));
            if !serves(binding, service) || from_outside && (binding.source.is_loopback() || !has_address()) {
                continue;
            }
            let rank = rank(binding, to);
            if rank == 1 && !binding.source.is_any() && !near(&binding.source) {
                continue;
            }
            // Of several that suit as well, who came first.
            if (rank, Reverse(record.since)) > best.0 {
                let found = Found { namespace, owner: record.owner, socket: record.socket };
                let found = if rank > 1 { Search::Listener(found) } else { Search::OtherAddress };
                best = ((rank, Reverse(record.since)), found);
            }
        }
        Ok(best.1)
    }

    /// The records of the port that a service id names; none where it names no port.
    fn records(&self, folder: &Folder, service: u64) -> Result<Vec<Record>, NoPort> {
        let Some(space) = PortSpace::of_service(service) else { return Ok(Vec::new()) };
        let port = Port { space, number: service as u16 };
        match port.open(folder) {
            Ok(place) => super::living(folder, &place, port, self.owner.number()),
            Err(libc::ENOENT) => Ok(Vec::new()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Looks at the folders of other network namespaces, until `enough`.
    fn elsewhere(&self, main: &Folder, mut enough: impl FnMut(Namespace, &Folder) -> bool) {
        for other in Namespace::all(main).into_iter().filter(|other| *other != self.namespace) {
            if main.existing_folder(&other.name()).is_ok_and(|folder| enough(other, &folder)) {
                return;
            }
        }
    }
}

/// Whether a process of a network namespace, other than who asks, neither listens nor has resolved an address:
/// a server, perhaps, that has told its clients the port and is about to bind it.
fn has_newcomer(folder: &Folder, asks: Option<u64>) -> bool {
    owners(folder)
        .filter(|owner| Some(*owner) != asks)
        .any(|owner| owner::look(folder, owner).is_some_and(|shown| !shown.is_at_work()))
}

/// The processes of a network namespace.
fn owners(folder: &Folder) -> impl Iterator<Item = u64> {
    let names = folder.names().unwrap_or_default();
    names.into_iter().filter_map(|name| match parse(&name) {
        Some(Name::Owner(owner)) => Some(owner),
        _ => None,
    })
}

/// Whether a process of a network namespace has this address.
fn has(folder: &Folder, gid: &Gid) -> bool {
    owners(folder).any(|owner| owner::look(folder, owner).is_some_and(|shown| shown.has(gid)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_believed_for_a_moment_or_until_the_folder_changes() {
        let found = |is_there| Newcomer { is_there, looked: Duration::from_secs(9), changed: Some(7) };
        let after = |milliseconds| Duration::from_secs(9) + Duration::from_millis(milliseconds);
        // One that is there may be none any more, which changes no name.
        for changed in [None, Some(7), Some(8)] {
            assert!(found(true).holds(after(4), changed));
            assert!(!found(true).holds(after(5), changed));
        }
        assert!(found(false).holds(after(1000), Some(7)));
        for changed in [None, Some(8)] {
            assert!(found(false).holds(after(0), changed));
            assert!(!found(false).holds(after(1), changed));
        }
    }
}
