//! A process, as the others of the folder see it: a file that it made and that it alone writes, with the
//! addresses that it has and whether it is at work.
//!
//! That it lives, the kernel says: it holds a lock of the file's first byte for as long as it, or a child that
//! inherited its channels, has the file open. Nobody else ever takes that lock. The file has another name until
//! it is locked, so that whoever finds one without the lock under a process's name knows that it is dead for
//! ever.

use std::ffi::CStr;
use std::os::fd::AsFd;

use ironverbs_cm::address::Gid;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::uio::{pread, pwrite};
use softrdma::shm::error::Error;
use softrdma::shm::folder::Folder;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::namespace::{owner_name, unborn_name, with_owner_name};
use crate::shim::Kept;
use crate::sys;

/// What stands in the file, in native byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Content {
    /// Not 0: the process listens, or is a client.
    at_work: u32,
    /// How many addresses follow.
    count: u32,
    gids: [Gid; GIDS],
}

/// As many as a device of the software has.
const GIDS: usize = 64;
/// How often a file may be removed before its process has declared itself alive.
const ATTEMPTS: u32 = 100;

/// The file of this process.
#[derive(Debug)]
pub struct Own {
    pub(super) file: Kept,
    number: u64,
    at_work: bool,
}

impl Own {
    /// Makes it.
    ///
    /// # Errors
    /// ENOENT where the folder was removed; those of the system.
    pub fn new(folder: &Folder) -> Result<Own, i32> {
        for _ in 0..ATTEMPTS {
            let number = sys::random() | 1;
            let (unborn, name) = (unborn_name(number), owner_name(number));
            let file = folder.create(&unborn).map_err(|why| why.errno())?;
            let ready = write(&file, &Content::new_zeroed())
                .and_then(|()| lock(&file))
                .and_then(|()| Kept::new(file))
                .and_then(|file| match folder.rename(&unborn, &name) {
                    Ok(()) => Ok(Some(file)),
                    // Until it was locked, somebody took it for one of the dead.
                    Err(why) if why.errno() == libc::ENOENT => Ok(None),
                    Err(why) => Err(why.errno()),
                });
            let file = ready.inspect_err(|_| {
                let _ = folder.remove(&unborn);
            })?;
            if let Some(file) = file {
                return Ok(Own { file, number, at_work: false });
            }
        }
        Err(libc::EIO)
    }

    /// The number in the names of all that the process has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the process listens or is a client: others then do not wait for what it may be about to do.
    pub fn set_at_work(&mut self, at_work: bool) {
        let is_allowed = allowed() >= size_of::<u32>() as u64;
        if self.at_work != at_work
            && is_allowed
            && pwrite(&self.file, u32::from(at_work).as_bytes(), 0) == Ok(4)
        {
            self.at_work = at_work;
        }
    }

    /// Shows the addresses that the process has.
    ///
    /// # Errors
    /// Those of the system.
    pub fn show(&self, gids: &[Gid]) -> Result<(), i32> {
        let mut content = Content::new_zeroed();
        content.at_work = self.at_work.into();
        for (place, gid) in content.gids.iter_mut().zip(gids) {
            *place = *gid;
        }
        content.count = gids.len().min(GIDS) as u32;
        write(&self.file, &content)
    }

    /// Takes the process's name out of the folder.
    pub fn remove(&self, folder: &Folder) {
        let _ = with_owner_name(self.number, |name| folder.remove(name));
    }
}

/// What a living process shows.
#[derive(Debug)]
pub struct Shown(Content);

impl Shown {
    /// Whether it listens or is a client.
    pub fn is_at_work(&self) -> bool {
        self.0.at_work != 0
    }

    /// Whether it has an address.
    pub fn has(&self, gid: &Gid) -> bool {
        self.0.gids.iter().take(self.0.count as usize).any(|known| known == gid)
    }
}

/// What a process shows; `None` of one that does not live, or whose file cannot be read.
pub fn look(folder: &Folder, owner: u64) -> Option<Shown> {
    let file = folder.open_made(&owner_name(owner)).ok()?;
    let mut content = Content::new_zeroed();
    (is_locked(&file) && pread(&file, content.as_mut_bytes(), 0) == Ok(size_of::<Content>()))
        .then_some(Shown(content))
}

/// Whether a process lives; also where that cannot be found out.
pub fn lives(folder: &Folder, owner: u64) -> bool {
    holds(folder, &owner_name(owner))
}

/// Whether somebody holds the lock of a file; also where that cannot be found out. What is no process's file is
/// nobody's, whatever its name.
pub fn holds(folder: &Folder, name: &CStr) -> bool {
    match folder.open_made(name) {
        Ok(file) => is_locked(&file),
        Err(why) => !matches!(why, Error::Corrupt(_)) && why.errno() != libc::ENOENT,
    }
}

/// How long a file may be that this process writes: at a longer one the kernel's signal would end it.
fn allowed() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// ENOMEM where the process may not write so much: as of the memory that a device has in such a file.
fn write(file: &impl AsFd, content: &Content) -> Result<(), i32> {
    if allowed() < size_of::<Content>() as u64 {
        return Err(libc::ENOMEM);
    }
    match pwrite(file, content.as_bytes(), 0) {
        Ok(length) if length == size_of::<Content>() => Ok(()),
        Ok(_) => Err(libc::ENOSPC),
        Err(_) => Err(sys::errno()),
    }
}

fn lock(file: &impl AsFd) -> Result<(), i32> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&first_byte())).map(drop).map_err(|_| sys::errno())
}

/// Whether somebody has the lock; also where the kernel does not say.
fn is_locked(file: &impl AsFd) -> bool {
    let mut lock = first_byte();
    let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock));
    asked.is_err() || i32::from(lock.l_type) != libc::F_UNLCK
}

fn first_byte() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    }
}
