//! Plugins: the private symbols that they import, and which of which release are driven.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The numbers of the private ABI under which plugins find names.
const GENERATIONS: [u32; 6] = [33, 34, 57, 59, 64, 65];

/// A function of `private-symbols.txt`: a name, and the versions under which that name stands for it.
pub struct Private {
    /// What plugins call it.
    pub name: String,
    /// The versions as the table has them.
    pub versions: String,
    /// The nodes of the version script that these are.
    pub nodes: Vec<String>,
}

/// The functions of `private-symbols.txt`, by name and then in its order.
pub fn private_symbols(table: &str) -> Result<Vec<Private>, String> {
    let mut functions: BTreeMap<(&str, usize), (&str, Private)> = BTreeMap::new();
    for (line_number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(range)) = (words.next(), words.next()) else { continue };
        let function = words.next().unwrap_or(name);
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("private-symbols.txt: {line}"));
        let (first, last) = (number(first)?, if last.is_empty() { u32::MAX } else { number(last)? });
        let nodes = GENERATIONS.into_iter().filter(|generation| (first..=last).contains(generation));
        let nodes = nodes.map(|generation| format!("IBVERBS_PRIVATE_{generation}"));
        let known = functions.values_mut().find(|known| known.1.name == name && known.0 == function);
        if let Some((_, known)) = known {
            known.versions = format!("{}, {range}", known.versions);
            known.nodes.extend(nodes);
        } else {
            let private = Private { name: name.into(), versions: range.into(), nodes: nodes.collect() };
            functions.insert((name, line_number), (function, private));
        }
    }
    Ok(functions.into_values().map(|(_, private)| private).collect())
}

/// The table of releases and providers, from lines `NAME RELEASE VERSION PROVIDER STATE`.
pub fn matrix(results: &str) -> Result<String, String> {
    let mut releases: BTreeMap<(u32, &str, u32), BTreeMap<&str, &str>> = BTreeMap::new();
    let mut providers = BTreeSet::new();
    for line in results.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, release, version, provider, state] = words[..] else {
            return Err(format!("tests/suites/results.txt: {line}"));
        };
        let number = |word: &str| word.parse().map_err(|_| format!("tests/suites/results.txt: {line}"));
        let release = (number(release)?, name, number(version)?);
        releases.entry(release).or_default().insert(provider, state);
        providers.insert(provider);
    }
    let mut text = String::from(
        "## Plugins of other releases\n\n\
         What `tests/suites/run` has recorded: \"driven\" where tests/hardware has driven the plugin over a \
         played kernel and the \
         requests and answers were those of that release's own library; \"found\" where it registers and a \
         native provider drives \
         the device; \"loads\" where it loads and registers, and that kernel has no such device, or one that \
         rdma-core's own \
         library does not come to the end on either. Debian 12's own plugins are those of \
         `tests/hardware/run`. Releases that \
         are not here have the layout of one that is (`src/provider/plugin/layout.rs`).\n\n| provider |",
    );
    for (release, name, version) in releases.keys() {
        let _ = write!(text, " {release} ({name}, {version}) |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(releases.len()));
    for provider in providers {
        let states = releases.values().map(|states| states.get(provider).copied().unwrap_or("—"));
        let _ =
            writeln!(text, "| {provider} |{}", states.map(|state| format!(" {state} |")).collect::<String>());
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_all_its_versions() {
        let table = "# comment\nc 33-\nb 33  b_33\nb 34-57\nb 59-   b_59\nd 33 x\nd 34 y\nd 57- x\n";
        let symbols = private_symbols(table).unwrap();
        let rows: Vec<_> = symbols.iter().map(|row| (row.name.as_str(), row.versions.as_str())).collect();
        let d = [("d", "33, 57-"), ("d", "34")];
        assert_eq!(rows, [("b", "33"), ("b", "34-57"), ("b", "59-"), ("c", "33-"), d[0], d[1]]);
        assert_eq!(symbols[1].nodes, ["IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57"]);
        assert_eq!(symbols[3].nodes.len(), GENERATIONS.len());
        assert!(private_symbols("a b-").is_err());
    }

    #[test]
    fn a_provider_that_a_release_lacks_has_a_dash() {
        let text = matrix("v1 9 34 efa driven\nv2 10 34 mana loads\n").unwrap();
        assert!(text.contains("| provider | 9 (v1, 34) | 10 (v2, 34) |"), "{text}");
        assert!(text.contains("| efa | driven | — |") && text.contains("| mana | — | loads |"), "{text}");
        assert!(matrix("v1 9 34 efa\n").is_err());
    }
}
