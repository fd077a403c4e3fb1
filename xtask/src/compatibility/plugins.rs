//! Plugins: the private symbols that they import, and which of which release are driven.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Names and the private versions under which each stands, from `private-symbols.txt`.
pub fn private_symbols(table: &str) -> BTreeMap<String, String> {
    let mut symbols: BTreeMap<String, String> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(range)) = (words.next(), words.next()) {
            let versions = symbols.entry(name.to_owned()).or_default();
            if !versions.is_empty() {
                versions.push_str(", ");
            }
            versions.push_str(range);
        }
    }
    symbols
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
    fn a_name_has_all_its_versions() {
        let symbols = private_symbols("# comment\na 33-\nb 34-57\nb 59-   b_59\n");
        assert_eq!(symbols["a"], "33-");
        assert_eq!(symbols["b"], "34-57, 59-");
    }

    #[test]
    fn a_provider_that_a_release_lacks_has_a_dash() {
        let text = matrix("v1 9 34 efa driven\nv2 10 34 mana loads\n").unwrap();
        assert!(text.contains("| provider | 9 (v1, 34) | 10 (v2, 34) |"), "{text}");
        assert!(text.contains("| efa | driven | — |") && text.contains("| mana | — | loads |"), "{text}");
        assert!(matrix("v1 9 34 efa\n").is_err());
    }
}
