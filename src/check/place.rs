//! Where in the program something is done: return addresses, innermost first, without those of this library.

use core::ffi::{CStr, c_int, c_void};
use core::mem::zeroed;
use core::ops::Range;

use ironverbs_os::growth::small_box;
use once_cell::race::OnceBox;

/// How many return addresses are kept.
pub const MOST: usize = 10;

/// Return addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// So many return addresses tell places of posts apart.
pub const NEAR: usize = 4;

/// Where a return address stands below what the unwinder calls the frame's address: known of x86-64 alone.
const BELOW: usize = size_of::<usize>();
/// Frames that are larger together are not looked into.
const LARGEST: usize = 1 << 16;

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
    /// Where the addresses stand on the stack, as long as all do, above this address.
    slots: [usize; MOST],
    above: usize,
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END: c_int = 5;
    let mut is_before = 0;
    // SAFETY: the argument that `walk` gave, and a context that is there during this call.
    let (walk, address, frame) = unsafe {
        let address = _Unwind_GetIPInfo(context, &raw mut is_before);
        (&mut *walk.cast::<Walk<'_>>(), address, _Unwind_GetCFA(context))
    };
    let slot = frame.wrapping_sub(BELOW);
    let is_called_later = walk.above != usize::MAX && slot < walk.above;
    if walk.count == 0 && (walk.passed.contains(&address) || is_called_later) {
        return GO_ON;
    }
    match walk.to.get_mut(walk.count) {
        Some(place) if address != 0 => {
            *place = address;
            let is_near = is_before == 0 && slot > walk.above && slot - walk.above < LARGEST;
            // SAFETY: of a frame of this thread's stack that was called, and is not a signal's.
            if is_near && unsafe { (slot as *const usize).read_volatile() } == address {
                walk.slots[walk.count] = slot;
                walk.above = slot;
            } else {
                walk.above = usize::MAX;
            }
            walk.count += 1;
            if walk.count < walk.to.len() { GO_ON } else { END }
        }
        _ => END,
    }
}

/// Writes return addresses of this thread, behind those that are passed over. Where they stand on the stack
/// above `above`; zeros where one of them stands elsewhere, or is far away.
fn walk(passed: &Range<usize>, to: &mut [usize], above: usize) -> [usize; MOST] {
    let mut walk = Walk { passed, to, count: 0, slots: [0; MOST], above };
    // SAFETY: walks this thread's stack, and hands each frame to `each`.
    unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    if walk.above == usize::MAX { [0; MOST] } else { walk.slots }
}

impl Place {
    /// Where this thread has called this library. Not while a lock is held: the dynamic loader has one of its
    /// own.
    #[inline(never)]
    pub fn here() -> Self {
        let mut place = Self::default();
        walk(own(), &mut place.addresses, usize::MAX);
        place
    }

    /// The same, of which the innermost [`NEAR`] are enough, and where each of these stands on the stack above
    /// this address; 0: not known.
    #[inline(never)]
    pub fn near(stack: usize) -> (Self, [(usize, usize); NEAR]) {
        let mut place = Self::default();
        let above = if stack == 0 { usize::MAX } else { stack };
        let found = walk(own(), &mut place.addresses[..NEAR], above);
        let mut slots = [(0, 0); NEAR];
        for (to, from) in slots.iter_mut().zip(found.into_iter().zip(place.addresses)) {
            *to = from;
        }
        (place, slots)
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
        self.addresses().take(NEAR).fold(0, |mark, address| {
            (mark ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        })
    }
}
