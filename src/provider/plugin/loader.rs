//! Loading of plugins: the drivers that the environment and the configuration name, once per process.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ironverbs_os::fork::ProcessMutex;

use super::places::{GENERATIONS, suffix};
use super::{elf, places, registry};
use crate::environment;
use crate::log;

/// Where plugins are looked for first, set when the library is built (`IRONVERBS_PROVIDER_DIR`).
const PROVIDER_DIR: &str = env!("IRONVERBS_PROVIDER_DIR");
/// Debian's name of this architecture's folder.
const TRIPLET: &str = env!("IRONVERBS_TRIPLET");
/// Where each file names drivers, set when the library is built (`IRONVERBS_CONFIG_DIR`).
const CONFIG_DIR: &str = env!("IRONVERBS_CONFIG_DIR");
/// The private version that a plugin is named by which is nowhere; Debian 12's, whose messages these are.
const NAMED_GENERATION: u32 = 34;

/// Where drivers are named, and where their plugins are.
struct Places<'a> {
    config: &'a Path,
    providers: &'a [PathBuf],
    /// Names between `:` or `;`, or none.
    environment: Option<OsString>,
}

static LOADED: ProcessMutex<bool> = ProcessMutex::new(false);

/// Loads every plugin that is configured, unless that was done before; whether it was done now.
pub fn load_once() -> bool {
    let Ok(mut loaded) = LOADED.lock() else { return false };
    if *loaded {
        return false;
    }
    let environment = environment::trusted("RDMAV_DRIVERS").or_else(|| environment::trusted("IBV_DRIVERS"));
    let chosen = environment::trusted("IRONVERBS_PROVIDER_DIR").map(PathBuf::from);
    // Any address of the library's own.
    let library = elf::path_of((&raw const LOADED).cast()).map(|path| OsStr::from_bytes(path.to_bytes()));
    let library = library.and_then(|path| fs::canonicalize(path).ok());
    let providers = places::folders(chosen.as_deref(), PROVIDER_DIR, library.as_deref(), TRIPLET);
    let places = Places { config: Path::new(CONFIG_DIR), providers: &providers, environment };
    registry::while_loading(|| load(&places));
    *loaded = true;
    true
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
        log::warn_bytes(&[b"couldn't open config directory '", folder.as_os_str().as_bytes(), b"'."]);
        return names;
    };
    // The folder itself and the one above are entries to rdma-core, which says so when it may not look at them.
    let folders = [folder.join("."), folder.join("..")];
    for path in folders.into_iter().chain(entries.filter_map(Result::ok).map(|entry| entry.path())) {
        match fs::metadata(&path) {
            Err(_) => log::warn_bytes(&[b"couldn't stat config file '", path.as_os_str().as_bytes(), b"'."]),
            Ok(metadata) if metadata.is_file() => read_file(&path, &mut names),
            Ok(_) => {}
        }
    }
    names
}

fn read_file(path: &Path, names: &mut Vec<Vec<u8>>) {
    let shown = path.as_os_str().as_bytes();
    let Ok(file) = fs::File::open(path) else {
        return log::warn_bytes(&[b"couldn't read config file ", shown, b"."]);
    };
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        match directive(&line) {
            Ok(Some(name)) => names.push(name.to_vec()),
            Ok(None) => {}
            Err(word) => {
                log::warn_bytes(&[b"ignoring bad config directive '", word, b"' in file '", shown, b"'."]);
            }
        }
        line.clear();
    }
}

/// The driver that a line with its end names (`driver NAME`); none for a comment or an empty line; its first
/// word for anything else, as which a file's last line counts that ends right after the word `driver`.
fn directive(line: &[u8]) -> Result<Option<&[u8]>, &[u8]> {
    // To rdma-core a line is a C string.
    let line = unindented(line.split(|byte| *byte == 0).next().unwrap_or_default());
    if matches!(line.first(), Some(b'\n' | b'#')) {
        return Ok(None);
    }
    match first_word(line) {
        (b"driver", Some(rest)) => Ok(Some(first_word(unindented(rest)).0)),
        (word, _) => Err(word),
    }
}

fn unindented(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[start..]
}

/// What stands before the first blank or line end, and what stands behind it, if there is one.
fn first_word(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\n')) {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

/// Loads one plugin: its constructor registers its driver. One that cannot be loaded is a warning and no more.
///
/// Of several files the first that can be loaded counts. As with rdma-core, one in its folder that cannot be
/// loaded is looked for where libraries are, and that is what the warning is about.
fn load_driver(name: &[u8], providers: &[PathBuf]) {
    let name = Path::new(OsStr::from_bytes(name));
    let mut failed = None;
    for file in places::candidates(name, providers) {
        // Not a question to the linker, which would look at each of its folders.
        if file.symlink_metadata().is_err() {
            continue;
        }
        match open(file.as_os_str().as_bytes()) {
            Ok(()) => return,
            Err(reason) => failed = failed.or(Some((file, reason))),
        }
    }
    if name.is_absolute() {
        let (file, reason) = failed.unwrap_or_else(|| {
            let named = [name.as_os_str().as_bytes(), suffix(NAMED_GENERATION).as_bytes()].concat();
            let reason = open(&named).err().unwrap_or_default();
            (PathBuf::from(OsString::from_vec(named)), reason)
        });
        return warn(file.as_os_str().as_bytes(), &reason);
    }
    // Without a slash the name is looked for where libraries are.
    let bare = |generation| [b"lib", name.as_os_str().as_bytes(), suffix(generation).as_bytes()].concat();
    if GENERATIONS.iter().any(|&generation| open(&bare(generation)).is_ok()) {
        return;
    }
    let file = bare(NAMED_GENERATION);
    let reason = open(&file).err().unwrap_or_default();
    warn(&file, &reason);
}

fn warn(file: &[u8], reason: &[u8]) {
    log::warn_bytes(&[b"couldn't load driver '", file, b"': ", reason]);
}

/// Opens a shared object for the rest of the process; the linker's reason if that fails.
fn open(file: &[u8]) -> Result<(), Vec<u8>> {
    let name = CString::new(file).map_err(|_| b"the name holds a NUL".to_vec())?;
    // The linker would map what is not there, and the process would end with SIGBUS.
    if file.contains(&b'/') && !elf::is_whole(Path::new(OsStr::from_bytes(file))) {
        return Err([file, b": file too short"].concat());
    }
    // SAFETY: a C string. Constructors of the file run; that they do nothing wrong is what a plugin is trusted
    // for.
    if !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null() {
        return Ok(());
    }
    // SAFETY: dlerror returns null or a C string that stays until this thread's next call of the linker.
    let reason = unsafe { libc::dlerror().as_ref().map(|reason| CStr::from_ptr(reason)) };
    Err(reason.map_or_else(Vec::new, |reason| reason.to_bytes().to_vec()))
}

#[cfg(test)]
mod tests;
