//! Says where providers that are plugins will be looked for: `IRONVERBS_PROVIDER_DIR` and
//! `IRONVERBS_CONFIG_DIR` of the build's environment, else where Debian has them. Compiles what must be C.
//!
//! What the linker needs to know of the shared library is in `libibverbs/build.rs`.

use std::env;

const VARIADIC: &str = "src/provider/plugin/variadic.c";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
    println!("cargo::rustc-env=IRONVERBS_TRIPLET={triplet}");
}
