//! A CA as sysfs has it.

use core::ffi::{CStr, c_int};
use core::mem::zeroed;
use core::ptr::null_mut;

use ironverbs_os::errno::{Errno, Result};

use super::folder::{Folder, For};
use super::path::{Decimal, Path};
use super::{CLASS, bytes_of, port, set_name, text_of};
use crate::abi::umad::{UMAD_CA_MAX_PORTS, umad_ca, umad_port};

/// Reads the CA of the name with all its ports. The error is that of the file that is missing; EIO of a port
/// that cannot be read or whose number is none.
pub fn read(name: &CStr, ca: &mut umad_ca) -> Result<()> {
    ca.numports = 0;
    ca.ports = [null_mut(); UMAD_CA_MAX_PORTS];
    set_name(&mut ca.ca_name, name);
    let dir_name = Path::of(&[text_of(&ca.ca_name)]);
    let folder = Folder::open(Path::of(&[CLASS.to_bytes(), text_of(&ca.ca_name)]).as_c_str(), For::Entries)?;

    ca.node_type = folder.number(c"node_type")?;
    for (file, field) in
        [(c"fw_ver", &mut ca.fw_ver[..]), (c"hw_rev", &mut ca.hw_ver[..]), (c"hca_type", &mut ca.ca_type[..])]
    {
        let field = bytes_of(field);
        if folder.text(file, field).is_err() {
            field[0] = 0;
        }
    }
    ca.node_guid = folder.guid(c"node_guid")?;
    ca.system_guid = folder.guid(c"sys_image_guid")?;
    let ports = folder.folder(c"ports", For::Listing).map_err(|_| Errno::ENOENT)?;
    let read = read_ports(name, dir_name.as_c_str(), &ports, ca);
    if read.is_err() {
        release(ca);
    }
    read
}

fn read_ports(ca_name: &CStr, dir_name: &CStr, folder: &Folder, ca: &mut umad_ca) -> Result<()> {
    let mut names = folder.names(|_| true).map_err(|_| Errno::EIO)?;
    names.sort();
    for name in names.iter() {
        // SAFETY: the name is NUL-terminated.
        let number = unsafe { libc::atoi(name.as_ptr()) };
        let place = usize::try_from(number).ok().filter(|place| *place < UMAD_CA_MAX_PORTS);
        let place = place.filter(|place| *place > 0 || name == c"0").ok_or(Errno::EIO)?;
        // Two names may have the same number.
        release_place(ca, place);
        // SAFETY: allocates zeroed memory, which is a port without keys, or returns null.
        let new: *mut umad_port = unsafe { libc::calloc(1, size_of::<umad_port>()) }.cast();
        // SAFETY: the memory was made for a port and nobody else has it.
        let new_port = unsafe { new.as_mut() }.ok_or(Errno::ENOMEM)?;
        ca.ports[place] = new;
        let path = Path::of(&[Decimal::of(number).as_bytes()]);
        let port_folder = folder.folder(path.as_c_str(), For::Entries);
        if let Err(errno) = port::read(ca_name, dir_name, port_folder, number, new_port) {
            release_place(ca, place);
            return Err(errno);
        }
        ca.numports = ca.numports.max(number);
    }
    Ok(())
}

/// Frees the ports of a CA that was read.
pub fn release(ca: &mut umad_ca) {
    for place in 0..UMAD_CA_MAX_PORTS {
        // A program that did not fill the struct with `umad_get_ca` has garbage behind.
        if c_int::try_from(place).is_ok_and(|place| place <= ca.numports) {
            release_place(ca, place);
        }
    }
}

fn release_place(ca: &mut umad_ca, place: usize) {
    let pointer = core::mem::replace(&mut ca.ports[place], null_mut());
    // SAFETY: a pointer in the array is a port that `read` made and that is not referred to from elsewhere.
    if let Some(port) = unsafe { pointer.as_mut() } {
        port::release(port);
        // SAFETY: as above; the memory came from calloc.
        unsafe { libc::free(pointer.cast()) };
    }
}

/// A CA that the library itself looks at.
pub struct Ca(umad_ca);

impl Ca {
    /// Reads the CA of the name.
    pub fn read(name: &CStr) -> Result<Self> {
        // SAFETY: the struct has integers and pointers, of which zero is a value.
        let mut ca = Self(unsafe { zeroed() });
        read(name, &mut ca.0)?;
        Ok(ca)
    }

    /// 1 channel adapter, 2 switch, 3 router.
    #[must_use]
    pub fn node_type(&self) -> u32 {
        self.0.node_type
    }

    /// The highest port number.
    #[must_use]
    pub fn numports(&self) -> c_int {
        self.0.numports
    }

    /// Its name, as far as the struct has room for it.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        text_of(&self.0.ca_name)
    }

    /// The port of that number.
    #[must_use]
    pub fn port(&self, number: c_int) -> Option<&umad_port> {
        let pointer = self.0.ports.get(usize::try_from(number).ok()?)?;
        // SAFETY: what is not null is a port of this CA, which lives as long.
        unsafe { pointer.as_ref() }
    }

    /// Port numbers that can be, and the ports that are.
    pub fn ports(&self) -> impl Iterator<Item = (c_int, &umad_port)> {
        (0..=self.0.numports).filter_map(|number| Some((number, self.port(number)?)))
    }

    /// Gives the port of that number away.
    pub fn take_port(&mut self, number: c_int) -> Option<umad_port> {
        let pointer = self.0.ports.get(usize::try_from(number).ok()?)?;
        // SAFETY: as in `port`, and this CA is held exclusively.
        let port = unsafe { pointer.as_mut() }?;
        let taken = *port;
        port.pkeys = null_mut();
        Some(taken)
    }

    /// Gives the CA away with its ports.
    #[must_use]
    pub fn into_raw(mut self) -> umad_ca {
        let raw = self.0;
        self.0.ports = [null_mut(); UMAD_CA_MAX_PORTS];
        raw
    }
}

impl Drop for Ca {
    fn drop(&mut self) {
        release(&mut self.0);
    }
}
