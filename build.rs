//! Gives the shared library its soname and the GNU symbol versions of `libibverbs.map`, and those of
//! `private-symbols.txt`, by which plugins find it (`build/shared_library.rs`).
//!
//! `data_path.ld` puts the functions of the data path on cache lines.
//!
//! Says where providers that are plugins will be looked for: `IRONVERBS_PROVIDER_DIR` and
//! `IRONVERBS_CONFIG_DIR` of the build's environment, else where Debian has them.

#[path = "build/shared_library.rs"]
mod shared_library;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const MAP: &str = "libibverbs.map";
const PRIVATE: &str = "private-symbols.txt";
/// The private versions of rdma-core that plugins may have been built for.
const GENERATIONS: [u32; 6] = [33, 34, 57, 59, 64, 65];
/// The one under which a linker finds a name that stands under several: that of Debian 12.
const DEFAULT_GENERATION: u32 = 34;
const LAYOUT: &str = "data_path.ld";
const VARIADIC: &str = "src/provider/plugin/variadic.c";

fn main() {
    println!("cargo::rerun-if-changed=build/shared_library.rs");
    println!("cargo::rerun-if-changed={MAP}");
    println!("cargo::rerun-if-changed={PRIVATE}");
    println!("cargo::rerun-if-changed={LAYOUT}");

    let root = shared_library::root();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (script, aliases) = version_script(&root);
    let (map, aliases_file) = (out.join(MAP), out.join("aliases.ld"));
    fs::write(&map, script).expect("write the version script");
    fs::write(&aliases_file, aliases).expect("write the aliases");
    let layout = format!("-Wl,-T,{}", root.join(LAYOUT).display());
    shared_library::link("ibverbs", "libibverbs.so.1", &map, &[aliases_file.display().to_string(), layout]);
    name_plugin_dirs();

    // Functions with arguments as printf's, which Rust cannot define.
    println!("cargo::rerun-if-changed={VARIADIC}");
    cc::Build::new().file(VARIADIC).flag_if_supported("-std=gnu11").compile("variadic");
}

/// A line of `private-symbols.txt`.
struct Private {
    name: String,
    generations: Vec<u32>,
    function: String,
}

fn private_symbols(root: &Path) -> Vec<Private> {
    let text = fs::read_to_string(root.join(PRIVATE)).expect("read the private symbols");
    let number = |word: &str| word.parse::<u32>().expect("a private version");
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let mut words = line.split_whitespace();
        let mut word = || words.next();
        let (Some(name), Some(range)) = (word(), word()) else { panic!("{PRIVATE}: {line}") };
        let function = word().unwrap_or(name).to_owned();
        let (first, last) = match range.split_once('-') {
            None => (number(range), number(range)),
            Some((first, "")) => (number(first), u32::MAX),
            Some((first, last)) => (number(first), number(last)),
        };
        let generations: Vec<_> = GENERATIONS.into_iter().filter(|it| (first..=last).contains(it)).collect();
        assert!(!generations.is_empty(), "{PRIVATE}: {line}");
        Private { name: name.to_owned(), generations, function }
    });
    rows.collect()
}

/// The whole version script, and a linker script with the names that stand for functions under other versions.
///
/// A function that has the name itself gets its first version by the version script, which makes it the
/// default.
fn version_script(root: &Path) -> (String, String) {
    let mut script = fs::read_to_string(root.join(MAP)).expect("read the version script");
    let mut aliases = String::new();
    let symbols = private_symbols(root);
    for generation in GENERATIONS {
        let mut own = String::new();
        for symbol in symbols.iter().filter(|symbol| symbol.generations.contains(&generation)) {
            let Private { name, generations, function } = symbol;
            let first =
                if generations.contains(&DEFAULT_GENERATION) { DEFAULT_GENERATION } else { generations[0] };
            if name == function && generation == first {
                own.push_str(&format!("\t\t{name};\n"));
            } else {
                // The linker keeps no function for the sake of an alias alone.
                aliases.push_str(&format!(
                    "EXTERN({function})\n\"{name}@IBVERBS_PRIVATE_{generation}\" = {function};\n"
                ));
            }
        }
        let global = if own.is_empty() { String::new() } else { format!("\tglobal:\n{own}") };
        script.push_str(&format!("\nIBVERBS_PRIVATE_{generation} {{\n{global}}};\n"));
    }
    (script, aliases)
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
