//! Provider plugins for the doctor: which there are, and why one does not load.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ironverbs::provider::plugin::places;
use ironverbs_os::environment::trusted;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, write};

use crate::waits::Waits;

/// A file in a folder of plugins.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plugin {
    /// Private version in its name.
    pub version: u32,
    /// Its path.
    pub path: PathBuf,
}

/// The folders in which the library looks, those that are there; and the plugins in each.
pub fn found(library: &Path) -> Vec<(PathBuf, Vec<Plugin>)> {
    let chosen = trusted("IRONVERBS_PROVIDER_DIR").map(PathBuf::from);
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let library = fs::canonicalize(library).ok();
    let folders = places::folders(chosen.as_deref(), "", library.as_deref(), &triplet);
    folders.into_iter().filter_map(|folder| plugins(&folder).map(|plugins| (folder, plugins))).collect()
}

/// The plugins in a folder by their names; None where it cannot be read.
fn plugins(folder: &Path) -> Option<Vec<Plugin>> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut plugins: Vec<_> = files
        .filter_map(|path| version_of(&path).map(|version| Plugin { version, path: path.clone() }))
        .collect();
    plugins.sort();
    Some(plugins)
}

fn version_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_prefix("lib")?.strip_suffix(".so")?;
    name.rsplit_once("-rdmav")?.1.parse().ok()
}

/// The private versions that the library drives, as text.
pub fn supported() -> String {
    places::GENERATIONS.map(|version| version.to_string()).join(", ")
}

/// Why a plugin does not load on the library that this process has loaded; None if it does.
pub fn refusal(plugin: &Plugin) -> Option<String> {
    if !places::GENERATIONS.contains(&plugin.version) {
        return Some(format!("private version {} is not supported ({} are)", plugin.version, supported()));
    }
    let path = CString::new(plugin.path.as_os_str().as_bytes()).ok()?;
    let _waits = Waits::begin();
    let ended = || -> io::Result<(WaitStatus, String)> {
        let (mut reader, writer) = io::pipe()?;
        // SAFETY: this process has one thread. The child loads the file, whose constructors may end it, and
        // that alone.
        let ForkResult::Parent { child } = (unsafe { fork() })? else { load(&path, &writer) };
        drop(writer);
        let mut reason = String::new();
        let _ = reader.read_to_string(&mut reason);
        Ok((waitpid(child, None)?, reason))
    };
    match ended() {
        Ok((WaitStatus::Exited(_, 0), _)) => None,
        Ok((WaitStatus::Signaled(_, signal, _), _)) => {
            Some(format!("loading it ends with signal {}", signal as i32))
        }
        Ok((_, reason)) => Some(reason),
        Err(why) => Some(why.to_string()),
    }
}

/// What the child does: tells the linker's reason where the file does not load, and ends.
fn load(path: &CStr, reason: &io::PipeWriter) -> ! {
    // SAFETY: C strings; the linker's reason is one, too. _exit runs no handler of the parent's.
    unsafe {
        if libc::dlopen(path.as_ptr(), libc::RTLD_NOW).is_null() {
            let _ = write(reason, CStr::from_ptr(libc::dlerror()).to_bytes());
            libc::_exit(1);
        }
        libc::_exit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_name() {
        for (name, version) in [
            ("/x/libmlx5-rdmav34.so", Some(34)),
            ("libbnxt_re-rdmav65.so", Some(65)),
            ("libmlx5.so.1", None),
            ("mlx5-rdmav34.so", None),
            ("libmlx5-rdmavx.so", None),
        ] {
            assert_eq!(version_of(Path::new(name)), version, "{name}");
        }
    }

    #[test]
    fn what_does_not_load_says_why() {
        let folder = std::env::temp_dir().join(format!("ironverbs-doctor-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("libtext-rdmav34.so"),
            "no shared object at all, though it has this length of text",
        )
        .unwrap();
        fs::write(folder.join("libold-rdmav25.so"), "").unwrap();
        let plugins = plugins(&folder).unwrap();
        assert_eq!(plugins.iter().map(|plugin| plugin.version).collect::<Vec<_>>(), [25, 34]);
        assert!(refusal(&plugins[0]).unwrap().contains("version 25 is not supported"));
        assert!(refusal(&plugins[1]).unwrap().contains("libtext-rdmav34.so"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
