//! A port as sysfs has it.

use core::ffi::{CStr, c_int};
use core::ptr::null_mut;

use ironverbs_os::errno::{Errno, Result};

use super::folder::{Folder, For};
use super::{bytes_of, set_name, text_of};
use crate::abi::umad::umad_port;
use crate::debug::warning;

/// `IsSMDisabled` of the capability mask.
const SM_DISABLED: u32 = 1 << 10;

/// Reads port `portnum` of the CA `dir_name` from its folder. EIO where a file of it is missing, whatever the
/// system said; the fields before that are written.
pub fn read(
    ca_name: &CStr,
    dir_name: &CStr,
    folder: Result<Folder<'_>>,
    portnum: c_int,
    port: &mut umad_port,
) -> Result<()> {
    set_name(&mut port.ca_name, ca_name);
    port.portnum = portnum;
    port.pkeys = null_mut();
    (|| {
        let folder = folder?;
        port.lmc = folder.number(c"lid_mask_count")?;
        port.sm_lid = folder.number(c"sm_lid")?;
        port.sm_sl = folder.number(c"sm_sl")?;
        port.base_lid = folder.number(c"lid")?;
        port.state = folder.number(c"state")?;
        port.phys_state = folder.number(c"phys_state")?;
        port.rate = folder.number(c"rate")?;
        let capmask = folder.number(c"cap_mask")?;
        let link_layer = bytes_of(&mut port.link_layer);
        if folder.text(c"link_layer", link_layer).is_err() {
            // Kernels that do not say it have no other.
            link_layer[..3].copy_from_slice(b"IB\0");
        }
        port.capmask = capmask.to_be();
        let gid = folder.gid(c"gids/0")?;
        port.gid_prefix = half(&gid[..8]);
        port.port_guid = half(&gid[8..]);
        read_pkeys(dir_name, &folder, port)
    })()
    .map_err(|_: Errno| Errno::EIO)
}

fn half(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

fn read_pkeys(dir_name: &CStr, port_folder: &Folder<'_>, port: &mut umad_port) -> Result<()> {
    let folder = port_folder.folder(c"pkeys", For::Listing);
    let names = folder.and_then(|folder| {
        let names = folder.names(|name| name.to_bytes().iter().all(u8::is_ascii_digit))?;
        if names.is_empty() { Err(Errno::EIO) } else { Ok((folder, names)) }
    });
    let Ok((folder, names)) = names else {
        warning!(
            "get_port",
            "no pkeys found for %s:%u (at dir %s/%s/ports/%d/pkeys)...",
            port.ca_name.as_ptr(),
            port.portnum,
            super::CLASS.as_ptr(),
            dir_name.as_ptr(),
            port.portnum,
        );
        return Err(Errno::EIO);
    };
    // SAFETY: allocates zeroed memory or returns null.
    let pkeys: *mut u16 = unsafe { libc::calloc(names.len(), size_of::<u16>()) }.cast();
    if pkeys.is_null() {
        // SAFETY: the text of an error lives until the thread asks for another.
        let why = unsafe { libc::strerror(Errno::last().0) };
        warning!("get_port", "get_port: calloc failed: %s", why);
        return Err(Errno::ENOMEM);
    }
    port.pkeys = pkeys;
    for name in names.iter() {
        // SAFETY: the name is NUL-terminated.
        let index = unsafe { libc::strtoul(name.as_ptr(), null_mut(), 0) };
        let place = usize::try_from(index).ok().filter(|index| *index < names.len());
        match (folder.number(name), place) {
            // SAFETY: the array has as many keys as there are names, of which `index` is a place.
            (Ok(pkey), Some(index)) => unsafe { *pkeys.add(index) = pkey as u16 },
            _ => {
                // SAFETY: the keys came from calloc just now.
                unsafe { libc::free(pkeys.cast()) };
                port.pkeys = null_mut();
                return Err(Errno::EIO);
            }
        }
    }
    port.pkeys_size = names.len() as u32;
    Ok(())
}

/// Frees what a port that was read refers to.
pub fn release(port: &mut umad_port) {
    // SAFETY: the keys came from calloc, or there are none; they are not referred to any more.
    unsafe { libc::free(port.pkeys.cast()) };
    port.pkeys = null_mut();
    port.pkeys_size = 0;
}

/// Whether the port takes no subnet management datagrams.
#[must_use]
pub fn is_smi_disabled(port: &umad_port) -> bool {
    u32::from_be(port.capmask) & SM_DISABLED != 0
}

/// Whether the port is one of InfiniBand, by what sysfs says of its link layer.
#[must_use]
pub fn is_infiniband(port: &umad_port) -> bool {
    matches!(text_of(&port.link_layer), b"InfiniBand" | b"IB")
}
