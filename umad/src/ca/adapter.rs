//! A CA as sysfs has it.

use core::ffi::{CStr, c_int};
use core::mem::zeroed;
use core::ptr::null_mut;

use ironverbs_os::errno::{Errno, Result};
use ironverbs_os::file::Leftovers;

use super::folder::{Folder, For};
use super::path::{Decimal, Path};
use super::{CLASS, bytes_of, port, set_name, text_of};
use crate::abi::umad::{UMAD_CA_MAX_PORTS, umad_ca, umad_port};

/// Reads the CA of the name with all its ports. The error is that of the file that is missing; EIO of a port
/// that cannot be read or whose number is none.
pub fn read(name: &CStr, ca: &mut umad_ca) -> Result<()> {
    read_in(CLASS, name, ca)
}

fn read_in(class: &CStr, name: &CStr, ca: &mut umad_ca) -> Result<()> {
    ca.numports = 0;
    ca.ports = [null_mut(); UMAD_CA_MAX_PORTS];
    set_name(&mut ca.ca_name, name);
    let leftovers = Leftovers::default();
    let dir_name = Path::of(&[text_of(&ca.ca_name)]);
    let path = Path::of(&[class.to_bytes(), text_of(&ca.ca_name)]);
    let folder = Folder::open(path.as_c_str(), For::Entries, &leftovers)?;

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

fn read_ports(ca_name: &CStr, dir_name: &CStr, folder: &Folder<'_>, ca: &mut umad_ca) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CString, OsStr};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use crate::abi::umad::UMAD_CA_NAME_LEN;

    const CA_FILES: [&str; 6] = ["node_type", "fw_ver", "hw_rev", "hca_type", "node_guid", "sys_image_guid"];
    const PORT_FILES: [&str; 10] = [
        "lid_mask_count",
        "sm_lid",
        "sm_sl",
        "lid",
        "state",
        "phys_state",
        "rate",
        "cap_mask",
        "link_layer",
        "gids/0",
    ];
    const USUAL_CA: [&[u8]; 6] =
        [b"1: CA\n", b"2.42\n", b"a1\n", b"MT4099\n", b"0002:c903:0012:3456\n", b"0002:c903:0012:3459\n"];
    const USUAL_PORT: [&[u8]; 10] = [
        b"0\n",
        b"0x1\n",
        b"0\n",
        b"0x4\n",
        b"4: ACTIVE\n",
        b"5: LinkUp\n",
        b"56 Gb/sec (4X FDR)\n",
        b"0x02514868\n",
        b"InfiniBand\n",
        b"fe80:0000:0000:0000:0002:c903:0012:3457\n",
    ];

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let tree = Self(std::env::temp_dir().join(format!("ironverbs-{name}-{}", std::process::id())));
            fs::create_dir_all(tree.0.join("ca/ports")).expect("a temporary folder");
            for (file, content) in CA_FILES.iter().zip(USUAL_CA) {
                tree.write(&format!("ca/{file}"), content);
            }
            tree
        }

        fn port(&self, name: &OsStr, pkeys: &[(&OsStr, &[u8])]) {
            let port = self.0.join("ca/ports").join(name);
            for folder in ["gids", "pkeys"] {
                fs::create_dir_all(port.join(folder)).expect("a temporary folder");
            }
            for (file, content) in PORT_FILES.iter().zip(USUAL_PORT) {
                fs::write(port.join(file), content).expect("a file of our own");
            }
            for (file, content) in pkeys {
                fs::write(port.join("pkeys").join(file), content).expect("a file of our own");
            }
        }

        fn write(&self, file: &str, content: &[u8]) {
            fs::write(self.0.join(file), content).expect("a file of our own");
        }

        fn read(&self) -> (Result<()>, Ca) {
            let class = CString::new(self.0.as_os_str().as_bytes()).expect("no NUL in the path");
            // SAFETY: as in `Ca::read`.
            let mut ca = Ca(unsafe { zeroed() });
            (read_in(&class, c"ca", &mut ca.0), ca)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn a_ca_is_what_its_files_say() {
        let tree = Tree::new("usual");
        tree.port(name("1"), &[(name("0"), b"0xffff\n"), (name("1"), b"0x8001\n"), (name("x"), b"?")]);
        tree.port(name("3"), &[(name("0"), b"0x7fff\n")]);
        let (read, mut ca) = tree.read();
        assert_eq!(read, Ok(()));
        assert_eq!((ca.name(), ca.node_type(), ca.numports()), (&b"ca"[..], 1, 3));
        assert_eq!((text_of(&ca.0.fw_ver), text_of(&ca.0.hw_ver)), (&b"2.42"[..], &b"a1"[..]));
        assert_eq!((text_of(&ca.0.ca_type), ca.0.node_guid.to_be()), (&b"MT4099"[..], 0x2_c903_0012_3456));
        assert!(
            ca.port(0).is_none() && ca.port(2).is_none() && ca.port(10).is_none() && ca.port(-1).is_none()
        );
        let port = ca.take_port(1).expect("read");
        assert_eq!((port.portnum, port.base_lid, port.sm_lid, port.state), (1, 4, 1, 4));
        assert_eq!((port.phys_state, port.rate, port.capmask.to_be()), (5, 56, 0x0251_4868));
        assert_eq!(text_of(&port.link_layer), b"InfiniBand");
        assert_eq!(port.port_guid.to_be(), 0x2_c903_0012_3457);
        assert_eq!(port.gid_prefix.to_be(), 0xfe80_0000_0000_0000);
        // SAFETY: a port that was read has so many keys.
        let keys = unsafe { core::slice::from_raw_parts(port.pkeys, port.pkeys_size as usize) };
        assert_eq!(keys, [0xffff, 0x8001]);
        port::release(&mut { port });
    }

    #[test]
    fn a_key_beyond_the_number_of_keys_is_refused() {
        let tree = Tree::new("keys");
        tree.port(name("1"), &[(name("0"), b"1\n"), (name("2"), b"2\n")]);
        let (read, ca) = tree.read();
        assert_eq!((read, ca.ports().count()), (Err(Errno::EIO), 0));
    }

    #[test]
    fn a_port_number_that_is_none_refuses_the_ca() {
        for odd in ["10", "12345678901234567890", "-1", "x", "00"] {
            let tree = Tree::new("numbers");
            tree.port(name("1"), &[(name("0"), b"1\n")]);
            tree.port(name(odd), &[(name("0"), b"1\n")]);
            let (read, ca) = tree.read();
            assert_eq!((read, ca.ports().count()), (Err(Errno::EIO), 0), "{odd}");
        }
    }

    #[test]
    fn two_names_of_one_number_are_one_port() {
        let tree = Tree::new("twice");
        tree.port(name("1"), &[(name("0"), b"1\n")]);
        tree.port(name("1x"), &[(name("0"), b"1\n")]);
        let (read, ca) = tree.read();
        assert_eq!((read, ca.ports().count()), (Ok(()), 1));
    }

    /// What stands in the files of a CA and its ports, and what these are called.
    #[test]
    fn fuzz_umad_sysfs() {
        type Contents = ([Vec<u8>; 6], [Vec<u8>; 10], Vec<(Vec<u8>, Vec<u8>)>, Vec<u8>, u32);
        corpus::check!().with_type::<Contents>().for_each(
            |(ca_files, port_files, pkeys, port_name, usual)| {
                let tree = Tree::new("fuzz");
                let file_name = |bytes: &[u8]| -> Vec<u8> {
                    let clean = bytes.iter().map(|byte| if matches!(byte, 0 | b'/') { b'1' } else { *byte });
                    let clean: Vec<u8> = clean.take(64).collect();
                    if matches!(&clean[..], b"" | b"." | b"..") { b"1".to_vec() } else { clean }
                };
                let pkeys: Vec<_> = pkeys.iter().map(|(name, key)| (file_name(name), &key[..])).collect();
                let pkeys: Vec<_> = pkeys.iter().map(|(name, key)| (OsStr::from_bytes(name), *key)).collect();
                let port_name = file_name(port_name);
                tree.port(OsStr::from_bytes(&port_name), &pkeys);
                tree.port(name("2"), &[(name("0"), b"0xffff\n")]);
                // Files that are as usual let the reader come to the others.
                for (place, (file, content)) in CA_FILES.iter().zip(ca_files).enumerate() {
                    if usual >> place & 1 == 0 {
                        tree.write(&format!("ca/{file}"), content);
                    }
                }
                for (place, (file, content)) in PORT_FILES.iter().zip(port_files).enumerate() {
                    if usual >> (8 + place) & 1 == 0 {
                        tree.write(&format!("ca/ports/2/{file}"), content);
                    }
                }
                let (read, ca) = tree.read();
                assert!((0..UMAD_CA_MAX_PORTS as c_int).contains(&ca.numports()));
                for (number, port) in ca.ports() {
                    assert!(read.is_ok() && port.portnum == number);
                    assert!(text_of(&port.link_layer).len() < UMAD_CA_NAME_LEN);
                    // SAFETY: a port that was read has so many keys.
                    let keys = unsafe { core::slice::from_raw_parts(port.pkeys, port.pkeys_size as usize) };
                    assert!(!keys.is_empty());
                }
                for field in [&ca.0.fw_ver[..], &ca.0.hw_ver[..], &ca.0.ca_type[..]] {
                    assert!(text_of(field).len() < field.len());
                }
            },
        );
    }
}
