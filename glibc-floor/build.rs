//! Compiles the C files, all of which are linked: what refers to them, Rust's standard library, is linked
//! later.

const SOURCES: [&str; 3] = ["system_calls.c", "moved.c", "start.c"];

fn main() {
    println!("cargo::rerun-if-changed=floor.h");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // For what another package compiles from C.
    println!(
        "cargo::metadata=folder={}",
        std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR")
    );
    // An archive's code is bound to a glibc where a program is linked with it.
    println!("cargo::rerun-if-env-changed=IRONVERBS_FOR_ARCHIVE");
    let mut build = cc::Build::new();
    if std::env::var_os("IRONVERBS_FOR_ARCHIVE").is_some() {
        build.define("FOR_ARCHIVE", None);
    }
    build
        .files(SOURCES)
        .flag("-std=gnu11")
        .flag("-ffunction-sections")
        .opt_level(2)
        .inherit_rustflags(false)
        .link_lib_modifier("+whole-archive")
        .compile("glibc_floor");
}
