//! Who has which port, and where somebody listens: one file for each network namespace in the software device's
//! folder, that all processes of the folder read and write under a lock.
//!
//! A record belongs to a process. That this lives, the kernel says: each process holds a lock of one byte of the
//! file, far behind its end and at a place of its own, for as long as it, or a child that inherited its channels, has
//! the file open. Records of the dead are taken out by whoever meets them.
//!
//! The file is never mapped, and what stands there is checked where it is read: others of the folder's group may have
//! written it.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::AsRawFd;

use ironverbs_cm::Errno;
use ironverbs_cm::address::{Address, PortSpace};
use ironverbs_cm::ports::{self, Binding};
use softrdma::host::folder::Folder;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::abi::addresses;
use crate::shim::Kept;
use crate::sys;

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
    reserved2: u64,
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
/// Place of the lock under which the file is read and written.
const LOCK_AT: u64 = 1 << 40;
/// The owner's number is added.
const OWNERS_AT: u64 = 1 << 41;
/// How long the lock is waited for: its holder is stopped then.
const PATIENCE: u32 = 2000;

impl Record {
    fn new(owner: u64, binding: &Binding, listens: Option<u64>) -> Record {
        let mut record = Record::new_zeroed();
        record.owner = owner;
        record.socket = listens.unwrap_or(0);
        record.flags = if binding.reuse { REUSE } else { 0 }
            | if binding.family_only { FAMILY_ONLY } else { 0 }
            | if listens.is_some() { LISTENS } else { 0 };
        record.space = binding.space as u16;
        record.source.copy_from_slice(&addresses::write(&binding.source).0.as_bytes()[..ADDRESS]);
        record.destination.copy_from_slice(&addresses::write(&binding.destination).0.as_bytes()[..ADDRESS]);
        record
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
    namespace: u64,
    /// Places of the own records by the ids' numbers.
    own: HashMap<u32, usize>,
}

/// Somebody who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    socket: u64,
    namespace: u64,
}

/// What was found at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Who listens.
    Listener(Found),
    /// Somebody listens at the port, but not at the address.
    OtherAddress,
    /// Nobody.
    Nobody,
}

impl Found {
    /// The name of the socket in the folder.
    pub fn name(&self) -> CString {
        socket_name(self.namespace, self.socket)
    }
}

fn socket_name(namespace: u64, socket: u64) -> CString {
    CString::new(format!("cm-{namespace:x}-{socket:016x}")).unwrap_or_default()
}

fn file_name(namespace: u64) -> CString {
    CString::new(format!("cm-{namespace:x}")).unwrap_or_default()
}

/// The number of this process's network namespace; 0 where nobody tells.
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino())
}

impl Registry {
    /// Opens the file of this process's network namespace.
    ///
    /// # Errors
    /// What the folder says; EIO where the file is none that this could be.
    pub fn open(folder: &Folder) -> Result<Registry, i32> {
        let namespace = namespace();
        let file = folder.open_registry(&file_name(namespace)).map_err(|why| why.errno())?;
        let owner = sys::random() >> 4 | 1;
        let registry = Registry { file: Kept::new(file)?, owner, namespace, own: HashMap::new() };
        if !registry.lock(libc::F_WRLCK, OWNERS_AT + owner)? {
            return Err(libc::EIO);
        }
        Ok(registry)
    }

    /// Reserves a port, as [`ports::choose`] says.
    ///
    /// # Errors
    /// Those of `choose`; ENOSPC where the file is full, EBUSY where its lock is not to be had.
    pub fn reserve(&mut self, folder: &Folder, id: u32, wanted: &Binding, low: bool) -> Result<u16, Errno> {
        let range = port_range();
        let random = sys::random() as u32;
        self.locked(folder, |registry, records| {
            let bindings = others(records, None);
            let port = ports::choose(wanted, bindings.iter(), range, low, random)?;
            let binding = Binding { source: wanted.source.with_port(port), ..*wanted };
            let free = records.iter().position(|record| record.owner == 0).unwrap_or(records.len());
            if free >= RECORDS_MAX {
                return Err(Errno(libc::ENOSPC));
            }
            registry.put(free, &Record::new(registry.owner, &binding, None))?;
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
            let _ = self.put(place, &Record::new(self.owner, binding, listens));
        }
    }

    /// Begins to listen, as [`ports::may_listen`] says, at a socket that `make` makes under the name that it gets.
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
            ports::may_listen(binding, others(records, Some(place)).iter())?;
            make(&socket_name(registry.namespace, socket)).map_err(Errno)?;
            let binding = Binding { reuse: false, ..*binding };
            registry.put(place, &Record::new(registry.owner, &binding, Some(socket)))?;
            Ok(socket)
        })
    }

    /// Gives back what an id has.
    pub fn release(&mut self, id: u32) {
        if let Some(place) = self.own.remove(&id) {
            let _ = self.put(place, &Record::new_zeroed());
        }
    }

    /// Removes the name of a socket of this process.
    pub fn forget(&self, folder: &Folder, socket: u64) {
        let _ = folder.remove(&socket_name(self.namespace, socket));
    }

    /// Who listens at an address.
    ///
    /// # Errors
    /// EBUSY where the file's lock is not to be had.
    pub fn find(&mut self, folder: &Folder, service: u64, to: &Address) -> Result<Search, Errno> {
        self.locked(folder, |registry, records| {
            let mut best = (0, Search::Nobody);
            for record in records.iter().filter(|record| record.flags & LISTENS != 0) {
                let Some(binding) = record.binding() else { continue };
                if !serves(&binding, service) {
                    continue;
                }
                let rank = rank(&binding, to);
                if rank > best.0 {
                    let found = Found { socket: record.socket, namespace: registry.namespace };
                    best = (rank, if rank > 1 { Search::Listener(found) } else { Search::OtherAddress });
                }
            }
            Ok(best.1)
        })
    }

    /// Does something while nobody else reads or writes, with the records of the living.
    fn locked<R>(
        &mut self,
        folder: &Folder,
        body: impl FnOnce(&mut Registry, &[Record]) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut waited = 0;
        while !self.lock(libc::F_WRLCK, LOCK_AT).map_err(Errno)? {
            if waited == PATIENCE {
                return Err(Errno::EBUSY);
            }
            waited += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let done = self.living(folder).and_then(|records| body(self, &records));
        let _ = self.lock(libc::F_UNLCK, LOCK_AT);
        done
    }

    /// The records, without those of the dead, which are taken out of the file.
    fn living(&self, folder: &Folder) -> Result<Vec<Record>, Errno> {
        let mut records = self.read()?;
        let mut lives = HashMap::from([(self.owner, true)]);
        for (place, record) in records.iter_mut().enumerate().filter(|(_, record)| record.owner != 0) {
            let alive = *lives.entry(record.owner).or_insert_with(|| self.lives(record.owner));
            if !alive {
                if record.flags & LISTENS != 0 {
                    let _ = folder.remove(&socket_name(self.namespace, record.socket));
                }
                *record = Record::new_zeroed();
                let _ = self.put(place, record);
            }
        }
        Ok(records)
    }

    fn read(&self) -> Result<Vec<Record>, Errno> {
        let mut bytes = vec![0; 64 * RECORD];
        let mut filled = 0;
        loop {
            let rest = &mut bytes[filled..];
            let at = libc::off_t::try_from(filled).unwrap_or(libc::off_t::MAX);
            // SAFETY: the rest is writable for its length.
            let got = unsafe { libc::pread(self.file.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len(), at) };
            let got = usize::try_from(got).map_err(|_| Errno(sys::errno()))?;
            filled += got;
            if got == 0 || filled >= RECORDS_MAX * RECORD {
                break;
            }
            if filled == bytes.len() {
                bytes.resize(2 * filled, 0);
            }
        }
        let whole = bytes[..filled].chunks_exact(RECORD);
        Ok(whole.filter_map(|bytes| Record::read_from_bytes(bytes).ok()).collect())
    }

    fn get(&self, place: usize, record: &mut Record) -> bool {
        let at = libc::off_t::try_from(place * RECORD).unwrap_or(libc::off_t::MAX);
        let bytes = record.as_mut_bytes();
        // SAFETY: the record is writable for its length.
        let got = unsafe { libc::pread(self.file.as_raw_fd(), bytes.as_mut_ptr().cast(), RECORD, at) };
        got == RECORD as isize
    }

    fn put(&self, place: usize, record: &Record) -> Result<(), Errno> {
        let at = libc::off_t::try_from(place * RECORD).unwrap_or(libc::off_t::MAX);
        let bytes = record.as_bytes();
        // SAFETY: the record is readable for its length.
        let put = unsafe { libc::pwrite(self.file.as_raw_fd(), bytes.as_ptr().cast(), RECORD, at) };
        if put == RECORD as isize { Ok(()) } else { Err(Errno(sys::errno())) }
    }

    /// Takes or gives back the lock of a byte; false where another process has it.
    fn lock(&self, kind: i32, at: u64) -> Result<bool, i32> {
        let lock = byte(kind, at);
        // SAFETY: the call reads the struct.
        let taken = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        if taken == 0 {
            return Ok(true);
        }
        match sys::errno() {
            libc::EAGAIN | libc::EACCES => Ok(false),
            errno => Err(errno),
        }
    }

    /// Whether somebody has the lock of an owner.
    fn lives(&self, owner: u64) -> bool {
        if owner >= 1 << 60 {
            return false;
        }
        let mut lock = byte(libc::F_WRLCK, OWNERS_AT + owner);
        // SAFETY: the call reads and writes the struct.
        let asked = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
        asked != 0 || i32::from(lock.l_type) != libc::F_UNLCK
    }
}

fn byte(kind: i32, at: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX),
        l_len: 1,
        l_pid: 0,
    }
}

/// The bindings of all records but one.
fn others(records: &[Record], but: Option<usize>) -> Vec<Binding> {
    let others = records.iter().enumerate().filter(|(place, _)| Some(*place) != but);
    others.filter_map(|(_, record)| record.binding()).collect()
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
    } else if own.is_any() && (!binding.family_only || own.family() == to.family() || own.family().is_none()) {
        2
    } else {
        1
    }
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
