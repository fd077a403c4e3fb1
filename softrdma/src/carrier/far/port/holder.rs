//! Who has the port where it is not to be had.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use nix::unistd::geteuid;

use super::number::udp_port;
use super::set::SOCKETS;

/// Who has the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The kernel's soft-RoCE, as far as is to be seen from here.
    SoftRoce,
    /// A program of another user.
    User(libc::uid_t),
    /// A program of this user.
    Program {
        /// Its process.
        pid: libc::pid_t,
        /// Its name, filled up with zeroes.
        name: [u8; 16],
    },
    /// Somebody who is not to be seen: a process of another PID namespace, or one that is just ending.
    Unseen,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = udp_port();
        match self {
            Holder::SoftRoce => write!(
                f,
                "UDP port {port} belongs to the kernel's soft-RoCE in this network namespace: remove its \
                 module (rdma_rxe), use another network namespace, or let all hosts use another port \
                 (ironverbs run --port)"
            ),
            Holder::User(uid) => write!(
                f,
                "UDP port {port} belongs to a program of user {uid}: one user of a network namespace can \
                 have it; another one and his peers can use another port (ironverbs run --port)"
            ),
            Holder::Program { pid, name } => {
                let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                let name = name[..length].escape_ascii();
                write!(f, "UDP port {port} belongs to process {pid} ({name}), which does not share it")
            }
            Holder::Unseen => {
                write!(f, "UDP port {port} belongs to somebody who is not to be seen from here")
            }
        }
    }
}

/// Sockets that are looked at. A set has one for each place, most of which no process has open.
const MOST: usize = 2 * SOCKETS;

/// Who has the port, by what the kernel lists; `None` where it lists nobody.
pub(super) fn look() -> Option<Holder> {
    let (mut inodes, mut count, mut user, mut of_v4) = ([0; MOST], 0, None, 0);
    // Of the thread's network namespace.
    for path in ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"] {
        of_v4 = count;
        let Ok(file) = File::open(path) else { continue };
        each_line(file, |line| {
            if let Some((uid, inode)) = entry(line)
                && let Some(place) = inodes.get_mut(count)
            {
                (*place, user) = (inode, user.or(Some(uid)));
                count += 1;
            }
        });
    }
    let uid = user?;
    if let Some((pid, name)) = process(&inodes[..count]) {
        return Some(Holder::Program { pid, name });
    }
    // It has a socket of IPv4 beside that of IPv6, where a set that is just ending has those of both alone. A
    // user namespace shows root as nobody, unless it has it.
    let may_be_the_kernels = of_v4 > 0 && (uid == 0 || uid == NOBODY);
    if may_be_the_kernels && fs::exists("/sys/module/rdma_rxe").unwrap_or(false) {
        return Some(Holder::SoftRoce);
    }
    Some(if uid == geteuid().as_raw() { Holder::Unseen } else { Holder::User(uid) })
}

/// Who stands for users that a namespace does not have.
const NOBODY: libc::uid_t = 65534;

fn each_line(file: File, mut tell: impl FnMut(&str)) {
    let mut reader = BufReader::with_capacity(4096, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        tell(str::from_utf8(&line).unwrap_or_default());
        line.clear();
    }
}

/// User and inode of a line of /proc/net/udp, where it is a socket of the port.
fn entry(line: &str) -> Option<(libc::uid_t, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (_, port) = fields.nth(1)?.rsplit_once(':')?;
    if u16::from_str_radix(port, 16) != Ok(udp_port()) {
        return None;
    }
    let uid = fields.nth(5)?.parse().ok()?;
    Some((uid, fields.nth(1)?.parse().ok()?))
}

/// A process that has one of these sockets open, among those that this one may look at.
fn process(inodes: &[u64]) -> Option<(libc::pid_t, [u8; 16])> {
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else { continue };
        let is_socket = |path: std::path::PathBuf| {
            let text = fs::read_link(path).ok();
            let text = text.as_ref().and_then(|text| text.to_str());
            let number = text.and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
            number.and_then(|number| number.parse().ok()).is_some_and(|number| inodes.contains(&number))
        };
        if files.flatten().any(|file| is_socket(file.path())) {
            let mut name = [0; 16];
            let text = fs::read(entry.path().join("comm")).unwrap_or_default();
            let text = std::ffi::OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)).as_bytes();
            name.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
            return Some((pid, name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let udp = "  123: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 \
                   45678 2 000000001a2b3c4d 0";
        assert_eq!(entry(udp), Some((1000, 45678)));
        let udp6 = "  9: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 \
                    00000000:00000000 00:00000000 00000000     0        0 18 2 0000000000000000 0";
        assert_eq!(entry(udp6), Some((0, 18)));
        let title =
            "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid inode";
        for other in [title, "", "1: 00000000:12B8 x", "1: 00000000:12B7", "1: x:12B7 0:0 7 0:0 0:0 0 y 0 1"]
        {
            assert_eq!(entry(other), None, "{other}");
        }
    }

    #[test]
    fn each_holder_has_its_line() {
        let name = *b"nc\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let program = Holder::Program { pid: 7, name }.to_string();
        assert_eq!(program, "UDP port 4791 belongs to process 7 (nc), which does not share it");
        for holder in [Holder::SoftRoce, Holder::User(5), Holder::Unseen] {
            let line = holder.to_string();
            assert!(line.starts_with("UDP port 4791 belongs to ") && !line.contains(['\n', '.']), "{line}");
        }
    }
}
