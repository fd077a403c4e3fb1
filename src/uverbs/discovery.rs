//! Which RDMA devices there are: RDMA netlink in one dialogue, then sysfs for what netlink lacks.

use core::sync::atomic::{AtomicU32, Ordering};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use super::device_file::path_of;
use super::netlink::{Message, NETLINK_RDMA, Socket};
use super::sysfs;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_UNKNOWN;
use crate::abi::uapi::rdma_netlink::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

/// Longest name that a device may have, with its NUL (bytes).
const NAME_MAX: usize = 64;
/// Longest path that a device may have, with its NUL (bytes).
const PATH_MAX: usize = 256;
/// Requests sent in one piece: their answers fit the socket's default receive buffer.
const REQUESTS_AT_ONCE: usize = 16;
/// How often a dump is repeated when devices come or go in the middle of it.
const DUMP_ATTEMPTS: u32 = 4;
/// Versions of the uverbs command set that this library speaks.
const KNOWN_ABI: core::ops::RangeInclusive<u32> = 3..=6;

/// What the device file's name of a software device starts with; the kernel's are `uverbs` and a number.
pub const SOFTWARE_FILE: &str = "uverbs-";

/// The version of the uverbs command set, once known; 0 before.
static ABI_VERSION: AtomicU32 = AtomicU32::new(0);

/// A device whose file exists.
#[derive(Debug)]
pub struct DeviceInfo {
    /// Name of the RDMA device, for example `rxe0`.
    pub ibdev_name: String,
    /// Its folder in sysfs.
    pub ibdev_path: String,
    /// Name of the device file, for example `uverbs0`.
    pub sysfs_name: String,
    /// A value of `ibv_node_type`.
    pub node_type: ibv_node_type_t,
    /// Number of the character device.
    pub cdev: libc::dev_t,
    /// Version of the driver's part of the commands.
    pub abi_ver: u32,
    /// `RDMA_DRIVER_*`, if the kernel said it.
    pub driver_id: Option<u32>,
    /// Index that is never used again for another device, or -1 from a kernel that does not tell.
    pub ibdev_idx: i32,
    /// Number of ports, or 0 if netlink did not tell.
    pub num_ports: u32,
    /// When the sysfs folder was made (seconds, nanoseconds); only where there is no index.
    pub time_created: (i64, i64),
    /// Whether the library itself plays the device: then the kernel knows nothing of it.
    pub software: bool,
    node_guid: OnceLock<u64>,
    modalias: OnceLock<String>,
}

impl DeviceInfo {
    fn named(ibdev_name: &str) -> Option<Self> {
        let ibdev_path = format!("{}/class/infiniband/{ibdev_name}", sysfs::root());
        (ibdev_name.len() < NAME_MAX && ibdev_path.len() < PATH_MAX).then(|| Self {
            ibdev_name: ibdev_name.to_owned(),
            ibdev_path,
            sysfs_name: String::new(),
            node_type: IBV_NODE_UNKNOWN as ibv_node_type_t,
            cdev: 0,
            abi_ver: 0,
            driver_id: None,
            ibdev_idx: -1,
            num_ports: 0,
            time_created: (0, 0),
            software: false,
            node_guid: OnceLock::new(),
            modalias: OnceLock::new(),
        })
    }

    /// A channel adapter that the library itself plays, with the names that it would have in the kernel; None
    /// if they are too long.
    pub fn software(ibdev_name: &str, sysfs_name: &str, node_guid: u64) -> Option<Self> {
        let mut device = Self::named(ibdev_name)?;
        device.sysfs_name = sysfs_name.to_owned();
        device.node_type = IBV_NODE_CA as ibv_node_type_t;
        device.num_ports = 1;
        device.software = true;
        device.node_guid = OnceLock::from(node_guid);
        device.modalias = OnceLock::from(String::new());
        (device.verbs_path().len() < PATH_MAX && is_file_name(sysfs_name)).then_some(device)
    }

    /// A device that is nowhere, with its identity on a bus.
    #[cfg(test)]
    pub fn for_tests(ibdev_name: &str, modalias: &str) -> Self {
        let device = Self::named(ibdev_name).expect("a short name");
        device.modalias.set(modalias.to_owned()).expect("not set before");
        device
    }

    /// The GUID of the node in host byte order; read from sysfs when netlink did not tell.
    pub fn node_guid(&self) -> Option<u64> {
        if let Some(guid) = self.node_guid.get() {
            return Some(*guid);
        }
        let text = sysfs::read_text::<24>(&format!("{}/node_guid", self.ibdev_path)).ok()?;
        let groups = sysfs::hex_groups::<4>(&text)?;
        let guid = groups.iter().fold(0, |guid, group| guid << 16 | u64::from(*group));
        Some(*self.node_guid.get_or_init(|| guid))
    }

    /// The GUID of the node, if it is known without a further look into sysfs.
    pub fn known_node_guid(&self) -> Option<u64> {
        self.node_guid.get().copied()
    }

    /// The identity of the device on its bus, for example `pci:v…`; empty for a virtual device.
    pub fn modalias(&self) -> &str {
        self.modalias.get_or_init(|| {
            sysfs::read_text::<512>(&format!("{}/device/modalias", self.ibdev_path)).unwrap_or_default()
        })
    }

    /// The wire protocol family that follows from the node type.
    pub fn transport_type(&self) -> ibv_transport_type_t {
        const CA: i32 = IBV_NODE_CA as i32;
        const SWITCH: i32 = IBV_NODE_SWITCH as i32;
        const ROUTER: i32 = IBV_NODE_ROUTER as i32;
        const RNIC: i32 = IBV_NODE_RNIC as i32;
        const USNIC: i32 = IBV_NODE_USNIC as i32;
        const USNIC_UDP: i32 = IBV_NODE_USNIC_UDP as i32;
        const UNSPECIFIED: i32 = IBV_NODE_UNSPECIFIED as i32;
        let transport = match self.node_type {
            CA | SWITCH | ROUTER => IBV_TRANSPORT_IB,
            RNIC => IBV_TRANSPORT_IWARP,
            USNIC => IBV_TRANSPORT_USNIC,
            USNIC_UDP => IBV_TRANSPORT_USNIC_UDP,
            UNSPECIFIED => IBV_TRANSPORT_UNSPECIFIED,
            _ => IBV_TRANSPORT_UNKNOWN,
        };
        transport as ibv_transport_type_t
    }

    /// The folder of the device file in sysfs.
    pub fn verbs_path(&self) -> String {
        format!("{}/class/infiniband_verbs/{}", sysfs::root(), self.sysfs_name)
    }

    /// Whether both describe one and the same device: a device that came back under an old name is another one.
    pub fn same_device(&self, other: &Self) -> bool {
        self.sysfs_name == other.sysfs_name
            && self.ibdev_idx == other.ibdev_idx
            && (self.ibdev_idx != -1 || self.time_created == other.time_created)
    }
}

/// The devices whose files exist, in the order in which `ibv_get_device_list` shows them the first time.
///
/// ENOSYS when the kernel has neither RDMA netlink nor the sysfs class, or speaks another version of the
/// command set.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let devices = match from_netlink() {
        Ok(devices) => devices,
        Err(_) => from_sysfs()?,
    };
    if !devices.is_empty() {
        check_abi_version()?;
    }
    Ok(devices)
}

/// Whether the kernel copies pinned pages at fork, so that a process may fork whatever it has registered.
pub fn copy_on_fork() -> bool {
    fn ask() -> Result<bool> {
        let mut socket = Socket::open(NETLINK_RDMA)?;
        let request = socket.request(rdma_nl_get_type(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET), 0);
        let mut copies = false;
        socket.dump(&request, |message| {
            let answer = message.attrs(0).find_last(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK);
            copies = answer.and_then(|attr| attr.number::<u8>()).is_some_and(|value| value != 0);
            Ok(())
        })?;
        Ok(copies)
    }
    ask().unwrap_or(false)
}

/// Every device by one dump, then the device files by as few messages as possible.
fn from_netlink() -> Result<Vec<DeviceInfo>> {
    let mut socket = Socket::open(NETLINK_RDMA)?;
    let mut devices = dump_devices(&mut socket)?;
    for some in devices.chunks_mut(REQUESTS_AT_ONCE) {
        ask_device_files(&mut socket, some)?;
    }
    devices.retain_mut(|device| {
        (!device.sysfs_name.is_empty() || device_file_from_sysfs(device).is_some()) && file_exists(device)
    });
    Ok(devices)
}

fn dump_devices(socket: &mut Socket) -> Result<Vec<DeviceInfo>> {
    let mut attempts = 0;
    loop {
        let request =
            socket.request(rdma_nl_get_type(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), libc::NLM_F_DUMP as u16);
        let mut devices = Vec::new();
        attempts += 1;
        match socket.dump(&request, |message| {
            devices.try_reserve(1).map_err(|_| Errno::ENOMEM.also_set())?;
            devices.push(device_of(message).ok_or(Errno::EINVAL)?);
            Ok(())
        }) {
            Err(Errno(libc::EINTR)) if attempts < DUMP_ATTEMPTS => {}
            done => return done.map(|()| devices),
        }
    }
}

/// A device as one message of the dump describes it.
fn device_of(message: &Message<'_>) -> Option<DeviceInfo> {
    let (mut name, mut index, mut ports, mut guid, mut node_type) = (None, None, None, None, None);
    for attr in message.attrs(0) {
        match attr.kind {
            RDMA_NLDEV_ATTR_DEV_NAME => name = attr.text(),
            RDMA_NLDEV_ATTR_DEV_INDEX => index = attr.number::<u32>(),
            RDMA_NLDEV_ATTR_PORT_INDEX => ports = attr.number::<u32>(),
            RDMA_NLDEV_ATTR_NODE_GUID => guid = attr.number::<u64>(),
            RDMA_NLDEV_ATTR_DEV_NODE_TYPE => node_type = attr.number::<u8>(),
            _ => {}
        }
    }
    let mut device = DeviceInfo::named(name?)?;
    device.ibdev_idx = index? as i32;
    device.num_ports = ports?;
    device.node_type = node_type_of(node_type?.into());
    device.node_guid = OnceLock::from(guid?);
    Some(device)
}

/// The kernel's number of a node type means the same to programs; others are unknown.
fn node_type_of(kernel: u32) -> ibv_node_type_t {
    let known = IBV_NODE_CA as u32..=IBV_NODE_UNSPECIFIED as u32;
    if known.contains(&kernel) { kernel as ibv_node_type_t } else { IBV_NODE_UNKNOWN as ibv_node_type_t }
}

/// Asks for the uverbs file of each device, in one piece, and takes the answers as they come. A device whose
/// answer is an error, or of no use, keeps its empty file name.
fn ask_device_files(socket: &mut Socket, devices: &mut [DeviceInfo]) -> Result<()> {
    let kind = rdma_nl_get_type(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET_CHARDEV);
    let mut requests = Vec::new();
    let mut unanswered = Vec::new();
    for device in devices {
        let mut request = socket.request(kind, 0);
        request.attr(RDMA_NLDEV_ATTR_DEV_INDEX, &device.ibdev_idx.to_ne_bytes());
        request.attr(RDMA_NLDEV_ATTR_CHARDEV_TYPE, b"uverbs\0");
        requests.extend_from_slice(request.as_bytes());
        unanswered.push((request.sequence(), device));
    }
    socket.send(&requests)?;
    while !unanswered.is_empty() {
        for message in socket.receive()? {
            let Some(at) = unanswered.iter().position(|(sequence, _)| *sequence == message.sequence) else {
                continue;
            };
            let (_, device) = unanswered.swap_remove(at);
            if i32::from(message.kind) != libc::NLMSG_ERROR {
                take_device_file(device, &message);
            }
        }
    }
    Ok(())
}

/// Notes the device file that a message describes, if it describes one.
fn take_device_file(device: &mut DeviceInfo, message: &Message<'_>) -> Option<()> {
    let (mut cdev, mut abi, mut name, mut driver) = (None, None, None, None);
    for attr in message.attrs(0) {
        match attr.kind {
            RDMA_NLDEV_ATTR_CHARDEV => cdev = attr.number::<u64>(),
            RDMA_NLDEV_ATTR_CHARDEV_ABI => abi = attr.number::<u64>(),
            RDMA_NLDEV_ATTR_CHARDEV_NAME => name = attr.text(),
            RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID => driver = attr.number::<u32>(),
            _ => {}
        }
    }
    let (cdev, abi, name) = (cdev?, abi?, name.filter(|name| is_file_name(name))?);
    // A kernel that answers this request speaks the last version there will be.
    ABI_VERSION.store(*KNOWN_ABI.end(), Ordering::Relaxed);
    device.cdev = device_number(cdev);
    // The upper half is reserved.
    device.abi_ver = abi as u32;
    device.driver_id = driver.filter(|id| *id != RDMA_DRIVER_UNKNOWN);
    device.sysfs_name = name.to_owned();
    Some(())
}

/// Names become the last part of a path: they must not leave the folder.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() < NAME_MAX && !name.contains('/') && name != "." && name != ".."
}

/// The kernel's coding of a device number (`huge_encode_dev`) in that of the C library.
fn device_number(kernel: u64) -> libc::dev_t {
    libc::makedev(((kernel & 0xf_ff00) >> 8) as u32, ((kernel & 0xff) | ((kernel >> 12) & 0xf_ff00)) as u32)
}

fn file_exists(device: &DeviceInfo) -> bool {
    let Ok(path) = path_of(&device.sysfs_name) else {
        return false;
    };
    nix::sys::stat::stat(path.as_c_str()).is_ok()
}

/// The devices of the sysfs class: for kernels without RDMA netlink.
fn from_sysfs() -> Result<Vec<DeviceInfo>> {
    let class = format!("{}/class/infiniband_verbs", sysfs::root());
    if class.len() >= PATH_MAX {
        return Err(Errno::ENOMEM);
    }
    let names = folder_names(&class).ok_or(Errno::ENOSYS)?;
    // Where software devices are shown as the kernel's, for programs that look for themselves, they still are
    // not.
    let kernels = names.iter().filter(|name| !name.starts_with(SOFTWARE_FILE));
    Ok(kernels.filter_map(|name| device_from_sysfs(&class, name)).collect())
}

/// Names in a folder that do not start with a dot, in the folder's order; nothing if it cannot be read.
fn folder_names(path: &str) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(path).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.filter(|name| !name.starts_with('.')).collect())
}

fn device_from_sysfs(class: &str, uverbs: &str) -> Option<DeviceInfo> {
    let folder = format!("{class}/{uverbs}");
    let ibdev_name = sysfs::read_text::<NAME_MAX>(&format!("{folder}/ibdev")).ok()?;
    let mut device = DeviceInfo::named(&ibdev_name).filter(|_| is_file_name(&ibdev_name))?;
    read_uverbs_folder(&mut device, &folder, uverbs)?;
    if let Ok(text) = sysfs::read_text::<32>(&format!("{}/node_type", device.ibdev_path)) {
        device.node_type = node_type_of(sysfs::leading_number(&text).map_or(0, |(number, _)| number));
    }
    file_exists(&device).then_some(device)
}

/// The device file of a device that netlink named, for kernels whose netlink does not tell files.
fn device_file_from_sysfs(device: &mut DeviceInfo) -> Option<()> {
    let class = format!("{}/device/infiniband_verbs", device.ibdev_path);
    let uverbs = folder_names(&class)?.into_iter().next()?;
    read_uverbs_folder(device, &format!("{class}/{uverbs}"), &uverbs)
}

/// What the folder of a device file says.
fn read_uverbs_folder(device: &mut DeviceInfo, folder: &str, uverbs: &str) -> Option<()> {
    if !is_file_name(uverbs) {
        return None;
    }
    let created = std::fs::metadata(&device.ibdev_path).ok()?;
    device.time_created = (created.mtime(), created.mtime_nsec());
    let number = sysfs::read_text::<32>(&format!("{folder}/dev")).ok()?;
    let (major, rest) = sysfs::leading_number(&number)?;
    let (minor, _) = sysfs::leading_number(rest.strip_prefix(':')?)?;
    device.cdev = libc::makedev(major, minor);
    if let Ok(version) = sysfs::read_text::<32>(&format!("{folder}/abi_version")) {
        device.abi_ver = sysfs::leading_number(&version).map_or(0, |(number, _)| number);
    }
    device.sysfs_name = uverbs.to_owned();
    Some(())
}

/// ENOSYS unless the kernel's version of the command set is one that this library speaks.
fn check_abi_version() -> Result<()> {
    if ABI_VERSION.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let text = sysfs::read_text::<8>(&format!("{}/class/infiniband_verbs/abi_version", sysfs::root()))
        .map_err(|_| Errno::ENOSYS)?;
    let version = sysfs::leading_number(&text).map_or(0, |(number, _)| number);
    ABI_VERSION.store(version, Ordering::Relaxed);
    if KNOWN_ABI.contains(&version) {
        return Ok(());
    }
    crate::log::say(format_args!(
        "Fatal: kernel ABI version {version} doesn't match library version {}.",
        KNOWN_ABI.end()
    ));
    Err(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::super::netlink::{Messages, Request, Socket};
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        Socket::open(libc::NETLINK_ROUTE).expect("a netlink socket").request(0x1401, 0)
    }

    fn rxe0() -> Request {
        let mut message = request();
        message.attr(RDMA_NLDEV_ATTR_DEV_INDEX, &3_u32.to_ne_bytes());
        message.attr(RDMA_NLDEV_ATTR_DEV_NAME, b"rxe0\0");
        message.attr(RDMA_NLDEV_ATTR_PORT_INDEX, &1_u32.to_ne_bytes());
        message.attr(RDMA_NLDEV_ATTR_NODE_GUID, &0x0250_b6ff_fe00_0001_u64.to_ne_bytes());
        message.attr(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &[1]);
        message
    }

    fn read(message: &Request) -> Option<DeviceInfo> {
        device_of(&Messages::new(message.as_bytes()).next().expect("one message"))
    }

    #[test]
    fn a_device_is_what_its_message_says() {
        let device = read(&rxe0()).expect("complete");
        assert_eq!((device.ibdev_name.as_str(), device.ibdev_idx, device.num_ports), ("rxe0", 3, 1));
        assert_eq!(device.node_guid(), Some(0x0250_b6ff_fe00_0001));
        assert_eq!(device.transport_type(), IBV_TRANSPORT_IB as ibv_transport_type_t);
        assert!(device.ibdev_path.ends_with("/class/infiniband/rxe0"));
    }

    #[test]
    fn a_message_without_a_name_or_with_a_long_one_is_no_device() {
        assert!(read(&request()).is_none());
        let mut long = rxe0();
        long.attr(RDMA_NLDEV_ATTR_DEV_NAME, &[[b'x'; 70].as_slice(), b"\0"].concat());
        assert!(read(&long).is_none());
    }

    #[test]
    fn the_device_file_comes_with_its_number() {
        let mut device = read(&rxe0()).expect("complete");
        let mut message = request();
        message.attr(RDMA_NLDEV_ATTR_CHARDEV_NAME, b"uverbs0\0");
        message.attr(RDMA_NLDEV_ATTR_CHARDEV_ABI, &2_u64.to_ne_bytes());
        message.attr(RDMA_NLDEV_ATTR_CHARDEV, &0xe7c0_u64.to_ne_bytes());
        message.attr(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, &14_u32.to_ne_bytes());
        let message = Messages::new(message.as_bytes()).next().expect("one message");
        take_device_file(&mut device, &message).expect("complete");
        assert_eq!((device.sysfs_name.as_str(), device.abi_ver), ("uverbs0", 2));
        assert_eq!((device.cdev, device.driver_id), (libc::makedev(231, 192), Some(14)));
    }

    #[test]
    fn device_numbers_with_many_bits_are_decoded() {
        assert_eq!(device_number(0x1234_5678), libc::makedev(0x456, 0x12378));
    }

    #[test]
    fn names_that_are_not_file_names_are_refused() {
        for name in ["", ".", "..", "../mem", "a/b"] {
            assert!(!is_file_name(name), "{name}");
        }
        assert!(is_file_name("uverbs0"));
    }

    #[test]
    fn the_index_tells_devices_apart_and_without_it_the_time() {
        let (a, mut b) = (read(&rxe0()).expect("complete"), read(&rxe0()).expect("complete"));
        assert!(a.same_device(&b));
        b.time_created = (1, 1);
        assert!(a.same_device(&b));
        b.ibdev_idx = 4;
        assert!(!a.same_device(&b));
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut device = read(&rxe0()).expect("complete");
            for message in Messages::new(&bytes) {
                let _ = device_of(&message);
                let _ = take_device_file(&mut device, &message);
            }
        }
    }

    /// What netlink answers to the questions after devices and their files.
    #[test]
    fn fuzz_netlink_devices() {
        use super::super::played::{self, Datagrams};
        corpus::check!().with_type::<(Datagrams, Datagrams)>().for_each(|(devices, files)| {
            let (mut socket, _kernel) = played::socket(devices, 0);
            let mut devices = dump_devices(&mut socket).unwrap_or_default();
            if devices.is_empty() {
                devices.push(DeviceInfo::named("rxe0").expect("a short name"));
            }
            let (mut socket, _kernel) = played::socket(files, 0);
            let _ = ask_device_files(&mut socket, &mut devices[..1]);
            for device in &devices {
                assert!(device.ibdev_name.len() < NAME_MAX && device.ibdev_path.len() < PATH_MAX);
                assert!(device.sysfs_name.is_empty() || is_file_name(&device.sysfs_name));
                let _ = (device.transport_type(), device.same_device(&devices[0]), file_exists(device));
            }
        });
    }

    /// What stands in the files of sysfs.
    #[test]
    fn fuzz_sysfs() {
        let root = std::env::temp_dir().join(format!("ironverbs-fuzz-sysfs-{}", std::process::id()));
        let port = root.join("ports/1");
        for folder in ["pkeys", "gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            std::fs::create_dir_all(port.join(folder)).expect("a temporary folder");
        }
        std::fs::create_dir_all(root.join("device")).expect("a temporary folder");
        let text = root.to_str().expect("a path of ASCII").to_owned();
        corpus::check!().with_type::<[Vec<u8>; 6]>().for_each(|contents| {
            let [dev, abi, guid, modalias, pkey, gid] = contents;
            for (file, content) in [
                ("dev", dev),
                ("abi_version", abi),
                ("node_guid", guid),
                ("device/modalias", modalias),
                ("ports/1/pkeys/0", pkey),
                ("ports/1/gids/0", gid),
                ("ports/1/gid_attrs/types/0", pkey),
                ("ports/1/gid_attrs/ndevs/0", abi),
                ("ibdev", guid),
            ] {
                std::fs::write(root.join(file), content).expect("a file of our own");
            }
            let mut device = DeviceInfo::named("rxe0").expect("a short name");
            device.ibdev_path.clone_from(&text);
            let _ = read_uverbs_folder(&mut device, &text, "uverbs0");
            let _ = (device.node_guid(), device.modalias().len(), file_exists(&device));
            if let Some(other) = device_from_sysfs(&text, ".") {
                assert!(is_file_name(&other.ibdev_name));
            }
            let _ = sysfs::query_pkey(&text, 1, 0);
            let file = super::super::device_file::DeviceFile::from_fd(
                std::fs::File::open("/dev/null").expect("it is always there").into(),
            );
            let want = super::super::gid::Want::ALL;
            let _ = super::super::gid::query_entry(&file, &device, 1, 0, 0, want);
            for room in [1, 8, 41] {
                let mut buffer = vec![0x5a; room + 1];
                if let Ok(length) = sysfs::read(text.as_bytes(), b"ports/1/gids/0", &mut buffer[..room]) {
                    assert!(length < room && (length == 0 || buffer[length] == 0));
                }
                assert_eq!(buffer[room], 0x5a);
            }
        });
        let _ = std::fs::remove_dir_all(&root);
    }
}
