//! Who has which port, and where somebody listens: names in the software device's folder, which all processes
//! of the folder read, and each of which one process makes and removes.
//!
//! | name | what it is |
//! |---|---|
//! | `cm-`, two numbers | the folder of a network namespace ([`namespace`]) |
//! | `o`, process | there: a process, with the addresses that it has ([`owner`]); `n` until it is complete |
//! | `l`, process, `-`, number | there: the socket where an id listens |
//! | `m`, process | there: the socket where a process gets messages that others took from the network |
//! | `c`, 16 bits | there: a link to the number of the process whose connections have these upper bits |
//! | `p`, port space, `-`, port | there: the folder of a port, as long as somebody has it ([`port`]) |
//! | process, `-`, number | there: what an id of the process has, as the target of a symbolic link |
//!
//! # How two processes agree
//! No lock is taken, since whoever is stopped with one, or leaves it to a forked child, would stop all others.
//! Who wants a port looks who has it, makes its own record, and looks again: another record that is in the way
//! and was not there before may be of somebody who wants it, too. Then the own record is taken back, and
//! everything is done once more. Of two who want the same, whoever makes its record last sees the other's, so
//! never do both get it; and whoever is refused saw a record after it took back its own, so one of them gets
//! it.
//!
//! Who is stopped in between has the port already, as far as others see. All numbers in names are random and
//! used once, so what a dead process left is removed by whoever meets it, without a question: the name means
//! nothing else later. Of the 16 bits that is so nearly always.
//!
//! What stands there is checked where it is read: others of the folder's group may have written it. Nothing is
//! opened for writing, changed or given other rights by its name.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::CStr;

use ironverbs_cm::address::Gid;
use ironverbs_cm::ports::{self, Binding, NoPort};
use softrdma::shm::folder::Folder;

use crate::{shim, sys};
use namespace::{Namespace, socket_name, with_socket_name};
use owner::Own;
use port::{Port, Record};

pub mod letters;
mod namespace;
mod owner;
mod port;
pub mod room;
pub mod search;

/// How often a port is asked for that others want at the same time.
const ATTEMPTS: u32 = 100;

/// What this process has in the folder of its network namespace.
#[derive(Debug)]
pub struct Registry {
    namespace: Namespace,
    folder: Folder,
    owner: Own,
    /// The own records by the ids' numbers.
    own: HashMap<u32, Held>,
    /// The upper bits of the numbers of this process's connections; 0 where it has no mailbox.
    connections: u16,
    newcomer: Option<search::Newcomer>,
}

/// What an id has.
#[derive(Clone, Copy, Debug)]
struct Held {
    port: Port,
    record: Record,
}

impl Registry {
    /// Opens the folder of this process's network namespace in the software device's.
    ///
    /// # Errors
    /// What the folders say; those of the system.
    pub fn open(main: &Folder) -> Result<Registry, i32> {
        let namespace = Namespace::current();
        let begin = || {
            let folder = main.folder(&namespace.name()).map_err(|why| why.errno())?;
            let folder = folder.out_of_the_way(shim::floor());
            match Own::new(&folder) {
                Ok(owner) => Ok(Some(Registry {
                    namespace,
                    folder,
                    owner,
                    own: HashMap::new(),
                    connections: 0,
                    newcomer: None,
                })),
                // Whoever leaves a namespace last removes its folder.
                Err(libc::ENOENT) => Ok(None),
                Err(errno) => Err(errno),
            }
        };
        let mut is_swept = false;
        for _ in 0..ATTEMPTS {
            match begin() {
                Ok(Some(registry)) => {
                    Registry::sweep(main, Some(namespace));
                    return Ok(registry);
                }
                Ok(None) => {}
                // What the dead left may have all that the file system takes.
                Err(libc::ENOSPC | libc::EDQUOT) if !is_swept => {
                    Registry::sweep(main, None);
                    is_swept = true;
                }
                Err(errno) => return Err(errno),
            }
        }
        Err(libc::EIO)
    }

    /// Removes what the dead left, also in network namespaces in which nobody is any more; but `own` one.
    fn sweep(main: &Folder, own: Option<Namespace>) {
        Namespace::sweep_unnamed(main);
        for namespace in Namespace::all(main) {
            if let Ok(folder) = main.existing_folder(&namespace.name()) {
                namespace::sweep(&folder);
                if own != Some(namespace) {
                    let _ = main.remove_folder(&namespace.name());
                }
            }
        }
    }

    /// The folder again, where the program has closed its descriptor.
    ///
    /// # Errors
    /// As for [`Registry::open`].
    pub fn refresh(&mut self, main: &Folder) -> Result<(), i32> {
        if self.folder.descriptor() < 0 {
            let folder = main.existing_folder(&self.namespace.name()).map_err(|why| why.errno())?;
            self.folder = folder.out_of_the_way(shim::floor());
        }
        Ok(())
    }

    /// Reserves a port, as [`ports::choose`] says.
    ///
    /// # Errors
    /// Those of `choose`; those of the system.
    pub fn reserve(&mut self, id: u32, wanted: &Binding, low: bool) -> Result<u16, NoPort> {
        let random = sys::random() as u32;
        let port = match wanted.source.port() {
            0 => self.any_port(id, wanted, low, random)?,
            port => self.take(id, wanted, port, low)?,
        };
        self.tell();
        Ok(port)
    }

    /// Any port, as [`ports::choose`] says: one after the other, since few records have the same one.
    fn any_port(&mut self, id: u32, wanted: &Binding, low: bool, random: u32) -> Result<u16, NoPort> {
        let (first, last) = port_range()?;
        let (first, last) = (first.min(last).max(1), last.max(first).max(1));
        let count = u32::from(last - first) + 1;
        for nth in 0..count {
            let port = first + ((random % count + nth) % count) as u16;
            match self.take(id, wanted, port, low) {
                Err(NoPort::NoneLeft | NoPort::Contended) => {}
                taken => return taken,
            }
        }
        Err(NoPort::NoneLeft)
    }

    /// Takes a port, where that may be: as the one that is wanted, or for who wants any.
    fn take(&mut self, id: u32, wanted: &Binding, port: u16, low: bool) -> Result<u16, NoPort> {
        let at = Port { space: wanted.space, number: port };
        let may = |others: &[Record]| {
            ports::choose(wanted, others.iter().map(|other| &other.binding), (port, port), low, 0)
        };
        // Some ports nobody may have: then no folder is made for them.
        may(&[])?;
        let binding = Binding { source: wanted.source.with_port(port), ..*wanted };
        for _ in 0..ATTEMPTS {
            let record = Record::new(self.owner.number(), &binding);
            let taken = self.with_room(|registry| {
                let place = at.make(&registry.folder)?;
                may(&registry.others(&place, at, None)?)?;
                record.publish(&place)?;
                let others = registry.others(&place, at, Some(&record));
                Ok(others.map(|others| may(&others).is_ok()))
            });
            match taken {
                Ok(Ok(true)) => {
                    self.own.insert(id, Held { port: at, record });
                    return Ok(port);
                }
                // The last one who had the port has removed the folder meanwhile.
                Err(NoPort::System(libc::ENOENT)) => {}
                Err(why) => {
                    at.remove_unused(&self.folder);
                    return Err(why);
                }
                Ok(outcome) => {
                    record.withdraw(&self.folder, at);
                    outcome?;
                }
            }
        }
        Err(NoPort::Contended)
    }

    /// Changes what stands for an id; whether it listens stays.
    pub fn update(&mut self, id: u32, binding: &Binding) {
        if let Some(Held { record, .. }) = self.own.get(&id) {
            let _ = self.replace(id, Record { binding: *binding, ..*record });
            self.tell();
        }
    }

    /// Gives an id another record in the place of its own.
    fn replace(&mut self, id: u32, record: Record) -> Result<(), i32> {
        let Held { port, record: before } = *self.own.get(&id).ok_or(libc::EINVAL)?;
        let record = record.renewed();
        self.with_room(|registry| record.publish(&port.make(&registry.folder)?))?;
        self.own.insert(id, Held { port, record });
        before.withdraw(&self.folder, port);
        Ok(())
    }

    /// Nobody waits any more for what this process may be about to do.
    pub fn stay(&mut self) {
        self.owner.set_at_work(true);
    }

    /// How the folder is, as a number ([`Folder::changed`]): who begins to listen or comes changes it.
    pub fn changed(&self) -> Option<u64> {
        self.folder.changed()
    }

    /// The number of this process.
    pub fn owner(&self) -> u64 {
        self.owner.number()
    }

    /// Begins to listen, as [`ports::may_listen`] says, at a socket that `make` makes under the name, and in
    /// the folder, that it gets.
    ///
    /// # Errors
    /// Those of `may_listen` and `make`; those of the system.
    pub fn listen(
        &mut self,
        id: u32,
        binding: &Binding,
        make: impl FnOnce(&Folder, &CStr) -> Result<(), i32>,
    ) -> Result<u64, NoPort> {
        let Held { port, record: before } = *self.own.get(&id).ok_or(libc::EINVAL)?;
        let socket = sys::random() | 1;
        let listens = Record { binding: Binding { reuse: false, ..*binding }, socket, ..before }.renewed();
        let may = |registry: &Registry| {
            let mut others = registry.others(&port.make(&registry.folder)?, port, Some(&before))?;
            others.retain(|other| !other.is(&listens));
            ports::may_listen(binding, others.iter().map(|other| &other.binding))
        };
        if binding.reuse {
            self.with_room(may)?;
        }
        make(&self.folder, &socket_name(self.owner.number(), socket))?;
        // The record before stays until it is known that the other holds: in a full file system it could not be
        // made again.
        let mut outcome = self.with_room(|registry| Ok(listens.publish(&port.make(&registry.folder)?)?));
        // Somebody may have taken the port while this did not exclude it yet.
        if outcome.is_ok() && binding.reuse {
            outcome = self.with_room(may);
        }
        if let Err(why) = outcome {
            listens.withdraw(&self.folder, port);
            self.forget(socket);
            return Err(why);
        }
        self.own.insert(id, Held { port, record: listens });
        before.withdraw(&self.folder, port);
        self.tell();
        Ok(socket)
    }

    /// Gives back what an id has.
    pub fn release(&mut self, id: u32) {
        if let Some(Held { port, record }) = self.own.remove(&id) {
            record.withdraw(&self.folder, port);
            self.tell();
        }
    }

    /// Removes the name of a socket of this process.
    pub fn forget(&self, socket: u64) {
        let _ = with_socket_name(self.owner.number(), socket, |name| self.folder.remove(name));
    }

    /// Shows processes in other network namespaces the addresses that this one has.
    ///
    /// # Errors
    /// Those of the system.
    pub fn publish(&mut self, gids: &[Gid]) -> Result<(), i32> {
        self.owner.show(gids)
    }

    /// Removes all that others could see of this process, which ends: without asking for memory or giving any
    /// back, since it may end in a signal handler that interrupted the allocator.
    pub fn end(&self, main: &Folder) {
        for Held { port, record } in self.own.values() {
            record.withdraw(&self.folder, *port);
        }
        self.remove_mailbox();
        self.owner.remove(&self.folder);
        let _ = self.namespace.with_name(|name| main.remove_folder(name));
    }

    /// Tells others whether it listens, or is a client.
    fn tell(&mut self) {
        let at_work = |held: &Held| held.record.listens() || !held.record.binding.destination.is_zero();
        self.owner.set_at_work(self.own.values().any(at_work));
    }

    /// The records of the living at a port but one, the newest first.
    fn others(&self, place: &Folder, port: Port, but: Option<&Record>) -> Result<Vec<Record>, NoPort> {
        let mut records = living(&self.folder, place, port, self.owner.number())?;
        records.retain(|record| but.is_none_or(|but| !but.is(record)));
        records.sort_by_key(|record| Reverse(record.since));
        Ok(records)
    }

    /// Does something that needs descriptors for a moment, also where the program has left none.
    fn with_room<R: Send, E: Send + PartialEq + From<i32>>(
        &self,
        body: impl Fn(&Registry) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        room::with_room(self.folder.descriptor(), || body(self))
    }
}

/// The records of the living at a port, of whom this process (`own`) is one. Those of the dead are removed.
fn living(folder: &Folder, place: &Folder, port: Port, own: u64) -> Result<Vec<Record>, NoPort> {
    let mut lives = HashMap::from([(own, true)]);
    let mut records = port::read(place, port.space)?;
    records.retain(|record| {
        let alive = *lives.entry(record.owner).or_insert_with(|| owner::lives(folder, record.owner));
        if !alive {
            record.clear(folder, place, port);
        }
        alive
    });
    Ok(records)
}

/// `/proc/sys/net/ipv4/ip_local_port_range`, or what it is at first where it cannot be seen.
///
/// # Errors
/// EMFILE where the program may have no descriptor at all.
fn port_range() -> Result<(u16, u16), i32> {
    let text = match room::setting("/proc/sys/net/ipv4/ip_local_port_range") {
        Err(libc::EMFILE) => return Err(libc::EMFILE),
        text => text.unwrap_or_default(),
    };
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Ok(match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => (32768, 60999),
    })
}

#[cfg(test)]
mod tests;
