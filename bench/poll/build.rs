//! Builds the stand-in for libibverbs.so.1 that rdma-core's provider is loaded into.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (source, map) = (here.join("host/host.c"), here.join("host/host.map"));
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed={}", map.display());
    let library = out.join("libibverbs.so.1");
    let done = Command::new(env::var("CC").unwrap_or_else(|_| "cc".to_owned()))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,-soname,libibverbs.so.1"])
        .arg("-I")
        .arg(here.join("../../include"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status()
        .expect("run the C compiler");
    assert!(done.success(), "the C compiler failed");
    println!("cargo::rustc-env=HOST_LIBRARY={}", library.display());
}
