//! The library, opened by its path: what it tells here is what it tells every program. Its structs are those of
//! the crate that it is made of.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use std::ffi::CString;
use std::io;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ironverbs::abi::verbs::{ibv_device, ibv_device_attr, ibv_gid_entry, ibv_port_attr};
use nix::net::if_::if_indextoname;

use crate::Result;

/// What a port says of itself.
pub type PortAttr = ibv_port_attr;
/// One entry of a GID table.
pub type GidEntry = ibv_gid_entry;

// SAFETY: these are structs of integers and their arrays, for which all zeroes is a value.
pub const NO_ANSWER: (ibv_device_attr, PortAttr, GidEntry) = unsafe { core::mem::zeroed() };

type GetList = unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
type FreeList = unsafe extern "C" fn(*mut *mut ibv_device);
type GetGuid = unsafe extern "C" fn(*mut ibv_device) -> u64;
type Open = unsafe extern "C" fn(*mut ibv_device) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
type QueryDevice = unsafe extern "C" fn(*mut c_void, *mut ibv_device_attr) -> c_int;
type QueryPort = unsafe extern "C" fn(*mut c_void, u8, *mut PortAttr) -> c_int;
type QueryPkey = unsafe extern "C" fn(*mut c_void, u8, c_int, *mut u16) -> c_int;
type QueryGids = unsafe extern "C" fn(*mut c_void, *mut GidEntry, usize, u32, usize) -> isize;

/// The functions of the library that the reports need.
pub struct Library {
    get_list: GetList,
    free_list: FreeList,
    get_guid: GetGuid,
    open: Open,
    close: Close,
    query_device: QueryDevice,
    query_port: QueryPort,
    query_pkey: QueryPkey,
    query_gids: QueryGids,
}

/// A device of the list.
pub struct Device {
    /// For example `soft0`.
    pub name: String,
    /// Name of the device file, for example `uverbs0`.
    pub file: String,
    /// A value of `ibv_node_type`.
    pub node_type: u32,
    /// In host byte order.
    pub guid: u64,
    /// What the device calls its firmware's version; empty where the device could not be opened and asked.
    pub firmware: String,
    /// The ports, or why the device could not be opened and asked.
    pub ports: io::Result<Vec<Port>>,
}

/// A port of a device.
pub struct Port {
    pub number: u8,
    pub attr: PortAttr,
    pub pkeys: Vec<u16>,
    pub gids: Vec<GidEntry>,
}

impl Library {
    /// Opens the library that lies at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a zero byte".to_owned())?;
        // SAFETY: the name is a C string; the library's constructors expect nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("the library does not load: {}", loader_error()));
        }
        // SAFETY: each name is that of a function of libibverbs with the type that stands here
        // (infiniband/verbs.h); the library is never closed.
        unsafe {
            Ok(Self {
                get_list: symbol(handle, c"ibv_get_device_list")?,
                free_list: symbol(handle, c"ibv_free_device_list")?,
                get_guid: symbol(handle, c"ibv_get_device_guid")?,
                open: symbol(handle, c"ibv_open_device")?,
                close: symbol(handle, c"ibv_close_device")?,
                query_device: symbol(handle, c"ibv_query_device")?,
                query_port: symbol(handle, c"ibv_query_port")?,
                query_pkey: symbol(handle, c"ibv_query_pkey")?,
                query_gids: symbol(handle, c"_ibv_query_gid_table")?,
            })
        }
    }

    /// All devices, each opened and asked. An error of the list means that neither the kernel has devices to
    /// tell of nor the environment asks for one.
    pub fn devices(&self) -> io::Result<Vec<Device>> {
        let mut count = 0;
        // SAFETY: there is room for the number.
        let list = unsafe { (self.get_list)(&raw mut count) };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut devices = Vec::new();
        for place in 0..count as usize {
            // SAFETY: the list has that many devices, which live until it is freed below; their names are
            // NUL-terminated.
            unsafe {
                let device = *list.add(place);
                let (firmware, ports) = match self.ask(device) {
                    Ok((firmware, ports)) => (firmware, Ok(ports)),
                    Err(why) => (String::new(), Err(why)),
                };
                devices.push(Device {
                    name: text(&(*device).name),
                    file: text(&(*device).dev_name),
                    node_type: (*device).node_type.cast_unsigned(),
                    guid: u64::from_be((self.get_guid)(device)),
                    firmware,
                    ports,
                });
            }
        }
        // SAFETY: the list came from the library and is not used any more.
        unsafe { (self.free_list)(list) };
        Ok(devices)
    }

    /// The version of the firmware, and the ports.
    ///
    /// # Safety
    /// `device` is of a list that has not been freed.
    unsafe fn ask(&self, device: *mut ibv_device) -> io::Result<(String, Vec<Port>)> {
        // SAFETY: by the contract.
        let context = unsafe { (self.open)(device) };
        if context.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut attr = NO_ANSWER.0;
        // SAFETY: an open context, and room for what is written.
        let asked = unsafe { (self.query_device)(context, &raw mut attr) };
        let firmware = if asked == 0 { text(&attr.fw_ver) } else { String::new() };
        // SAFETY: an open context.
        let gids = unsafe { self.gids(context) };
        let mut ports = Vec::new();
        for number in 1..=u8::MAX {
            let mut attr = NO_ANSWER.1;
            // SAFETY: an open context, and room for what is written.
            if unsafe { (self.query_port)(context, number, &raw mut attr) } != 0 {
                break;
            }
            let mut pkeys = Vec::new();
            for index in 0..i32::from(attr.pkey_tbl_len) {
                let mut pkey = 0;
                // SAFETY: as above.
                if unsafe { (self.query_pkey)(context, number, index, &raw mut pkey) } != 0 {
                    break;
                }
                pkeys.push(u16::from_be(pkey));
            }
            let of_port = |entry: &&GidEntry| entry.port_num == u32::from(number);
            ports.push(Port { number, attr, pkeys, gids: gids.iter().filter(of_port).copied().collect() });
        }
        // SAFETY: the context is given up.
        unsafe { (self.close)(context) };
        Ok((firmware, ports))
    }

    /// # Safety
    /// `context` is open.
    unsafe fn gids(&self, context: *mut c_void) -> Vec<GidEntry> {
        // The kernel takes no more than 64 KiB for an answer.
        let mut entries = vec![NO_ANSWER.2; (1 << 16) / size_of::<GidEntry>() - 1];
        // SAFETY: by the contract, and there is room for as many entries of that size.
        let count = unsafe {
            (self.query_gids)(context, entries.as_mut_ptr(), entries.len(), 0, size_of::<GidEntry>())
        };
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries
    }
}

impl Device {
    /// Whether the library itself plays the device. The kernel's device files are `uverbs` and a number.
    pub fn is_software(&self) -> bool {
        self.file.starts_with("uverbs-")
    }
}

/// What is read out of a port.
pub trait PortText {
    /// As the file `state` of a kernel device has it.
    fn state(&self) -> &'static str;
    /// As the file `phys_state` of a kernel device has it.
    fn phys_state(&self) -> &'static str;
    /// As the file `link_layer` of a kernel device has it.
    fn link_layer(&self) -> &'static str;
    /// As the file `rate` of a kernel device has it.
    fn rate(&self) -> String;
    /// MTU in bytes.
    fn mtu(&self) -> u32;
}

impl PortText for PortAttr {
    fn state(&self) -> &'static str {
        ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"]
            .get(self.state as usize)
            .unwrap_or(&"<unknown>")
    }

    fn phys_state(&self) -> &'static str {
        let names = [
            "<unknown>",
            "Sleep",
            "Polling",
            "Disabled",
            "PortConfigurationTraining",
            "LinkUp",
            "LinkErrorRecovery",
            "Phy Test",
        ];
        names.get(self.phys_state as usize).unwrap_or(&"<unknown>")
    }

    fn link_layer(&self) -> &'static str {
        match self.link_layer {
            0 | 1 => "InfiniBand",
            2 => "Ethernet",
            _ => "Unknown",
        }
    }

    fn rate(&self) -> String {
        let lanes = match self.active_width {
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 1,
        };
        // Tenths of a Gbit/s.
        let (speed, name) = match self.active_speed {
            2 => (50, " DDR"),
            4 => (100, " QDR"),
            8 => (100, " FDR10"),
            16 => (140, " FDR"),
            32 => (250, " EDR"),
            64 => (500, " HDR"),
            128 => (1000, " NDR"),
            _ => (25, ""),
        };
        let total = lanes * speed;
        let tenth = if total % 10 == 0 { String::new() } else { format!(".{}", total % 10) };
        format!("{}{tenth} Gb/sec ({lanes}X{name})", total / 10)
    }

    fn mtu(&self) -> u32 {
        if (1..=5).contains(&self.active_mtu) { 128 << self.active_mtu } else { 0 }
    }
}

/// What is read out of an entry of a GID table.
pub trait GidText {
    /// As the file in `gid_attrs/types` of a kernel device has it.
    fn kind(&self) -> &'static str;
    /// Name of the network interface behind it; None where there is none.
    fn ndev(&self) -> Option<String>;
    /// As people write it.
    fn address(&self) -> Ipv6Addr;
    /// Its bytes.
    fn raw(&self) -> [u8; 16];
}

impl GidText for GidEntry {
    fn kind(&self) -> &'static str {
        if self.gid_type == 2 { "RoCE v2" } else { "IB/RoCE v1" }
    }

    fn ndev(&self) -> Option<String> {
        Some(if_indextoname(self.ndev_ifindex).ok()?.to_string_lossy().into_owned())
    }

    fn address(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.raw())
    }

    fn raw(&self) -> [u8; 16] {
        // SAFETY: all bits are a value of the bytes, and the library or `NO_ANSWER` has set them.
        unsafe { self.gid.raw }
    }
}

fn text(name: &[c_char]) -> String {
    name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8)).collect()
}

/// # Safety
/// `F` is the type of the function of that name.
unsafe fn symbol<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is open and the name is a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("not a libibverbs: {}", loader_error()));
    }
    // SAFETY: by the contract a function of type F stands there, and both are one pointer wide.
    Ok(unsafe { core::mem::transmute_copy(&found) })
}

fn loader_error() -> String {
    // SAFETY: dlerror gives NULL or a C string that lives until the next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_the_kernels() {
        let rate = |active_width, active_speed| PortAttr { active_width, active_speed, ..NO_ANSWER.1 }.rate();
        assert_eq!(rate(2, 32), "100 Gb/sec (4X EDR)");
        assert_eq!(rate(1, 1), "2.5 Gb/sec (1X)");
        assert_eq!(rate(2, 16), "56 Gb/sec (4X FDR)");
    }
}
