//! The names in the folder: which process has which slot, and how leftovers are removed.
//!
//! | name | what it is |
//! |---|---|
//! | `s0000` to `s1023` | the process that claimed this slot, and where its segment is (`announcement`) |
//! | `t` and 16 hex digits | the same for a process that has no slot yet |
//! | `b`, slot, `-`, epoch, `-`, number | a bell of that claim |
//! | `m`, slot, `-`, epoch | the socket where that claim's memory is to be had (`handout`) |
//! | `w` and 16 hex digits | a folder where one of these is being made (`folder::making`) |
//!
//! A file is made under a temporary name, declared alive and filled in, and only then renamed to the first slot
//! that is free: nobody ever sees half of one. A dead process's file is never used again: it loses its name,
//! and the slot gets a new file. So peers that still have the old one open are not disturbed, and a process
//! that was taken for dead by mistake (because the program closed its descriptors) harms nobody. Each claim has
//! a random epoch, so that a word left in shared memory by a dead claim never means a later one.
//!
//! Two processes that find the same dead file must not both remove the name, because the second would remove
//! the name of a new, living one. So only the holder of the dead file's second lock byte may, after it saw that
//! the name still means this file.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

use ironverbs_os::fork::{ProcessGuard, ProcessMutex};
use ironverbs_os::growth::TryPush;
use ironverbs_os::sys;
use nix::fcntl::AtFlags;

use super::announcement;
use super::error::{Error, Result};
use super::folder::{Folder, making};
use super::liveness::{self, OwnFiles, PeerFile};
use super::lock::{Owner, SLOTS};

/// How often a new file may lose its name to a sweeper that saw it before its declaration.
const ATTEMPTS: u32 = 32;

/// Threads of one process exclude each other where files are declared and removed: record locks do not do it.
static GATE: ProcessMutex<()> = ProcessMutex::new(());

fn one_at_a_time() -> Result<ProcessGuard<'static, ()>> {
    Ok(GATE.lock()?)
}

fn c_name(name: String) -> CString {
    CString::new(name).unwrap_or_default()
}

/// Name of a slot's file.
pub(crate) fn file_name(slot: u16) -> CString {
    c_name(format!("s{slot:04}"))
}

/// The same with its zero byte, without memory for it.
fn slot_name(slot: u16) -> [u8; 6] {
    let digit = |unit: u16| b'0' + (slot / unit % 10) as u8;
    [b's', digit(1000), digit(100), digit(10), digit(1), 0]
}

/// Name of a claim's bell.
pub(crate) fn bell_name(owner: Owner, number: u32) -> CString {
    c_name(format!("b{:04}-{:014x}-{number}", owner.slot(), owner.epoch()))
}

/// Name of the socket where a claim's memory is to be had.
pub(crate) fn socket_name(owner: Owner) -> CString {
    c_name(format!("m{:04}-{:014x}", owner.slot(), owner.epoch()))
}

/// What a name in the folder means.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Slot(u16),
    Unborn,
    Bell(Owner),
    Socket(Owner),
    Private,
    Foreign,
}

fn parse(name: &CStr) -> Name {
    let Ok(text) = name.to_str() else { return Name::Foreign };
    let number = |s: &str| s.parse::<u16>().ok().filter(|n| *n < SLOTS && s.len() == 4);
    if let Some(slot) = text.strip_prefix('s').and_then(number) {
        return Name::Slot(slot);
    }
    if text.strip_prefix('t').is_some_and(|h| h.len() == 16 && h.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Name::Unborn;
    }
    if making::is_private(name) {
        return Name::Private;
    }
    let claims = |rest: &str, is_bell: bool| {
        let mut parts = rest.split('-');
        let slot = number(parts.next()?)?;
        let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
        if is_bell {
            parts.next()?.parse::<u32>().ok()?;
        }
        parts.next().is_none().then_some(())?;
        Owner::new(slot, epoch)
    };
    let bell = text.strip_prefix('b').and_then(|rest| claims(rest, true)).map(Name::Bell);
    let socket = || text.strip_prefix('m').and_then(|rest| claims(rest, false)).map(Name::Socket);
    bell.or_else(socket).unwrap_or(Name::Foreign)
}

/// A claimed slot and its file.
pub(crate) struct ClaimedSlot {
    pub(crate) owner: Owner,
    pub(crate) file: OwnedFd,
}

/// Claims a slot. `fill` writes the content before others can see the file; `name_it` adds the slot, again
/// before.
///
/// Errors: [`Error::NoSlot`], and whatever `fill` answers.
pub(crate) fn claim(
    folder: &Folder,
    fill: impl Fn(&OwnedFd) -> Result<()>,
    name_it: impl Fn(&OwnedFd, Owner) -> Result<()>,
) -> Result<ClaimedSlot> {
    let _gate = one_at_a_time()?;
    let mut epoch = 0;
    while Owner::new(0, epoch).is_none() {
        epoch = sys::random()?;
    }
    'fresh: for _ in 0..ATTEMPTS {
        let unborn = c_name(format!("t{:016x}", sys::random()?));
        let file = folder.open_file(&unborn, libc::O_CREAT | libc::O_EXCL)?;
        let prepared = (|| {
            OwnFiles::add(file.as_raw_fd())?;
            liveness::declare(file.as_raw_fd())?;
            folder.adopt(&file)?;
            fill(&file)
        })();
        let give_up = |e: Error| {
            OwnFiles::remove(file.as_raw_fd());
            let _ = folder.remove(&unborn);
            e
        };
        prepared.map_err(&give_up)?;
        for slot in 0..SLOTS {
            let Some(owner) = Owner::new(slot, epoch) else { continue };
            name_it(&file, owner).map_err(&give_up)?;
            // Twice: the second time after the removal of a dead file.
            for _ in 0..2 {
                match folder.rename(&unborn, &file_name(slot)) {
                    Ok(()) => return Ok(ClaimedSlot { owner, file }),
                    Err(Error::Os { errno: libc::EEXIST, .. }) if reap(folder, slot) => {}
                    Err(Error::Os { errno: libc::EEXIST, .. }) => break,
                    Err(Error::Os { errno: libc::ENOENT, .. }) => {
                        OwnFiles::remove(file.as_raw_fd());
                        continue 'fresh;
                    }
                    Err(e) => return Err(give_up(e)),
                }
            }
        }
        return Err(give_up(Error::NoSlot));
    }
    Err(Error::NoSlot)
}

/// Gives back a claim: the name goes, unless it already means another file.
pub(crate) fn release(folder: &Folder, owner: Owner, file: &OwnedFd) {
    let _gate = one_at_a_time();
    if names(folder, &file_name(owner.slot()), file.as_raw_fd()) {
        let _ = folder.remove(&file_name(owner.slot()));
    }
    OwnFiles::remove(file.as_raw_fd());
}

/// Takes the names of a claim out of the folder, that of its slot last: the process is about to end, or has
/// closed its device with objects left.
///
/// Asks for no memory, and waits for no lock for ever: the process may end in a signal handler, anywhere in the
/// program and here. What cannot be had then stays, as after a kill.
pub(crate) fn leave(folder: &Folder, owner: Owner, file: &OwnedFd) {
    let Some(_gate) = GATE.lock_in_time() else { return };
    let _ = folder.each_name(|name| {
        if [Name::Bell(owner), Name::Socket(owner)].contains(&parse(name)) {
            let _ = folder.remove(name);
        }
        Ok(())
    });
    let slot = slot_name(owner.slot());
    if let Ok(slot) = CStr::from_bytes_with_nul(&slot)
        && names(folder, slot, file.as_raw_fd())
    {
        let _ = folder.remove(slot);
    }
    OwnFiles::remove_in_time(file.as_raw_fd());
}

/// `fstatat` of a name in the folder.
pub(crate) fn stat_name(folder: &Folder, name: &CStr) -> Option<libc::stat> {
    nix::sys::stat::fstatat(folder.fd().ok()?, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
}

/// Whether `name` means the file behind `fd`.
pub(crate) fn names(folder: &Folder, name: &CStr, fd: i32) -> bool {
    stat_name(folder, name).is_some_and(|there| {
        sys::stat(fd).is_ok_and(|here| (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino))
    })
}

/// Whether `name` means a file of this process, which is better not opened again: it could not be closed.
fn is_own(folder: &Folder, name: &CStr) -> bool {
    stat_name(folder, name).is_some_and(|st| OwnFiles::has(&st))
}

/// Opens the file of a slot, or of a process that has none yet, as others' files are opened. One that is this
/// process's own is not opened again, whatever name it has: that descriptor could never be closed.
///
/// Errors: [`Error::Corrupt`] for what is no file, and those of the system calls.
pub(crate) fn open_peer(folder: &Folder, name: &CStr) -> Result<PeerFile> {
    let (found, stat) = folder.look(name)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Error::Corrupt("not a file"));
    }
    if OwnFiles::has(&stat) {
        return Ok(PeerFile::own(stat));
    }
    PeerFile::new(folder.open_found(name, &found)?)
}

/// Removes the file of a dead process from its slot; `false` when it is alive, or somebody else is removing it.
fn reap(folder: &Folder, slot: u16) -> bool {
    let name = file_name(slot);
    if is_own(folder, &name) {
        return false;
    }
    let Ok(file) = open_peer(folder, &name) else { return false };
    matches!(file.owner(), Ok(None))
        && liveness::become_reaper(file.raw())
        && names(folder, &name, file.raw())
        && folder.remove(&name).is_ok()
}

/// What is known of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A living process holds it, or nothing is certain.
    Alive,
    /// Its process is dead, or gave the slot back and another has it.
    Over,
    /// Nobody has the slot: it was given back, or somebody removed the name of a living process.
    Vacant,
}

/// How a claim stands. Not for the caller's own claim.
pub(crate) fn standing(folder: &Folder, owner: Owner) -> Standing {
    // Posting and polling come here when the holder of a lock does not give it back.
    sys::uncancelled(|| look_up(folder, owner))
}

fn look_up(folder: &Folder, owner: Owner) -> Standing {
    let name = file_name(owner.slot());
    // Only another claim's signature is certain; one that cannot be read is not.
    let is_another = |fd| announcement::signature(fd).is_some_and(|word| word != owner.word());
    // A file of this process is better not opened again: that descriptor could not be closed.
    if let Some(fd) = stat_name(folder, &name).and_then(|st| OwnFiles::descriptor(&st)) {
        return if is_another(fd) { Standing::Over } else { Standing::Alive };
    }
    let file = match open_peer(folder, &name) {
        Ok(file) => file,
        Err(Error::Os { errno: libc::ENOENT, .. }) => {
            // A folder that was removed has no names, also of processes that live.
            let there = sys::stat(folder.raw()).is_ok_and(|st| st.st_nlink > 0);
            return if there { Standing::Vacant } else { Standing::Alive };
        }
        // Unknown, for example no descriptors left: only certain deaths count.
        Err(_) => return Standing::Alive,
    };
    match file.owner() {
        Ok(Some(_)) if is_another(file.raw()) => Standing::Over,
        Ok(None) => Standing::Over,
        Ok(Some(_)) | Err(_) => Standing::Alive,
    }
}

/// The slots that have a file now, lowest first; of the living and of those that died lately.
pub fn claimed(folder: &Folder) -> Result<Vec<u16>> {
    let mut slots = Vec::new();
    folder.each_name(|name| {
        if let Name::Slot(slot) = parse(name) {
            slots.try_push(slot)?;
        }
        Ok(())
    })?;
    slots.sort_unstable();
    Ok(slots)
}

/// Removes what dead processes left in the folder; tells how many names went.
///
/// Bells and sockets are judged after their name was seen: a claim is visible before them, so one whose claim
/// is not there now belongs to one that is over.
pub fn sweep(folder: &Folder) -> Result<u32> {
    let _gate = one_at_a_time()?;
    let mut removed = 0;
    folder.each_name(|name| {
        let dead = match parse(name) {
            Name::Slot(slot) => {
                removed += u32::from(reap(folder, slot));
                false
            }
            Name::Unborn if is_own(folder, name) => false,
            Name::Unborn => {
                open_peer(folder, name).and_then(|file| file.owner()).is_ok_and(|owner| owner.is_none())
            }
            Name::Bell(owner) | Name::Socket(owner) => standing(folder, owner) != Standing::Alive,
            Name::Private => {
                removed += u32::from(folder.sweep_private(name, is_made_privately));
                false
            }
            Name::Foreign => false,
        };
        if dead {
            folder.remove(name)?;
            removed += 1;
        }
        Ok(())
    })?;
    Ok(removed)
}

/// Whether what has this name is made by [`Folder::place`]: bells, sockets, and the connection manager's
/// folders.
fn is_made_privately(name: &CStr) -> bool {
    matches!(parse(name), Name::Bell(_) | Name::Socket(_)) || name.to_bytes().starts_with(b"cm-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        assert_eq!(parse(&file_name(0)), Name::Slot(0));
        assert_eq!(parse(&file_name(1023)), Name::Slot(1023));
        let owner = Owner::new(77, 0x1f_ffff_ffff_ffff).unwrap();
        assert_eq!(parse(&bell_name(owner, 4_000_000_000)), Name::Bell(owner));
        assert_eq!(parse(c"t0123456789abcdef"), Name::Unborn);
        assert_eq!(parse(c"w0123456789abcdef"), Name::Private);
        assert_eq!(parse(&socket_name(owner)), Name::Socket(owner));
        let foreign = [
            c"m0001",
            c"m0001-1-1",
            c"m0001-0",
            c"m1024-1",
            c"s1024",
            c"s12",
            c"s00001",
            c"s-001",
            c"t0123",
            c"b0001",
            c"b0001-zz-1",
            c"b0001-1-1-1",
            c"b0001-0-1",
        ];
        for name in foreign {
            assert_eq!(parse(name), Name::Foreign, "{name:?}");
        }
    }
}
