//! A port that somebody has, and the records of who: symbolic links in its folder, whose targets are no paths
//! but what the id has. The kernel makes a link and its content in one step, and reads it without opening it.

use std::ffi::{CStr, CString, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use ironverbs_cm::address::{Address, PortSpace};
use ironverbs_cm::ports::{Binding, NoPort};
use softrdma::shm::folder::Folder;
use zerocopy::IntoBytes;

use super::namespace::{socket_name, with_text};
use crate::abi::addresses;
use crate::sys;

/// A port of a port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Port space.
    pub space: PortSpace,
    /// The port.
    pub number: u16,
}

impl Port {
    /// The name of its folder.
    pub fn name(self) -> CString {
        with_text(format_args!("{self}"), CStr::to_owned)
    }

    /// The port of a folder's name, without its first letter.
    pub fn of_text(text: &str) -> Option<Port> {
        let (space, number) = text.split_once('-')?;
        let word = |text| u16::from_str_radix(text, 16).ok();
        Some(Port { space: PortSpace::from_number(word(space)?)?, number: word(number)? })
    }

    /// Its folder.
    ///
    /// # Errors
    /// ENOENT where there is none; those of [`Folder::existing_folder`].
    pub fn open(self, namespace: &Folder) -> Result<Folder, i32> {
        namespace.existing_folder(&self.name()).map_err(|why| why.errno())
    }

    /// Its folder, made where there is none.
    ///
    /// # Errors
    /// Those of [`Folder::folder`].
    pub fn make(self, namespace: &Folder) -> Result<Folder, i32> {
        namespace.folder(&self.name()).map_err(|why| why.errno())
    }

    /// Removes its folder, unless somebody has the port.
    pub fn remove_unused(self, namespace: &Folder) {
        let _ = with_text(format_args!("{self}"), |name| namespace.remove_folder(name));
    }
}

/// The name of its folder.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{:04x}-{:04x}", self.space as u16, self.number)
    }
}

/// What an id has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process.
    pub owner: u64,
    /// What tells it from all others of the process.
    pub number: u64,
    /// When the port was taken: nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Number in the name of the socket where the id listens; 0 where it does not.
    pub socket: u64,
    /// The port's address, and how it may be shared.
    pub binding: Binding,
}

const REUSE: u64 = 1;
const FAMILY_ONLY: u64 = 2;

/// More characters than a record has.
const LENGTH: usize = 512;
/// Records beyond are not looked at: who may write to the folder must not take up everybody's memory.
const RECORDS: usize = 1 << 16;
/// How often records are read that are replaced meanwhile.
const ATTEMPTS: u32 = 1000;
/// How many are read then, all together: who may write to the folder must not take up everybody's time.
const READS: usize = 4 * RECORDS;

impl Record {
    /// A record of an id that does not listen, from now on.
    pub fn new(owner: u64, binding: &Binding) -> Record {
        let since = sys::now().as_nanos() as u64;
        Record { owner, number: sys::random(), since, socket: 0, binding: *binding }
    }

    /// The same under another name.
    pub fn renewed(self) -> Record {
        Record { number: sys::random(), ..self }
    }

    /// Whether the id listens.
    pub fn listens(&self) -> bool {
        self.socket != 0
    }

    /// Whether both are the same record.
    pub fn is(&self, other: &Record) -> bool {
        (self.owner, self.number) == (other.owner, other.number)
    }

    fn name(&self) -> String {
        format!("{:016x}-{:016x}", self.owner, self.number)
    }

    fn text(&self) -> String {
        let flag = |set: bool, flag| if set { flag } else { 0 };
        let flags = flag(self.binding.reuse, REUSE) | flag(self.binding.family_only, FAMILY_ONLY);
        let (source, destination) = (hex(&self.binding.source), hex(&self.binding.destination));
        format!("{:x}.{flags:x}.{:x}.{source}.{destination}", self.since, self.socket)
    }

    fn parse(space: PortSpace, name: &CStr, text: &[u8]) -> Option<Record> {
        let word = |text: &str| u64::from_str_radix(text, 16).ok();
        let (owner, number) = name.to_str().ok()?.split_once('-')?;
        let mut fields = std::str::from_utf8(text).ok()?.split('.');
        let (since, flags, socket) = (word(fields.next()?)?, word(fields.next()?)?, word(fields.next()?)?);
        let (source, destination) = (address(fields.next()?)?, address(fields.next()?)?);
        let (reuse, family_only) = (flags & REUSE != 0, flags & FAMILY_ONLY != 0);
        let binding = Binding { space, source, destination, reuse, family_only };
        let record = Record { owner: word(owner)?, number: word(number)?, since, socket, binding };
        (record.name().as_bytes() == name.to_bytes()).then_some(record)
    }

    /// Shows it to others.
    ///
    /// # Errors
    /// ENOENT where the port's folder was removed; those of the system.
    pub fn publish(&self, place: &Folder) -> Result<(), i32> {
        let (text, name) = (CString::new(self.text()), CString::new(self.name()));
        place.write_link(&text.unwrap_or_default(), &name.unwrap_or_default()).map_err(|why| why.errno())
    }

    /// Takes it back, and the port's folder where nobody else has the port.
    pub fn withdraw(&self, namespace: &Folder, port: Port) {
        // No descriptor is needed for a path. Its last part is random: wherever another member of the group has
        // it lead, nothing of this user's has that name.
        let path = format_args!("{port}/{:016x}-{:016x}", self.owner, self.number);
        let _ = with_text(path, |path| namespace.remove(path));
        port.remove_unused(namespace);
    }

    /// Removes it, the socket, and the port's folder where nobody else has the port, of a process that is dead.
    /// From the folder where it was read: its name is anybody's choice, and so is by now which folder, or whose
    /// by a link, the path leads to.
    pub fn clear(&self, namespace: &Folder, place: &Folder, port: Port) {
        if self.listens() {
            let _ = namespace.remove(&socket_name(self.owner, self.socket));
        }
        let _ = place.remove(&CString::new(self.name()).unwrap_or_default());
        port.remove_unused(namespace);
    }
}

/// The records in a port's folder.
///
/// # Errors
/// [`NoPort::Contended`] where they change all the time; those of the system.
pub fn read(place: &Folder, space: PortSpace) -> Result<Vec<Record>, NoPort> {
    let names = || place.names().map_err(|why| why.errno());
    let text = |name: &CStr| place.read_link(name).map_err(|why| why.errno());
    read_with(space, names, text)
}

/// The same by what reads the names, and what a name stands for. A record that is gone when it is read may have
/// another in its place that was not there when the names were: then they are read again.
fn read_with(
    space: PortSpace,
    names: impl Fn() -> Result<Vec<CString>, i32>,
    text: impl Fn(&CStr) -> Result<OsString, i32>,
) -> Result<Vec<Record>, NoPort> {
    let mut left = READS;
    for _ in 0..ATTEMPTS {
        let mut is_whole = true;
        let record = |name: &CString| {
            let text = text(name).inspect_err(|why| is_whole &= *why != libc::ENOENT);
            let text = text.ok().filter(|text| text.len() < LENGTH)?;
            Record::parse(space, name, text.as_bytes())
        };
        let names = names()?;
        let records: Vec<_> = names.iter().take(RECORDS).filter_map(record).collect();
        if is_whole {
            return Ok(records);
        }
        left = left.saturating_sub(names.len());
        if left == 0 {
            break;
        }
    }
    Err(NoPort::Contended)
}

/// An address as it is written in a record: the bytes of the socket address.
fn hex(address: &Address) -> String {
    let (storage, size) = addresses::write(address);
    storage.as_bytes().iter().take(size.into()).map(|byte| format!("{byte:02x}")).collect()
}

fn address(text: &str) -> Option<Address> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    let (address, size) = addresses::read(&bytes);
    (size == bytes.len()).then_some(address)
}

#[cfg(test)]
mod tests {
    use ironverbs_cm::address::IbAddress;

    use super::*;

    #[test]
    fn a_record_is_seen_though_it_is_replaced_while_it_is_looked_for() {
        let binding = Binding {
            space: PortSpace::Tcp,
            source: Address::Unspecified,
            destination: Address::Unspecified,
            reuse: false,
            family_only: false,
        };
        let before = Record::new(7, &binding);
        let after = before.renewed();
        let listings = std::cell::Cell::new(0);
        let names = || {
            listings.set(listings.get() + 1);
            let listed = if listings.get() == 1 { before } else { after };
            Ok(vec![CString::new(listed.name()).unwrap()])
        };
        // Between the names and their content, the one came and the other went.
        let text = |name: &CStr| {
            let is_there = name.to_bytes() == after.name().as_bytes();
            if is_there { Ok(after.text().into()) } else { Err(libc::ENOENT) }
        };
        assert_eq!(read_with(PortSpace::Tcp, names, text), Ok(vec![after]));
        let gone = |_: &CStr| Err(libc::ENOENT);
        assert_eq!(read_with(PortSpace::Tcp, names, gone), Err(NoPort::Contended), "it ends");
        // Of very many, of which somebody always removes one, long before.
        listings.set(0);
        let many = || {
            listings.set(listings.get() + 1);
            Ok(vec![CString::default(); RECORDS])
        };
        assert_eq!(read_with(PortSpace::Tcp, many, gone), Err(NoPort::Contended));
        assert!(listings.get() <= READS / RECORDS);
    }

    #[test]
    fn records_come_back() {
        let ib = IbAddress { pkey: 0xffff, flow: 0xfffff, gid: [0xff; 16], service: !0, mask: !0, scope: !0 };
        let addresses = [
            Address::Unspecified,
            Address::ip("192.0.2.2".parse().unwrap(), 7471),
            Address::ip("2001:db8::2".parse().unwrap(), 7471).with_scope(9),
            Address::Ib(ib),
        ];
        for (source, destination) in addresses.iter().flat_map(|one| addresses.map(|other| (*one, other))) {
            let (space, reuse, family_only) = (PortSpace::Udp, source == destination, true);
            let binding = Binding { space, source, destination, reuse, family_only };
            let record = Record { socket: u64::MAX, since: u64::MAX, ..Record::new(u64::MAX, &binding) };
            let (name, text) = (CString::new(record.name()).unwrap(), record.text());
            assert!(text.len() < LENGTH);
            assert_eq!(Record::parse(space, &name, text.as_bytes()), Some(record));
            assert_eq!(Record::parse(space, c"1-2", text.as_bytes()), None);
            for cut in 0..text.len() - hex(&destination).len() {
                assert_eq!(Record::parse(space, &name, &text.as_bytes()[..cut]), None, "{cut} of {text}");
            }
        }
    }
}
