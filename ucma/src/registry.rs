//! Who has which port, and where somebody listens: one file for each network namespace in the software device's
//! folder, that all processes of the folder read and write under a lock.
//!
//! A record belongs to a process. That this lives, the kernel says: each process holds a lock of one byte of
//! the file, far behind its end and at a place of its own, for as long as it, or a child that inherited its
//! channels, has the file open. Records of the dead are taken out by whoever meets them.
//!
//! The file is never mapped, and what stands there is checked where it is read: others of the folder's group
//! may have written it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::time::Duration;

use ironverbs_cm::Errno;
use ironverbs_cm::address::{Gid, PortSpace};
use ironverbs_cm::ports::{self, Binding};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::fstat;
use nix::sys::uio::{pread, pwrite};
use nix::unistd::ftruncate;
use softrdma::shm::folder::Folder;
use softrdma::shm::network::Network;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::abi::addresses;
use crate::shim::Kept;
use crate::sys;

pub mod search;

/// What stands for one id.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Record {
    /// Whose it is; 0 of a place that is free.
    owner: u64,
    /// Number in the name of the socket where an id listens.
    socket: u64,
    flags: u32,
    /// `rdma_port_space`.
    space: u16,
    reserved: u16,
    /// When it was made: nanoseconds of `CLOCK_MONOTONIC`.
    since: u64,
    source: [u8; ADDRESS],
    destination: [u8; ADDRESS],
}

/// The longest socket address that there is here.
const ADDRESS: usize = 48;
const RECORD: usize = 128;
const _: () = assert!(size_of::<Record>() == RECORD);

const REUSE: u32 = 1;
const FAMILY_ONLY: u32 = 2;
const LISTENS: u32 = 4;
/// Not an id's: an address of the owner's network namespace.
const HAS_ADDRESS: u32 = 8;

/// Records beyond are nobody's: who may write the file must not take up everybody's memory.
const RECORDS_MAX: usize = 1 << 16;
/// Records behind the last one that stay in the file.
const SLACK: usize = 64;
/// Place of the lock under which the file is read and written.
const LOCK_AT: u64 = 1 << 40;
/// The owner's number is added.
const OWNERS_AT: u64 = 1 << 41;
/// Owners' numbers are below.
const OWNERS: u64 = 1 << 60;
/// How often a file is opened that is being removed.
const ATTEMPTS: u32 = 100;
/// How long the lock is asked for.
const SPIN: Duration = Duration::from_micros(100);

impl Record {
    fn new(owner: u64, since: u64, binding: &Binding, listens: Option<u64>) -> Record {
        let mut record = Record::new_zeroed();
        record.owner = owner;
        record.since = since;
        record.socket = listens.unwrap_or(0);
        record.flags = if binding.reuse { REUSE } else { 0 }
            | if binding.family_only { FAMILY_ONLY } else { 0 }
            | if listens.is_some() { LISTENS } else { 0 };
        record.space = binding.space as u16;
        record.source.copy_from_slice(&addresses::write(&binding.source).0.as_bytes()[..ADDRESS]);
        record.destination.copy_from_slice(&addresses::write(&binding.destination).0.as_bytes()[..ADDRESS]);
        record
    }

    fn is_address(&self, gid: &Gid) -> bool {
        self.owner != 0 && self.flags & HAS_ADDRESS != 0 && self.source.starts_with(gid)
    }

    /// Whether it can be of this port: what is not, is not worth a closer look.
    fn may_have(&self, space: u16, port: u16) -> bool {
        let family = u16::from_ne_bytes([self.source[0], self.source[1]]);
        let is_ip = [libc::AF_INET, libc::AF_INET6].contains(&family.into());
        self.owner != 0 && (!is_ip || self.space == space && self.source[2..4] == port.to_be_bytes())
    }

    /// Whether it can have this service id, as [`serves`] says.
    fn may_serve(&self, service: u64) -> bool {
        // Of an IP port the rest is zero.
        service >> 32 != 0 || self.may_have((service >> 16) as u16, service as u16)
    }

    fn binding(&self) -> Option<Binding> {
        if self.owner == 0 || self.flags & HAS_ADDRESS != 0 {
            return None;
        }
        Some(Binding {
            space: PortSpace::from_number(self.space)?,
            source: addresses::read(&self.source).0,
            destination: addresses::read(&self.destination).0,
            reuse: self.flags & REUSE != 0,
            family_only: self.flags & FAMILY_ONLY != 0,
        })
    }
}

/// The file, as one process uses it.
#[derive(Debug)]
pub struct Registry {
    file: Kept,
    owner: u64,
    /// The namespace's number, in the file's name and in those of the sockets.
    namespace: Namespace,
    /// Places of the own records by the ids' numbers.
    own: HashMap<u32, usize>,
    /// Places of the own addresses.
    published: Vec<usize>,
    /// What was read last: the memory for it.
    records: Vec<Record>,
}

/// [`Network::words`].
type Namespace = [u64; 2];

fn socket_name([kind, number]: Namespace, socket: u64) -> CString {
    CString::new(format!("cm-{kind:x}-{number:x}-{socket:016x}")).unwrap_or_default()
}

fn file_name([kind, number]: Namespace) -> CString {
    CString::new(format!("cm-{kind:x}-{number:x}")).unwrap_or_default()
}

/// The namespace whose file has this name.
fn of_file_name(name: &CStr) -> Option<Namespace> {
    let mut numbers = name.to_str().ok()?.strip_prefix("cm-")?.split('-');
    let mut number = || u64::from_str_radix(numbers.next()?, 16).ok();
    let namespace = [number()?, number()?];
    (file_name(namespace).as_c_str() == name).then_some(namespace)
}

impl Registry {
    /// Opens the file of this process's network namespace.
    ///
    /// # Errors
    /// What the folder says; EIO where the file is none that this could be.
    pub fn open(folder: &Folder) -> Result<Registry, i32> {
        let namespace = Network::words(Network::current());
        let owner = sys::random() >> 4 | 1;
        // Somebody may be sweeping the file away that was just opened.
        for _ in 0..ATTEMPTS {
            let registry = Registry { owner, ..Registry::of(folder, namespace)? };
            if registry.lock(libc::F_WRLCK, OWNERS_AT + owner, 1)? && registry.has_name() {
                registry.sweep(folder);
                return Ok(registry);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(libc::EIO)
    }

    /// Removes the files of network namespaces in which nobody is any more, with the sockets' names.
    fn sweep(&self, folder: &Folder) {
        let names = folder.names().unwrap_or_default();
        for other in
            names.iter().filter_map(|name| of_file_name(name)).filter(|other| *other != self.namespace)
        {
            let Ok(registry) = Registry::of(folder, other) else { continue };
            let alone = |at, length| registry.lock(libc::F_WRLCK, at, length).unwrap_or(false);
            if alone(LOCK_AT, 1) && alone(OWNERS_AT, OWNERS) && registry.has_name() {
                let mut records = Vec::new();
                let count = registry.read(&mut records).unwrap_or(0);
                for record in records[..count].iter().filter(|record| record.flags & LISTENS != 0) {
                    let _ = folder.remove(&socket_name(other, record.socket));
                }
                let _ = folder.remove(&file_name(other));
            }
        }
    }

    /// Whether the file still has its name.
    fn has_name(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// The file of a network namespace, for somebody who has nothing in it.
    fn of(folder: &Folder, namespace: Namespace) -> Result<Registry, i32> {
        let file = folder.open_registry(&file_name(namespace)).map_err(|why| why.errno())?;
        Ok(Registry {
            file: Kept::new(file)?,
            owner: 0,
            namespace,
            own: HashMap::new(),
            published: Vec::new(),
            records: Vec::new(),
        })
    }

    /// Reserves a port, as [`ports::choose`] says.
    ///
    /// # Errors
    /// Those of `choose`; ENOSPC where the file is full, EBUSY where its lock is not to be had.
    pub fn reserve(&mut self, folder: &Folder, id: u32, wanted: &Binding, low: bool) -> Result<u16, Errno> {
        let random = sys::random() as u32;
        self.locked(folder, |registry, records| {
            let port = match wanted.source.port() {
                0 => any_port(wanted, records, low, random)?,
                port => {
                    let bindings = others(records, None, wanted.space, port);
                    ports::choose(wanted, bindings.iter(), (port, port), low, random)?
                }
            };
            let binding = Binding { source: wanted.source.with_port(port), ..*wanted };
            let free = records.iter().position(|record| record.owner == 0).unwrap_or(records.len());
            if free >= RECORDS_MAX {
                return Err(Errno(libc::ENOSPC));
            }
            registry.put(free, &Record::new(registry.owner, sys::now().as_nanos() as u64, &binding, None))?;
            registry.own.insert(id, free);
            Ok(port)
        })
    }

    /// Changes what stands for an id; whether it listens stays.
    pub fn update(&mut self, id: u32, binding: &Binding) {
        let Some(place) = self.own.get(&id).copied() else { return };
        let mut record = Record::new_zeroed();
        if self.get(place, &mut record) && record.owner == self.owner {
            let listens = (record.flags & LISTENS != 0).then_some(record.socket);
            let _ = self.put(place, &Record::new(self.owner, record.since, binding, listens));
        }
    }

    /// Begins to listen, as [`ports::may_listen`] says, at a socket that `make` makes under the name that it
    /// gets.
    ///
    /// # Errors
    /// Those of `may_listen` and `make`; EBUSY where the file's lock is not to be had.
    pub fn listen(
        &mut self,
        folder: &Folder,
        id: u32,
        binding: &Binding,
        make: impl FnOnce(&CString) -> Result<(), i32>,
    ) -> Result<u64, Errno> {
        let socket = sys::random();
        let place = *self.own.get(&id).ok_or(Errno::EINVAL)?;
        self.locked(folder, |registry, records| {
            let bindings = others(records, Some(place), binding.space, binding.source.port());
            ports::may_listen(binding, bindings.iter())?;
            make(&socket_name(registry.namespace, socket)).map_err(Errno)?;
            let binding = Binding { reuse: false, ..*binding };
            let since = records.get(place).map_or(0, |record| record.since);
            registry.put(place, &Record::new(registry.owner, since, &binding, Some(socket)))?;
            Ok(socket)
        })
    }

    /// Gives back what an id has.
    pub fn release(&mut self, id: u32) {
        let Some(place) = self.own.remove(&id) else { return };
        let mut record = Record::new_zeroed();
        // Where this process was taken for dead, the place may be another's.
        if self.get(place, &mut record) && record.owner == self.owner {
            let _ = self.put(place, &Record::new_zeroed());
        }
    }

    /// Removes the name of a socket of this process.
    pub fn forget(&self, folder: &Folder, socket: u64) {
        let _ = folder.remove(&socket_name(self.namespace, socket));
    }

    /// Shows processes in other network namespaces the addresses that this one has.
    ///
    /// # Errors
    /// EBUSY where the file's lock is not to be had; those of writing.
    pub fn publish(&mut self, folder: &Folder, gids: &[Gid]) -> Result<(), Errno> {
        self.locked(folder, |registry, records| {
            let mut free =
                records.iter().enumerate().filter(|(_, record)| record.owner == 0).map(|(place, _)| place);
            for (nth, gid) in gids.iter().enumerate() {
                let place = match registry.published.get(nth) {
                    Some(place) => *place,
                    None => {
                        let fresh = records.len() + registry.published.len();
                        let place = free.next().unwrap_or(fresh);
                        registry.published.push(place);
                        place
                    }
                };
                let mut record = Record::new_zeroed();
                (record.owner, record.flags) = (registry.owner, HAS_ADDRESS);
                record.source[..gid.len()].copy_from_slice(gid);
                registry.put(place, &record)?;
            }
            for place in registry.published.split_off(gids.len().min(registry.published.len())) {
                registry.put(place, &Record::new_zeroed())?;
            }
            Ok(())
        })
    }

    /// Does something while nobody else reads or writes, with the records of the living. EBUSY where somebody
    /// else does: to be asked again.
    fn locked<R>(
        &mut self,
        folder: &Folder,
        body: impl FnOnce(&mut Registry, &[Record]) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut until = None;
        while !self.lock(libc::F_WRLCK, LOCK_AT, 1).map_err(Errno)? {
            // Most who have it give it back within microseconds. Who has it for longer may be stopped: nobody
            // waits here, where all channels of the process would wait too. To yield would be to wait, for as
            // long as other programs want the processor.
            let now = sys::now();
            if now >= *until.get_or_insert(now + SPIN) {
                return Err(Errno::EBUSY);
            }
            std::hint::spin_loop();
        }
        let mut records = std::mem::take(&mut self.records);
        let done = self.living(folder, true, &mut records).and_then(|count| body(self, &records[..count]));
        self.records = records;
        let _ = self.lock(libc::F_UNLCK, LOCK_AT, 1);
        done
    }

    /// Reads the records, without those of the dead, which are taken out of the file where `locked` says that
    /// nobody else writes; how many there are. The file then ends with the last one.
    fn living(&self, folder: &Folder, locked: bool, records: &mut Vec<Record>) -> Result<usize, Errno> {
        let count = self.read(records)?;
        let records = &mut records[..count];
        let mut lives = HashMap::from([(self.owner, true)]);
        // Records that stand side by side are one owner's mostly.
        let mut last = (self.owner, true);
        for (place, record) in records.iter_mut().enumerate().filter(|(_, record)| record.owner != 0) {
            if record.owner != last.0 {
                let alive = *lives.entry(record.owner).or_insert_with(|| self.lives(record.owner));
                last = (record.owner, alive);
            }
            if !last.1 {
                if locked && record.flags & LISTENS != 0 {
                    let _ = folder.remove(&socket_name(self.namespace, record.socket));
                }
                *record = Record::new_zeroed();
                if locked {
                    let _ = self.put(place, record);
                }
            }
        }
        let used = records.iter().rposition(|record| record.owner != 0).map_or(0, |last| last + 1);
        if locked && used + SLACK < count {
            let end = libc::off_t::try_from(used * RECORD).unwrap_or(0);
            let _ = ftruncate(&self.file, end);
        }
        Ok(used)
    }

    /// Reads all records to the beginning of `records`, which grows where it has to; how many there are.
    fn read(&self, records: &mut Vec<Record>) -> Result<usize, Errno> {
        let mut filled = 0;
        loop {
            if records.len() * RECORD == filled {
                records.resize((2 * records.len()).max(64), Record::new_zeroed());
            }
            let rest = &mut records.as_mut_bytes()[filled..];
            let at = libc::off_t::try_from(filled).unwrap_or(libc::off_t::MAX);
            filled += pread(&self.file, rest, at).map_err(|_| Errno(sys::errno()))?;
            // Less than there is room for is what stands before the end.
            if filled < records.len() * RECORD || filled >= RECORDS_MAX * RECORD {
                return Ok((filled / RECORD).min(RECORDS_MAX));
            }
        }
    }

    fn get(&self, place: usize, record: &mut Record) -> bool {
        let at = libc::off_t::try_from(place * RECORD).unwrap_or(libc::off_t::MAX);
        pread(&self.file, record.as_mut_bytes(), at) == Ok(RECORD)
    }

    fn put(&self, place: usize, record: &Record) -> Result<(), Errno> {
        let at = libc::off_t::try_from(place * RECORD).unwrap_or(libc::off_t::MAX);
        let put = pwrite(&self.file, record.as_bytes(), at);
        if put == Ok(RECORD) { Ok(()) } else { Err(Errno(sys::errno())) }
    }

    /// Takes or gives back the lock of a byte, or of more; false where another process has one of them.
    fn lock(&self, kind: i32, at: u64, length: u64) -> Result<bool, i32> {
        let lock = range(kind, at, length);
        if fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).is_ok() {
            return Ok(true);
        }
        match sys::errno() {
            libc::EAGAIN | libc::EACCES => Ok(false),
            errno => Err(errno),
        }
    }

    /// Whether somebody has the lock of an owner.
    fn lives(&self, owner: u64) -> bool {
        if owner >= OWNERS {
            return false;
        }
        self.has_lock(OWNERS_AT + owner, 1)
    }

    /// Whether somebody else has a lock of one of these bytes; also where the kernel does not say.
    fn has_lock(&self, at: u64, length: u64) -> bool {
        let mut lock = range(libc::F_WRLCK, at, length);
        let asked = fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock));
        asked.is_err() || i32::from(lock.l_type) != libc::F_UNLCK
    }
}

fn range(kind: i32, at: u64, length: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX),
        l_len: libc::off_t::try_from(length).unwrap_or(1),
        l_pid: 0,
    }
}

/// The bindings of a port, of all records but one, the newest first.
fn others(records: &[Record], but: Option<usize>, space: PortSpace, port: u16) -> Vec<Binding> {
    let others = records.iter().enumerate().filter(|(place, _)| Some(*place) != but);
    let mut others: Vec<_> = others
        .filter(|(_, record)| record.may_have(space as u16, port))
        .filter_map(|(_, record)| Some((record.since, record.binding()?)))
        .collect();
    others.sort_by_key(|(since, _)| Reverse(*since));
    others.into_iter().map(|(_, binding)| binding).collect()
}

/// Any port, as [`ports::choose`] says: one after the other, since few records have the same one.
fn any_port(wanted: &Binding, records: &[Record], low: bool, random: u32) -> Result<u16, Errno> {
    let (first, last) = port_range();
    let (first, last) = (first.min(last).max(1), last.max(first).max(1));
    let count = u32::from(last - first) + 1;
    for nth in 0..count {
        let port = first + ((random % count + nth) % count) as u16;
        let bindings = others(records, None, wanted.space, port);
        match ports::choose(wanted, bindings.iter(), (port, port), low, random) {
            Err(Errno::EADDRNOTAVAIL) => {}
            chosen => return chosen,
        }
    }
    Err(Errno::EADDRNOTAVAIL)
}

/// `/proc/sys/net/ipv4/ip_local_port_range`.
fn port_range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => (32768, 60999),
    }
}

#[cfg(test)]
mod tests;
