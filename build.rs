//! Gives the shared library its soname and the GNU symbol versions of `libibverbs.map`.
//!
//! rustc hands the linker an anonymous version script for every cdylib, and GNU ld refuses to combine that with
//! named nodes. A small `ld.bfd` in front of the real one drops every version script but ours.
//!
//! `data_path.ld` puts the functions of the data path on cache lines.
//!
//! Says where providers that are plugins will be looked for: `IRONVERBS_PROVIDER_DIR` and
//! `IRONVERBS_CONFIG_DIR` of the build's environment, else where Debian has them.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const MAP: &str = "libibverbs.map";
const LAYOUT: &str = "data_path.ld";
const SONAME: &str = "libibverbs.so.1";
const VARIADIC: &str = "src/provider/plugin/variadic.c";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={MAP}");
    println!("cargo::rerun-if-changed={LAYOUT}");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");

    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let wrapper_dir = out.join("linker");
    write_linker_wrapper(&wrapper_dir, &real_linker());

    for argument in [
        // The compiler driver looks for `ld.bfd` here first.
        format!("-B{}", wrapper_dir.display()),
        "-fuse-ld=bfd".to_owned(),
        format!("-Wl,--version-script={}", root.join(MAP).display()),
        "-Wl,--no-undefined-version".to_owned(),
        format!("-Wl,-soname,{SONAME}"),
        format!("-Wl,-T,{}", root.join(LAYOUT).display()),
        // A program that defines a verb of the same name must not divert calls between our own functions.
        "-Wl,-Bsymbolic-functions".to_owned(),
        "-Wl,-z,now".to_owned(),
        // Threads, exit handlers and pointers that a program keeps still lead into the library after dlclose.
        "-Wl,-z,nodelete".to_owned(),
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    link_soname(&out);
    name_plugin_dirs();

    // Functions with arguments as printf's, which Rust cannot define.
    println!("cargo::rerun-if-changed={VARIADIC}");
    cc::Build::new().file(VARIADIC).flag_if_supported("-std=gnu11").compile("variadic");
}

fn name_plugin_dirs() {
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // Debian's name of the architecture's folder; for those whose name rustc has too.
    let triplet = match (target("ARCH").as_str(), target("ENDIAN").as_str()) {
        ("x86", _) => "i386-linux-gnu".to_owned(),
        ("arm", _) => "arm-linux-gnueabihf".to_owned(),
        ("powerpc64", "little") => "powerpc64le-linux-gnu".to_owned(),
        (arch, _) => format!("{arch}-linux-gnu"),
    };
    for (name, default) in [
        ("IRONVERBS_PROVIDER_DIR", format!("/usr/lib/{triplet}/libibverbs")),
        ("IRONVERBS_CONFIG_DIR", "/etc/libibverbs.d".to_owned()),
    ] {
        println!("cargo::rerun-if-env-changed={name}");
        println!("cargo::rustc-env={name}={}", env::var(name).unwrap_or(default));
    }
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

fn write_linker_wrapper(dir: &Path, real: &str) {
    fs::create_dir_all(dir).expect("create the folder of the linker wrapper");
    let script = format!(
        r#"#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
    a=$1; shift; n=$((n - 1))
    case $a in
        --version-script=*/{MAP}) set -- "$@" "$a" ;;
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

/// `target/<profile>/libibverbs.so.1`, so that the folder can be put into LD_LIBRARY_PATH as it is.
fn link_soname(out: &Path) {
    let Some(profile_dir) = out.ancestors().nth(3) else { return };
    let link = profile_dir.join(SONAME);
    let _ = fs::remove_file(&link);
    let _ = symlink("libibverbs.so", &link);
}
