//! What is known of a shared object: whether it is all there, before the dynamic linker maps it, and what it
//! exports.

use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(target_pointer_width = "32")]
use libc::{Elf32_Ehdr as Header, Elf32_Phdr as Segment};
#[cfg(target_pointer_width = "64")]
use libc::{Elf64_Ehdr as Header, Elf64_Phdr as Segment};

/// A struct read from a file; None where the file ends before it does.
///
/// # Safety
/// Every pattern of bits is a `T`.
unsafe fn read<T>(file: &File, offset: u64) -> Option<T> {
    let mut bytes = vec![0; size_of::<T>()];
    file.read_exact_at(&mut bytes, offset).ok()?;
    // SAFETY: as many bytes as the struct has, and by the contract they are one.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// False for an ELF file that ends before its segments do. True for everything else: the linker knows what is
/// wrong with it.
#[allow(clippy::unnecessary_cast, reason = "these fields have 32 bits in 32-bit files")]
pub fn is_whole(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let Ok(length) = file.metadata().map(|metadata| metadata.len()) else { return true };
    // SAFETY: a C struct of integers.
    let header = unsafe { read::<Header>(&file, 0) };
    let Some(header) = header.filter(|header| header.e_ident.starts_with(b"\x7fELF")) else { return true };
    if usize::from(header.e_phentsize) != size_of::<Segment>() {
        return true;
    }
    (0..u64::from(header.e_phnum)).all(|number| {
        let at = (header.e_phoff as u64).checked_add(number * size_of::<Segment>() as u64);
        // SAFETY: a C struct of integers.
        let Some(segment) = at.and_then(|at| unsafe { read::<Segment>(&file, at) }) else { return true };
        let end = (segment.p_offset as u64).checked_add(segment.p_filesz as u64);
        segment.p_type != libc::PT_LOAD || end.is_some_and(|end| end <= length)
    })
}

/// The path of the loaded shared object that holds an address.
pub fn path_of(address: *const c_void) -> Option<&'static CStr> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: there is room for what is written, and the address is not followed.
    if unsafe { libc::dladdr(address, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: written above; a plugin is never unloaded, so its name stays.
    unsafe {
        let name = found.assume_init().dli_fname;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}

/// Whether the shared object that holds an address exports `name`.
pub fn exports(address: *const c_void, name: &CStr) -> bool {
    let Some(path) = path_of(address) else { return false };
    // SAFETY: C strings; the object is loaded already, so nothing of it runs, and stays so.
    unsafe {
        let object = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if object.is_null() {
            return false;
        }
        let symbol = libc::dlsym(object, name.as_ptr());
        let found = !symbol.is_null() && path_of(symbol) == Some(path);
        libc::dlclose(object);
        found
    }
}

/// The function or variable that the shared object which holds an address exports under `name` and `version`.
pub fn exported(address: *const c_void, name: &CStr, version: &CStr) -> Option<NonNull<c_void>> {
    let path = path_of(address)?;
    // SAFETY: C strings; the object is loaded already, so nothing of it runs, and stays so.
    unsafe {
        let object = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if object.is_null() {
            return None;
        }
        let symbol = libc::dlvsym(object, name.as_ptr(), version.as_ptr());
        libc::dlclose(object);
        NonNull::new(symbol).filter(|symbol| path_of(symbol.as_ptr()) == Some(path))
    }
}
