//! The headers with generated declarations: which Rust files each one declares. The declarations stand between
//! two comments, and around these what is written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use crate::c_source;

struct Header {
    /// Name in `include/infiniband`.
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

/// Start of the line of a header behind which its declarations begin.
const BEGIN: &str = "/* Generated from ";
/// The line before which they end.
const END: &str = "/* End of what is generated. */\n";

/// Writes the declarations of every header.
pub fn write(root: &Path) -> Result<String, String> {
    let mut written = 0;
    for header in &HEADERS {
        let path = root.join("include/infiniband").join(header.name);
        let old = read(&path)?;
        let text = generate(root, header, &old)?;
        if old == text {
            continue;
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        written += 1;
    }
    Ok(format!("headers: {} generated, {written} changed", HEADERS.len()))
}

/// Compares the declarations of every committed header with those of the types.
pub fn check(root: &Path) -> Result<String, String> {
    let mut stale = Vec::new();
    for header in &HEADERS {
        let committed = read(&root.join("include/infiniband").join(header.name))?;
        if committed != generate(root, header, &committed)? {
            stale.push(header.name);
        }
    }
    if stale.is_empty() {
        Ok(format!("headers: {} up to date", HEADERS.len()))
    } else {
        Err(format!("stale: {}; run `cargo run -p xtask -- headers`", stale.join(", ")))
    }
}

/// A header with the declarations of its types, and what is written by hand as it is in `text`.
fn generate(root: &Path, header: &Header, text: &str) -> Result<String, String> {
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

    let (before, after) = around_declarations(text).ok_or_else(|| {
        format!("{}: no declarations between lines `{BEGIN}...` and `{}`", header.name, END.trim_end())
    })?;
    Ok(format!("{before}\n{}\n{after}", c_source::finish(&raw)?))
}

/// What stands before and behind the declarations of a header, the two lines that bound them included.
fn around_declarations(text: &str) -> Option<(&str, &str)> {
    let begin = text.find(&format!("\n{BEGIN}"))? + 1;
    let declarations = begin + text[begin..].find('\n')? + 1;
    let end = declarations + text[declarations..].find(END)?;
    Some((&text[..declarations], &text[end..]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_declarations_are_generated() {
        let before = "#ifndef A\n\n/* Generated from a.rs; do not edit. */\n";
        let after = "/* End of what is generated. */\n\n#endif\n";
        let text = format!("{before}\nint a;\n\n{after}");
        assert_eq!(around_declarations(&text), Some((before, after)));
        assert_eq!(around_declarations(before), None);
        assert_eq!(around_declarations(after), None);
    }
}
