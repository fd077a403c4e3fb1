//! Whether a process is frozen with its container by cgroup v2, of which the kernel says only that it sleeps.
//!
//! `cgroup.events` of its control group says so (`frozen 1`), also where a group above was frozen
//! (Linux, Documentation/admin-guide/cgroup-v2.rst).

use std::fs::read_to_string;
use std::io::ErrorKind;

/// Whether it may be: also when that cannot be seen from here, since its control group is outside this
/// process's namespace of them.
pub(super) fn may_be_frozen(pid: libc::pid_t) -> bool {
    let (Some(own), Some(its)) = (group_of("self"), group_of(&pid.to_string())) else { return false };
    // Who asks runs.
    if own == its {
        return false;
    }
    let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let Some(group) = mounts.lines().find_map(|mount| beneath(mount, &its)) else { return true };
    match read_to_string(format!("{group}/cgroup.events")) {
        Ok(events) => !events.lines().any(|line| line == "frozen 0"),
        // The root of all has no such file and is never frozen.
        Err(e) => e.kind() != ErrorKind::NotFound || its != "/",
    }
}

/// The control group of a process in the only hierarchy of version 2, as this process's namespace names it.
fn group_of(pid: &str) -> Option<String> {
    let groups = read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// Where a control group is, by a line of mountinfo (proc_pid_mountinfo(5)); `None` when it is not beneath this
/// mount.
fn beneath(mount: &str, group: &str) -> Option<String> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, at) = (place.next()?, place.next()?);
    let rest = group.strip_prefix(root.trim_end_matches('/'))?;
    let is_inside = (rest.is_empty() || rest.starts_with('/')) && !group.starts_with("/..");
    (kind.starts_with("cgroup2 ") && is_inside).then(|| format!("{at}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_beneath_its_mount() {
        let mount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        let deep = "30 24 0:26 /a /mnt rw shared:4 - cgroup2 none rw";
        let other = "31 24 0:27 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer";
        let found = |mount, group| beneath(mount, group);
        assert_eq!(found(mount, "/a/b").as_deref(), Some("/sys/fs/cgroup/a/b"));
        assert_eq!(found(deep, "/a/b").as_deref(), Some("/mnt/b"));
        assert_eq!(found(deep, "/a").as_deref(), Some("/mnt"));
        for (mount, group) in [(deep, "/ab"), (deep, "/b"), (other, "/a"), (mount, "/../a"), ("", "/a")] {
            assert_eq!(found(mount, group), None);
        }
    }

    #[test]
    fn who_asks_is_not_frozen() {
        // SAFETY: reads a number of the process.
        assert!(!may_be_frozen(unsafe { libc::getpid() }));
    }
}
