//! Whether a shared object is all there, before the dynamic linker maps it.

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
