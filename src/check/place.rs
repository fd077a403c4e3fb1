//! Where in the program something is done: return addresses, innermost first, without those of this library.

use core::ffi::{CStr, c_int, c_void};
use core::mem::zeroed;
use core::ops::Range;

use ironverbs_os::growth::small_box;
use once_cell::race::OnceBox;

/// How many return addresses are kept.
pub const MOST: usize = 10;

/// Return addresses.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    addresses: [usize; MOST],
}

/// A return address in words: the path of the file that it lies in, its distance from where that file was
/// mapped, and the name of the function, empty where the file does not export it.
pub struct Frame {
    /// The address.
    pub address: usize,
    /// The file.
    pub file: &'static CStr,
    /// From its beginning.
    pub offset: usize,
    /// The function.
    pub function: &'static CStr,
}

unsafe extern "C" {
    // Of libgcc_s, which this library needs anyhow.
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Addresses of this library; none where the program is linked with its archive.
static OWN: OnceBox<Range<usize>> = OnceBox::new();

/// Finds the file that has this code in it.
unsafe extern "C" fn own_file(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    let here = own_file as *const () as usize;
    // SAFETY: what the loader passes, and the place that `own` gave.
    unsafe {
        let info = &*info;
        // The program itself has no name here.
        let is_program = info.dlpi_name.is_null() || *info.dlpi_name == 0;
        for at in 0..usize::from(info.dlpi_phnum) {
            let header = &*info.dlpi_phdr.add(at);
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let range = start..start.wrapping_add(header.p_memsz as usize);
            if header.p_type == libc::PT_LOAD && range.contains(&here) {
                if !is_program {
                    *found.cast::<Range<usize>>() = range;
                }
                return 1;
            }
        }
    }
    0
}

/// The code of this library.
fn own() -> &'static Range<usize> {
    OWN.get_or_init(|| {
        let mut range = 0..0;
        // SAFETY: the callback gets that place.
        unsafe { libc::dl_iterate_phdr(Some(own_file), (&raw mut range).cast()) };
        small_box(range)
    })
}

struct Walk<'a> {
    passed: &'a Range<usize>,
    to: &'a mut [usize],
    count: usize,
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 5;
    // SAFETY: the argument that `walk` gave, and a context that is there during this call.
    let (walk, address) = unsafe { (&mut *walk.cast::<Walk<'_>>(), _Unwind_GetIP(context)) };
    if walk.count == 0 && walk.passed.contains(&address) {
        return GO_ON;
    }
    match walk.to.get_mut(walk.count) {
        Some(place) if address != 0 => {
            *place = address;
            walk.count += 1;
            if walk.count < walk.to.len() { GO_ON } else { END }
        }
        _ => END,
    }
}

/// Writes return addresses of this thread, behind those that are passed over.
fn walk(passed: &Range<usize>, to: &mut [usize]) {
    let mut walk = Walk { passed, to, count: 0 };
    // SAFETY: walks this thread's stack, and hands each frame to `each`.
    unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
}

impl Place {
    /// Where this thread has called this library. Not while a lock is held: the dynamic loader has one of its
    /// own.
    #[inline(never)]
    pub fn here() -> Self {
        Self::near(MOST)
    }

    /// The same, of which the innermost `most` are enough.
    pub fn near(most: usize) -> Self {
        let mut place = Self::default();
        walk(own(), &mut place.addresses[..most.min(MOST)]);
        place
    }

    /// The addresses.
    pub fn addresses(&self) -> impl Iterator<Item = usize> {
        self.addresses.into_iter().take_while(|address| *address != 0)
    }

    /// The same in words.
    pub fn frames(&self) -> impl Iterator<Item = Frame> {
        self.addresses().map(|address| {
            // A call at the end of a function returns into the next one.
            let within = (address - 1) as *const c_void;
            // SAFETY: plain data; `dladdr` only looks the address up, and what it names stays as long as the
            // file is mapped.
            unsafe {
                let mut info: libc::Dl_info = zeroed();
                if libc::dladdr(within, &raw mut info) == 0 {
                    return Frame { address, file: c"", offset: 0, function: c"" };
                }
                let text = |at: *const libc::c_char| if at.is_null() { c"" } else { CStr::from_ptr(at) };
                Frame {
                    address,
                    file: text(info.dli_fname),
                    offset: address - info.dli_fbase as usize,
                    function: text(info.dli_sname),
                }
            }
        })
    }

    /// A number that tells places of calls apart.
    pub fn mark(&self) -> u64 {
        self.addresses().take(4).fold(0, |mark, address| {
            (mark ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        })
    }
}
