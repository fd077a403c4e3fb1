//! What is made in a folder to which others may write as well: sockets, FIFOs and folders, of which the kernel
//! gives no descriptor when it makes them.
//!
//! A moment later their name may mean something else: who may write to the folder may give it to a private file
//! of this user, which then would get the folder's group and mode. So they are made in a private folder, where
//! nobody else can write, get group and mode there, and then their name.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::sys;
use nix::fcntl::{AtFlags, RenameFlags};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{Folder, each_name, folder_mode, give, open_at, verify};
use crate::shm::error::{Error, Result, errno};

/// How often a private folder may be swept away before it has given up what is in it.
const ATTEMPTS: u32 = 32;

/// Name of a private folder: of no use to anybody but the process that made it.
pub(crate) fn is_private(name: &CStr) -> bool {
    let digits = name.to_bytes().strip_prefix(b"w");
    digits.is_some_and(|digits| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
}

impl Folder {
    /// Makes something under a name that nothing has yet. `make` does it, under the name and in the folder that
    /// it gets: this one where its user alone may write to it, else a private one, from which it is moved here.
    ///
    /// # Errors
    /// Those of `make`; `EEXIST` where something has the name; those of the system.
    pub fn place<T>(&self, name: &CStr, make: impl Fn(&Folder, &CStr) -> Result<T>) -> Result<T> {
        if !self.is_shared() {
            return make(self, name);
        }
        for _ in 0..ATTEMPTS {
            let (temporary, private) = match self.private() {
                Err(Error::Gone) => continue,
                other => other?,
            };
            let made = make(&private, name).and_then(|made| {
                let (from, to) = (private.fd()?, self.fd()?);
                nix::fcntl::renameat2(from, name, to, name, RenameFlags::RENAME_NOREPLACE)
                    .map_err(|_| Error::last("renameat2"))?;
                Ok(made)
            });
            if made.is_err() {
                for kind in [UnlinkatFlags::NoRemoveDir, UnlinkatFlags::RemoveDir] {
                    let _ = private.fd().map(|at| unlinkat(at, name, kind));
                }
            }
            let _ = self.remove_folder(&temporary);
            match made {
                // Somebody swept it away.
                Err(Error::Os { errno: libc::ENOENT, .. }) => {}
                made => return made,
            }
        }
        Err(Error::Gone)
    }

    /// A new folder that nobody else can enter, and its name here; [`Error::Gone`] where somebody swept it away
    /// before it was open.
    fn private(&self) -> Result<(CString, Folder)> {
        let name = CString::new(format!("w{:016x}", sys::random()?)).unwrap_or_default();
        mkdirat(self.fd()?, name.as_c_str(), Mode::S_IRWXU).map_err(|_| Error::last("mkdir"))?;
        let opened = open_at(self.fd()?, &name, libc::O_RDONLY | libc::O_NOFOLLOW).and_then(|fd| {
            check_private(&fd)?;
            give(&fd, None, folder_mode(None))?;
            if is_in_use(&fd) {
                // By who sweeps it away.
                return Err(Error::Gone);
            }
            Ok(Descriptor::new(fd)?)
        });
        let fd = opened.map_err(|why| {
            let _ = self.remove_folder(&name);
            if why.errno() == libc::ENOENT { Error::Gone } else { why }
        })?;
        let path = self.path.join(name.to_str().unwrap_or_default());
        Ok((name, Folder { fd, path, group: self.group, may_be_renamed: true }))
    }

    /// Removes a private folder here in which nobody makes anything; tells whether it is gone. What the dead
    /// left in one goes, too, where it is of a kind and, as `is_made` says, of a name that are made so: who may
    /// write here may have given the name to any folder of this user's.
    pub fn sweep_private(&self, name: &CStr, is_made: impl Fn(&CStr) -> bool) -> bool {
        if !is_private(name) {
            return false;
        }
        let opened = self.fd().and_then(|at| open_at(at, name, libc::O_RDONLY | libc::O_NOFOLLOW));
        if opened.as_ref().is_ok_and(is_in_use) {
            return false;
        }
        let emptied = || {
            let fd = opened?;
            each_name(fd.as_fd(), |inside| {
                let kind = fstatat(&fd, inside, AtFlags::AT_SYMLINK_NOFOLLOW)
                    .map_or(0, |stat| stat.st_mode & libc::S_IFMT);
                let _ = match kind {
                    libc::S_IFIFO | libc::S_IFSOCK if is_made(inside) => {
                        unlinkat(&fd, inside, UnlinkatFlags::NoRemoveDir)
                    }
                    libc::S_IFDIR if is_made(inside) => unlinkat(&fd, inside, UnlinkatFlags::RemoveDir),
                    _ => Ok(()),
                };
                Ok(())
            })
        };
        self.remove_folder(name).is_ok() || emptied().is_ok() && self.remove_folder(name).is_ok()
    }

    /// A folder in this one, for the same users; made where there is none.
    ///
    /// # Errors
    /// [`Error::Folder`] where what has the name is none that may be trusted; those of the system.
    pub fn folder(&self, name: &CStr) -> Result<Folder> {
        for _ in 0..ATTEMPTS {
            match self.existing_folder(name) {
                Err(Error::Os { errno: libc::ENOENT, .. }) => {}
                other => return other,
            }
            let made = self.place(name, |at, name| {
                mkdirat(at.fd()?, name, Mode::S_IRWXU).map_err(|_| Error::last("mkdir"))?;
                // Whatever the umask has left of the mode.
                give(&open_at(at.fd()?, name, libc::O_RDONLY | libc::O_NOFOLLOW)?, at.group, at.folder_mode())
            });
            match made {
                Ok(()) | Err(Error::Os { errno: libc::EEXIST, .. }) => {}
                Err(why) => return Err(why),
            }
        }
        Err(Error::Gone)
    }

    /// As [`Folder::folder`] where there is one: `ENOENT` otherwise.
    ///
    /// # Errors
    /// As said there.
    pub fn existing_folder(&self, name: &CStr) -> Result<Folder> {
        let fd = open_at(self.fd()?, name, libc::O_RDONLY | libc::O_NOFOLLOW)?;
        verify(&fd, self.group, self.folder_mode())?;
        let path = self.path.join(name.to_str().map_err(|_| Error::Folder("its name is no text"))?);
        Ok(Folder { fd: Descriptor::new(fd)?, path, group: self.group, may_be_renamed: self.may_be_renamed })
    }

    /// Removes a folder in this one that is empty.
    ///
    /// # Errors
    /// `ENOTEMPTY` where it is not; those of the system.
    pub fn remove_folder(&self, name: &CStr) -> Result<()> {
        unlinkat(self.fd()?, name, UnlinkatFlags::RemoveDir).map_err(|_| Error::last("unlinkat"))
    }
}

/// Whether somebody else makes something in a private folder, or sweeps it away: who does has a lock of it, as
/// long as it has it open. Other users cannot open it. Takes that lock where nobody has it.
fn is_in_use(fd: &OwnedFd) -> bool {
    // SAFETY: takes no pointer.
    let locked = unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    locked != 0 && errno() == libc::EWOULDBLOCK
}

/// Whether a folder is this user's alone, and new as far as that can be seen.
pub(super) fn check_private(fd: &OwnedFd) -> Result<()> {
    let exchanged = Error::Folder("somebody exchanged it while it was made");
    let stat = sys::stat(fd.as_raw_fd())?;
    if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        return Err(exchanged);
    }
    each_name(fd.as_fd(), |_| Err(exchanged))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::atomic::{AtomicBool, Ordering};

    use nix::unistd::mkfifoat;

    use super::super::Config;
    use super::*;
    use crate::shm::testing::TestDir;

    fn shared(dir: &TestDir) -> Folder {
        // SAFETY: reads a number of the process.
        let gid = unsafe { libc::getegid() };
        Folder::open(&Config { path: dir.path().join("g"), group: Some(gid) }).unwrap()
    }

    fn alone(dir: &TestDir) -> Folder {
        Folder::open(&Config { path: dir.path().join("f"), group: None }).unwrap()
    }

    /// What a member of the group can do between the making of a name and the next look at it.
    #[test]
    fn a_name_that_another_member_exchanges_gives_nothing_of_this_users_away() {
        let dir = TestDir::new("making");
        let folder = shared(&dir);
        let at = folder.path().to_owned();
        let private_file = dir.path().join("private");
        std::fs::write(&private_file, "secret").unwrap();
        std::fs::set_permissions(&private_file, PermissionsExt::from_mode(0o600)).unwrap();
        let made = folder.place(c"bell", |room, name| {
            let inside = std::fs::metadata(room.path()).unwrap();
            assert_eq!(inside.mode() & 0o777, 0o700, "nobody else writes where it is made");
            assert!(!at.join("bell").exists());
            mkfifoat(room.fd()?, name, Mode::S_IRWXU).map_err(|_| Error::last("mkfifoat"))?;
            // The other member puts a private file of this user under the name that is to come.
            std::fs::rename(&private_file, at.join("bell")).unwrap();
            Ok(())
        });
        assert_eq!(made, Err(Error::Os { call: "renameat2", errno: libc::EEXIST }));
        let there = std::fs::metadata(at.join("bell")).unwrap();
        assert_eq!((there.mode() & 0o777, there.len()), (0o600, 6), "the file is as it was");
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 1, "nothing else is left");
    }

    /// Another process may sweep at every step.
    #[test]
    fn what_is_swept_away_while_it_is_made_is_made_again() {
        let dir = TestDir::new("making");
        let folder = &shared(&dir);
        let ended = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    for name in folder.names().unwrap() {
                        folder.sweep_private(&name, |_| true);
                    }
                }
            });
            let made = (0..2000).map(|_| {
                let made = folder.place(c"bell", |room, name| {
                    mkfifoat(room.fd()?, name, Mode::S_IRWXU).map_err(|_| Error::last("mkfifoat"))
                });
                folder.remove(c"bell").and(made)
            });
            let failed: Vec<_> = made.filter(Result::is_err).collect();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(failed, []);
        });
    }

    #[test]
    fn what_is_just_made_is_not_swept_away() {
        let dir = TestDir::new("making");
        let folder = shared(&dir);
        let rounds = std::cell::Cell::new(0);
        let made = folder.place(c"bell", |room, name| {
            rounds.set(rounds.get() + 1);
            mkfifoat(room.fd()?, name, Mode::S_IRWXU).map_err(|_| Error::last("mkfifoat"))?;
            let swept = folder.names()?.iter().any(|name| folder.sweep_private(name, |_| true));
            assert!(!swept, "it lives");
            Ok(())
        });
        assert_eq!((made, rounds.get()), (Ok(()), 1));
    }

    #[test]
    fn a_private_folder_is_nobody_elses_and_empty() {
        let dir = TestDir::new("making");
        let check = |name: &str, mode| {
            let path = dir.path().join(name);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            check_private(&std::fs::File::open(&path).unwrap().into())
        };
        std::fs::create_dir(dir.path().join("a")).unwrap();
        assert_eq!(check("a", 0o700), Ok(()));
        assert!(check("a", 0o750).is_err());
        std::fs::write(dir.path().join("a/b"), "").unwrap();
        assert!(check("a", 0o700).is_err(), "somebody's own, with files");
    }

    #[test]
    fn what_a_maker_left_that_was_killed_goes_and_nothing_else() {
        let dir = TestDir::new("making");
        let folder = shared(&dir);
        let fill = |name: &str, inside: &str| {
            let at = folder.path().join(name);
            std::fs::create_dir(&at).unwrap();
            mkfifoat(nix::fcntl::AT_FDCWD, &at.join(inside), Mode::S_IRWXU).unwrap();
            at
        };
        let is_made = |name: &CStr| name.to_bytes().starts_with(b"b");
        let (left, in_use) = (fill("w0123456789abcdef", "b"), fill("w0123456789abcdee", "other"));
        std::fs::create_dir(left.join("b2")).unwrap();
        std::fs::write(in_use.join("b3"), "").unwrap();
        assert!(folder.sweep_private(c"w0123456789abcdef", is_made) && !left.exists());
        assert!(!folder.sweep_private(c"w0123456789abcdee", is_made));
        assert_eq!(std::fs::read_dir(in_use).unwrap().count(), 2, "neither a file nor a foreign name goes");
        fill("v", "b");
        assert!(!folder.sweep_private(c"v", is_made), "no private folder's name");
    }

    /// In a child, since the umask is the whole process's; root may write to what its mode forbids.
    #[test]
    fn no_umask_keeps_anybody_out_who_may_enter() {
        let dir = TestDir::new("making");
        for folder in [shared(&dir), alone(&dir)] {
            // SAFETY: the child makes files, and ends without what the parent would do at its end.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: umask cannot fail.
                unsafe { libc::umask(0o277) };
                let made = folder.folder(c"in").and_then(|_| folder.existing_folder(c"in"));
                let private = folder.private().map(|(_, private)| private.path().to_owned());
                let mode = private.map(|path| std::fs::metadata(path).map_or(0, |stat| stat.mode() & 0o777));
                let good = made.is_ok() && mode == Ok(0o700);
                // SAFETY: ends this process.
                unsafe { libc::_exit(i32::from(!good)) };
            }
            let mut status = -1;
            // SAFETY: waits for the child made above; `status` is writable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "{}", folder.path().display());
        }
    }

    #[test]
    fn folders_in_it_are_for_the_same_users() {
        let dir = TestDir::new("making");
        for folder in [shared(&dir), alone(&dir)] {
            assert_eq!(folder.existing_folder(c"in").err().map(Error::errno), Some(libc::ENOENT));
            let inner = folder.folder(c"in").unwrap();
            let mode = if folder.is_shared() { 0o770 } else { 0o700 };
            assert_eq!(std::fs::metadata(inner.path()).unwrap().mode() & 0o777, mode);
            assert!(folder.folder(c"in").is_ok() && folder.existing_folder(c"in").is_ok());
            std::fs::set_permissions(inner.path(), PermissionsExt::from_mode(0o777)).unwrap();
            assert!(matches!(folder.folder(c"in"), Err(Error::Folder(_))));
            folder.remove_folder(c"in").unwrap();
            std::os::unix::fs::symlink("/", inner.path()).unwrap();
            assert!(matches!(folder.folder(c"in"), Err(Error::Folder(_))));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
