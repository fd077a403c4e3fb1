//! Gives the shared library its soname and the GNU symbol versions of `libibverbs.map`, and those of
//! `private-symbols.txt`, by which plugins find it (the crate `shared-library`).
//!
//! `data_path.ld` puts the functions of the data path on cache lines.

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

fn main() {
    let root = shared_library::root();
    for file in [MAP, PRIVATE, LAYOUT] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (script, aliases) = version_script(&root);
    let (map, aliases_file) = (out.join(MAP), out.join("aliases.ld"));
    fs::write(&map, script).expect("write the version script");
    fs::write(&aliases_file, aliases).expect("write the aliases");
    let layout = format!("-Wl,-T,{}", root.join(LAYOUT).display());
    shared_library::link("ibverbs", "libibverbs.so.1", &map, &[aliases_file.display().to_string(), layout]);
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
