//! The opt-in trace, by rdma-core's convention: `VERBS_LOG_LEVEL` (0 none, 1 errors, 2 warnings, 3 information,
//! 4 debug) and `VERBS_LOG_FILE`, the file that lines are appended to, which a program with more rights than
//! its caller does not let that choose; without a file nothing is written.
//!
//! The file is opened as rdma-core opens it, by `fopen` with `a+`: made where it is missing, links followed, so
//! that `/dev/stderr` serves. Beyond that, what another user put under a name in `/tmp` must not hurt: see
//! [`open_file`].

use core::fmt;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use once_cell::race::OnceBox;

use crate::environment;
use crate::errno::Errno;
use crate::guard::uncancelled;

/// How much a line matters; the numbers are those of `VERBS_LOG_LEVEL`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Level {
    /// An operation failed in a way the program did not ask for.
    Error = 1,
    /// Something is odd but the operation goes on.
    Warning = 2,
    /// Worth knowing once.
    Info = 3,
    /// Which object, attribute and limit made a call fail.
    Debug = 4,
}

struct Sink {
    level: u32,
    file: File,
}

/// Made without a lock: a fork could leave it locked in the child.
static SINK: OnceBox<Option<Sink>> = OnceBox::new();

fn open_sink() -> Option<Sink> {
    let level = parse_level(environment::harmless("VERBS_LOG_LEVEL")?.to_str()?);
    if level == 0 {
        return None;
    }
    let file = open_file(&environment::trusted("VERBS_LOG_FILE")?).ok()?;
    Some(Sink { level, file })
}

/// Opens the log file, making it when it is missing.
///
/// Errors: those of `open`; EPERM, in a folder where others may make names too, for a symbolic link that
/// belongs neither to this user nor to root, and for a file that has more names than this one, by which the
/// trace would end in a file that this user did not mean. In other folders the owner of a link does not count:
/// in a user namespace the owner of `/dev/stderr` is unknown.
fn open_file(path: &OsStr) -> io::Result<File> {
    // Reading too, as rdma-core: a FIFO then needs no other reader, and never gives SIGPIPE. Neither the
    // opening nor a line waits for one, and no terminal becomes the process's own.
    let open = |more: i32| {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | more)
            .open(path)
    };
    let file = match open(libc::O_NOFOLLOW) {
        Err(why) if why.raw_os_error() == Some(libc::ELOOP) => {
            let owner = fs::symlink_metadata(path)?.uid();
            if owner != 0 && owner != geteuid().as_raw() && others_may_make(Path::new(path)) {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
            open(0)?
        }
        opened => opened?,
    };
    let opened = file.metadata()?;
    // What counts is where the name is that all links lead to.
    if opened.is_file()
        && opened.nlink() > 1
        && fs::canonicalize(path).map_or(true, |at| others_may_make(&at))
    {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(file)
}

/// Whether others than its folder's owner may have made this name, also where the folder cannot be looked at.
fn others_may_make(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder).map_or(true, |folder| folder.mode() & 0o022 != 0)
}

/// A decimal, `0x` hexadecimal or `0` octal number as `strtol` with base 0 reads it, cut to 32 bits: a negative
/// one is above every level. Anything else is 0.
fn parse_level(text: &str) -> u32 {
    let text = text.trim_start();
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        (hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        (text, 8)
    } else {
        (text, 10)
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let level = u32::from_str_radix(&digits[..end], radix).unwrap_or(0);
    if negative { level.wrapping_neg() } else { level }
}

/// Whether a line of this level would be written: lets a caller skip work that only the trace needs.
#[must_use]
pub fn enabled(level: Level) -> bool {
    enabled_number(level as u32)
}

/// As [`enabled`], for the numbers of plugins; false without a file.
#[must_use]
pub fn enabled_number(level: u32) -> bool {
    let sink = SINK.get().unwrap_or_else(|| uncancelled(|| SINK.get_or_init(|| Box::new(open_sink()))));
    matches!(sink, Some(sink) if level <= sink.level)
}

/// Appends text to the log file as it is.
pub fn append(text: &[u8]) {
    if let Some(Some(sink)) = SINK.get() {
        let _ = uncancelled(|| (&sink.file).write_all(text));
    }
}

/// Appends one line to the log file. The thread's `errno` is left as it was.
pub fn write(level: Level, line: fmt::Arguments<'_>) {
    let before = Errno::last();
    if enabled(level)
        && let Some(Some(sink)) = SINK.get()
    {
        // One write per line, so that lines of several threads and processes do not mix.
        let _ = uncancelled(|| (&sink.file).write_all(format!("{line}\n").as_bytes()));
    }
    before.set();
}

/// Tells the person at the program's terminal something, as rdma-core does: on standard error, which may be
/// closed.
pub fn say(line: fmt::Arguments<'_>) {
    to_standard_error(format!("libibverbs: {line}\n").as_bytes());
}

/// In one piece, so that lines of several processes do not mix, and without the lock of Rust's standard error,
/// which a fork could leave locked in the child.
fn to_standard_error(line: &[u8]) {
    // SAFETY: the descriptor is the program's and is not closed here; where it is closed already, writing
    // fails.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    let _ = uncancelled(|| (&*file).write_all(line));
}

/// As [`say`], with the word `Warning:`.
pub fn warn(line: fmt::Arguments<'_>) {
    say(format_args!("Warning: {line}"));
}

/// As [`warn`], for text that may be no UTF-8: paths, what a file says, the linker's reasons.
pub fn warn_bytes(parts: &[&[u8]]) {
    let line = [b"libibverbs: Warning: ", parts.concat().as_slice(), b"\n"].concat();
    to_standard_error(&line);
}

/// Writes a line of the given [`Level`] variant: `trace!(Debug, "create_cq: asked {cqe} entries")`.
macro_rules! trace {
    ($level:ident, $($arg:tt)+) => {
        $crate::log::write($crate::log::Level::$level, format_args!($($arg)+))
    };
}
pub(crate) use trace;

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::in_child;

    #[test]
    fn levels_are_read_as_strtol_reads_them() {
        for (text, level) in
            [("4", 4), (" 3", 3), ("0x2", 2), ("02", 2), ("2abc", 2), ("", 0), ("debug", 0), ("-1", u32::MAX)]
        {
            assert_eq!(parse_level(text), level, "{text:?}");
        }
    }

    /// A folder for one test, and a way to open a name in it as the log file; the error's number if that fails.
    struct Place(std::path::PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("log-test-{name}-{}", std::process::id()));
            fs::create_dir(&folder).expect("a new folder");
            // Others may make names in it. Were it sticky, some kernels would refuse their links by themselves.
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("a mode");
            Self(folder)
        }
        fn path(&self, name: &str) -> std::path::PathBuf {
            self.0.join(name)
        }
        fn append(&self, name: &str, line: &[u8]) -> std::result::Result<(), Option<i32>> {
            let opened = open_file(self.path(name).as_os_str()).map_err(|why| why.raw_os_error());
            opened.map(|mut file| file.write_all(line).expect("write"))
        }
        fn content(&self, name: &str) -> Vec<u8> {
            fs::read(self.path(name)).expect("read")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_are_appended_also_by_a_link_of_ones_own() {
        let place = Place::new("append");
        assert_eq!(place.append("a", b"1"), Ok(()));
        assert_eq!(place.append("a", b"2"), Ok(()));
        std::os::unix::fs::symlink(place.path("a"), place.path("link")).expect("a link");
        assert_eq!(place.append("link", b"3"), Ok(()));
        std::os::unix::fs::symlink(place.path("new"), place.path("to-new")).expect("a link");
        assert_eq!(place.append("to-new", b"4"), Ok(()));
        assert_eq!((place.content("a"), place.content("new")), (b"123".to_vec(), b"4".to_vec()));
        assert_eq!(place.append("no/folder", b""), Err(Some(libc::ENOENT)));
    }

    #[test]
    fn a_second_name_of_a_file_is_refused() {
        let place = Place::new("hard-link");
        fs::write(place.path("precious"), "x").expect("a file");
        fs::hard_link(place.path("precious"), place.path("log")).expect("a hard link");
        assert_eq!(place.append("log", b"1"), Err(Some(libc::EPERM)));
        assert_eq!(place.content("precious"), b"x");
    }

    #[test]
    fn a_fifo_without_a_reader_keeps_nobody_waiting() {
        let place = Place::new("fifo");
        let path =
            std::ffi::CString::new(place.path("log").into_os_string().into_encoded_bytes()).expect("a path");
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        let mut file = open_file(place.path("log").as_os_str()).expect("open");
        // A pipe holds less than this.
        let full = file.write_all(&vec![b'x'; 2 << 20]).map_err(|why| why.kind());
        assert_eq!(full, Err(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_second_name_where_nobody_else_could_make_it_is_the_users_own() {
        let place = Place::new("own-names");
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::write(place.path("log"), "x").expect("a file");
        fs::hard_link(place.path("log"), place.path("also")).expect("a hard link");
        assert_eq!(place.append("log", b"1"), Ok(()));
        assert_eq!(place.content("also"), b"x1");
    }

    /// In a user namespace whoever it does not know, the owner of `/dev/stderr` among them, is the overflow
    /// user.
    #[test]
    fn standard_error_is_opened_in_a_user_namespace() {
        let opened = || {
            // SAFETY: plain system calls of a process with one thread.
            unsafe {
                // Root would own /dev/stderr in there too.
                if libc::geteuid() == 0 && libc::setresuid(1234, 1234, 1234) != 0 {
                    return Err(io::Error::last_os_error());
                }
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                let user = libc::geteuid();
                if libc::unshare(libc::CLONE_NEWUSER) != 0 {
                    return Err(io::Error::last_os_error());
                }
                fs::write("/proc/self/uid_map", format!("1000 {user} 1"))?;
            }
            let (mut reader, writer) = io::pipe()?;
            // SAFETY: the pipe is open.
            unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
            for path in ["/dev/stderr", "/proc/self/fd/2"] {
                open_file(OsStr::new(path))?.write_all(b"line")?;
            }
            let mut lines = [0; 8];
            io::Read::read_exact(&mut reader, &mut lines)?;
            if lines == *b"lineline" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
        };
        let status = in_child(|| opened().map_or_else(|why| why.raw_os_error().unwrap_or(255), |()| 0));
        assert_eq!(status, 0, "the error's number");
    }

    #[test]
    #[ignore = "needs root"]
    fn another_users_link_is_not_followed() {
        let place = Place::new("foreign");
        std::os::unix::fs::symlink(place.path("precious"), place.path("log")).expect("a link");
        std::os::unix::fs::lchown(place.path("log"), Some(65534), None).expect("root");
        assert_eq!(place.append("log", b"1"), Err(Some(libc::EPERM)));
        assert!(!place.path("precious").exists());
    }
}
