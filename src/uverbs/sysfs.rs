//! Small files of sysfs.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

use ironverbs_os::file;
use once_cell::race::OnceBox;

use crate::environment;
use crate::errno::{Errno, Result};

/// Longest path that `SYSFS_PATH` may give (bytes).
const SYSFS_PATH_MAX: usize = 256;

/// Where sysfs is: `SYSFS_PATH` without slashes at its end, or `/sys`. The variable is ignored by a program
/// that has more rights than its caller, and looked at once.
pub fn path() -> &'static CStr {
    static PATH: OnceBox<CString> = OnceBox::new();
    PATH.get_or_init(|| {
        let named = environment::trusted("SYSFS_PATH");
        Box::new(named.map_or_else(|| c"/sys".to_owned(), |path| trimmed(path.as_bytes())))
    })
}

fn trimmed(path: &[u8]) -> CString {
    let path = &path[..path.len().min(SYSFS_PATH_MAX)];
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    CString::new(&path[..end]).unwrap_or_default()
}

/// As [`path`], for building longer paths.
pub fn root() -> String {
    path().to_string_lossy().into_owned()
}

/// Reads the file `path`, relative to `dir_fd`, and returns how many bytes it has. A newline at the end is
/// taken off and a NUL put in its place, or behind the last byte.
///
/// A file that leaves no room for the NUL is an error that leaves `errno` alone.
pub fn read_at(dir_fd: RawFd, path: &CStr, buf: &mut [u8]) -> Result<usize> {
    let mut len = file::read_once(&file::open_at(dir_fd, path)?, buf)?;
    if len == 0 {
        return Ok(0);
    }
    if buf[len - 1] == b'\n' {
        len -= 1;
    } else if len == buf.len() {
        return Err(Errno::last());
    }
    buf[len] = 0;
    Ok(len)
}

/// Reads `dir`/`file` as [`read_at`] does.
pub fn read(dir: &[u8], file: &[u8], buf: &mut [u8]) -> Result<usize> {
    let path = CString::new([dir, b"/", file].concat()).map_err(|_| Errno::ENOENT.also_set())?;
    read_at(libc::AT_FDCWD, &path, buf)
}

/// Reads a file as text of less than `N` bytes; what is not UTF-8 is EINVAL.
pub(super) fn read_text<const N: usize>(path: &str) -> Result<String> {
    let path = CString::new(path).map_err(|_| Errno::ENOENT.also_set())?;
    let mut buf = [0; N];
    let len = read_at(libc::AT_FDCWD, &path, &mut buf)?;
    let text = CStr::from_bytes_until_nul(&buf[..=len.min(N - 1)]).map_err(|_| Errno::EINVAL)?;
    text.to_str().map(str::to_owned).map_err(|_| Errno::EINVAL)
}

/// The decimal number at the start of `text`, and what follows it.
pub(super) fn leading_number(text: &str) -> Option<(u32, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(|number| (number, &text[end..]))
}

/// Groups of up to four hexadecimal digits with colons between them, as GIDs, GUIDs and partition keys are
/// written.
pub(super) fn hex_groups<const N: usize>(text: &str) -> Option<[u16; N]> {
    let mut groups = [0; N];
    let mut parts = text.split(':');
    for group in &mut groups {
        let digits = parts.next()?.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        *group = u16::from_str_radix(digits, 16).ok()?;
    }
    Some(groups)
}

/// Partition key `index` of a port, in network byte order.
///
/// A file that cannot be read leaves its error in `errno`; one that holds something else is an error that
/// leaves `errno` alone.
pub fn query_pkey(ibdev_path: &str, port_num: u8, index: i32) -> Result<u16> {
    let text = read_text::<8>(&format!("{ibdev_path}/ports/{port_num}/pkeys/{index}"))?;
    hex_groups::<1>(&text).map(|[pkey]| pkey.to_be()).ok_or_else(Errno::last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file_with(content: &[u8]) -> (std::path::PathBuf, CString) {
        static NUMBER: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sysfs-test-{}-{number}", std::process::id()));
        std::fs::write(&path, content).expect("write a temporary file");
        let c_path = CString::new(path.as_os_str().as_bytes()).expect("no NUL in the path");
        (path, c_path)
    }

    fn read_back(content: &[u8], room: usize) -> Result<Vec<u8>> {
        let (path, c_path) = file_with(content);
        let mut buf = vec![0xff; room];
        let result = read_at(libc::AT_FDCWD, &c_path, &mut buf);
        std::fs::remove_file(path).expect("remove the temporary file");
        result.map(|len| {
            if len > 0 {
                assert_eq!(buf[len], 0, "the text ends with a NUL");
            }
            buf[..len].to_vec()
        })
    }

    #[test]
    fn the_newline_goes_and_a_nul_comes() {
        assert_eq!(read_back(b"4: ACTIVE\n", 32), Ok(b"4: ACTIVE".to_vec()));
        assert_eq!(read_back(b"rxe0", 5), Ok(b"rxe0".to_vec()));
        assert_eq!(read_back(b"rxe0\n", 5), Ok(b"rxe0".to_vec()));
        assert_eq!(read_back(b"", 5), Ok(Vec::new()));
    }

    #[test]
    fn text_without_room_for_its_nul_is_an_error() {
        assert!(read_back(b"rxe0", 4).is_err());
        assert!(read_back(b"longer than that", 4).is_err());
        let mut nothing = [0; 4];
        assert_eq!(read_at(libc::AT_FDCWD, c"/none/such", &mut nothing), Err(Errno::ENOENT));
    }

    #[test]
    fn slashes_at_the_end_of_the_root_are_dropped() {
        assert_eq!(trimmed(b"/tmp/sys///").as_bytes(), b"/tmp/sys");
        assert_eq!(trimmed(b"///").as_bytes(), b"");
        assert_eq!(trimmed(&[b'a'; 300]).as_bytes().len(), 256);
    }

    #[test]
    fn numbers_and_groups_read_what_the_kernel_writes() {
        assert_eq!(leading_number("231:192"), Some((231, ":192")));
        assert_eq!(leading_number("x"), None);
        assert_eq!(hex_groups::<1>("0xffff"), Some([0xffff]));
        assert_eq!(hex_groups::<4>("0250:b6ff:fe00:0001"), Some([0x250, 0xb6ff, 0xfe00, 1]));
        assert_eq!(hex_groups::<4>("0250:b6ff"), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in ".{0,64}") {
            let _ = leading_number(&text);
            let _ = hex_groups::<8>(&text);
        }
    }
}
