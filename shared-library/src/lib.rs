//! What the build scripts of both libraries do to make a shared library with a soname and GNU symbol versions.
//!
//! rustc hands the linker an anonymous version script for every cdylib, and GNU ld refuses to combine that with
//! named nodes. A small `ld.bfd` in front of the real one drops every version script but ours.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Called by a build script: has `lib{name}.so` linked with the versions of `map`, and as `soname`.
pub fn link(name: &str, soname: &str, map: &Path, arguments: &[String]) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let wrapper_dir = out.join("linker");
    write_linker_wrapper(&wrapper_dir, map, &real_linker());

    let common = [
        // The compiler driver looks for `ld.bfd` here first.
        format!("-B{}", wrapper_dir.display()),
        "-fuse-ld=bfd".to_owned(),
        format!("-Wl,--version-script={}", map.display()),
        "-Wl,--no-undefined-version".to_owned(),
        format!("-Wl,-soname,{soname}"),
        // A program that defines a function of the same name must not divert calls between our own functions.
        "-Wl,-Bsymbolic-functions".to_owned(),
        "-Wl,-z,now".to_owned(),
        // Threads, exit handlers and pointers that a program keeps still lead into the library after dlclose.
        "-Wl,-z,nodelete".to_owned(),
    ];
    for argument in common.iter().chain(arguments) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    link_soname(&out, name, soname);
}

/// Folder of the package.
pub fn root() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
}

/// The GNU ld that the C compiler driver would run; a cross driver answers with its own.
fn real_linker() -> String {
    let driver = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    Command::new(driver)
        .arg("-print-prog-name=ld.bfd")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| "ld.bfd".to_owned())
}

fn write_linker_wrapper(dir: &Path, map: &Path, real: &str) {
    fs::create_dir_all(dir).expect("create the folder of the linker wrapper");
    let map = map.display();
    let script = format!(
        r#"#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
    a=$1; shift; n=$((n - 1))
    case $a in
        --version-script={map}) set -- "$@" "$a" ;;
        --version-script=*) ;;
        *) set -- "$@" "$a" ;;
    esac
done
exec '{real}' "$@"
"#
    );
    let path = dir.join("ld.bfd");
    fs::write(&path, script).expect("write the linker wrapper");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .expect("make the linker wrapper executable");
}

/// `target/<profile>/<soname>`, so that the folder can be put into LD_LIBRARY_PATH as it is.
fn link_soname(out: &Path, name: &str, soname: &str) {
    let Some(profile_dir) = out.ancestors().nth(3) else { return };
    let link = profile_dir.join(soname);
    let _ = fs::remove_file(&link);
    let _ = symlink(format!("lib{name}.so"), &link);
}
