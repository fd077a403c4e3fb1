//! An opened uverbs device file, and what the kernel behind it can do.

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::{Mode, fstat};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::read;

pub(super) use ironverbs_os::file::owned;

use super::command::{Command, Path, Prepared};
use super::discovery::DeviceInfo;
use super::{Udata, command};
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::RDMA_DRIVER_UNKNOWN;
use crate::abi::uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_get_context,
    ib_uverbs_get_context_resp,
};
use crate::errno::{Errno, Result};

/// Where the device files are.
pub const DEVICE_DIR: &str = "/dev/infiniband";

/// How long udev may take to make the link to a device file that is not in its place yet (seconds).
const UDEV_SECONDS: i64 = 5;

/// Commands that an ioctl method serves on some kernels and a legacy command on others. One bit each: once the
/// kernel has refused a method, it is not asked again through this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// GET_CONTEXT.
    GetContext,
    /// QUERY_PORT.
    QueryPort,
    /// QUERY_GID_ENTRY and QUERY_GID_TABLE, which came together.
    QueryGid,
    /// PD_DESTROY.
    DeallocPd,
    /// REG_MR.
    RegMr,
    /// MR_DESTROY.
    DeregMr,
    /// MW_DESTROY.
    DeallocMw,
    /// CQ_CREATE.
    CreateCq,
    /// CQ_DESTROY.
    DestroyCq,
    /// SRQ_CREATE.
    CreateSrq,
    /// SRQ_DESTROY.
    DestroySrq,
    /// QP_CREATE.
    CreateQp,
    /// QP_DESTROY.
    DestroyQp,
    /// AH_DESTROY, RWQ_IND_TBL_DESTROY and FLOW_DESTROY, which came together.
    DestroyAh,
    /// XRCD_DESTROY.
    CloseXrcd,
    /// WQ_CREATE.
    CreateWq,
    /// WQ_DESTROY.
    DestroyWq,
}

const INVOKE_WRITE_NOT_ASKED: u8 = 0;
const INVOKE_WRITE_USABLE: u8 = 1;
const INVOKE_WRITE_MISSING: u8 = 2;

/// An opened `/dev/infiniband/uverbsN`.
///
/// Commands take three ways, the first that the kernel has: an ioctl method of the command's own; the legacy
/// command inside the ioctl (INVOKE_WRITE, since Linux 4.20); the legacy command through `write`.
#[derive(Debug)]
pub struct DeviceFile {
    /// Closed with this, unless somebody else is to.
    fd: ManuallyDrop<OwnedFd>,
    disowned: AtomicBool,
    driver_id: AtomicU32,
    refused_methods: AtomicU32,
    invoke_write: AtomicU8,
    imported: AtomicBool,
    /// The file that carries asynchronous events of objects made through this one; -1 until there is one.
    async_fd: AtomicI32,
    /// The same file while nobody owns it: the legacy GET_CONTEXT opens it too early. -1 for none.
    unclaimed_async_fd: AtomicI32,
}

/// What the kernel said when the context was made.
#[derive(Clone, Copy, Debug)]
pub struct GotContext {
    /// Completion vectors that a CQ may name, counted from 0.
    pub num_comp_vectors: u32,
    /// `IB_UVERBS_CORE_SUPPORT_*` bits; 0 from a kernel without the ioctl method.
    pub core_support: u64,
}

impl DeviceFile {
    /// Opens the command file of a device that discovery found.
    ///
    /// The file must be the character device that the kernel named. When it is not, `/dev/char/MAJOR:MINOR` is
    /// tried, for as long as udev may need to make it. The error is the one that the last failed system call
    /// left in `errno`.
    pub fn open(info: &DeviceInfo) -> Result<Self> {
        let file = Self::from_fd(Self::open_fd(info)?);
        file.set_driver_id(info.driver_id.unwrap_or(RDMA_DRIVER_UNKNOWN));
        Ok(file)
    }

    /// As [`DeviceFile::open`], for somebody else to own.
    pub fn open_fd(info: &DeviceInfo) -> Result<OwnedFd> {
        let path = path_of(&info.sysfs_name)?;
        match open_character_device(&path, info.cdev) {
            Err(_) if info.cdev != 0 => wait_for_character_device(info.cdev),
            other => other,
        }
    }

    /// Opens the device once more, as a file without a context. That takes the right to open the device, which
    /// a process that was handed an open file need not have.
    pub fn open_again(&self) -> Result<Self> {
        let path = CString::new(format!("/proc/self/fd/{}", self.as_raw_fd())).map_err(|_| Errno::EINVAL)?;
        open_character_device(&path, 0).map(Self::from_fd)
    }

    /// Takes over a command file that somebody else opened.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self {
            fd: ManuallyDrop::new(fd),
            disowned: AtomicBool::new(false),
            driver_id: AtomicU32::new(RDMA_DRIVER_UNKNOWN),
            refused_methods: AtomicU32::new(0),
            invoke_write: AtomicU8::new(INVOKE_WRITE_NOT_ASKED),
            imported: AtomicBool::new(false),
            async_fd: AtomicI32::new(-1),
            unclaimed_async_fd: AtomicI32::new(-1),
        }
    }

    /// `RDMA_DRIVER_*`: the kernel refuses ioctls (EINVAL) that name another driver than its own.
    pub fn driver_id(&self) -> u32 {
        self.driver_id.load(Ordering::Relaxed)
    }

    /// Names the driver; providers that recognise a device by other means than its driver id must.
    pub fn set_driver_id(&self, driver_id: u32) {
        self.driver_id.store(driver_id, Ordering::Relaxed);
    }

    /// Whether the file came from another process; legacy commands are then not enough for objects that report
    /// events.
    pub fn is_imported(&self) -> bool {
        self.imported.load(Ordering::Relaxed)
    }

    /// Marks the file as one that came from another process.
    pub fn set_imported(&self) {
        self.imported.store(true, Ordering::Relaxed);
    }

    /// Leaves the command file open when this goes: its number is no longer where its owner will look for it.
    pub fn disown(&self) {
        self.disowned.store(true, Ordering::Relaxed);
    }

    /// The file that carries asynchronous events, or -1.
    pub fn async_fd(&self) -> RawFd {
        self.async_fd.load(Ordering::Relaxed)
    }

    pub(super) fn set_async_fd(&self, fd: RawFd) {
        self.async_fd.store(fd, Ordering::Relaxed);
    }

    /// The asynchronous event file that the legacy GET_CONTEXT opened, to its first asker.
    pub fn claim_async_fd(&self) -> Option<OwnedFd> {
        let fd = self.unclaimed_async_fd.swap(-1, Ordering::Relaxed);
        // SAFETY: the kernel opened the descriptor for us, and the swap gives it to one owner only.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Makes the context of this file in the kernel: must come before every command that makes objects.
    ///
    /// `files` are tied to the context where the driver asks for such; the legacy command leaves them out.
    ///
    /// Path: ioctl GET_CONTEXT, else the legacy command (which also opens the asynchronous event file).
    pub fn get_context(&self, files: Option<&[RawFd]>, udata: Udata<'_>) -> Result<GotContext> {
        let Udata { input, output } = udata;
        let mut num_comp_vectors = 0_u32;
        let mut core_support = 0_u64;
        let mut cmd = Command::<5>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
        cmd.value_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &mut num_comp_vectors);
        cmd.value_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &mut core_support);
        if let Some(files) = files {
            // SAFETY: numbers have no padding, so all their bytes are initialised.
            let bytes =
                unsafe { core::slice::from_raw_parts(files.as_ptr().cast::<u8>(), size_of_val(files)) };
            let _ = cmd.bytes(UVERBS_ATTR_GET_CONTEXT_FD_ARR, bytes);
        }
        cmd.driver(input, output);
        if let Path::Ioctl = cmd.execute_or_legacy(self, Method::GetContext)? {
            return Ok(GotContext { num_comp_vectors, core_support });
        }

        let mut answer = ib_uverbs_get_context_resp::default();
        command::execute_write(
            self,
            IB_USER_VERBS_CMD_GET_CONTEXT,
            &ib_uverbs_get_context::default(),
            &mut answer,
            Udata { input, output },
        )?;
        let async_fd = answer.async_fd as RawFd;
        self.set_async_fd(async_fd);
        self.unclaimed_async_fd.store(async_fd, Ordering::Relaxed);
        Ok(GotContext { num_comp_vectors: answer.num_comp_vectors, core_support: 0 })
    }

    /// Connects to the context that the exporting process made (ioctl QUERY_CONTEXT only).
    pub fn query_context(&self, prepared: Prepared<'_>) -> Result<GotContext> {
        let mut num_comp_vectors = 0_u32;
        let mut core_support = 0_u64;
        let mut cmd = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
        cmd.value_out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &mut num_comp_vectors);
        cmd.value_out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &mut core_support);
        cmd.append(prepared);
        cmd.execute(self)?;
        Ok(GotContext { num_comp_vectors, core_support })
    }

    pub(super) fn refuses(&self, method: Method) -> bool {
        self.refused_methods.load(Ordering::Relaxed) & bit(method) != 0
    }

    pub(super) fn note_refused(&self, method: Method) {
        self.refused_methods.fetch_or(bit(method), Ordering::Relaxed);
    }

    pub(super) fn note_no_ioctl(&self) {
        self.refused_methods.store(u32::MAX, Ordering::Relaxed);
        self.invoke_write.store(INVOKE_WRITE_MISSING, Ordering::Relaxed);
    }

    /// False once the kernel is known to lack INVOKE_WRITE.
    pub(super) fn may_invoke_write(&self) -> bool {
        self.invoke_write.load(Ordering::Relaxed) != INVOKE_WRITE_MISSING
    }

    /// Asks the kernel for INVOKE_WRITE, if nobody has yet. To be called when an INVOKE_WRITE failed in a way
    /// that may mean either that the method is missing or that the command inside it failed; not before, to
    /// save the system call.
    pub(super) fn has_invoke_write(&self) -> bool {
        match self.invoke_write.load(Ordering::Relaxed) {
            INVOKE_WRITE_USABLE => true,
            INVOKE_WRITE_MISSING => false,
            _ => {
                // Never runs a command: a request without core data is too short for any (ENOSPC).
                let mut probe = Command::<1>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
                probe.number(UVERBS_ATTR_WRITE_CMD, u64::from(IB_USER_VERBS_CMD_QUERY_DEVICE));
                let usable = !matches!(probe.execute(self), Err(Errno::EPROTONOSUPPORT | Errno::ENOTTY));
                let state = if usable { INVOKE_WRITE_USABLE } else { INVOKE_WRITE_MISSING };
                self.invoke_write.store(state, Ordering::Relaxed);
                usable
            }
        }
    }
}

impl AsRawFd for DeviceFile {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        drop(self.claim_async_fd());
        if !*self.disowned.get_mut() {
            // SAFETY: not dropped before, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

fn bit(method: Method) -> u32 {
    1 << method as u8
}

/// The path of a device file by its kernel name; ENOENT for a name that no path can hold.
pub fn path_of(sysfs_name: &str) -> Result<CString> {
    CString::new(format!("{DEVICE_DIR}/{sysfs_name}")).map_err(|_| Errno::ENOENT.also_set())
}

/// Opens `path` for reading and writing (writing alone would not allow mmap) and checks that it is the
/// character device `cdev`, or any for 0. When only the check fails, `errno` is what it was.
fn open_character_device(path: &CStr, cdev: libc::dev_t) -> Result<OwnedFd> {
    // By the function that rdma-core calls: what stands in for devices in tests of programs replaces that one.
    let fd = open(path, OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).map_err(|_| Errno::last())?;
    let stat = fstat(&fd).map_err(|_| Errno::last())?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFCHR || (cdev != 0 && stat.st_rdev != cdev) {
        return Err(Errno::last());
    }
    Ok(fd)
}

/// Opens the device through the link that udev makes in `/dev/char`, waiting for it to appear.
fn wait_for_character_device(cdev: libc::dev_t) -> Result<OwnedFd> {
    let path = CString::new(format!("/dev/char/{}:{}", libc::major(cdev), libc::minor(cdev)))
        .map_err(|_| Errno::EINVAL.also_set())?;
    let failed = |_| Errno::last();
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(failed)?;
    inotify.add_watch(c"/dev/char/", AddWatchFlags::IN_CREATE).map_err(failed)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).map_err(failed)?;
    let once = Expiration::OneShot(TimeSpec::new(UDEV_SECONDS, 0));
    timer.set(once, TimerSetTimeFlags::empty()).map_err(failed)?;

    let mut opened = open_character_device(&path, cdev);
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds = [readable(inotify.as_fd()), readable(timer.as_fd())];
    let mut events = [0_u8; 512];
    while opened.is_err() && poll(&mut fds, PollTimeout::NONE).is_ok_and(|ready| ready > 0) {
        opened = open_character_device(&path, cdev);
        if opened.is_ok() || fds[1].any() != Some(false) {
            break;
        }
        if fds[0].any() != Some(false) {
            // What they say is not read: the next turn looks.
            read(&inotify, &mut events).map_err(failed)?;
        }
    }
    opened.map_err(|_| Errno::last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_device_opens_only_under_its_own_number() {
        let null = open_character_device(c"/dev/null", libc::makedev(1, 3)).expect("1:3 is /dev/null");
        assert!(null.as_raw_fd() >= 0);
        assert!(open_character_device(c"/dev/null", libc::makedev(1, 5)).is_err());
        assert!(open_character_device(c"/dev/null", 0).is_ok());
        assert_eq!(open_character_device(c"/dev/none-such", 0).unwrap_err(), Errno::ENOENT);
        assert!(open_character_device(c"/proc/self/comm", 0).is_err());
    }

    #[test]
    fn a_device_opens_again_as_a_file_of_its_own() {
        let file = DeviceFile::from_fd(open_character_device(c"/dev/null", 0).expect("/dev/null opens"));
        let again = file.open_again().expect("it opens again");
        assert_ne!(again.as_raw_fd(), file.as_raw_fd());
        let (_other, socket) = std::os::unix::net::UnixStream::pair().expect("socket pair");
        assert!(DeviceFile::from_fd(socket.into()).open_again().is_err());
    }

    #[test]
    fn a_file_without_the_ioctl_refuses_every_method() {
        let fd = open_character_device(c"/dev/null", 0).expect("/dev/null opens");
        let file = DeviceFile::from_fd(fd);
        assert!(!file.has_invoke_write());
        file.note_no_ioctl();
        assert!(file.refuses(Method::GetContext) && file.refuses(Method::CloseXrcd));
    }

    #[test]
    fn one_refused_method_leaves_the_others() {
        let file = DeviceFile::from_fd(open_character_device(c"/dev/null", 0).expect("/dev/null opens"));
        file.note_refused(Method::CreateQp);
        assert!(file.refuses(Method::CreateQp) && !file.refuses(Method::CreateCq));
    }
}
