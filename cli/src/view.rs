//! The files that a kernel device would have, for programs that look at them without the library.
//!
//! They lie in the folder of the software device, in one tree for each network namespace and list of devices
//! with their interfaces, and are shown by `preload/view.c` in the places where the kernel's would be. Beside
//! the software devices stand links to what the kernel really has there. Everything in a file is what the
//! library answers to the verb that asks for it, but the bit of a port's capabilities that no file of the
//! kernel has. There are no counters, since nothing counts, and no files of management datagrams, which the
//! device does not carry.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ironverbs_os::environment::trusted;
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::named::Named;

use crate::Result;
use crate::library::{Device, GidText, Library, Port, PortText};
use crate::places::Places;
use crate::way;

/// Writes or refreshes the tree, and returns its folder.
pub fn write(places: &Places) -> Result<PathBuf> {
    // What is wrong with the folder's variables, the device says with a number alone.
    Config::from_env().map_err(|why| why.to_string())?;
    let devices = Library::open(&places.library())?.devices().map_err(|why| format!("no devices: {why}"))?;
    let devices: Vec<_> = devices.into_iter().filter(Device::is_software).collect();
    if devices.is_empty() {
        return Err("IRONVERBS_SOFT names no software device".to_owned());
    }
    for device in &devices {
        if let Err(why) = &device.ports {
            return Err(format!(
                "{} cannot be opened: {why}; `ironverbs doctor` looks for the reason",
                device.name
            ));
        }
    }
    let named = trusted("IRONVERBS_SOFT").and_then(|value| Named::all(&value)).unwrap_or_default();
    let name = tree_name(&devices, &named);
    let place = private_folder()?;
    let shown = place.folder.path().join(&name);
    Tree { root: place.reached_by().join(name) }.write(&devices).map_err(|why| {
        format!("{} cannot be written: {why}; `ironverbs doctor` looks for the reason", shown.display())
    })?;
    Ok(shown)
}

/// Where the tree goes: a folder of the user's alone, by a path without links.
struct Place {
    folder: Folder,
    /// Nobody else can put another folder there.
    is_safe: bool,
}

impl Place {
    fn open(dir: Option<OsString>) -> softrdma::shm::Result<Self> {
        let mut config = Config::from_values(dir, None)?;
        // What has no parent the folder complains of.
        if let (Some(parent), Some(name)) = (config.path.parent(), config.path.file_name())
            && let Ok(parent) = parent.canonicalize()
        {
            config.path = parent.join(name);
        }
        let folder = Folder::open(&config)?;
        let is_safe = way::is_safe(folder.path(), &folder.descriptor()).unwrap_or(false);
        Ok(Place { folder, is_safe })
    }

    /// The path for this process's own work: its descriptor, where the folder's own could lead elsewhere by
    /// now.
    fn reached_by(&self) -> PathBuf {
        if self.is_safe {
            return self.folder.path().to_owned();
        }
        format!("/proc/self/fd/{}", self.folder.descriptor()).into()
    }
}

/// The software device's folder, but never one that a group shares: nobody else is to say what a program sees
/// here. Where others could put another folder in its place, the user's usual one, if that is better or the
/// only one.
fn private_folder() -> Result<Place> {
    let group = trusted("IRONVERBS_SOFT_GROUP").filter(|group| !group.is_empty());
    let dir = trusted("IRONVERBS_SOFT_DIR").filter(|dir| !dir.is_empty() && group.is_none());
    let place = Place::open(dir.clone()).map_err(|why| why.to_string())?;
    if !place.is_safe
        && dir.is_some()
        && let Ok(usual) = Place::open(None)
        && usual.is_safe
    {
        return Ok(usual);
    }
    Ok(place)
}

/// Devices and addresses are those of a network namespace, and stay under one name as long as both exist. Of
/// one name, devices of other interfaces are others.
fn tree_name(devices: &[Device], named: &[Named]) -> String {
    let mut hasher = DefaultHasher::new();
    for device in devices {
        device.name.hash(&mut hasher);
        let interfaces = named.iter().find(|named| named.name == device.name).map(|named| &*named.interfaces);
        interfaces.unwrap_or_default().hash(&mut hasher);
    }
    trusted("IRONVERBS_SOFT_LINK_LAYER").hash(&mut hasher);
    fs::read_link("/proc/self/ns/net").unwrap_or_default().hash(&mut hasher);
    format!("view-{:016x}", hasher.finish())
}

/// `IBV_PORT_IP_BASED_GIDS`.
const IP_BASED_GIDS: u32 = 1 << 26;

/// Where the kernel has a file for each place of a table, what it has for an empty one can be opened, and says
/// EINVAL when it is read. So does this one, and every process has it.
const UNREADABLE: &str = "/proc/self/ns/net";

/// The mode of a file.
const READABLE: u32 = 0o444;

/// A tree of files that other processes may be reading.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn write(&self, devices: &[Device]) -> io::Result<()> {
        let classes = ["sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"];
        let mut own = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        for device in devices {
            self.device(&format!("{}/{}", classes[0], device.name), device)?;
            let file = format!("{}/{}", classes[1], device.file);
            self.file(&format!("{file}/ibdev"), &device.name)?;
            self.file(&format!("{file}/abi_version"), "0")?;
            // The number of the device file below.
            self.file(&format!("{file}/dev"), "1:3")?;
            // A character device that everybody may open, as a device file must be. It answers no command.
            self.link(&format!("{}/{}", classes[2], device.file), Path::new("/dev/null"))?;
            own[0].insert(OsString::from(&device.name));
            own[1].insert(OsString::from(&device.file));
            own[2].insert(OsString::from(&device.file));
        }
        // The connection manager's device file, for which the shim answers; the kernel's, if there is one,
        // stands behind it and keeps its number, which librdmacm compares.
        self.link(&format!("{}/rdma_cm", classes[2]), Path::new("/dev/null"))?;
        own[2].insert("rdma_cm".into());
        let manager = "sys/class/misc/rdma_cm";
        let number = fs::read_to_string(Path::new("/").join(manager).join("dev"));
        self.file(&format!("{manager}/dev"), number.as_deref().map_or("1:3", str::trim))?;
        self.file(&format!("{manager}/abi_version"), "4")?;
        for (class, own) in classes.iter().zip(own) {
            self.links_to_kernels(class, &own)?;
        }
        Ok(())
    }

    /// What stands in the folder of a device.
    fn device(&self, folder: &str, device: &Device) -> io::Result<()> {
        let guid = groups(&device.guid.to_be_bytes());
        let kind = ["<unknown>", "CA", "switch", "router", "RNIC"]
            .get(device.node_type as usize)
            .unwrap_or(&"<unknown>");
        self.file(&format!("{folder}/node_type"), &format!("{}: {kind}", device.node_type))?;
        self.file(&format!("{folder}/node_guid"), &guid)?;
        self.file(&format!("{folder}/sys_image_guid"), &guid)?;
        self.file(&format!("{folder}/fw_ver"), &device.firmware)?;
        self.file(&format!("{folder}/node_desc"), &format!("ironverbs software device {}", device.name))?;
        for port in device.ports.iter().flatten() {
            self.port(&format!("{folder}/ports/{}", port.number), port)?;
        }
        Ok(())
    }

    fn port(&self, folder: &str, port: &Port) -> io::Result<()> {
        let attr = &port.attr;
        // GIDs of IP addresses are the verb's bit, of which the kernel's file has none.
        let capabilities = attr.port_cap_flags & !IP_BASED_GIDS;
        for (name, content) in [
            ("state", format!("{}: {}", attr.state, attr.state())),
            ("phys_state", format!("{}: {}", attr.phys_state, attr.phys_state())),
            ("link_layer", attr.link_layer().to_owned()),
            ("rate", attr.rate()),
            ("lid", format!("{:#x}", attr.lid)),
            ("lid_mask_count", attr.lmc.to_string()),
            ("sm_lid", format!("{:#x}", attr.sm_lid)),
            ("sm_sl", attr.sm_sl.to_string()),
            ("cap_mask", format!("{:#010x}", capabilities)),
        ] {
            self.file(&format!("{folder}/{name}"), &content)?;
        }
        for (index, pkey) in port.pkeys.iter().enumerate() {
            self.file(&format!("{folder}/pkeys/{index}"), &format!("{pkey:#06x}"))?;
        }
        for index in 0..u32::try_from(attr.gid_tbl_len).unwrap_or(0) {
            let entry = port.gids.iter().find(|entry| entry.gid_index == index);
            self.file(
                &format!("{folder}/gids/{index}"),
                &groups(&entry.map_or([0; 16], |entry| entry.raw())),
            )?;
            for (attribute, value) in [
                ("types", entry.map(|entry| entry.kind().to_owned())),
                ("ndevs", entry.and_then(GidText::ndev)),
            ] {
                let file = format!("{folder}/gid_attrs/{attribute}/{index}");
                match value {
                    Some(value) => self.file(&file, &value)?,
                    None => self.link(&file, Path::new(UNREADABLE))?,
                }
            }
        }
        Ok(())
    }

    /// Links to what the kernel has in its folder of the same name, in place of those that were right before.
    fn links_to_kernels(&self, class: &str, own: &BTreeSet<OsString>) -> io::Result<()> {
        let kernels = Path::new("/").join(class);
        let there = names(&kernels);
        for name in there.difference(own) {
            self.link(&format!("{class}/{}", name.to_string_lossy()), &kernels.join(name))?;
        }
        self.only(class, &there.union(own).cloned().collect())
    }

    /// Removes what is not in `wanted` from a folder of files and links.
    fn only(&self, folder: &str, wanted: &BTreeSet<OsString>) -> io::Result<()> {
        let folder = self.root.join(folder);
        for name in names(&folder).difference(wanted) {
            match fs::remove_file(folder.join(name)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    /// A file of one line, which is there for reading as the kernel's is.
    fn file(&self, path: &str, line: &str) -> io::Result<()> {
        let content = format!("{line}\n");
        let place = self.root.join(path);
        let mode = |found: fs::Metadata| found.permissions().mode() & 0o777;
        if fs::read(&place).is_ok_and(|old| old == content.as_bytes())
            && fs::symlink_metadata(&place).is_ok_and(|found| mode(found) == READABLE)
        {
            return Ok(());
        }
        self.put(&place, |new| {
            let mut file = File::create_new(new)?;
            file.write_all(content.as_bytes())?;
            // Whatever the umask is.
            file.set_permissions(Permissions::from_mode(READABLE))
        })
    }

    fn link(&self, path: &str, target: &Path) -> io::Result<()> {
        let place = self.root.join(path);
        if fs::read_link(&place).is_ok_and(|old| old == target) {
            return Ok(());
        }
        self.put(&place, |new| symlink(target, new))
    }

    /// Makes something aside and moves it to its place, where readers find the old one or the new one. Aside,
    /// it has a name that no other process takes: not even process numbers tell those of several containers
    /// apart.
    fn put(&self, place: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let folder = place.parent().unwrap_or(&self.root);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let new = self.root.join(format!(".new-{:016x}", RandomState::new().hash_one(place)));
        let made = make(&new).and_then(|()| fs::rename(&new, place));
        if made.is_err() {
            let _ = fs::remove_file(&new);
        }
        made
    }
}

/// What is in a folder; nothing if it is not there.
fn names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Pairs of bytes in hexadecimal with colons between, as the kernel writes GIDs and GUIDs.
fn groups(bytes: &[u8]) -> String {
    let groups: Vec<_> = bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use ironverbs::abi::verbs::ibv_gid;

    use crate::library::{GidEntry, NO_ANSWER, PortAttr};

    fn soft0(gids: &[[u8; 16]]) -> Device {
        let entries = gids.iter().zip(0..);
        let gids = entries.map(|(gid, gid_index)| GidEntry {
            gid: ibv_gid { raw: *gid },
            gid_index,
            port_num: 1,
            gid_type: 2,
            ndev_ifindex: 1,
        });
        let attr = PortAttr {
            state: 4,
            phys_state: 5,
            gid_tbl_len: 4,
            active_width: 2,
            active_speed: 32,
            link_layer: 2,
            port_cap_flags: IP_BASED_GIDS | 1 << 16,
            pkey_tbl_len: 1,
            ..NO_ANSWER.1
        };
        let port = Port { number: 1, attr, pkeys: vec![0xffff], gids: gids.collect() };
        Device {
            name: "soft0".to_owned(),
            file: "uverbs-soft0".to_owned(),
            node_type: 1,
            guid: 0x0212_3456_789a_bcde,
            firmware: "1.2".to_owned(),
            ports: Ok(vec![port]),
        }
    }

    #[test]
    fn a_tree_is_what_the_device_says_and_follows_it() {
        let root = std::env::temp_dir().join(format!("ironverbs-view-test-{}", std::process::id()));
        let tree = Tree { root: root.clone() };
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let port = "sys/class/infiniband/soft0/ports/1";
        tree.write(&[soft0(&[[0xfe; 16], [1; 16]])]).unwrap();
        assert_eq!(read("sys/class/infiniband/soft0/node_type"), "1: CA\n");
        assert_eq!(read("sys/class/infiniband/soft0/node_guid"), "0212:3456:789a:bcde\n");
        assert_eq!(read("sys/class/infiniband/soft0/fw_ver"), "1.2\n");
        assert_eq!(read(&format!("{port}/state")), "4: ACTIVE\n");
        assert_eq!(read(&format!("{port}/cap_mask")), "0x00010000\n");
        assert_eq!(read(&format!("{port}/rate")), "100 Gb/sec (4X EDR)\n");
        assert_eq!(read(&format!("{port}/pkeys/0")), "0xffff\n");
        assert_eq!(read(&format!("{port}/gid_attrs/types/1")), "RoCE v2\n");
        assert_eq!(read(&format!("{port}/gid_attrs/ndevs/1")), "lo\n");
        assert_eq!(read(&format!("{port}/gids/3")), "0000:0000:0000:0000:0000:0000:0000:0000\n");
        for empty in ["types/2", "types/3", "ndevs/2", "ndevs/3"] {
            let file = File::open(root.join(format!("{port}/gid_attrs/{empty}")));
            let read = file.and_then(|mut file| file.read(&mut [0; 16]));
            assert_eq!(read.map_err(|why| why.raw_os_error()), Err(Some(libc::EINVAL)), "{empty}");
        }
        assert!(!root.join(format!("{port}/gid_attrs/types/4")).exists());
        assert_eq!(read("sys/class/infiniband_verbs/uverbs-soft0/ibdev"), "soft0\n");
        assert_eq!(fs::read_link(root.join("dev/infiniband/uverbs-soft0")).unwrap(), Path::new("/dev/null"));

        tree.write(&[soft0(&[[0xfe; 16]])]).unwrap();
        let emptied = fs::read(root.join(format!("{port}/gid_attrs/types/1")));
        assert_eq!(emptied.map_err(|why| why.raw_os_error()), Err(Some(libc::EINVAL)));
        assert_eq!(read(&format!("{port}/gids/0")), "fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe\n");
        assert!(
            fs::read_dir(&root)
                .unwrap()
                .flatten()
                .all(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn is_written_to_the_folder_that_was_looked_at() {
        let top = std::env::temp_dir().join(format!("ironverbs-view-moved-{}", std::process::id()));
        let (middle, others) = (top.join("middle"), top.join("others"));
        let precious = others.join("meet/view/sys/class/infiniband/precious");
        fs::create_dir_all(&middle).unwrap();
        fs::create_dir_all(precious.parent().unwrap()).unwrap();
        fs::write(&precious, "").unwrap();
        fs::set_permissions(&top, PermissionsExt::from_mode(0o777)).unwrap();
        let place = Place::open(Some(middle.join("meet").into())).unwrap();
        assert!(!place.is_safe);
        fs::rename(&middle, top.join("away")).unwrap();
        symlink(&others, &middle).unwrap();
        Tree { root: place.reached_by().join("view") }.write(&[soft0(&[])]).unwrap();
        assert!(precious.exists(), "removed where another user led it");
        assert!(top.join("away/meet/view/sys/class/infiniband/soft0").exists());
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn several_write_one_tree_at_once() {
        let root = std::env::temp_dir().join(format!("ironverbs-view-race-{}", std::process::id()));
        let writers: Vec<_> = (0..4_u8)
            .map(|n| {
                let root = root.clone();
                std::thread::spawn(move || {
                    let tree = Tree { root };
                    (0..20).try_for_each(|round| tree.write(&[soft0(&[[n; 16], [round; 16]])]))
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        let guid = fs::read_to_string(root.join("sys/class/infiniband/soft0/node_guid")).unwrap();
        assert_eq!(guid, "0212:3456:789a:bcde\n");
        let names = names(&root);
        assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
        fs::remove_dir_all(root).unwrap();
    }
}
