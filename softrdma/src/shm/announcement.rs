//! What stands in the file that a slot's name means: which process has the slot, and where its segment is.
//!
//! Byte offsets, in native byte order:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version of this layout |
//! | 16 | 8 | the claim's signature, [`Owner::word`] |
//! | 24 | 8 | number of the descriptor of the segment's memory (`memfd`) and 1 |
//! | 32 | 8 | the namespaces and capabilities of the process ([`domain`]) |
//!
//! Every process that may enter the folder may write, cut and replace the file. So it is never mapped: it is
//! read once, by system calls, and all that it says is verified.

use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;

use ironverbs_os::sys;
use nix::sys::uio::{pread, pwrite};

use super::error::{Error, Result};
use super::lock::Owner;
use super::room;

const MAGIC: u64 = u64::from_ne_bytes(*b"ironslot");
const VERSION: u64 = 1;
const AT_SIGNATURE: usize = 16;
const BYTES: usize = 64;

/// The first PID namespace of a machine (the kernel's `PROC_PID_INIT_INO`): its processes see all others.
const FIRST_PIDS: u64 = 0xefff_fffc;

/// What a file says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcement {
    pub(super) owner: Owner,
    /// The descriptor's number in the owner.
    pub(super) number: Option<RawFd>,
    pub(super) domain: u64,
}

/// Writes all but the signature into a new file.
///
/// Errors: [`Error::NoMemory`] when the file system is full.
pub(super) fn write(fd: RawFd, number: RawFd, domain: u64) -> Result<()> {
    room::allocate(fd, 0, BYTES as u64)?;
    let words = [MAGIC, VERSION, 0, number as u64 + 1, domain];
    put(fd, words.map(u64::to_ne_bytes).as_flattened(), 0)
}

/// Signs with a claim: before that nobody believes the file.
pub(super) fn sign(fd: RawFd, owner: Owner) -> Result<()> {
    put(fd, &owner.word().to_ne_bytes(), AT_SIGNATURE)
}

fn put(fd: RawFd, bytes: &[u8], at: usize) -> Result<()> {
    let written = pwrite(sys::borrowed(fd)?, bytes, at as libc::off_t);
    if written == Ok(bytes.len()) { Ok(()) } else { Err(Error::last("pwrite")) }
}

/// What the file says.
///
/// Errors: [`Error::Corrupt`] when it is not such a file.
pub(super) fn read(fd: RawFd) -> Result<Announcement> {
    let mut words = [[0u8; 8]; 5];
    let bytes = words.as_flattened_mut();
    if pread(sys::borrowed(fd)?, bytes, 0) != Ok(bytes.len()) {
        return Err(Error::Corrupt("too short"));
    }
    let [magic, version, signature, number, domain] = words.map(u64::from_ne_bytes);
    if magic != MAGIC {
        return Err(Error::Corrupt("no magic number"));
    }
    if version != VERSION {
        return Err(Error::Corrupt("another version of the layout"));
    }
    let owner = Owner::from_word(signature).ok_or(Error::Corrupt("signature"))?;
    let number = number.checked_sub(1).and_then(|number| RawFd::try_from(number).ok());
    Ok(Announcement { owner, number, domain })
}

/// The signature alone, whatever else stands there.
pub(super) fn signature(fd: RawFd) -> Option<u64> {
    let mut word = [0u8; 8];
    let read = pread(sys::borrowed(fd).ok()?, &mut word, AT_SIGNATURE as libc::off_t);
    (read == Ok(8)).then(|| u64::from_ne_bytes(word))
}

/// A number for the PID and user namespace and the capabilities of this process. Processes with different
/// numbers may not open each other's descriptors, since the kernel demands all capabilities of the process
/// whose they are. 0 where `/proc` does not tell.
pub(super) fn domain() -> u64 {
    let number = |kind| std::fs::metadata(format!("/proc/thread-self/ns/{kind}")).map(|place| place.ino());
    match (number("pid"), number("user")) {
        (Ok(pids), Ok(users)) => pids & 0xffff_ffff | (users ^ capabilities()) << 32,
        _ => 0,
    }
}

/// A number for the capabilities that this process may use.
fn capabilities() -> u64 {
    /// `_LINUX_CAPABILITY_VERSION_3`: two times effective, permitted and inheritable ones.
    const VERSION: u32 = 0x2008_0522;
    let (header, mut sets) = ([VERSION, 0], [0u32; 6]);
    // SAFETY: the header is readable, and there is room for what this version answers.
    let known = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } == 0;
    // Those above 31, of which there are few, stand high: any two sets are told apart.
    if known { u64::from(sets[1] ^ sets[4].rotate_right(9)) } else { 0 }
}

/// Whether a process of this domain is in a PID namespace beside or above which there are others.
pub(super) fn is_nested(domain: u64) -> bool {
    domain & 0xffff_ffff != FIRST_PIDS
}
