//! rdma-core's soft-RoCE provider, loaded into the stand-in library of `host/`.

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

use crate::PollCq;

const PROVIDER: &str = "librxe-rdmav34.so";

/// Folders where distributions keep providers, after the one that BENCH_PROVIDERS names.
const FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libibverbs",
    "/usr/lib/aarch64-linux-gnu/libibverbs",
    "/usr/lib64/libibverbs",
    "/usr/lib/libibverbs",
];

type Open = unsafe extern "C" fn(fd: c_int, context: *mut *mut c_void) -> c_int;
type CreateCq =
    unsafe extern "C" fn(context: *mut c_void, bytes: u32, poll_cq: *mut *mut c_void) -> *mut c_void;

fn load_error(what: &str) -> String {
    // SAFETY: dlerror gives null or a string that lives until the next call of the dl functions.
    let reason = unsafe { libc::dlerror() };
    if reason.is_null() {
        return what.to_owned();
    }
    // SAFETY: as above.
    format!("{what}: {}", unsafe { CStr::from_ptr(reason) }.to_string_lossy())
}

fn load(path: &str) -> Result<*mut c_void, String> {
    let name = CString::new(path).map_err(|_| "a path with a NUL".to_owned())?;
    // SAFETY: both libraries are made to be loaded: their constructors register a driver, or do nothing.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if library.is_null() { Err(load_error(path)) } else { Ok(library) }
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: a library that was loaded, and a NUL-terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() { Err(load_error(&name.to_string_lossy())) } else { Ok(address) }
}

/// A completion queue of rdma-core's over the first `bytes` of the file, and the function that polls it.
pub fn contestant(fd: c_int, bytes: u32) -> Result<(*mut c_void, PollCq), String> {
    let host = load(env!("HOST_LIBRARY"))?;
    let named = std::env::var("BENCH_PROVIDERS").ok();
    let provider = named
        .iter()
        .map(String::as_str)
        .chain(FOLDERS)
        .map(|folder| PathBuf::from(folder).join(PROVIDER))
        .find(|path| path.exists())
        .ok_or_else(|| format!("no {PROVIDER}"))?;
    load(&provider.to_string_lossy())?;

    // SAFETY: these are the types of the two functions in host.c.
    let (open, create_cq) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Open>(symbol(host, c"host_open")?),
            std::mem::transmute::<*mut c_void, CreateCq>(symbol(host, c"host_create_cq")?),
        )
    };
    let (mut context, mut poll_cq) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: an open file, and a place for the context.
    if unsafe { open(fd, &raw mut context) } != 0 {
        return Err(format!("{} registered no driver", provider.display()));
    }
    // SAFETY: the context just made, whose file has the ring in its first bytes.
    let cq = unsafe { create_cq(context, bytes, &raw mut poll_cq) };
    if cq.is_null() || poll_cq.is_null() {
        return Err("it created no completion queue".to_owned());
    }
    // SAFETY: not null, and the poll function of the provider's table.
    Ok((cq, unsafe { std::mem::transmute::<*mut c_void, PollCq>(poll_cq) }))
}
