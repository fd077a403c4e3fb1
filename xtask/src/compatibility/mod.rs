//! `docs/compatibility.md`: what answers each exported symbol and each inline verb, which tests reach it, and
//! how programs ended on each device. Everything comes from the sources, from what test runs have recorded, and
//! from the tables of programs; nothing is written by hand.

mod plugins;
mod programs;
mod pyverbs;
mod reached;
mod source;
mod suites;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use reached::Reached;
use source::{Answer, Source};

const DOCUMENT: &str = "docs/compatibility.md";
const HOW: &str = "`cargo run -p xtask -- compatibility` makes it";

fn read(root: &Path, path: &str) -> Result<String, String> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Writes the document.
pub fn write(root: &Path) -> Result<String, String> {
    let (text, counts) = document(root)?;
    fs::write(root.join(DOCUMENT), text).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    Ok(format!("{DOCUMENT} is written: {counts}"))
}

/// Fails if the document is not what would be written.
pub fn check(root: &Path) -> Result<String, String> {
    let (text, counts) = document(root)?;
    if read(root, DOCUMENT)? == text {
        Ok(format!("{DOCUMENT} is up to date: {counts}"))
    } else {
        Err(format!("{DOCUMENT} is stale; {HOW}"))
    }
}

/// The text, and what it counts in a line.
fn document(root: &Path) -> Result<(String, String), String> {
    let source = Source::read(root)?;
    let reached = Reached::read(root)?;

    let mut text = format!(
        "# Compatibility\n\nGenerated; do not edit: {HOW}, and `make test` fails when it is stale. What the \
         library does \
         differently on purpose is in [differences.md](differences.md).\n\n"
    );
    let mut missing = Vec::new();
    let public = public_symbols(root, &source, &reached, &mut text, &mut missing)?;
    let private = private_symbols(root, &reached, &mut text, &mut missing)?;
    let verbs = verbs_inline(root, &source, &reached, &mut text, &mut missing)?;
    umad_symbols(root, &mut text, &mut missing)?;
    if !missing.is_empty() {
        return Err(format!("no test reaches {}", missing.join(", ")));
    }
    text.push('\n');
    text.push_str(&facts(root)?);
    text.push_str(&plugins::matrix(&read(root, "tests/suites/results.txt")?)?);
    text.push_str(&programs::sections(root)?);
    text.push_str(&suites::section(root)?);
    text.push_str(&pyverbs::section(root)?);
    let counts = format!(
        "{public} public and {private} private symbols and {verbs} inline verbs, each reached by a test"
    );
    Ok((text, counts))
}

/// The section of public symbols; answers how many there are. What no test reaches is `missing`, here and
/// below.
fn public_symbols(
    root: &Path,
    source: &Source,
    reached: &Reached,
    text: &mut String,
    missing: &mut Vec<String>,
) -> Result<usize, String> {
    let public = symbols_of_map(&read(root, "libibverbs/libibverbs.map")?);
    let columns = source.contexts();
    let _ = writeln!(
        text,
        "## Public symbols: {}\n\n\
         What answers comes from the sources: the operations of the traits of objects (`src/provider/verbs/`) \
         that the entry point leads to, and whether the provider of soft-RoCE (rxe), that of soft-iWARP \
         (siw), the software device (soft) or a plugin answers them: \
         \"yes\", with code of its own or with what native providers share; \"—\" where the device has not \
         got the feature \
         and the call is refused as rdma-core refuses it; \"library\" where no provider is asked. The tests \
         are the programs whose calls of the symbol, under this version, the dynamic loader has recorded on \
         this library (`ctest/reached.txt`, `tests/commands/reached.txt`). Each of them must print the same \
         on rdma-core's \
         library; those called `ours_only_` show what rdma-core's providers refuse or do wrong.\n",
        public.len()
    );
    let _ = writeln!(text, "| symbol | version |{} tests |", heading(&columns));
    let _ = writeln!(text, "|---|---|{}---|", "---|".repeat(columns.len()));
    for (name, node) in &public {
        let tests = reached.of_symbol(name, node);
        if tests.is_empty() {
            missing.push(format!("{name}@{node}"));
        }
        let answers = columns.iter().map(|context| source.answer_of_symbol(name, node, context));
        let _ = writeln!(text, "| `{name}` | {} |{} {} |", version(node), cells(answers)?, list(&tests));
    }
    Ok(public.len())
}

/// The section of private symbols; answers how many names there are.
fn private_symbols(
    root: &Path,
    reached: &Reached,
    text: &mut String,
    missing: &mut Vec<String>,
) -> Result<usize, String> {
    let importers = reached::importers(&read(root, "tests/symbols/plugins.txt")?);
    let private = plugins::private_symbols(&read(root, "libibverbs/private-symbols.txt")?)?;
    let names: BTreeSet<_> = private.iter().map(|function| &function.name).collect();
    let _ = writeln!(
        text,
        "\n## Private symbols: {}\n\n\
         Those of `IBVERBS_PRIVATE_NN`, which provider plugins import, with the numbers NN under which each \
         stands (`libibverbs/private-symbols.txt`); a name whose arguments have changed has a row for each \
         function behind it. The library answers them itself, for every plugin. The plugins are those of \
         Debian 12 (`tests/symbols/plugins.txt`). The tests are the programs whose calls of the function the \
         dynamic loader has recorded, under one of its numbers: under all of them it is the same address \
         (`tests/symbols/run`). What each program prints is what rdma-core's library of a release that \
         has the function prints (`tests/commands/run`).\n\n\
         | symbol | versions | imported by | tests |\n|---|---|---|---|",
        names.len()
    );
    for function in &private {
        let (name, mut tests, mut plugins) = (&function.name, BTreeSet::new(), BTreeSet::new());
        for node in &function.nodes {
            tests.extend(reached.of_symbol(name, node));
            plugins.extend(importers.get(&format!("{name}@{node}")).into_iter().flatten().cloned());
        }
        if tests.is_empty() {
            missing.push(format!("{name} of {}", function.versions));
        }
        let _ =
            writeln!(text, "| `{name}` | {} | {} | {} |", function.versions, list(&plugins), list(&tests));
    }
    Ok(names.len())
}

/// The section of verbs that are inline functions; answers how many there are.
fn verbs_inline(
    root: &Path,
    source: &Source,
    reached: &Reached,
    text: &mut String,
    missing: &mut Vec<String>,
) -> Result<usize, String> {
    let columns = source.contexts();
    let verbs = inline_verbs(root)?;
    let _ = writeln!(
        text,
        "\n## Verbs that are inline functions: {}\n\n\
         They call through the tables of an open context, a queue or a queue pair. Here the tests are the \
         programs whose \
         source calls them; `layout/inline` is `tests/layout/inline.c`, which compares what the functions of \
         both headers do.\n\n\
         | verb |{} tests |\n|---|{}---|",
        verbs.len(),
        heading(&columns),
        "---|".repeat(columns.len())
    );
    for verb in &verbs {
        let tests = reached.of_source(verb);
        if tests.is_empty() {
            missing.push(verb.clone());
        }
        let answers = columns.iter().map(|context| source.answer_of_inline(verb, context));
        let _ = writeln!(text, "| `{verb}` |{} {} |", cells(answers)?, list(&tests));
    }
    Ok(verbs.len())
}

/// The section of symbols of libibumad.
fn umad_symbols(root: &Path, text: &mut String, missing: &mut Vec<String>) -> Result<(), String> {
    let umad = symbols_of_map(&read(root, "umad/libibumad.map")?);
    let callers = reached::importers(&read(root, "tests/umad/reached.txt")?);
    let _ = writeln!(
        text,
        "\n## Symbols of libibumad: {}\n\n\
         All of rdma-core 65, each under the release that brought it (`umad/libibumad.map`). The tests are \
         the programs of \
         `tests/umad` whose calls of the symbol the dynamic loader has recorded on this library \
         (`tests/umad/reached.txt`); \
         what they print, and what reaches the kernel, must be the same on rdma-core's library.\n\n\
         | symbol | version | tests |\n|---|---|---|",
        umad.len()
    );
    for (name, node) in &umad {
        let tests = callers.get(&format!("{name}@{node}")).cloned().unwrap_or_default();
        if tests.is_empty() {
            missing.push(format!("{name}@{node}"));
        }
        let version = node.strip_prefix("IBUMAD_").unwrap_or(node);
        let _ = writeln!(text, "| `{name}` | {version} | {} |", list(&tests));
    }
    Ok(())
}

fn heading(columns: &[String]) -> String {
    columns.iter().map(|column| format!(" {column} |")).collect()
}

fn cells(answers: impl Iterator<Item = Result<Answer, String>>) -> Result<String, String> {
    answers.map(|answer| answer.map(|answer| format!(" {answer} |"))).collect()
}

fn version(node: &str) -> &str {
    node.strip_prefix("IBVERBS_").unwrap_or(node)
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Names and nodes of the version script, in its order.
fn symbols_of_map(map: &str) -> Vec<(String, String)> {
    let (mut symbols, mut node) = (Vec::new(), String::new());
    for line in map.lines().map(str::trim) {
        if let Some((name, _)) = line.split_once(" {") {
            node = name.to_owned();
        } else if let Some(name) =
            line.strip_suffix(';').filter(|name| !name.ends_with('*') && !name.starts_with('}'))
        {
            symbols.push((name.to_owned(), node.clone()));
        }
    }
    symbols
}

/// The inline functions of the headers that programs call: those whose name does not begin with an underscore.
fn inline_verbs(root: &Path) -> Result<Vec<String>, String> {
    let mut verbs = BTreeSet::new();
    for header in ["verbs.h", "verbs_inline.h", "verbs_api.h"] {
        let text = read(root, &format!("include/infiniband/{header}"))?;
        let mut rest = text.as_str();
        while let Some(at) = rest.find("static inline ") {
            rest = &rest[at + "static inline ".len()..];
            let name = rest.split('(').next().unwrap_or_default();
            let name =
                name.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
            if name.starts_with("ibv_") {
                verbs.insert(name.to_owned());
            }
        }
    }
    if verbs.is_empty() {
        Err("the headers have no inline functions".to_owned())
    } else {
        Ok(verbs.into_iter().collect())
    }
}

/// Facts that users rely on, from the heads of the test programs: every line that begins with "Fact:".
fn facts(root: &Path) -> Result<String, String> {
    let mut text = String::from(
        "## Facts that programs rely on\n\nEach from the head of the test that shows it, on both \
         libraries.\n\n| fact | test |\n|---|---|\n",
    );
    let mut count = 0;
    for (name, program) in reached::programs(root)? {
        for fact in reached::facts(&program) {
            let _ = writeln!(text, "| {fact} | {name} |");
            count += 1;
        }
    }
    if count == 0 {
        return Err("no test says which facts it shows".to_owned());
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_stand_under_the_node_around_them() {
        let map = "A_1 {\n\tglobal:\n\t\tone;\n\tlocal:\n\t\t*;\n};\nA_2 {\n\tglobal:\n\t\tone;\n\t\ttwo;\n} \
         A_1;\n";
        let symbols = symbols_of_map(map);
        let symbols: Vec<_> = symbols.iter().map(|(name, node)| format!("{name}@{node}")).collect();
        assert_eq!(symbols, ["one@A_1", "one@A_2", "two@A_2"]);
    }

    #[test]
    fn answers_are_those_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout");
        let source = Source::read(root).expect("sources");
        let symbol = |name, node| source.answer_of_symbol(name, node, "rxe").expect("an exported name");
        assert!(symbol("ibv_alloc_pd", "IBVERBS_1.1") == Answer::Provider);
        assert!(symbol("ibv_alloc_pd", "IBVERBS_1.0") == Answer::Provider);
        assert!(symbol("ibv_set_ece", "IBVERBS_1.10") == Answer::Refused);
        assert!(symbol("ibv_get_device_guid", "IBVERBS_1.1") == Answer::Library);
        let inline = |name| source.answer_of_inline(name, "rxe").expect("an inline function");
        assert!(inline("ibv_poll_cq") == Answer::Provider && inline("ibv_wr_send") == Answer::Provider);
        assert!(inline("ibv_create_flow") == Answer::Refused && inline("ibv_wr_send_tso") == Answer::Refused);
        assert!(inline("ibv_inc_rkey") == Answer::Library);
        assert!(source.answer_of_symbol("ibv_no_such_verb", "IBVERBS_1.1", "rxe").is_err());
    }
}
