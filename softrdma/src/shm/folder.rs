//! The folder in shared memory where the processes that may talk to each other meet.
//!
//! [`Config`] says where it is. That of one user has mode 0700 and files of 0600, that of a group 0770 and
//! 0660.
//!
//! `/dev/shm` is writable for everybody, so a folder that another user made first must not be used: owner, mode
//! and type are checked through the open descriptor, and all files are then reached through that descriptor
//! alone. For a group the owner may be any member: the kernel lets nobody give a folder to a group in which
//! they are not (root aside), so the folder's group proves it. A set-group-id parent gives its group to what
//! anybody makes in it, so there the group proves nothing, and one that everybody may write to is refused.
//!
//! Where everybody may rename what is another's (the parent is writable for all and not sticky, as an emptyDir
//! of Kubernetes is), another user could choose in which other folder of theirs processes meet. A folder that
//! is made there carries its own name ([`MARK`]), where its owner alone can have put it, and nothing else is
//! used. A group's members could put it there too, so for a group such a parent is refused.
//!
//! The folder is made under a name of its own with mode 0700, given its group and mode, and only then
//! renamed: nobody sees it before it is closed to others, and one that cannot be finished is removed again.

use std::ffi::{CStr, CString, OsString};
use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::growth::{TryPush, try_collect};
use ironverbs_os::listing;
use ironverbs_os::sys;
use nix::fcntl::{AT_FDCWD, AtFlags, FcntlArg, OFlag, RenameFlags, fcntl, readlinkat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::time::ClockId;
use nix::unistd::{Gid, UnlinkatFlags, fchown, fchownat, geteuid, symlinkat, unlinkat};

use super::error::{Error, Result, errno};
use super::liveness::{OwnFiles, PeerFile};

mod config;
pub(crate) mod making;

pub use config::Config;

fn folder_mode(group: Option<u32>) -> u32 {
    if group.is_some() { 0o770 } else { 0o700 }
}

/// Names beyond are not read: more than all slots, bells and ports of a folder in use.
pub const NAMES: usize = 1 << 18;

/// An open, verified folder.
#[derive(Debug)]
pub struct Folder {
    fd: Descriptor,
    path: PathBuf,
    group: Option<u32>,
    may_be_renamed: bool,
}

impl Folder {
    /// Opens the folder, making it when it is missing.
    ///
    /// Errors: [`Error::Folder`] when what stands there is a symbolic link, not a folder, another user's, or
    /// open to more users than it should be, or when others may have put it there; [`Error::Os`] when it
    /// can neither be opened nor made, for example by a user outside of the group (`fchown`, `EPERM`). Nothing
    /// is left behind then.
    pub fn open(config: &Config) -> Result<Self> {
        Self::open_or(config, true)
    }

    /// As [`Folder::open`] where there is one; `None` otherwise, and nothing is made.
    ///
    /// # Errors
    /// As said there.
    pub fn find(config: &Config) -> Result<Option<Self>> {
        match Self::open_or(config, false) {
            Err(Error::Os { errno: libc::ENOENT, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    fn open_or(config: &Config, makes: bool) -> Result<Self> {
        let path = &config.path;
        let name = path.file_name().ok_or(Error::Folder("its path ends with no name"))?;
        let name = c_path(name.as_bytes())?;
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = open_at(AT_FDCWD, &c_path(parent.as_os_str().as_bytes())?, libc::O_PATH)?;
        let may_be_renamed = check_parent(&parent, config.group)?;
        let open = || open_at(parent.as_fd(), &name, libc::O_RDONLY | libc::O_NOFOLLOW);
        let fd = match open() {
            Err(Error::Os { errno: libc::ENOENT, .. }) if makes => {
                make_folder(&parent, &name, config, may_be_renamed)?;
                open()
            }
            other => other,
        }?;
        verify(&fd, config.group, folder_mode(config.group))?;
        if may_be_renamed && !is_marked(&fd, &name) {
            return Err(Error::Folder(
                "everybody may have put it there (its parent is writable for all and not sticky), and it was \
                 not made there by this library",
            ));
        }
        Ok(Folder { fd: Descriptor::new(fd)?, path: path.clone(), group: config.group, may_be_renamed })
    }

    /// The same by a descriptor of this number or a higher one, where one is free: a program may count on low
    /// ones.
    #[must_use]
    pub fn out_of_the_way(self, floor: RawFd) -> Self {
        let copy = self.fd().ok().and_then(|fd| fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(floor)).ok());
        // SAFETY: the call just made the descriptor, which nobody else knows.
        let copy = copy.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        match copy.map(Descriptor::new) {
            Some(Ok(fd)) => Folder { fd, ..self },
            _ => self,
        }
    }

    /// When a name came or went last, as a number that is not 0; `None` where that is not known, or so short
    /// ago that the next change may have the same time.
    pub fn changed(&self) -> Option<u64> {
        /// The clock of files stands still for up to ten milliseconds.
        const COARSE: u64 = 20_000_000;
        let stat = sys::stat(self.raw()).ok()?;
        let nanoseconds =
            |seconds: i64, rest: i64| Some(u64::try_from(seconds).ok()? * 1_000_000_000 + rest as u64);
        let changed = nanoseconds(stat.st_mtime, stat.st_mtime_nsec)?;
        let now = ClockId::CLOCK_REALTIME.now().ok()?;
        let age = nanoseconds(now.tv_sec(), now.tv_nsec())?.checked_sub(changed)?;
        (age >= COARSE && changed != 0).then_some(changed)
    }

    /// Whether other users may be in it: the members of a group.
    pub fn is_shared(&self) -> bool {
        self.group.is_some()
    }

    /// The path it was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file of this name, which nothing has yet, for the folder's users.
    ///
    /// # Errors
    /// `EEXIST` where something has it; those of the system, after which there is none.
    pub fn create(&self, name: &CStr) -> Result<OwnedFd> {
        let file = self.open_file(name, libc::O_CREAT | libc::O_EXCL)?;
        match self.adopt(&file) {
            Ok(()) => Ok(file),
            Err(why) => {
                let _ = self.remove(name);
                Err(why)
            }
        }
    }

    /// The number of the folder's descriptor; -1 when the program closed it, whatever it opened in its place.
    pub fn descriptor(&self) -> RawFd {
        self.raw()
    }

    /// The descriptor, for the `*at` calls; none (-1) when the program closed it, whatever it opened in its
    /// place.
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.raw()
    }

    /// As [`Folder::descriptor`], for calls that take no number.
    ///
    /// # Errors
    /// `EBADF` when the program closed it.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        Ok(sys::borrowed(self.raw())?)
    }

    /// Gives a file another name, which nothing has yet.
    ///
    /// Errors: `EEXIST` where something has it, `ENOENT` where the file has lost its own.
    pub fn rename(&self, from: &CStr, to: &CStr) -> Result<()> {
        rename(self.fd()?, from, to)
    }

    /// The group that shares the folder.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// As [`Folder::adopt`] for a socket, which cannot be opened: by its name, in the folder where
    /// [`Folder::place`] has it made.
    pub fn adopt_socket(&self, name: &CStr) -> Result<()> {
        let (found, stat) = self.look(name)?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFSOCK || stat.st_nlink != 1 {
            return Err(Error::Corrupt("not a socket"));
        }
        let mode = self.file_mode();
        if let Some(gid) = self.group.map(Gid::from_raw) {
            fchownat(&found, c"", None, Some(gid), AtFlags::AT_EMPTY_PATH)
                .map_err(|_| Error::last("fchownat"))?;
        }
        if stat.st_mode & 0o777 == mode {
            return Ok(());
        }
        let path = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|_| Error::last("chmod"))
    }

    /// Gives a file that was just made here the group and mode that the folder's users need.
    pub(crate) fn adopt(&self, fd: &OwnedFd) -> Result<()> {
        give(fd, self.group, self.file_mode())
    }

    fn folder_mode(&self) -> u32 {
        folder_mode(self.group)
    }

    /// Mode of the files in the folder.
    pub(crate) fn file_mode(&self) -> u32 {
        if self.group.is_some() { 0o660 } else { 0o600 }
    }

    /// Looks at what a name means, without opening it: a descriptor that stands for the file and reaches
    /// nothing of it, and its `fstat`. If the name is given to another file afterwards, that changes nothing
    /// ([`Folder::open_found`]). Closing this descriptor drops no record lock, unlike that of an open file.
    pub(crate) fn look(&self, name: &CStr) -> Result<(OwnedFd, libc::stat)> {
        let found = openat(self.fd()?, name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
        let stat = sys::stat(found.as_raw_fd())?;
        Ok((found, stat))
    }

    /// Opens what [`Folder::look`] found, for reading and writing, without waiting.
    pub(crate) fn open_found(&self, name: &CStr, found: &OwnedFd) -> Result<OwnedFd> {
        let path = c_path(format!("/proc/self/fd/{}", found.as_raw_fd()).as_bytes())?;
        match openat(AT_FDCWD, &path, libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY, 0) {
            Err(Error::Os { errno: libc::ENOENT, .. }) => {}
            other => return other,
        }
        // No /proc: by the name, which may mean another file by now.
        let file = self.open_file(name, 0)?;
        let identity = |st: libc::stat| (st.st_dev, st.st_ino);
        if identity(sys::stat(file.as_raw_fd())?) != identity(sys::stat(found.as_raw_fd())?) {
            // It may be this process's own, which must not be closed.
            std::mem::forget(file);
            return Err(Error::Gone);
        }
        Ok(file)
    }

    /// Opens a file of the folder for reading and writing, without ever following a link or waiting. What
    /// others may have put there is better [looked](Folder::look) at before.
    pub(crate) fn open_file(&self, name: &CStr, extra: i32) -> Result<OwnedFd> {
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | extra;
        openat(self.fd()?, name, flags, self.file_mode())
    }

    /// A descriptor that stands for a socket of the folder, wherever its name leads by now, and for nothing to
    /// which a link leads.
    ///
    /// # Errors
    /// [`Error::Corrupt`] of what is no socket; those of the system.
    pub fn socket(&self, name: &CStr) -> Result<OwnedFd> {
        let (found, stat) = self.look(name)?;
        let is_socket = stat.st_mode & libc::S_IFMT == libc::S_IFSOCK;
        is_socket.then_some(found).ok_or(Error::Corrupt("not a socket"))
    }

    /// Opens for reading what a process of the folder made with [`Folder::create`]; not what others gave its
    /// name that has another kind, group or mode, nor a file by which this process declared that it lives.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for the former; EBUSY for the latter; those of the system.
    pub fn open_made(&self, name: &CStr) -> Result<Made> {
        let (found, stat) = self.look(name)?;
        let for_the_group = stat.st_mode & 0o777 == self.file_mode() && Some(stat.st_gid) == self.group;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG || self.is_shared() && !for_the_group {
            return Err(Error::Corrupt("not a file that was made here"));
        }
        if OwnFiles::has(&stat) {
            return Err(Error::Os { call: "openat", errno: libc::EBUSY });
        }
        Ok(Made(PeerFile::new(self.open_found(name, &found)?)?))
    }

    /// [`Folder::open_file`] for reading alone.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open_to_read(&self, name: &CStr) -> Result<OwnedFd> {
        openat(self.fd()?, name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0)
    }

    /// Makes a symbolic link under a name that nothing has yet.
    ///
    /// # Errors
    /// `EEXIST` where something has it; `ENOENT` where the folder was removed; those of the system.
    pub fn write_link(&self, target: &CStr, name: &CStr) -> Result<()> {
        symlinkat(target, self.fd()?, name).map_err(|_| Error::last("symlinkat"))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` of what is none; those of the system.
    pub fn read_link(&self, name: &CStr) -> Result<OsString> {
        readlinkat(self.fd()?, name).map_err(|_| Error::last("readlinkat"))
    }

    /// Removes a name. A name that is already gone is no error.
    pub fn remove(&self, name: &CStr) -> Result<()> {
        match unlinkat(self.fd()?, name, UnlinkatFlags::NoRemoveDir).map_err(|_| errno()) {
            Ok(()) | Err(libc::ENOENT) => Ok(()),
            Err(errno) => Err(Error::Os { call: "unlinkat", errno }),
        }
    }

    /// All names in the folder but `.` and `..`; of more than [`NAMES`] these many, so that who may write to it
    /// does not take up everybody's memory.
    pub fn names(&self) -> Result<Vec<CString>> {
        let mut names = Vec::new();
        let told = self.each_name(|name| {
            if names.len() == NAMES {
                return Err(Error::NoMemory);
            }
            let bytes = try_collect(name.to_bytes_with_nul().iter().copied())?;
            Ok(names.try_push(CString::from_vec_with_nul(bytes).unwrap_or_default())?)
        });
        if names.len() < NAMES {
            told?;
        }
        Ok(names)
    }

    /// Tells all names in the folder but `.` and `..`, of which there may be more than there is memory for,
    /// without asking for any. Ends at the first error.
    pub(crate) fn each_name(&self, tell: impl FnMut(&CStr) -> Result<()>) -> Result<()> {
        each_name(self.fd()?, tell)
    }
}

/// A file that some process made in the folder. It stays open after all where closing it would drop this
/// process's own declaration of life ([`super::liveness`]).
#[derive(Debug)]
pub struct Made(PeerFile);

impl AsFd for Made {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor was opened for this value, which closes it.
        unsafe { BorrowedFd::borrow_raw(self.0.raw()) }
    }
}

/// `openat`; the descriptor is closed by `exec`. The mode is only read with `O_CREAT`.
fn openat(folder: BorrowedFd<'_>, name: &CStr, flags: i32, mode: u32) -> Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(flags | libc::O_CLOEXEC);
    nix::fcntl::openat(folder, name, flags, Mode::from_bits_retain(mode)).map_err(|_| Error::last("openat"))
}

fn rename(folder: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<()> {
    nix::fcntl::renameat2(folder, from, folder, to, RenameFlags::RENAME_NOREPLACE)
        .map_err(|_| Error::last("renameat2"))
}

/// As [`Folder::each_name`].
fn each_name(folder: BorrowedFd<'_>, tell: impl FnMut(&CStr) -> Result<()>) -> Result<()> {
    // A new open file description, because reading moves its position.
    let again = openat(folder, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    listing::each_name(again.as_fd(), tell)
}

fn c_path(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::Folder("its path has a zero byte"))
}

/// Opens a folder.
fn open_at(parent: BorrowedFd<'_>, name: &CStr, flags: i32) -> Result<OwnedFd> {
    openat(parent, name, flags | libc::O_DIRECTORY, 0).map_err(|e| match e.errno() {
        libc::ENOTDIR | libc::ELOOP => Error::Folder("it is not a folder, or a symbolic link"),
        libc::EACCES => Error::Folder("it is closed to this user"),
        errno => Error::Os { call: "open", errno },
    })
}

/// Whether everybody may rename what stands in this folder.
fn check_parent(parent: &OwnedFd, group: Option<u32>) -> Result<bool> {
    let st = sys::stat(parent.as_raw_fd())?;
    if st.st_mode & libc::S_IWOTH == 0 {
        return Ok(false);
    }
    if st.st_mode & libc::S_ISVTX == 0 {
        return match group {
            None => Ok(true),
            Some(_) => {
                Err(Error::Folder("everybody may replace it (its parent is writable for all and not sticky)"))
            }
        };
    }
    if st.st_mode & libc::S_ISGID != 0 && Some(st.st_gid) == group {
        return Err(Error::Folder("everybody may make it (its parent is writable for all and set-group-id)"));
    }
    Ok(false)
}

/// A symbolic link in a folder to the name that the folder was made for.
const MARK: &CStr = c".name";

/// Whether the folder was made for this name.
fn is_marked(fd: &OwnedFd, name: &CStr) -> bool {
    // One byte more than a name can have.
    let mut target = [0u8; 256];
    // SAFETY: the name is a C string constant, and `target` is writable for its length.
    let n =
        unsafe { libc::readlinkat(fd.as_raw_fd(), MARK.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    usize::try_from(n).is_ok_and(|n| target.get(..n) == Some(name.to_bytes()))
}

/// Marks a folder that was just made.
fn mark(fd: &OwnedFd, name: &CStr) -> Result<()> {
    symlinkat(name, fd, MARK).map_err(|_| Error::last("symlinkat"))
}

/// Makes the folder, unless somebody else does meanwhile.
fn make_folder(parent: &OwnedFd, name: &CStr, config: &Config, may_be_renamed: bool) -> Result<()> {
    let at = parent.as_fd();
    let temporary = c_path(format!(".ironverbs-{:016x}", sys::random()?).as_bytes())?;
    mkdirat(at, temporary.as_c_str(), Mode::S_IRWXU).map_err(|_| Error::last("mkdir"))?;
    let mut marked = None;
    let made = (|| {
        let fd = open_at(at, &temporary, libc::O_RDONLY | libc::O_NOFOLLOW)?;
        // Where others may rename, it may be another one of this user by now, to which nothing must be done.
        making::check_private(&fd)?;
        if may_be_renamed {
            mark(&fd, name)?;
        }
        let fd = marked.insert(fd);
        // Nothing here depends on the umask, unless that takes the owner's own rights away, which ends at the
        // open above.
        give(fd, config.group, folder_mode(config.group))?;
        verify(fd, config.group, folder_mode(config.group))?;
        rename(at, &temporary, name)
    })();
    if made.is_ok() {
        return Ok(());
    }
    if let Some(fd) = marked.filter(|_| may_be_renamed) {
        let _ = unlinkat(fd, MARK, UnlinkatFlags::NoRemoveDir);
    }
    // Nobody but this function knows the name, and a folder with something in it stays.
    let _ = unlinkat(at, temporary.as_c_str(), UnlinkatFlags::RemoveDir);
    match made {
        Err(Error::Os { call: "renameat2", errno: libc::EEXIST }) => Ok(()),
        other => other,
    }
}

fn give(fd: &OwnedFd, group: Option<u32>, mode: u32) -> Result<()> {
    if let Some(gid) = group.map(Gid::from_raw) {
        fchown(fd, None, Some(gid)).map_err(|_| Error::last("fchown"))?;
    }
    fchmod(fd, Mode::from_bits_retain(mode)).map_err(|_| Error::last("fchmod"))
}

fn verify(fd: &OwnedFd, group: Option<u32>, wanted: u32) -> Result<()> {
    let st = sys::stat(fd.as_raw_fd())?;
    let mode = st.st_mode & 0o777;
    let me = geteuid().as_raw();
    match group {
        None if st.st_uid != me => return Err(Error::Folder("it belongs to another user")),
        Some(gid) if st.st_gid != gid => return Err(Error::Folder("it belongs to another group")),
        _ => {}
    }
    if mode & !wanted != 0 {
        return Err(Error::Folder("users may enter it who should not (mode is wider than 0700 or 0770)"));
    }
    if mode != wanted {
        return Err(Error::Folder("its mode keeps out who should enter"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::TestDir;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_mode_does_not_depend_on_the_umask() {
        let dir = TestDir::new("folder");
        // SAFETY: reads a number of the process.
        let gid = unsafe { libc::getegid() };
        // The umask is the whole process's; the other tests of this binary set the modes they need themselves.
        // SAFETY: umask cannot fail.
        let old = unsafe { libc::umask(0o077) };
        for (name, group, mode) in [("a", None, 0o700), ("b", Some(gid), 0o770)] {
            let config = Config { path: dir.path().join(name), group };
            Folder::open(&config).unwrap();
            assert_eq!(std::fs::metadata(&config.path).unwrap().permissions().mode() & 0o7777, mode);
            Folder::open(&config).unwrap();
        }
        // SAFETY: as above.
        unsafe { libc::umask(old) };
    }

    #[test]
    fn refuses_what_it_cannot_trust() {
        let dir = TestDir::new("folder");
        let at = |name: &str| Config { path: dir.path().join(name), group: None };
        std::fs::create_dir(dir.path().join("wide")).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            std::fs::set_permissions(dir.path().join("wide"), PermissionsExt::from_mode(mode)).unwrap();
            assert!(matches!(Folder::open(&at("wide")), Err(Error::Folder(_))), "{mode:o}");
        }
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::set_permissions(dir.path().join("real"), PermissionsExt::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        assert!(matches!(Folder::open(&at("link")), Err(Error::Folder(_))));
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert!(matches!(Folder::open(&at("file")), Err(Error::Folder(_))));
        assert!(matches!(
            Folder::open(&at("no/parent")),
            Err(Error::Os { call: "open", errno: libc::ENOENT })
        ));
        assert!(Folder::open(&at("real")).is_ok());
        assert!(matches!(Folder::open(&at("..")), Err(Error::Folder(_))));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "nothing else was left");
    }

    #[test]
    #[ignore = "needs root"]
    fn refuses_another_users() {
        let dir = TestDir::new("folder");
        let config = Config { path: dir.path().join("a"), group: None };
        drop(Folder::open(&config).unwrap());
        std::os::unix::fs::chown(&config.path, Some(65534), None).unwrap();
        assert!(matches!(Folder::open(&config), Err(Error::Folder(_))));
    }

    #[test]
    fn group_folder() {
        let dir = TestDir::new("folder");
        // SAFETY: reads a number of the process.
        let gid = unsafe { libc::getegid() };
        let config = Config { path: dir.path().join("g"), group: Some(gid) };
        let folder = Folder::open(&config).unwrap();
        assert!(folder.is_shared());
        assert_eq!(std::fs::metadata(&config.path).unwrap().permissions().mode() & 0o7777, 0o770);
        // The same folder without the opt-in is too wide.
        assert!(matches!(
            Folder::open(&Config { path: config.path.clone(), group: None }),
            Err(Error::Folder(_))
        ));
    }
}
