//! Builds the library that `ironverbs run` preloads, and puts it beside the program:
//! `target/<profile>/libironverbs-view.so`.

use std::env;
use std::path::PathBuf;

const SOURCES: [&str; 6] = [
    "preload/view.c",
    "preload/folder.c",
    "preload/channel.c",
    "preload/wait.c",
    "preload/readable.c",
    "preload/second.c",
];
const HEADERS: [&str; 4] = ["preload/behind.h", "preload/folder.h", "preload/ucma.h", "preload/readable.h"];

fn main() {
    for file in SOURCES.iter().chain(&HEADERS) {
        println!("cargo::rerun-if-changed={file}");
    }
    let floor = PathBuf::from(env::var_os("DEP_GLIBC_FLOOR_FOLDER").expect("glibc-floor says where it lies"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let profile_dir = out.ancestors().nth(3).expect("target/<profile>/build/<package>/out");
    let built = out.join("libironverbs-view.so");
    // A sanitizer asked for in RUSTFLAGS would bring the C compiler's runtime into programs that have another
    // one.
    let compiler = cc::Build::new().opt_level(2).inherit_rustflags(false).get_compiler();
    let status = compiler
        .to_command()
        // Its functions stand before those that checked calls end in, so the checks are theirs.
        .args(["-std=gnu11", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE"])
        .args(["-shared", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-soname,libironverbs-view.so"])
        .args(SOURCES)
        // Not `system_calls.c`: these functions are its own.
        .arg(floor.join("moved.c"))
        .arg("-o")
        .arg(&built)
        .status()
        .expect("run the C compiler");
    assert!(status.success(), "{SOURCES:?} do not compile");
    let place = profile_dir.join("libironverbs-view.so");
    // A new file: programs may run with the old one.
    let _ = std::fs::remove_file(&place);
    std::fs::copy(&built, &place).expect("put the preloaded library beside the program");
}
