//! Which tests reach what: recorded calls of exported symbols, and calls of inline functions in C sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::read;

/// What test runs recorded, in lines `PROGRAM SYMBOL@VERSION`.
const RECORDS: [&str; 2] = ["ctest/reached.txt", "tests/commands/reached.txt"];
/// Where C programs are.
const FOLDERS: [&str; 2] = ["ctest", "tests/commands"];
/// Calls every inline function with both headers.
const INLINE: &str = "tests/layout/inline.c";

/// The C programs that are tests, by name, with their text and that of the headers which they include.
pub fn programs(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut programs = BTreeMap::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{folder}: {error}"))?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "c") {
                let text = with_headers(&path, &mut BTreeSet::new())?;
                if programs.insert(name.clone(), text).is_some() {
                    return Err(format!("two tests are called {name}"));
                }
            }
        }
    }
    Ok(programs)
}

/// The text of a file and, behind it, of each header of its folder that it includes and that is not
/// in `seen` yet.
fn with_headers(file: &Path, seen: &mut BTreeSet<PathBuf>) -> Result<String, String> {
    let mut text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split('"').next());
    let headers: Vec<_> = names.map(|name| file.with_file_name(name)).filter(|path| path.exists()).collect();
    for header in headers {
        if seen.insert(header.clone()) {
            text += &with_headers(&header, seen)?;
        }
    }
    Ok(text)
}

/// The facts that a program's head lists, one in a line or more that begin with "Fact:" and end with a full
/// stop.
pub fn facts(program: &str) -> Vec<String> {
    let head = program.split("*/").next().unwrap_or_default();
    let mut facts: Vec<String> = Vec::new();
    let mut open = false;
    for line in head.lines() {
        let line = line.trim().trim_start_matches(['/', '*']).trim();
        if let Some(fact) = line.strip_prefix("Fact: ") {
            facts.push(fact.to_owned());
            open = true;
        } else if open && let Some(fact) = facts.last_mut() {
            fact.push(' ');
            fact.push_str(line);
        }
        open = open && !line.ends_with('.');
    }
    facts.into_iter().map(|fact| fact.trim_end_matches('.').to_owned()).collect()
}

/// See the module.
pub struct Reached {
    recorded: BTreeMap<String, BTreeSet<String>>,
    sources: BTreeMap<String, String>,
}

impl Reached {
    /// Reads records and sources.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut sources = programs(root)?;
        let mut recorded: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in RECORDS {
            for line in read(root, path)?.lines() {
                let (program, symbol) = line.split_once(' ').ok_or_else(|| format!("{path}: {line}"))?;
                if !sources.contains_key(program) {
                    return Err(format!("{path}: there is no program {program}"));
                }
                recorded.entry(symbol.to_owned()).or_default().insert(program.to_owned());
            }
        }
        sources.insert("layout/inline".to_owned(), read(root, INLINE)?);
        for text in sources.values_mut() {
            *text = without_comments(text);
        }
        Ok(Self { recorded, sources })
    }

    /// The programs that have called a symbol.
    pub fn of_symbol(&self, name: &str, node: &str) -> BTreeSet<String> {
        self.recorded.get(&format!("{name}@{node}")).cloned().unwrap_or_default()
    }

    /// The programs whose source calls an inline function.
    pub fn of_source(&self, name: &str) -> BTreeSet<String> {
        let calls = |text: &String| {
            text.match_indices(name).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                let apart =
                    !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '>' || c == '.');
                apart && text[at + name.len()..].starts_with('(')
            })
        };
        self.sources.iter().filter(|(_, text)| calls(text)).map(|(name, _)| name.clone()).collect()
    }
}

fn without_comments(text: &str) -> String {
    let code = |part: &str| part.split_once("*/").map_or(String::new(), |(_, code)| code.to_owned());
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(code).collect::<String>()
}

/// What imports or calls each symbol, from lines `NAME SYMBOL@VERSION`.
pub fn importers(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut importers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (plugin, symbol) in text.lines().filter_map(|line| line.split_once(' ')) {
        importers.entry(symbol.to_owned()).or_default().insert(plugin.to_owned());
    }
    importers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_end_with_a_full_stop_and_may_take_lines() {
        let program = "/*\n * a.c - something.\n *\n * Fact: One.\n * Fact: Two that\n * goes on.\n * No \
         fact.\n */\nint main(void)";
        assert_eq!(facts(program), ["One", "Two that goes on"]);
    }

    #[test]
    fn headers_of_the_folder_count_once() {
        let folder = std::env::temp_dir().join(format!("reached-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("a.c", "#include <stdio.h>\n#include \"b.h\"\n#include \"c.h\"\nint a;\n");
        write("b.h", "#include \"c.h\"\n#include \"elsewhere.h\"\nint b;\n");
        write("c.h", "#include \"b.h\"\nint c;\n");
        let text = with_headers(&folder.join("a.c"), &mut BTreeSet::new()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(["int a;", "int b;", "int c;"].map(|part| text.matches(part).count()), [1, 1, 1]);
    }

    #[test]
    fn a_call_is_a_whole_name_outside_comments() {
        let source =
            without_comments("/* ibv_a(x) */ p->ibv_b(1); my_ibv_c(2); ibv_d (3); ibv_e(4); ibv_ex(5);");
        let reached =
            Reached { recorded: BTreeMap::new(), sources: BTreeMap::from([("program".to_owned(), source)]) };
        let called = |name| !reached.of_source(name).is_empty();
        assert!(!called("ibv_a") && !called("ibv_b") && !called("ibv_c"));
        assert!(called("ibv_e") && called("ibv_ex"));
    }
}
