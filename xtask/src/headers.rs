//! The generated headers: which Rust files each one declares, and the template that surrounds the declarations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::c_source;

struct Header {
    /// Name in `include/infiniband` and in `xtask/templates`.
    name: &'static str,
    /// Folder of its Rust files.
    abi: &'static str,
    /// Files of that folder whose types and functions it declares, in this order.
    sources: &'static [&'static str],
    /// Types that another header declares, with their C names.
    foreign: &'static [(&'static str, &'static str)],
}

/// Where libibverbs declares its types.
const VERBS: &str = "src/abi";
/// Where libibumad does.
const UMAD: &str = "umad/src/abi";

const HEADERS: [Header; 9] = [
    Header {
        name: "verbs.h",
        abi: VERBS,
        sources: &[
            "verbs/device.rs",
            "verbs/event.rs",
            "verbs/completion.rs",
            "verbs/memory.rs",
            "verbs/address.rs",
            "verbs/queue.rs",
            "verbs/work.rs",
            "verbs/counters.rs",
            "verbs/flow.rs",
            "verbs/context.rs",
            "prototypes.rs",
        ],
        foreign: &[],
    },
    Header { name: "sa.h", abi: VERBS, sources: &["sa.rs"], foreign: &[("ibv_gid", "union ibv_gid")] },
    Header { name: "tm_types.h", abi: VERBS, sources: &["tm_types.rs"], foreign: &[] },
    Header {
        name: "umad.h",
        abi: UMAD,
        sources: &["umad.rs", "prototypes.rs"],
        foreign: &[("umad_gid", "union umad_gid")],
    },
    Header { name: "umad_str.h", abi: UMAD, sources: &["umad_str.rs"], foreign: &[] },
    Header {
        name: "umad_types.h",
        abi: UMAD,
        sources: &["umad_types.rs"],
        foreign: &[("umad_gid", "union umad_gid")],
    },
    Header { name: "umad_sm.h", abi: UMAD, sources: &["umad_sm.rs"], foreign: &[] },
    Header {
        name: "umad_sa.h",
        abi: UMAD,
        sources: &["umad_sa.rs"],
        foreign: &[("umad_hdr", "struct umad_hdr"), ("umad_rmpp_hdr", "struct umad_rmpp_hdr")],
    },
    Header { name: "umad_sa_mcm.h", abi: UMAD, sources: &["umad_sa_mcm.rs"], foreign: &[] },
];

/// Line of a template that the declarations replace.
const DECLARATIONS: &str = "@DECLARATIONS@\n";

/// Writes every generated header.
pub fn write(root: &Path) -> Result<String, String> {
    let mut written = 0;
    for header in &HEADERS {
        let text = generate(root, header)?;
        let path = root.join("include/infiniband").join(header.name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        written += 1;
    }
    Ok(format!("headers: {} generated, {written} changed", HEADERS.len()))
}

/// Compares every generated header with the committed one.
pub fn check(root: &Path) -> Result<String, String> {
    let mut stale = Vec::new();
    for header in &HEADERS {
        let path = root.join("include/infiniband").join(header.name);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed != generate(root, header)? {
            stale.push(header.name);
        }
    }
    if stale.is_empty() {
        Ok(format!("headers: {} up to date", HEADERS.len()))
    } else {
        Err(format!("stale: {}; run `cargo run -p xtask -- headers`", stale.join(", ")))
    }
}

fn generate(root: &Path, header: &Header) -> Result<String, String> {
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml"))?;
    for (rust, c) in header.foreign {
        config.export.rename.insert((*rust).to_owned(), (*c).to_owned());
    }
    let sources: Vec<PathBuf> =
        header.sources.iter().map(|source| root.join(header.abi).join(source)).collect();
    for source in &sources {
        let text = read(source)?;
        // Unasked, cbindgen leaves out what no function mentions.
        config.export.include.extend(text.lines().filter_map(declared_type).map(str::to_owned));
    }
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(source);
    }
    let bindings = builder.generate().map_err(|error| format!("{}: {error}", header.name))?;
    let mut raw = Vec::new();
    bindings.write(&mut raw);
    let raw = String::from_utf8(raw).map_err(|error| error.to_string())?;

    let path = root.join("xtask/templates").join(header.name);
    let template = read(&path)?;
    if !template.contains(DECLARATIONS) {
        return Err(format!("{}: no line {}", path.display(), DECLARATIONS.trim_end()));
    }
    Ok(template.replace(DECLARATIONS, &c_source::finish(&raw)?))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Name of the type that a line of Rust begins to declare.
fn declared_type(line: &str) -> Option<&str> {
    let rest =
        ["pub struct ", "pub union ", "pub enum "].iter().find_map(|start| line.strip_prefix(start))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}
