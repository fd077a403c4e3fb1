//! The preloaded shim, called with any path: it answers from its folder or lets the kernel answer, and nothing
//! else.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use bolero::TypeGenerator;
use bolero::generator::produce;

const FOLDERS: [&str; 3] = ["/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband"];

#[derive(Clone, Debug, TypeGenerator)]
enum Part {
    Folder(u8),
    Known(u8),
    Up,
    Here,
    Slashes(u8),
    Long(u16),
    Bytes(#[generator(produce::<Vec<u8>>().with().len(0usize..12))] Vec<u8>),
}

#[derive(Clone, Debug, TypeGenerator)]
struct Parts(#[generator(produce::<Vec<Part>>().with().len(0usize..12))] Vec<Part>);

impl Parts {
    fn path(&self) -> CString {
        const KNOWN: [&str; 8] =
            ["/soft0", "/node_type", "/uverbs-soft0", "/rxe0", "/outside", "/ports/1", "/gids", "_verbs"];
        let mut path = Vec::new();
        for part in &self.0 {
            match part {
                Part::Folder(number) => path.extend_from_slice(FOLDERS[usize::from(number % 3)].as_bytes()),
                Part::Known(number) => path.extend_from_slice(KNOWN[usize::from(number % 8)].as_bytes()),
                Part::Up => path.extend_from_slice(b"/.."),
                Part::Here => path.extend_from_slice(b"/."),
                Part::Slashes(number) => path.resize(path.len() + usize::from(number % 4), b'/'),
                Part::Long(length) => path.resize(path.len() + usize::from(length % 5000), b'x'),
                Part::Bytes(bytes) => path.extend(bytes.iter().filter(|byte| **byte != 0)),
            }
        }
        CString::new(path).expect("no NUL among them")
    }
}

/// The preloaded library, opened: its functions stand before nobody's here.
struct Shim(*mut libc::c_void);

impl Shim {
    fn open() -> Self {
        let beside = Path::new(env!("CARGO_BIN_EXE_ironverbs")).with_file_name("libironverbs-view.so");
        let name = CString::new(beside.as_os_str().as_bytes()).expect("a path");
        // SAFETY: a C string; the library has no constructor.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{}", beside.display());
        Self(library)
    }

    /// # Safety
    /// `F` is the type of the function's pointer.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: an open library and a C string.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!function.is_null(), "{name:?}");
        // SAFETY: by the contract.
        unsafe { core::mem::transmute_copy(&function) }
    }
}

/// What a call came to: which file it found, or its error.
fn found(fd: c_int) -> Result<PathBuf, i32> {
    if fd < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    let file = fs::read_link(format!("/proc/self/fd/{fd}"));
    // SAFETY: opened for this call alone.
    unsafe { libc::close(fd) };
    Ok(file.expect("an open file"))
}

/// What the kernel itself says.
fn kernels(path: &CStr) -> Result<PathBuf, i32> {
    // SAFETY: a C string; the call goes past every library.
    found(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_PATH) } as c_int)
}

/// Where a path leads by its text alone.
fn by_text(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

#[test]
fn fuzz_shim_paths() {
    let top = std::env::temp_dir().join(format!("ironverbs-shim-{}", std::process::id()));
    let view = top.join("a/b/view");
    for folder in FOLDERS {
        fs::create_dir_all(view.join(&folder[1..])).unwrap();
    }
    let device = view.join("sys/class/infiniband/soft0");
    fs::create_dir_all(device.join("ports/1/gids")).unwrap();
    fs::write(device.join("node_type"), "1: CA\n").unwrap();
    symlink("/dev/null", view.join("dev/infiniband/uverbs-soft0")).unwrap();
    symlink("/sys/class/infiniband/rxe0", view.join("sys/class/infiniband/rxe0")).unwrap();
    // What must not be found through the view.
    for folder in [&top, &top.join("a"), &top.join("a/b"), &view, &view.join("sys"), &view.join("sys/class")]
    {
        fs::write(folder.join("outside"), "not shown").unwrap();
    }
    // SAFETY: the only test of this program, whose other threads read no variables.
    unsafe { std::env::set_var("IRONVERBS_VIEW", &view) };
    let shim = Shim::open();
    // SAFETY: the types of these functions.
    let (open, access, readlink, realpath) = unsafe {
        (
            shim.function::<unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int>(c"open"),
            shim.function::<unsafe extern "C" fn(*const c_char, c_int) -> c_int>(c"access"),
            shim.function::<unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> isize>(c"readlink"),
            shim.function::<unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char>(c"realpath"),
        )
    };
    // SAFETY: a C string.
    let shown = found(unsafe { open(c"/sys/class/infiniband/soft0/node_type".as_ptr(), libc::O_PATH) });
    assert_eq!(shown, Ok(device.join("node_type")), "the shim shows its folder");
    corpus::check!().with_type::<Parts>().for_each(|parts| {
        let path = parts.path();
        let own = kernels(&path);
        // SAFETY: a C string.
        let answer = found(unsafe { open(path.as_ptr(), libc::O_PATH) });
        // `..` may lead from a folder that the shim alone shows to one of the kernel's.
        let text = by_text(Path::new(OsStr::from_bytes(path.as_bytes())));
        let above = kernels(&CString::new(text.as_os_str().as_bytes()).unwrap());
        let text = view.join(text.strip_prefix("/").unwrap_or(&text));
        let inside = |file: &Path| FOLDERS.iter().any(|folder| file.starts_with(view.join(&folder[1..])));
        match &answer {
            answer if *answer == own || *answer == above => {}
            Ok(file) if file == Path::new("/dev/null") => {
                assert!(inside(&text), "{path:?} leads to {text:?}")
            }
            Ok(file) => assert!(inside(file), "{path:?} leads to {file:?}"),
            Err(_) => assert!(own.is_err(), "{path:?} is hidden"),
        }
        let mut room = [0u8; 4096 + 1];
        // SAFETY: C strings, and room as long as said.
        unsafe {
            assert_eq!(access(path.as_ptr(), libc::F_OK) == 0, answer.is_ok(), "{path:?}");
            room[16] = 0x5a;
            let length = readlink(path.as_ptr(), room.as_mut_ptr().cast(), 16);
            assert!((-1..=16).contains(&length) && room[16] == 0x5a, "{path:?}");
            let real = realpath(path.as_ptr(), room.as_mut_ptr().cast());
            if !real.is_null() {
                let real = Path::new(OsStr::from_bytes(CStr::from_ptr(real).to_bytes()));
                assert_eq!(Ok(real.to_owned()), answer, "{path:?}");
            }
        }
    });
    let _ = fs::remove_dir_all(&top);
}
