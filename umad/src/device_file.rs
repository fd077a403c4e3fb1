//! Which device file is a port's, and what the kernel behind it can do.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::os::fd::IntoRawFd;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use ironverbs_os::errno::{Errno, Result};
use ironverbs_os::file::Leftovers;

use crate::abi::umad::{UMAD_CA_NAME_LEN, UMAD_MAX_PORTS, ib_user_mad};
use crate::abi::user_mad::IB_USER_MAD_ENABLE_PKEY;
use crate::ca::folder::{self, Folder, For};
use crate::ca::path::{Decimal, Path};
use crate::debug::{trace, warning};

/// The folder of the device files in sysfs.
const CLASS: &CStr = c"/sys/class/infiniband_mad";
const ABI_VERSION: &CStr = c"/sys/class/infiniband_mad/abi_version";
/// The folder of the device files.
pub const DEVICES: &CStr = c"/dev/infiniband";
/// The oldest version of the kernel's interface that is understood, and the last one in which the partition key
/// index has to be asked for.
const OLDEST: u32 = 5;
/// No version.
const REFUSED: u32 = 1 << 31;

/// Whether headers have a partition key index, as found when a port was opened last.
static HAS_PKEY_INDEX: AtomicBool = AtomicBool::new(false);

/// Whether headers have a partition key index. Before a port is opened they have none.
#[inline]
#[must_use]
pub fn has_pkey_index() -> bool {
    HAS_PKEY_INDEX.load(Ordering::Relaxed)
}

/// Bytes in front of the datagram.
#[inline]
#[must_use]
pub fn header_size() -> usize {
    if has_pkey_index() { size_of::<ib_user_mad>() } else { size_of::<ib_user_mad>() - 8 }
}

/// Version of the kernel's interface, asked once; None where it is too old or there is none.
fn abi_version() -> Option<u32> {
    static VERSION: AtomicU32 = AtomicU32::new(0);
    let known = VERSION.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known & !REFUSED).filter(|version| *version != 0);
    }
    let version = folder::number_at(ABI_VERSION);
    if version.is_err() {
        warning!(
            "get_abi_version",
            "can't read ABI version from %s/%s (%m): is ib_umad module loaded?",
            CLASS.as_ptr(),
            c"abi_version".as_ptr(),
        );
    }
    let version = version.ok().filter(|version| *version >= OLDEST);
    VERSION.store(version.unwrap_or(REFUSED), Ordering::Relaxed);
    version
}

/// Number of the device files of a port: the lowest of which sysfs says so.
pub fn number(ca_name: &CStr, portnum: c_int) -> Option<c_int> {
    let leftovers = Leftovers::default();
    let class = Folder::open(CLASS, For::Entries, &leftovers).ok()?;
    for number in 0..UMAD_MAX_PORTS as c_int {
        let mut dir = Path::of(&[b"umad"]);
        dir.push(Decimal::of(number).as_bytes());
        let file = |name: &[u8]| Path::of(&[dir.as_c_str().to_bytes(), name]);
        let mut device = [0; UMAD_CA_NAME_LEN];
        if class.text(file(b"ibdev").as_c_str(), &mut device).is_err() {
            continue;
        }
        let Ok(port) = class.number(file(b"port").as_c_str()) else { continue };
        if CStr::from_bytes_until_nul(&device) == Ok(ca_name) && port == portnum as u32 {
            trace!("dev_to_umad_id", "mapped %s %d to %d", ca_name.as_ptr(), portnum, number);
            return Some(number);
        }
    }
    None
}

/// Path of the device file of a kind.
#[must_use]
pub fn path(kind: &[u8], number: c_int) -> Path {
    let mut path = Path::of(&[DEVICES.to_bytes(), kind]);
    path.push(Decimal::of(number).as_bytes());
    path
}

/// A kernel with which ports can be opened.
#[derive(Clone, Copy)]
pub struct Kernel(u32);

impl Kernel {
    /// EOPNOTSUPP where the kernel has no interface that is understood.
    pub fn find() -> Result<Self> {
        abi_version().map(Self).ok_or(Errno::EOPNOTSUPP)
    }

    /// Opens a device file and asks for the partition key index. The descriptor is the program's, which closes
    /// it with `umad_close_port`, and stays open in programs that it executes.
    pub fn open(self, path: &CStr) -> Result<c_int> {
        let file = open(path, OFlag::O_RDWR | OFlag::O_NONBLOCK, Mode::empty()).map_err(|_| Errno::last())?;
        let fd = file.into_raw_fd();
        // SAFETY: the request takes no argument.
        let has = self.0 > OLDEST || unsafe { libc::ioctl(fd, IB_USER_MAD_ENABLE_PKEY, 0) } == 0;
        HAS_PKEY_INDEX.store(has, Ordering::Relaxed);
        Ok(fd)
    }
}
