//! Ids of rdma_cm that have a port, from the folders of network namespaces, in which the connection manager of
//! each process keeps what others must know (`ucma/src/registry`): its names are read here, and nothing is
//! opened but folders.
//!
//! What an id without a port does, and how far a connection is, its process alone knows.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use softrdma::shm::folder::Folder;

use super::item::{Item, Value};

/// Records that are read: who may write to the folder must not take up the reader's memory.
const RECORDS: usize = 1 << 16;
/// More characters than a record has.
const LENGTH: usize = 512;

/// The ids of all processes, by process.
pub struct Ports {
    ids: Vec<(Option<i32>, Vec<Item>)>,
}

impl Ports {
    /// Reads them. `pids` are processes that are looked at first for whose they are.
    pub fn of(main: &Folder, pids: impl Iterator<Item = i32>) -> Self {
        let mut by_owner: HashMap<CString, Vec<Item>> = HashMap::new();
        let mut files = HashMap::new();
        let mut left = RECORDS;
        for name in main.names().unwrap_or_default() {
            if !name.to_bytes().starts_with(b"cm-") {
                continue;
            }
            let Ok(namespace) = main.existing_folder(&name) else { continue };
            for name in namespace.names().unwrap_or_default() {
                let Some((space, _)) = port(&name) else { continue };
                let Ok(place) = namespace.existing_folder(&name) else { continue };
                for name in place.names().unwrap_or_default() {
                    let Some((owner, item)) = record(&place, &name, space).filter(|_| left > 0) else {
                        continue;
                    };
                    left -= 1;
                    if let Some(file) = identity(&namespace, &owner) {
                        files.insert(owner.clone(), file);
                    }
                    by_owner.entry(owner).or_default().push(item);
                }
            }
        }
        // What a dead process left has its file's name still, and nobody has the file open.
        by_owner.retain(|owner, _| files.contains_key(owner));
        let mut ids: Vec<(Option<i32>, Vec<Item>)> = Vec::new();
        let mut of = |pid: i32| {
            for owner in owners(pid, &files) {
                ids.extend(by_owner.remove(&owner).map(|items| (Some(pid), items)));
            }
            by_owner.is_empty()
        };
        if !of_all(pids, &mut of) {
            let others = fs::read_dir("/proc").into_iter().flatten().flatten();
            let pids = others.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            of_all(pids, &mut of);
        }
        Ports { ids }
    }

    /// Those of a process.
    pub fn take(&mut self, pid: i32) -> Vec<Item> {
        let mut found = Vec::new();
        self.ids.retain_mut(|(of, items)| {
            let is_of = *of == Some(pid);
            if is_of {
                found.append(items);
            }
            !is_of
        });
        found
    }

    /// Those that nobody has taken, of one process alone where `only` says so.
    pub fn rest(self, only: Option<u32>) -> Vec<(Option<i32>, Vec<Item>)> {
        let is_wanted = |pid: &Option<i32>| only.is_none_or(|only| pid.is_some_and(|pid| pid as u32 == only));
        self.ids.into_iter().filter(|(pid, _)| is_wanted(pid)).collect()
    }
}

fn of_all(mut pids: impl Iterator<Item = i32>, of: &mut impl FnMut(i32) -> bool) -> bool {
    pids.any(of)
}

/// Port space and number that a folder's name says.
fn port(name: &CStr) -> Option<(&'static str, u16)> {
    let (space, number) = name.to_str().ok()?.strip_prefix('p')?.split_once('-')?;
    let word = |text| u16::from_str_radix(text, 16).ok();
    let space = match word(space)? {
        0x0002 => "IPOIB",
        0x0106 => "TCP",
        0x0111 => "UDP",
        0x013f => "IB",
        _ => return None,
    };
    Some((space, word(number)?))
}

/// What an id has, and the name of its process's file.
fn record(place: &Folder, name: &CStr, space: &'static str) -> Option<(CString, Item)> {
    let (owner, _) = name.to_str().ok()?.split_once('-')?;
    let is_number = owner.len() == 16 && owner.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = place.read_link(name).ok().filter(|text| is_number && text.len() < LENGTH)?;
    let mut fields = std::str::from_utf8(text.as_bytes()).ok()?.split('.').skip(2);
    let listens = u64::from_str_radix(fields.next()?, 16).ok()? != 0;
    let (source, destination) = (address(fields.next()?), address(fields.next()?));
    let item = Item::plain(vec![
        ("source", source.into()),
        ("space", space.into()),
        ("listens", Value::Flag(listens)),
        ("destination", destination.into()),
    ]);
    Some((CString::new(format!("o{owner}")).ok()?, item))
}

/// The address whose bytes these digits are.
fn address(text: &str) -> Option<String> {
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..text.len() / 2).map(byte).collect::<Option<_>>()?;
    socket_address(&bytes)
}

/// The address in the bytes of a `sockaddr`; nothing of one that is none of IP's.
pub fn socket_address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        libc::AF_IB => return Some("IB".to_owned()),
        _ => return None,
    };
    if ip.is_unspecified() && port == 0 {
        return None;
    }
    Some(SocketAddr::new(ip, port).to_string())
}

/// Which file a name of the folder means.
fn identity(folder: &Folder, name: &CStr) -> Option<(u64, u64)> {
    let stat = nix::sys::stat::fstatat(folder.fd().ok()?, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Of these files, those that a process has open.
fn owners(pid: i32, files: &HashMap<CString, (u64, u64)>) -> Vec<CString> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let found = open.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let name = CString::new(target.file_name()?.as_bytes()).ok()?;
        let file = fs::metadata(entry.path()).ok()?;
        (files.get(&name) == Some(&(file.dev(), file.ino()))).then_some(name)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_their_bytes() {
        assert_eq!(address("0200201c7f0000010000000000000000").as_deref(), Some("127.0.0.1:8220"));
        let v6 = "0a00201c00000000000000000000000000000000000000010000000000";
        assert_eq!(address(v6).as_deref(), Some("[::1]:8220"));
        for wrong in
            ["", "02", "0200", "0200201c7f00", "zz00201c7f000001", "0200201c7f0000é1", "ff00201c7f000001"]
        {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ports_are_read_from_names() {
        assert_eq!(port(c"p0106-201c"), Some(("TCP", 0x201c)));
        for wrong in [c"p0106", c"p0107-201c", c"p0106-1201c", c"o0106-201c", c"p-"] {
            assert_eq!(port(wrong), None);
        }
    }
}
