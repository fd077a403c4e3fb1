//! Loading of plugins: the drivers that the environment and the configuration name, once per process.

use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;

use crate::log;

/// Where plugins are, set when the library is built (`IRONVERBS_PROVIDER_DIR`).
const PROVIDER_DIR: &str = env!("IRONVERBS_PROVIDER_DIR");
/// Where each file names drivers, set when the library is built (`IRONVERBS_CONFIG_DIR`).
const CONFIG_DIR: &str = env!("IRONVERBS_CONFIG_DIR");
/// What follows the name of a plugin in its file name.
const SUFFIX: &str = "-rdmav34.so";

/// Where drivers are named, and where their plugins are.
struct Places<'a> {
    config: &'a Path,
    /// Empty for none.
    providers: &'a str,
    /// Names between `:` or `;`, or none.
    environment: Option<OsString>,
}

static LOADED: Once = Once::new();

/// Loads every plugin that is configured, unless that was done before; whether it was done now.
pub fn load_once() -> bool {
    let mut now = false;
    LOADED.call_once(|| {
        let environment = trusted_variable("RDMAV_DRIVERS").or_else(|| trusted_variable("IBV_DRIVERS"));
        load(&Places { config: Path::new(CONFIG_DIR), providers: PROVIDER_DIR, environment });
        now = true;
    });
    now
}

/// A variable of the environment, unless the process runs with the rights of another user than who started it.
pub fn trusted_variable(name: &str) -> Option<OsString> {
    // Asked only if there is a variable, to save the system calls.
    // SAFETY: neither call can fail.
    std::env::var_os(name).filter(|_| unsafe { libc::getuid() == libc::geteuid() })
}

/// Loads first what the environment names, then what the configuration does, the last named first.
fn load(places: &Places<'_>) {
    let configured = configured(places.config);
    if let Some(names) = &places.environment {
        for name in names.as_bytes().split(|byte| matches!(byte, b':' | b';')) {
            load_driver(name, places.providers);
        }
    }
    for name in configured.iter().rev() {
        load_driver(name, places.providers);
    }
}

/// The drivers that the files of a folder name, in the folder's order.
fn configured(folder: &Path) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        log::warn(format_args!("couldn't open config directory '{}'.", folder.display()));
        return names;
    };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        match fs::metadata(&path) {
            Err(_) => log::warn(format_args!("couldn't stat config file '{}'.", path.display())),
            Ok(metadata) if metadata.is_file() => read_file(&path, &mut names),
            Ok(_) => {}
        }
    }
    names
}

fn read_file(path: &Path, names: &mut Vec<Vec<u8>>) {
    let Ok(file) = fs::File::open(path) else {
        log::warn(format_args!("couldn't read config file {}.", path.display()));
        return;
    };
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        match directive(&line) {
            Ok(Some(name)) => names.push(name.to_vec()),
            Ok(None) => {}
            Err(word) => log::warn(format_args!(
                "ignoring bad config directive '{}' in file '{}'.",
                String::from_utf8_lossy(word),
                path.display()
            )),
        }
    }
}

/// The driver that a line names (`driver NAME`); none for a comment or an empty line; its first word for anything else.
fn directive(line: &[u8]) -> Result<Option<&[u8]>, &[u8]> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let trimmed = |text: &'_ [u8]| text.iter().take_while(|byte| blank(byte)).count();
    let line = &line[trimmed(line)..];
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    if word != b"driver" {
        return Err(word);
    }
    let name = &rest[trimmed(rest)..];
    Ok(Some(name.split(blank).next().unwrap_or_default()))
}

/// Loads one plugin: its constructor registers its driver. One that cannot be loaded is a warning and no more.
fn load_driver(name: &[u8], providers: &str) {
    if name.first() == Some(&b'/') {
        let file = [name, SUFFIX.as_bytes()].concat();
        return open(&file).unwrap_or_else(|reason| warn(&file, &reason));
    }
    let file = [b"lib", name, SUFFIX.as_bytes()].concat();
    // Without a slash the name is looked for where libraries are.
    if providers.is_empty() || open(&[providers.as_bytes(), b"/", &file].concat()).is_err() {
        open(&file).unwrap_or_else(|reason| warn(&file, &reason));
    }
}

fn warn(file: &[u8], reason: &str) {
    log::warn(format_args!("couldn't load driver '{}': {reason}", String::from_utf8_lossy(file)));
}

/// Opens a shared object for the rest of the process; the linker's reason if that fails.
fn open(file: &[u8]) -> Result<(), String> {
    let file = CString::new(file).map_err(|_| "the name holds a NUL".to_owned())?;
    // SAFETY: a C string. Constructors of the file run; that they do nothing wrong is what a plugin is trusted for.
    if !unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) }.is_null() {
        return Ok(());
    }
    // SAFETY: dlerror returns null or a C string that stays until this thread's next call of the linker.
    let reason = unsafe { libc::dlerror().as_ref().map(|reason| CStr::from_ptr(reason)) };
    Err(reason.map_or_else(String::new, |reason| reason.to_string_lossy().into_owned()))
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
