//! The folder in shared memory where the processes that may talk to each other meet.
//!
//! | variable | effect |
//! |---|---|
//! | none | `/dev/shm/ironverbs-UID`, mode 0700, files 0600: the processes of one user |
//! | `IRONVERBS_SOFT_GROUP=GID` | `/dev/shm/ironverbs-group-GID`, mode 0770, files 0660: all members of the group |
//! | `IRONVERBS_SOFT_DIR=PATH` | this folder instead, by its full path, with the same owner and mode; must be on a file system with shared mappings |
//!
//! `/dev/shm` is writable for everybody, so a folder that another user made first must not be used: owner, mode and type
//! are checked through the open descriptor, and all files are then reached through that descriptor alone. For a group the
//! owner may be any member: the kernel lets nobody give a folder to a group in which they are not (root aside), so the
//! folder's group proves it.

use std::env;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::{Error, Result};

/// How long a folder that another process is making right now may lack its final mode.
const SETTLE: Duration = Duration::from_millis(200);

/// Where the folder is and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The folder. Its parent must exist.
    pub path: PathBuf,
    /// Share with the members of this group instead of keeping it to the user.
    pub group: Option<u32>,
}

impl Config {
    /// What the environment asks for; the defaults are in the module's documentation.
    ///
    /// A group that is not a number is refused, so that a typing mistake does not end in another folder, and so is a relative
    /// path, which processes with other working directories would take for another folder.
    pub fn from_env() -> Result<Self> {
        Self::from_values(env::var_os("IRONVERBS_SOFT_DIR"), env::var_os("IRONVERBS_SOFT_GROUP"))
    }

    /// As [`Config::from_env`], with the values of both variables from somewhere else: a set-user-id program must not take
    /// them from its caller.
    pub fn from_values(dir: Option<OsString>, group: Option<OsString>) -> Result<Self> {
        let dir = dir.filter(|d| !d.is_empty());
        let group = group.filter(|g| !g.is_empty());
        let group = match group {
            Some(g) => Some(
                g.to_str()
                    .and_then(|g| g.parse::<u32>().ok())
                    .filter(|g| *g != u32::MAX)
                    .ok_or(Error::Folder("IRONVERBS_SOFT_GROUP is not a numeric group id"))?,
            ),
            None => None,
        };
        let path = match (dir, group) {
            (Some(dir), _) if Path::new(&dir).is_relative() => {
                return Err(Error::Folder("IRONVERBS_SOFT_DIR is not a full path"));
            }
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(gid)) => PathBuf::from(format!("/dev/shm/ironverbs-group-{gid}")),
            // SAFETY: geteuid reads a number of the process and cannot fail.
            (None, None) => PathBuf::from(format!("/dev/shm/ironverbs-{}", unsafe { libc::geteuid() })),
        };
        Ok(Config { path, group })
    }

    fn folder_mode(&self) -> u32 {
        if self.group.is_some() { 0o770 } else { 0o700 }
    }
}

/// An open, verified folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    group: Option<u32>,
}

impl Folder {
    /// Opens the folder, making it when it is missing.
    ///
    /// Errors: [`Error::Folder`] when what stands there is a symbolic link, not a folder, another user's, or open to
    /// more users than it should be.
    pub fn open(config: &Config) -> Result<Self> {
        let path = CString::new(config.path.as_os_str().as_bytes())
            .map_err(|_| Error::Folder("its path has a zero byte"))?;
        // SAFETY: `path` is a C string that lives across the call.
        let made = unsafe { libc::mkdir(path.as_ptr(), config.folder_mode()) } == 0;
        if !made && super::error::errno() != libc::EEXIST {
            return Err(Error::last("mkdir"));
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `path` is a C string that lives across the call.
        let fd = unsafe { libc::open(path.as_ptr(), flags) };
        if fd < 0 {
            return Err(match super::error::errno() {
                libc::ENOTDIR | libc::ELOOP => Error::Folder("it is not a folder, or a symbolic link"),
                libc::EACCES => Error::Folder("it is closed to this user"),
                _ => Error::last("open"),
            });
        }
        // SAFETY: open returned this descriptor, and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if made {
            // The group first: changing it may clear mode bits. Neither call depends on the umask, unless that takes
            // the owner's own rights away, which ends at the open above.
            give(&fd, config.group, config.folder_mode())?;
        }
        let deadline = Instant::now() + SETTLE;
        loop {
            match verify(&fd, config) {
                Ok(()) => break,
                Err((_, true)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                Err((e, _)) => return Err(e),
            }
        }
        Ok(Folder { fd, path: config.path.clone(), group: config.group })
    }

    /// Whether other users may be in it.
    pub fn is_shared(&self) -> bool {
        self.group.is_some()
    }

    /// The path it was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, for the `*at` calls.
    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether members of a group share the folder.
    pub fn shared_with_group(&self) -> bool {
        self.group.is_some()
    }

    /// Gives a file that was just made here the group and mode that the folder's users need.
    pub(crate) fn adopt(&self, fd: &OwnedFd) -> Result<()> {
        give(fd, self.group, self.file_mode())
    }

    /// Mode of the files in the folder.
    pub(crate) fn file_mode(&self) -> u32 {
        if self.group.is_some() { 0o660 } else { 0o600 }
    }

    /// Opens a file of the folder for reading and writing, without ever following a link or waiting.
    pub(crate) fn open_file(&self, name: &CStr, extra: i32) -> Result<OwnedFd> {
        let flags =
            libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | extra;
        // SAFETY: `name` is a C string that lives across the call; the mode is only read with O_CREAT.
        let fd = unsafe { libc::openat(self.raw(), name.as_ptr(), flags, self.file_mode()) };
        if fd < 0 {
            return Err(Error::last("openat"));
        }
        // SAFETY: openat returned this descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Removes a name. A name that is already gone is no error.
    pub(crate) fn remove(&self, name: &CStr) -> Result<()> {
        // SAFETY: `name` is a C string that lives across the call.
        if unsafe { libc::unlinkat(self.raw(), name.as_ptr(), 0) } == 0
            || super::error::errno() == libc::ENOENT
        {
            return Ok(());
        }
        Err(Error::last("unlinkat"))
    }

    /// All names in the folder but `.` and `..`.
    pub(crate) fn names(&self) -> Result<Vec<CString>> {
        let mut names = Vec::new();
        self.each_name(|name| {
            names.try_reserve(1)?;
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    /// Tells all names in the folder but `.` and `..`, of which there may be more than there is memory for. Ends at the first
    /// error.
    pub(crate) fn each_name(&self, mut tell: impl FnMut(&CStr) -> Result<()>) -> Result<()> {
        // A new open file description, because reading moves its position.
        // SAFETY: the path is a C string constant.
        let fd = unsafe {
            libc::openat(self.raw(), c".".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC)
        };
        if fd < 0 {
            return Err(Error::last("openat"));
        }
        // SAFETY: `fd` is an open folder that nobody else owns; fdopendir takes it over when it succeeds.
        let dir = unsafe { libc::fdopendir(fd) };
        if dir.is_null() {
            let e = Error::last("fdopendir");
            // SAFETY: fdopendir failed, so the descriptor is still ours and open.
            unsafe { libc::close(fd) };
            return Err(e);
        }
        let mut told = Ok(());
        while told.is_ok() {
            // SAFETY: `dir` is an open stream that only this function uses.
            let entry = unsafe { libc::readdir(dir) };
            if entry.is_null() {
                break;
            }
            // SAFETY: readdir returned an entry, valid until the next call, whose name ends with a zero byte.
            let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
            if name != c"." && name != c".." {
                told = tell(name);
            }
        }
        // SAFETY: `dir` is open, and is not used after this.
        unsafe { libc::closedir(dir) };
        told
    }
}

fn give(fd: &OwnedFd, group: Option<u32>, mode: u32) -> Result<()> {
    if let Some(gid) = group {
        // SAFETY: plain system call on an open descriptor; an owner of all ones means unchanged.
        if unsafe { libc::fchown(fd.as_raw_fd(), u32::MAX, gid) } != 0 {
            return Err(Error::last("fchown"));
        }
    }
    // SAFETY: plain system call on an open descriptor.
    if unsafe { libc::fchmod(fd.as_raw_fd(), mode) } != 0 {
        return Err(Error::last("fchmod"));
    }
    Ok(())
}

/// The error, and whether waiting may help because its maker has not finished.
fn verify(fd: &OwnedFd, config: &Config) -> std::result::Result<(), (Error, bool)> {
    let st = super::sys::stat(fd.as_raw_fd()).map_err(|e| (e, false))?;
    let mode = st.st_mode & 0o7777;
    let wanted = config.folder_mode();
    if st.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return Err((Error::Folder("it is not a folder"), false));
    }
    // SAFETY: geteuid reads a number of the process and cannot fail.
    let me = unsafe { libc::geteuid() };
    match config.group {
        None if st.st_uid != me => return Err((Error::Folder("it belongs to another user"), false)),
        Some(gid) if st.st_gid != gid => {
            return Err((Error::Folder("it belongs to another group"), true));
        }
        _ => {}
    }
    if mode & 0o777 & !wanted != 0 {
        return Err((
            Error::Folder("users may enter it who should not (mode is wider than 0700 or 0770)"),
            false,
        ));
    }
    if mode & 0o777 != wanted {
        return Err((Error::Folder("its mode keeps out who should enter"), true));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::TestDir;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn environment() {
        let values =
            |d: Option<&str>, g: Option<&str>| Config::from_values(d.map(Into::into), g.map(Into::into));
        // SAFETY: reads a number of the process.
        let uid = unsafe { libc::geteuid() };
        assert_eq!(values(None, None).unwrap().path, PathBuf::from(format!("/dev/shm/ironverbs-{uid}")));
        assert_eq!(values(Some(""), Some("")).unwrap().group, None);
        let c = values(None, Some("100")).unwrap();
        assert_eq!((c.path.to_str().unwrap(), c.group), ("/dev/shm/ironverbs-group-100", Some(100)));
        let c = values(Some("/x"), Some("7")).unwrap();
        assert_eq!((c.path.to_str().unwrap(), c.group), ("/x", Some(7)));
        for bad in ["users", "-1", "4294967295", "1 "] {
            assert!(matches!(values(None, Some(bad)), Err(Error::Folder(_))), "{bad}");
        }
        assert!(matches!(values(Some("shm/x"), None), Err(Error::Folder(_))));
    }

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
            Err(Error::Os { call: "mkdir", errno: libc::ENOENT })
        ));
        assert!(Folder::open(&at("real")).is_ok());
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
        assert!(folder.shared_with_group());
        assert_eq!(std::fs::metadata(&config.path).unwrap().permissions().mode() & 0o7777, 0o770);
        // The same folder without the opt-in is too wide.
        assert!(matches!(
            Folder::open(&Config { path: config.path.clone(), group: None }),
            Err(Error::Folder(_))
        ));
    }
}
