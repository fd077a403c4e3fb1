//! Waking a process that sleeps in `poll` on a completion channel's or device's descriptor, from another
//! process.
//!
//! A bell is a FIFO in the folder. Its owner hands out a descriptor for reading, which the program may poll,
//! make non-blocking or put in an epoll set; a ringer writes one byte. A full FIFO is a bell that is rung
//! already. The byte carries nothing: what happened stands in shared memory. The descriptor stays readable
//! until the owner has taken all events: it silences the bell only when it found none, and looks again
//! afterwards.
//!
//! A process that may write to the folder may give a bell's name to any other file, and a program may close
//! descriptors that are not its own and open files in their place. So a name is checked before it is opened,
//! and a descriptor before each use but that of the program itself ([`Bell::take`]). A bell is rung only for a
//! process that sleeps, and the check costs less than that.
//!
//! Both sides open it for writing too, so that no writer ever finds it without a reader (SIGPIPE) and no reader
//! without a writer (end of file).
//!
//! A ringer may die anywhere, so it rings before it publishes what the bell is for, behind the lock of the
//! queue ([`crate::queues::transport`]): after a death in between the bell was rung for nothing. A process
//! that was woken takes and gives back that lock once before it looks, and so finds what was being published.
//!
//! Alternatives, measured by `cargo bench -p softrdma`: a datagram socket bound in the folder costs more per
//! ring and limits the length of the folder's path; an eventfd taken with `pidfd_getfd` costs least but needs
//! the rights of a debugger, as [`super::copy`] does, and bells must work without.

use std::ffi::{CStr, CString};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::fork;
use ironverbs_os::sys;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::{mkfifoat, read, write};

use super::error::{Error, Result, errno};
use super::folder::Folder;
use super::lock::Owner;
use super::segment::Segment;
use super::slot;

/// This process's bell.
#[derive(Debug)]
pub struct Bell {
    /// What the program polls.
    public: Descriptor,
    /// The same FIFO, never blocking whatever the program sets on `public`.
    private: Descriptor,
    folder: Arc<Folder>,
    name: CString,
    number: u32,
    token: u64,
}

impl Bell {
    /// Hangs up a new bell, which peers find by the segment's owner and [`Bell::number`].
    pub fn new(segment: &Segment) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !segment.is_mine() {
            return Err(Error::Forked);
        }
        let folder = segment.folder().clone();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = slot::bell_name(segment.owner(), number);
        let (public, private) = folder.place(&name, |folder, name| {
            let mode = Mode::from_bits_retain(folder.file_mode());
            mkfifoat(folder.fd()?, name, mode).map_err(|_| match errno() {
                libc::ENOSPC | libc::EDQUOT => Error::NoMemory,
                errno => Error::Os { call: "mkfifoat", errno },
            })?;
            Self::open(folder, name).inspect_err(|_| {
                let _ = folder.remove(name);
            })
        })?;
        Ok(Bell { public, private, folder, name, number, token: fork::token()? })
    }

    fn open(folder: &Folder, name: &CStr) -> Result<(Descriptor, Descriptor)> {
        // A umask that takes the owner's own rights away would make the next line fail; root and usual umasks
        // do not.
        let private = open_bell(folder, name)?;
        folder.adopt(&private)?;
        // One page is enough, and keeps many bells within the user's limit for pipes. Failing leaves a larger
        // buffer.
        let _ = fcntl(&private, FcntlArg::F_SETPIPE_SZ(4096));
        let public = folder.open_to_read(name)?;
        let (public, private) = (Descriptor::new(public)?, Descriptor::new(private)?);
        if !public.is_same_file(&private) {
            // It may be this process's own segment by another name: to close it would end the declaration of
            // life.
            std::mem::forget(public);
            return Err(Error::Corrupt("not a bell"));
        }
        // The program's descriptor blocks unless the program says otherwise.
        let blocks = FcntlArg::F_SETFL(OFlag::empty());
        fcntl(sys::borrowed(public.number())?, blocks).map_err(|_| Error::last("fcntl"))?;
        Ok((public, private))
    }

    /// The number peers need, with the owner's name, to ring.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The descriptor that becomes readable: what a program finds in its completion channel or context. The
    /// owner of the bell closes it.
    pub fn fd(&self) -> RawFd {
        self.public.number()
    }

    /// Rings from within the process.
    pub fn ring(&self) {
        write_byte(self.private.raw());
    }

    /// Takes one ring, waiting for it as the flags of [`Bell::fd`] say.
    ///
    /// # Errors
    /// As `read`: `EAGAIN` when the descriptor does not block, `EINTR`.
    pub fn take(&self) -> std::io::Result<()> {
        let mut byte = [0u8; 1];
        match sys::borrowed(self.public.number()).map(|fd| read(fd, &mut byte)) {
            Ok(Ok(1)) => Ok(()),
            Ok(Ok(_)) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(_)) => Err(std::io::Error::last_os_error()),
            Err(e) => Err(std::io::Error::from_raw_os_error(e.errno())),
        }
    }

    /// Takes one ring if there is one, whatever the flags of [`Bell::fd`] say.
    pub fn try_take(&self) -> bool {
        let Ok(fd) = sys::borrowed(self.private.raw_lately()) else { return false };
        let mut byte = [0u8; 1];
        loop {
            // The descriptor does not block.
            match sys::uncancelled(|| read(fd, &mut byte)) {
                Err(_) if errno() == libc::EINTR => {}
                taken => return taken == Ok(1),
            }
        }
    }

    /// What [`Bell::take`] answers when there is nothing to take: an error where it does not wait.
    ///
    /// # Errors
    /// `EAGAIN`
    pub fn would_block(&self) -> std::io::Result<()> {
        let flags = sys::borrowed(self.public.number()).ok().and_then(|fd| fcntl(fd, FcntlArg::F_GETFL).ok());
        let flags = flags.unwrap_or(-1);
        if flags & libc::O_NONBLOCK == 0 { Ok(()) } else { Err(std::io::ErrorKind::WouldBlock.into()) }
    }

    /// How many rings wait.
    pub fn waiting(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: FIONREAD writes one int.
        let r = unsafe { libc::ioctl(self.private.raw(), libc::FIONREAD, &raw mut bytes) };
        if r == 0 { bytes as usize } else { 0 }
    }

    /// Takes up to `count` rings without waiting: those of events that are gone.
    pub fn unring(&self, count: usize) {
        let mut bytes = [0u8; 64];
        let Ok(fd) = sys::borrowed(self.private.raw()) else { return };
        let mut left = count;
        while left > 0 {
            let now = left.min(bytes.len());
            // The descriptor does not block.
            match sys::uncancelled(|| read(fd, &mut bytes[..now])) {
                Err(_) if errno() == libc::EINTR => {}
                taken if taken == Ok(now) => left -= now,
                _ => return,
            }
        }
    }

    /// Empties the bell. Look for events again afterwards: one may have come in between. A forked child's call
    /// does nothing: the events are its parent's.
    pub fn silence(&self) {
        if !fork::same_process(self.token) {
            return;
        }
        let mut bytes = [0u8; 4096];
        let Ok(fd) = sys::borrowed(self.private.raw_lately()) else { return };
        loop {
            // The descriptor does not block.
            match sys::uncancelled(|| read(fd, &mut bytes)) {
                Err(_) if errno() == libc::EINTR => {}
                Ok(taken) if taken == bytes.len() => {}
                // Less than asked for is all there was; more can come at any time, which looking again covers.
                _ => return,
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if fork::same_process(self.token) {
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// Another process's bell.
#[derive(Debug)]
pub struct BellHandle(Descriptor);

impl BellHandle {
    /// Finds the bell. Errors: [`Error::Gone`] when it is not there, [`Error::Corrupt`] when its name means
    /// something else.
    pub fn find(folder: &Folder, owner: Owner, number: u32) -> Result<Self> {
        match sys::uncancelled(|| open_bell(folder, &slot::bell_name(owner, number))) {
            Err(Error::Os { errno: libc::ENOENT, .. }) => Err(Error::Gone),
            other => Ok(BellHandle(Descriptor::new(other?)?)),
        }
    }

    /// Rings: two system calls that never block.
    pub fn ring(&self) {
        write_byte(self.0.raw());
    }
}

/// Opens a FIFO that has this name and no other.
fn open_bell(folder: &Folder, name: &CStr) -> Result<OwnedFd> {
    let (found, stat) = folder.look(name)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFIFO || stat.st_nlink > 1 {
        return Err(Error::Corrupt("not a bell"));
    }
    folder.open_found(name, &found)
}

fn write_byte(fd: RawFd) {
    let Ok(fd) = sys::borrowed(fd) else { return };
    // The descriptor does not block and has a reader, itself. Full: rung already.
    while sys::uncancelled(|| write(fd, &[1])).is_err() && errno() == libc::EINTR {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TestDir, in_child};
    use super::*;

    fn readable(fd: RawFd, timeout: i32) -> bool {
        let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `p` is one writable entry.
        unsafe { libc::poll(&mut p, 1, timeout) == 1 && p.revents == libc::POLLIN }
    }

    #[test]
    fn rings_until_silenced() {
        let dir = TestDir::new("bell");
        let a = Segment::create(dir.folder()).unwrap();
        let bell = Bell::new(&a).unwrap();
        assert!(!readable(bell.fd(), 0));
        let handle = BellHandle::find(a.folder(), a.owner(), bell.number()).unwrap();
        handle.ring();
        handle.ring();
        assert!(readable(bell.fd(), 0) && readable(bell.fd(), 0));
        bell.silence();
        assert!(!readable(bell.fd(), 0));
        // More rings than it holds.
        for _ in 0..100_000 {
            handle.ring();
        }
        bell.silence();
        assert!(!readable(bell.fd(), 0));
        bell.ring();
        assert!(readable(bell.fd(), 0));
        let other = Bell::new(&a).unwrap();
        assert_ne!(other.number(), bell.number());
        assert!(!readable(other.fd(), 0));
        assert!(matches!(BellHandle::find(a.folder(), a.owner(), u32::MAX), Err(Error::Gone)));
    }

    #[test]
    fn wakes_a_sleeper_and_outlives_either_side() {
        let dir = TestDir::new("bell");
        let a = Segment::create(dir.folder()).unwrap();
        let bell = Bell::new(&a).unwrap();
        let (owner, number) = (a.owner(), bell.number());
        let status = in_child(|| {
            BellHandle::find(a.folder(), owner, number).unwrap().ring();
            true
        });
        assert_eq!(status, 0);
        assert!(readable(bell.fd(), 300_000));
        let handle = BellHandle::find(a.folder(), owner, number).unwrap();
        drop(bell);
        // No signal, no error.
        handle.ring();
        assert!(matches!(BellHandle::find(a.folder(), owner, number), Err(Error::Gone)));
    }

    #[test]
    fn a_forked_child_silences_nothing() {
        let dir = TestDir::new("bell");
        let a = Segment::create(dir.folder()).unwrap();
        let bell = Bell::new(&a).unwrap();
        bell.ring();
        let status = in_child(|| {
            bell.silence();
            true
        });
        assert_eq!(status, 0);
        assert!(readable(bell.fd(), 0));
    }

    #[test]
    fn sweeping_past_the_own_bells_costs_no_descriptors() {
        let dir = TestDir::new("bell");
        let folder = dir.folder();
        let status = in_child(|| {
            let a = Segment::create(folder.clone()).unwrap();
            let _bells = (Bell::new(&a).unwrap(), Bell::new(&a).unwrap());
            let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            let before = open();
            (0..10).all(|_| slot::sweep(&folder) == Ok(0)) && open() == before
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn a_segment_under_a_bell_s_name_stays_alive() {
        let dir = TestDir::new("bell");
        let a = Segment::create(dir.folder()).unwrap();
        let (folder, owner) = (a.folder(), a.owner());
        let name = slot::bell_name(owner, 7);
        let path = folder.path();
        std::fs::hard_link(path.join("s0000"), path.join(name.to_str().unwrap())).unwrap();
        assert!(matches!(BellHandle::find(folder, owner, 7), Err(Error::Corrupt(_))));
        assert_eq!(in_child(|| slot::standing(folder, owner) == slot::Standing::Alive), 0);
    }

    #[test]
    fn a_dead_process_s_bells_are_swept() {
        let dir = TestDir::new("bell");
        let folder = dir.folder();
        let status = in_child(|| {
            let a = Segment::create(folder.clone()).unwrap();
            std::mem::forget((Bell::new(&a).unwrap(), Bell::new(&a).unwrap(), a));
            true
        });
        assert_eq!(status, 0);
        let b = Segment::create(folder.clone()).unwrap();
        let bell = Bell::new(&b).unwrap();
        assert_eq!(folder.names().unwrap().len(), 2);
        assert_eq!(slot::sweep(&folder), Ok(0));
        drop((bell, b));
        assert!(folder.names().unwrap().is_empty());
    }
}
