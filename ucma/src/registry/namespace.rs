//! The folder of a network namespace: its name, the names in it, and what is removed with the dead.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fmt;
use std::io::{Cursor, Write};

use ironverbs_os::network::Network;
use softrdma::shm::folder::Folder;

use super::owner;
use super::port::{self, Port};

/// A network namespace, by [`Network::words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace([u64; 2]);

impl Namespace {
    /// That of the calling thread.
    pub fn current() -> Namespace {
        Namespace(Network::words(Network::current()))
    }

    /// The name of its folder.
    pub fn name(self) -> CString {
        self.with_name(CStr::to_owned)
    }

    /// Does something with it, without memory for it.
    pub fn with_name<R>(self, act: impl FnOnce(&CStr) -> R) -> R {
        let [kind, number] = self.0;
        with_text(format_args!("cm-{kind:x}-{number:x}"), act)
    }

    fn of_name(name: &CStr) -> Option<Namespace> {
        let (kind, number) = name.to_str().ok()?.strip_prefix("cm-")?.split_once('-')?;
        let word = |text| u64::from_str_radix(text, 16).ok();
        let namespace = Namespace([word(kind)?, word(number)?]);
        (namespace.name().as_c_str() == name).then_some(namespace)
    }

    /// All that have a folder.
    pub fn all(main: &Folder) -> Vec<Namespace> {
        let names = main.names().unwrap_or_default();
        names.iter().filter_map(|name| Namespace::of_name(name)).collect()
    }

    /// Removes what the dead left of folders that had no name yet. Others that are about to make one begin once
    /// more.
    pub fn sweep_unnamed(main: &Folder) {
        for name in main.names().unwrap_or_default() {
            main.sweep_private(&name, |inside| Namespace::of_name(inside).is_some());
        }
    }
}

/// What a name in the folder means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A process.
    Owner(u64),
    /// A process that begins.
    Unborn(u64),
    /// A socket of this process.
    Socket(u64),
    /// The mailbox of this process.
    Mailbox(u64),
    /// What leads to the process whose connections have numbers with these upper bits.
    Connections(u16),
    /// The folder of a port.
    Port(Port),
}

/// Does something with the text of a name or of a short path, which stands on the stack: where the process
/// ends, it may be within the C library's allocator.
pub fn with_text<R>(text: fmt::Arguments<'_>, act: impl FnOnce(&CStr) -> R) -> R {
    const ROOM: usize = 96;
    let mut room = Cursor::new([0; ROOM]);
    // One that is cut off means nothing.
    let is_whole = room.write_fmt(text).is_ok() && room.position() < ROOM as u64;
    let text = room.into_inner();
    act(CStr::from_bytes_until_nul(&text).ok().filter(|_| is_whole).unwrap_or_default())
}

/// The name of a process.
pub fn owner_name(owner: u64) -> CString {
    with_owner_name(owner, CStr::to_owned)
}

/// Does something with it.
pub fn with_owner_name<R>(owner: u64, act: impl FnOnce(&CStr) -> R) -> R {
    with_text(format_args!("o{owner:016x}"), act)
}

/// The name that a process's file has until it says that the process lives.
pub fn unborn_name(owner: u64) -> CString {
    CString::new(format!("n{owner:016x}")).unwrap_or_default()
}

/// The name of a socket of a process.
pub fn socket_name(owner: u64, socket: u64) -> CString {
    with_socket_name(owner, socket, CStr::to_owned)
}

/// Does something with it.
pub fn with_socket_name<R>(owner: u64, socket: u64, act: impl FnOnce(&CStr) -> R) -> R {
    with_text(format_args!("l{owner:016x}-{socket:016x}"), act)
}

/// Does something with the name of a process's mailbox.
pub fn with_mailbox_name<R>(owner: u64, act: impl FnOnce(&CStr) -> R) -> R {
    with_text(format_args!("m{owner:016x}"), act)
}

/// Does something with the name of the upper bits of numbers that a process's connections have.
pub fn with_connections_name<R>(bits: u16, act: impl FnOnce(&CStr) -> R) -> R {
    with_text(format_args!("c{bits:04x}"), act)
}

/// The process to which such a name leads.
pub fn owner_of_connections(folder: &Folder, bits: u16) -> Option<u64> {
    let target = with_connections_name(bits, |name| folder.read_link(name)).ok()?;
    let target = target.to_str().filter(|target| target.len() == 16)?;
    u64::from_str_radix(target, 16).ok()
}

/// What a name means; `None` of one that this library does not make.
pub fn parse(name: &CStr) -> Option<Name> {
    let text = name.to_str().ok()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (found, made) = match text.split_at_checked(1)? {
        ("o", rest) => (Name::Owner(number(rest)?), owner_name(number(rest)?)),
        ("n", rest) => (Name::Unborn(number(rest)?), unborn_name(number(rest)?)),
        ("l", rest) => {
            let (owner, socket) = rest.split_once('-')?;
            (Name::Socket(number(owner)?), socket_name(number(owner)?, number(socket)?))
        }
        ("m", rest) => (Name::Mailbox(number(rest)?), with_mailbox_name(number(rest)?, CStr::to_owned)),
        ("c", rest) => {
            let bits = u16::from_str_radix(rest, 16).ok()?;
            (Name::Connections(bits), with_connections_name(bits, CStr::to_owned))
        }
        ("p", rest) => {
            let port = Port::of_text(rest)?;
            (Name::Port(port), port.name())
        }
        _ => return None,
    };
    (made.as_c_str() == name).then_some(found)
}

/// Removes what dead processes left in the folder of a namespace.
pub fn sweep(folder: &Folder) {
    let names: Vec<_> = folder.names().unwrap_or_default();
    let found = || names.iter().filter_map(|name| parse(name));
    // A name that came after these were read belongs to none of the dead: they are asked for now.
    let owners: HashSet<u64> = found().filter_map(owner_of).collect();
    let dead: HashSet<u64> = owners.into_iter().filter(|owner| !owner::lives(folder, *owner)).collect();
    let lives_here = found().any(|name| matches!(name, Name::Owner(owner) if !dead.contains(&owner)));
    let is_complete = |name: &CString| !matches!(parse(name), None | Some(Name::Unborn(_)));
    if dead.is_empty() && lives_here && names.iter().all(is_complete) {
        return;
    }
    // Of many records few processes are asked for.
    let mut lives = HashMap::new();
    let mut lives = |owner| *lives.entry(owner).or_insert_with(|| owner::lives(folder, owner));
    for name in &names {
        match parse(name) {
            Some(Name::Port(port)) => {
                let Ok(place) = port.open(folder) else { continue };
                for record in port::read(&place, port.space).unwrap_or_default() {
                    if !lives(record.owner) {
                        record.clear(folder, &place, port);
                    }
                }
                port.remove_unused(folder);
            }
            Some(Name::Socket(owner) | Name::Mailbox(owner)) if dead.contains(&owner) => {
                let _ = folder.remove(name);
            }
            Some(Name::Connections(bits)) => {
                if owner_of_connections(folder, bits).is_none_or(|owner| !lives(owner)) {
                    let _ = folder.remove(name);
                }
            }
            // One that lives and has no lock yet begins once more.
            Some(Name::Unborn(_)) if !owner::holds(folder, name) => {
                let _ = folder.remove(name);
            }
            Some(_) => {}
            None => {
                folder.sweep_private(name, |inside| parse(inside).is_some());
            }
        }
    }
    // The processes themselves last: as long as they have a name, somebody looks for the rest.
    for owner in dead {
        let name = owner_name(owner);
        // A folder is no process's, and in the way of none but this look.
        let _ = folder.remove(&name).or_else(|_| folder.remove_folder(&name));
    }
}

fn owner_of(name: Name) -> Option<u64> {
    match name {
        Name::Owner(owner) | Name::Socket(owner) | Name::Mailbox(owner) => Some(owner),
        Name::Port(_) | Name::Unborn(_) | Name::Connections(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use ironverbs_cm::address::PortSpace;

    use super::*;

    #[test]
    fn names_are_understood() {
        let port = Port { space: PortSpace::Tcp, number: 7471 };
        assert_eq!(parse(&owner_name(7)), Some(Name::Owner(7)));
        assert_eq!(parse(&unborn_name(7)), Some(Name::Unborn(7)));
        assert_eq!(parse(&socket_name(7, 9)), Some(Name::Socket(7)));
        assert_eq!(parse(&port.name()), Some(Name::Port(port)));
        assert_eq!(with_mailbox_name(7, parse), Some(Name::Mailbox(7)));
        assert_eq!(with_connections_name(7, parse), Some(Name::Connections(7)));
        let foreign = [
            c"",
            c"c7",
            c"c0007-",
            c"m7",
            c"o7",
            c"o00000000000000zz",
            c"l0000000000000007",
            c"p0106",
            c"p0107-1d2f",
            c"p0106-1D2F",
        ];
        for name in foreign {
            assert_eq!(parse(name), None, "{name:?}");
        }
        let namespace = Namespace([1, 0x2a]);
        assert_eq!(Namespace::of_name(&namespace.name()), Some(namespace));
        for name in [c"cm-1", c"cm-1-2-3", c"cm-01-2", c"cm-1-2a-", c"cn-1-2"] {
            assert_eq!(Namespace::of_name(name), None, "{name:?}");
        }
    }
}
