//! `ironverbs doctor`: what works on this machine, each problem with what repairs it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;

use ironverbs_os::environment::trusted;
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use softrdma::shm::folder::{Config, Folder};

use crate::colours;
use crate::devices::with_software;
use crate::library::{Device, Library, PortText};
use crate::network;
use crate::places::Places;
use crate::plugins;
use crate::waits::Waits;
use crate::{Result, plain};

/// Room in shared memory below which the files of many processes, and what `ironverbs run` shows them, may not
/// fit (bytes).
const ROOM_WISHED: u64 = 8 << 20;
/// Locked memory that registrations for hardware soon need more of (bytes).
const LOCKED_WISHED: u64 = 64 << 20;

/// What an examination ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, not as well as it could.
    Note,
    /// The software device cannot work.
    Bad,
}

/// Prints the examinations; failure when the software device cannot work.
pub fn report(places: Result<Places>) -> ExitCode {
    let mut report = Report { works: true, colours: colours::are_wanted(&io::stdout()) };
    let path = places.as_ref().ok().map(Places::library);
    let library = report.library(places);
    let devices = library.map_or(Ok(Vec::new()), |library| with_software(&library));
    let (software, kernels): (Vec<_>, Vec<_>) =
        devices.unwrap_or_default().into_iter().partition(Device::is_software);
    report.kernel_devices(&kernels);
    if let Some(library) = &path {
        report.plugins(library);
    }
    let config = report.folder();
    if let Some(config) = &config {
        report.room(config.path.parent().unwrap_or(Path::new("/")));
    }
    report.copies();
    report.loopback();
    report.locked_memory(!kernels.is_empty());
    report.software_device(&software);
    for (verdict, what, finding, repair) in network::lines() {
        let repair: Vec<_> = repair.iter().map(String::as_str).collect();
        report.say(verdict, what, &finding, &repair);
    }
    if report.works { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Report {
    works: bool,
    colours: bool,
}

impl Report {
    fn say(&mut self, verdict: Verdict, what: &str, finding: &str, repair: &[&str]) {
        let (word, colour) = match verdict {
            Verdict::Good => ("ok  ", "\x1b[32m"),
            Verdict::Note => ("note", "\x1b[33m"),
            Verdict::Bad => ("BAD ", "\x1b[1;31m"),
        };
        let (colour, end) = if self.colours { (colour, "\x1b[0m") } else { ("", "") };
        println!("{colour}{word}{end}  {what}: {}", plain(finding));
        for command in repair {
            println!("        repair: {command}");
        }
        self.works &= verdict != Verdict::Bad;
    }

    fn library(&mut self, places: Result<Places>) -> Option<Library> {
        let opened = places.and_then(|places| Ok((Library::open(&places.library())?, places)));
        match opened {
            Ok((library, places)) => {
                self.say(Verdict::Good, "library", &places.library().display().to_string(), &[]);
                self.say(Verdict::Good, "preloaded", &places.shim().display().to_string(), &[]);
                Some(library)
            }
            Err(problem) => {
                self.say(Verdict::Bad, "library", &problem, &["make"]);
                None
            }
        }
    }

    fn kernel_devices(&mut self, devices: &[Device]) {
        if devices.is_empty() {
            self.say(Verdict::Good, "kernel devices", "none; the software device needs none", &[]);
        }
        for device in devices {
            match &device.ports {
                Ok(ports) => {
                    let states: Vec<_> = ports
                        .iter()
                        .map(|port| format!("port {} {}", port.number, port.attr.state()))
                        .collect();
                    self.say(
                        Verdict::Good,
                        "kernel device",
                        &format!("{}, {}", device.name, states.join(", ")),
                        &[],
                    );
                }
                Err(why) => {
                    let file = format!("/dev/infiniband/{}", device.file);
                    let finding = format!("{} cannot be opened: {why}", device.name);
                    let repair = match why.raw_os_error() {
                        Some(libc::EACCES | libc::EPERM) => vec![format!("sudo chmod 666 {file}")],
                        _ => Vec::new(),
                    };
                    let repair: Vec<_> = repair.iter().map(String::as_str).collect();
                    self.say(Verdict::Note, "kernel device", &finding, &repair);
                }
            }
        }
    }

    /// The provider plugins, which drive hardware.
    fn plugins(&mut self, library: &Path) {
        let found = plugins::found(library);
        if found.iter().all(|(_, plugins)| plugins.is_empty()) {
            self.say(
                Verdict::Good,
                "plugins",
                "none; only hardware needs them (package ibverbs-providers)",
                &[],
            );
        }
        for (folder, plugins) in found {
            let mut loaded: BTreeMap<u32, usize> = BTreeMap::new();
            for plugin in plugins {
                match plugins::refusal(&plugin) {
                    None => *loaded.entry(plugin.version).or_default() += 1,
                    Some(why) => {
                        let finding = format!("{} does not load: {why}", plugin.path.display());
                        self.say(Verdict::Note, "plugin", &finding, &[]);
                    }
                }
            }
            for (version, count) in loaded.iter().rev() {
                let finding = format!("{}: {count} of private version {version} load", folder.display());
                self.say(Verdict::Good, "plugins", &finding, &[]);
            }
        }
    }

    /// The folder in which processes meet, opened as the device opens it.
    fn folder(&mut self) -> Option<Config> {
        let config = match Config::from_env() {
            Ok(config) => config,
            Err(why) => {
                let repair = "unset IRONVERBS_SOFT_GROUP IRONVERBS_SOFT_DIR";
                self.say(Verdict::Bad, "folder", &why.to_string(), &[repair]);
                return None;
            }
        };
        let path = config.path.display().to_string();
        match Folder::open(&config) {
            Ok(_) => {
                let who = config.group.map_or("the processes of this user".to_owned(), |gid| {
                    format!("the members of group {gid}")
                });
                self.say(Verdict::Good, "folder", &format!("{path}, for {who}"), &[]);
            }
            Err(why) => {
                let other = "export IRONVERBS_SOFT_DIR=$XDG_RUNTIME_DIR/ironverbs   (for all programs that \
                 are to meet)";
                let parent = config.path.parent().unwrap_or(Path::new("/")).display().to_string();
                let repair = match why {
                    softrdma::shm::Error::Folder(_) => {
                        vec![format!("rm -r {path}   (its owner, or root)"), other.to_owned()]
                    }
                    softrdma::shm::Error::Os { errno: libc::ENOENT, .. } => {
                        vec![
                            format!("sudo mkdir -m 1777 {parent} && sudo mount -t tmpfs tmpfs {parent}"),
                            other.to_owned(),
                        ]
                    }
                    softrdma::shm::Error::Os { errno: libc::EACCES | libc::EPERM, .. } => {
                        vec![format!("sudo chmod 1777 {parent}"), other.to_owned()]
                    }
                    softrdma::shm::Error::Os { errno: libc::ENOSPC, .. } => vec![enlarge(&parent)],
                    softrdma::shm::Error::Os { errno: libc::EROFS, .. } => {
                        vec![format!("sudo mount -o remount,rw {parent}"), other.to_owned()]
                    }
                    _ => vec![other.to_owned()],
                };
                let repair: Vec<_> = repair.iter().map(String::as_str).collect();
                self.say(Verdict::Bad, "folder", &format!("{path}: {why}"), &repair);
            }
        }
        Some(config)
    }

    fn room(&mut self, shared: &Path) {
        let path = shared.display().to_string();
        let free = match free_space(shared) {
            Ok(free) => free,
            Err(why) => {
                self.say(Verdict::Note, "shared memory", &format!("{path}: {}", io::Error::from(why)), &[]);
                return;
            }
        };
        let room = if free == u64::MAX { "no limit".to_owned() } else { format!("{} free", size(free)) };
        let finding = format!("{path} has {room}");
        let repair = enlarge(&path);
        // Whether it is enough for one process, the device itself shows below.
        if free < ROOM_WISHED {
            let finding = format!("{finding}: enough for a few processes");
            self.say(Verdict::Note, "shared memory", &finding, &[&repair, CONTAINER_ROOM]);
        } else {
            self.say(Verdict::Good, "shared memory", &finding, &[]);
        }
    }

    /// Whether the kernel copies between processes that are not each other's descendants.
    fn copies(&mut self) {
        const WHAT: &str = "copies between processes";
        const SLOWER: &str = "payload goes through shared memory by two copies, which is slower";
        match read_from_stranger(false) {
            Ok(()) => self.say(Verdict::Good, WHAT, "the kernel makes them (process_vm_readv)", &[]),
            Err(libc::EPERM) if refuses() && yama() == Some(1) => {
                let finding =
                    format!("Yama asks for consent, which IRONVERBS_SOFT_CONSENT refuses: {SLOWER}");
                self.say(Verdict::Note, WHAT, &finding, &["unset IRONVERBS_SOFT_CONSENT"]);
            }
            Err(libc::EPERM) if yama() == Some(1) && read_from_stranger(true).is_ok() => {
                let finding = "Yama's ptrace_scope 1 allows them where the other process consents, which the \
                 device does";
                self.say(Verdict::Good, WHAT, finding, &[]);
            }
            Err(libc::EPERM) if yama().is_some_and(|scope| scope > 0) => {
                let scope = yama().unwrap_or(0);
                let repair = if scope == 3 {
                    "(ptrace_scope 3 ends at the next start of the machine)"
                } else {
                    "sudo sysctl kernel.yama.ptrace_scope=1"
                };
                self.say(
                    Verdict::Note,
                    WHAT,
                    &format!("Yama's ptrace_scope {scope} forbids them: {SLOWER}"),
                    &[repair],
                );
            }
            Err(errno @ (libc::EPERM | libc::ENOSYS)) => {
                let why = io::Error::from_raw_os_error(errno);
                let finding = format!("not allowed here ({why}): {SLOWER}");
                self.say(
                    Verdict::Note,
                    WHAT,
                    &finding,
                    &["docker run --cap-add=SYS_PTRACE …   (in a container)"],
                );
            }
            Err(errno) => {
                let why = io::Error::from_raw_os_error(errno);
                self.say(Verdict::Note, WHAT, &format!("the trial failed ({why}): {SLOWER}"), &[]);
            }
        }
    }

    /// The software device needs no network; programs that tell each other their numbers over TCP do.
    fn loopback(&mut self) {
        match std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| TcpStream::connect(listener.local_addr()?))
        {
            Ok(_) => {
                self.say(Verdict::Good, "localhost", "TCP works, by which programs find each other", &[])
            }
            Err(why) => {
                let finding = format!("no TCP ({why}), by which most programs find each other");
                self.say(Verdict::Note, "localhost", &finding, &["sudo ip link set lo up"]);
            }
        }
    }

    fn locked_memory(&mut self, hardware: bool) {
        let Ok((limit, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else { return };
        let text = if limit == RLIM_INFINITY { "unlimited".to_owned() } else { size(limit) };
        if hardware && limit < LOCKED_WISHED {
            let raise =
                "ulimit -l unlimited   (root, or after `* - memlock unlimited` in /etc/security/limits.conf)";
            self.say(
                Verdict::Note,
                "locked memory",
                &format!("{text}: kernel devices will soon refuse registrations"),
                &[raise],
            );
        } else {
            self.say(Verdict::Good, "locked memory", &format!("{text}; the software device locks none"), &[]);
        }
    }

    fn software_device(&mut self, devices: &[Device]) {
        let Some(device) = devices.first() else {
            self.say(
                Verdict::Bad,
                "software device",
                "not in the list of devices",
                &["make", "unset IRONVERBS_SOFT"],
            );
            return;
        };
        match &device.ports {
            Ok(ports) if ports.iter().any(|port| port.attr.state == 4 && !port.gids.is_empty()) => {
                let gids = ports.iter().map(|port| port.gids.len()).sum::<usize>();
                self.say(
                    Verdict::Good,
                    "software device",
                    &format!("{} opens, port 1 ACTIVE, {gids} GIDs", device.name),
                    &[],
                );
            }
            Ok(_) => self.say(
                Verdict::Bad,
                "software device",
                &format!("{} has no port with a GID", device.name),
                &[],
            ),
            Err(why) => {
                let repair = match why.raw_os_error() {
                    Some(libc::ENOMEM | libc::ENOSPC) => {
                        vec!["sudo mount -o remount,size=1G /dev/shm", CONTAINER_ROOM]
                    }
                    Some(libc::EMFILE) => vec!["ulimit -n 4096"],
                    Some(libc::EPERM | libc::ENOSYS) => {
                        vec!["allow memfd_create (a container's seccomp profile)"]
                    }
                    _ => Vec::new(),
                };
                self.say(
                    Verdict::Bad,
                    "software device",
                    &format!("{} does not open: {why}", device.name),
                    &repair,
                );
            }
        }
    }
}

const CONTAINER_ROOM: &str = "docker run --shm-size=1g …   (in a container)";

fn enlarge(mount: &str) -> String {
    format!("sudo mount -o remount,size=1G {mount}")
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = ((bytes.max(1).ilog2() / 10) as usize).min(UNITS.len() - 1);
    if unit == 0 {
        return format!("{bytes} bytes");
    }
    format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * unit)) as f64, UNITS[unit])
}

// On 32-bit machines some of the numbers are narrower.
#[allow(clippy::useless_conversion)]
fn free_space(folder: &Path) -> nix::Result<u64> {
    let stat = statvfs(folder)?;
    // A tmpfs without a limit tells no blocks at all.
    let blocks = if stat.blocks() == 0 { u64::MAX } else { stat.blocks_available().into() };
    Ok(blocks.saturating_mul(stat.fragment_size().into()))
}

fn yama() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

/// Whether the environment tells the device not to consent.
fn refuses() -> bool {
    trusted("IRONVERBS_SOFT_CONSENT").is_some_and(|value| value == "0")
}

/// Has a child read from this process's memory, which is not its descendant's: as between any two programs.
/// `consent`: this process tells Yama that others of its user may; else that they may not.
fn read_from_stranger(consent: bool) -> std::result::Result<(), i32> {
    const SIGN: u64 = 0x1a0e_5b3c_77d2_4f96;
    let sign = core::hint::black_box(SIGN);
    let who = if consent { libc::PR_SET_PTRACER_ANY } else { 0 };
    let _waits = Waits::begin();
    // SAFETY: plain numbers; a kernel without Yama answers with an error, and asks for no consent either.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, who, 0, 0, 0) };
    let parent = Pid::this();
    // SAFETY: the child makes two system calls and ends; it touches no lock and no heap.
    let ForkResult::Parent { child } = (unsafe { fork() }).map_err(|why| why as i32)? else {
        let mut copy = [0; size_of::<u64>()];
        let remote = RemoteIoVec { base: (&raw const sign).addr(), len: copy.len() };
        let moved = process_vm_readv(parent, &mut [IoSliceMut::new(&mut copy)], &[remote]);
        let status = match moved {
            Ok(_) if u64::from_ne_bytes(copy) == SIGN => 0,
            Ok(_) => libc::EIO,
            Err(why) => why as i32,
        };
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(status) };
    };
    loop {
        return match waitpid(child, None) {
            Err(Errno::EINTR) => continue,
            Err(why) => Err(why as i32),
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => Err(errno),
            Ok(_) => Err(libc::ENOSYS),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size(512), "512 bytes");
        assert_eq!(size(8 << 20), "8.0 MiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
    }
}
