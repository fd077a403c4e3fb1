//! The table of test layers, `tests/layers.txt`, as docs/testing.md shows it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const TABLE: &str = "tests/layers.txt";
const HOW: &str = "`cargo run -p xtask -- layers` writes it";
/// Lines between which a document shows the table.
const BEGIN: &str = "<!-- of tests/layers.txt -->\n";
const END: &str = "<!-- end of tests/layers.txt -->\n";
const DOCUMENT: &str = "docs/testing.md";

/// Needs that are no layer.
const RESOURCES: [&str; 4] = ["root", "guest", "cargo", "sanitizer"];

struct Layer {
    name: String,
    set: String,
    seconds: u32,
    needs: Vec<String>,
    run: String,
    shows: String,
    by: String,
}

/// Writes the table into the document.
pub fn write(root: &Path) -> Result<String, String> {
    let layers = read(root)?;
    let (_, new) = document(root, &layers)?;
    fs::write(root.join(DOCUMENT), new).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    Ok(format!("{DOCUMENT} has the {} layers of {TABLE}", layers.len()))
}

/// Fails if the table is not well made, or the document shows another.
pub fn check(root: &Path) -> Result<String, String> {
    let layers = read(root)?;
    let (old, new) = document(root, &layers)?;
    if old != new {
        return Err(format!("{DOCUMENT} shows another table than {TABLE}; {HOW}"));
    }
    let seconds =
        |set| layers.iter().filter(|layer| layer.set == set).map(|layer| layer.seconds).sum::<u32>();
    Ok(format!(
        "{TABLE}: {} layers; test {} s, all {} s more, one after the other",
        layers.len(),
        seconds("test"),
        seconds("all")
    ))
}

/// The document as it is, and as it should be.
fn document(root: &Path, layers: &[Layer]) -> Result<(String, String), String> {
    let old = fs::read_to_string(root.join(DOCUMENT)).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let parts = old.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{DOCUMENT}: no lines {BEGIN}and {END}"))?;
    let new = format!("{before}{BEGIN}\n{}\n{END}{after}", shown(layers));
    Ok((old, new))
}

fn shown(layers: &[Layer]) -> String {
    let mut text = String::from("| layer | run by | what it shows | how |\n|---|---|---|---|\n");
    for (set, target) in [("test", "`make test`"), ("all", "`make test-all`"), ("soak", "`make soak`")] {
        for Layer { name, shows, by, .. } in layers.iter().filter(|layer| layer.set == set) {
            let _ = writeln!(text, "| `{name}` | {target} | {} | {} |", from_docs(shows), from_docs(by));
        }
    }
    text
}

/// Links of the table start at the project's folder.
fn from_docs(text: &str) -> String {
    text.replace("](", "](../").replace("](../docs/", "](")
}

fn read(root: &Path) -> Result<Vec<Layer>, String> {
    let text = fs::read_to_string(root.join(TABLE)).map_err(|error| format!("{TABLE}: {error}"))?;
    let layers = parse(&text)?;
    for layer in &layers {
        let program =
            layer.run.split_whitespace().find(|word| word.contains('/') && !word.contains(['$', '=']));
        if let Some(program) = program.filter(|program| !root.join(program).exists()) {
            return Err(format!("{TABLE}: {}: no {program}", layer.name));
        }
    }
    Ok(layers)
}

fn parse(text: &str) -> Result<Vec<Layer>, String> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut field = String::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("{TABLE}, line {}: {what}: {line}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, set @ ("test" | "all" | "soak"), seconds, needs @ ..] = &words[..] else {
                return Err(wrong("not LAYER SET SECONDS NEEDS"));
            };
            layers.push(Layer {
                name: (*name).to_owned(),
                set: (*set).to_owned(),
                seconds: seconds.parse().map_err(|_| wrong("no number of seconds"))?,
                needs: needs.iter().map(|need| (*need).to_owned()).collect(),
                run: String::new(),
                shows: String::new(),
                by: String::new(),
            });
            continue;
        }
        let layer = layers.last_mut().ok_or_else(|| wrong("no layer before"))?;
        let mut words = line.trim();
        if !line.starts_with("    ") {
            let (name, rest) = words.split_once(' ').ok_or_else(|| wrong("an empty field"))?;
            field = name.to_owned();
            words = rest.trim();
        }
        let text = match field.as_str() {
            "run" => &mut layer.run,
            "shows" => &mut layer.shows,
            "by" => &mut layer.by,
            _ => return Err(wrong("no such field")),
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(words);
    }

    let mut names = BTreeSet::new();
    for layer in &layers {
        if layer.run.is_empty() || layer.shows.is_empty() {
            return Err(format!("{TABLE}: {}: lacks what it runs or shows", layer.name));
        }
        // What a layer of the smaller set needs is in it, and stands before.
        for need in layer.needs.iter().filter(|need| !RESOURCES.contains(&need.as_str())) {
            if !names.contains(need.as_str()) {
                return Err(format!("{TABLE}: {} needs {need}, which no line before it has", layer.name));
            }
            let needed = layers.iter().find(|other| other.name == *need).map(|other| other.set.as_str());
            if layer.set == "test" && needed != Some("test") {
                return Err(format!(
                    "{TABLE}: {} is in `test`, and {need}, which it needs, is not",
                    layer.name
                ));
            }
        }
        if !names.insert(layer.name.as_str()) {
            return Err(format!("{TABLE}: {} stands there twice", layer.name));
        }
    }
    if layers.is_empty() { Err(format!("{TABLE}: no layer")) } else { Ok(layers) }
}

#[cfg(test)]
mod tests {
    use super::{from_docs, parse};

    const LINES: &str = "# comment\nlibrary test 70\n  run    make\n  shows  it builds\n\n\
        guest all 5 library guest\n  run    one &&\n         two\n  shows  a\n         b\n  by     c\n";

    #[test]
    fn a_table_is_read_with_its_continued_lines() {
        let layers = parse(LINES).expect("a table");
        assert_eq!(layers.len(), 2);
        let layer = &layers[1];
        assert_eq!((layer.name.as_str(), layer.set.as_str(), layer.seconds), ("guest", "all", 5));
        assert_eq!(layer.needs, ["library", "guest"]);
        assert_eq!((layer.run.as_str(), layer.shows.as_str(), layer.by.as_str()), ("one && two", "a b", "c"));
    }

    #[test]
    fn a_table_that_is_none_is_refused() {
        for (line, instead, what) in [
            ("library test 70", "library quick 70", "not LAYER SET"),
            ("library test 70", "library test soon", "no number"),
            ("5 library guest", "5 libary guest", "no line before"),
            ("guest all 5 library", "library all 5", "twice"),
            ("guest all 5 library", "guest test 5 other", "other, which it needs, is not"),
            ("  shows  it builds\n", "", "lacks"),
            ("  by ", "  how ", "no such field"),
        ] {
            let other = "\nother all 1\n  run    a\n  shows  b\n\n";
            let text = LINES.replacen("\n\n", other, 1).replacen(line, instead, 1);
            let error = parse(&text).err().unwrap_or_default();
            assert!(error.contains(what), "{instead}: {error:?}");
        }
    }

    #[test]
    fn links_are_those_of_the_folder_docs() {
        assert_eq!(from_docs("[a](docs/a.md), [b](tests/b)"), "[a](a.md), [b](../tests/b)");
    }
}
