//! The pages of `docs/rules/`, one for each rule of `ironverbs check`, written from the table that the library
//! uses.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

// The table itself: it uses no other file.
#[path = "../../src/check/rules.rs"]
#[allow(dead_code, reason = "the library names rules by it")]
mod rules;

const FOLDER: &str = "docs/rules";
/// Columns of the pages.
const WIDTH: usize = 128;

fn wrapped(to: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() + 1 > WIDTH {
            let _ = writeln!(to, "{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(to, "{line}");
}

fn page(rule: &rules::Rule) -> String {
    let mut text = format!("# {}\n\n", rule.id);
    wrapped(&mut text, rule.sentence);
    for (title, part) in
        [("What to do", rule.remedy), ("How it is found", rule.how), ("Where it is written", rule.source)]
    {
        let _ = writeln!(text, "\n## {title}\n");
        wrapped(&mut text, part);
    }
    let _ = writeln!(
        text,
        "\nA finding is {}. A program that breaks the rule is [`tests/check/{}.c`](../../tests/check/{}.c).",
        match rule.class {
            rules::Class::Error => "an error",
            rules::Class::Note => "a note, which is shown with `--notes`",
        },
        rule.id,
        rule.id
    );
    text
}

fn index() -> String {
    let mut text = String::from("# The rules of ironverbs check\n\n");
    wrapped(
        &mut text,
        "`ironverbs check PROGRAM` finds where a program breaks these rules of the specification and the \
         manual pages, which devices do not enforce at once. An error is sure; a note may have a reason that \
         cannot be seen, and is shown with `--notes`. The pages are written from `src/check/rules.rs` \
         (`cargo run -p xtask -- check-rules`).",
    );
    text.push_str("\n| rule | class | what the program does |\n|---|---|---|\n");
    for rule in rules::ALL {
        let _ =
            writeln!(text, "| [{}]({}.md) | {} | {} |", rule.id, rule.id, rule.class.name(), rule.sentence);
    }
    text
}

fn pages() -> BTreeMap<String, String> {
    let mut pages: BTreeMap<String, String> =
        rules::ALL.iter().map(|rule| (format!("{}.md", rule.id), page(rule))).collect();
    pages.insert("README.md".to_owned(), index());
    pages
}

fn there(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Writes all pages, and removes those of rules that there are not.
pub fn write(root: &Path) -> Result<String, String> {
    let pages = pages();
    fs::create_dir_all(root.join(FOLDER)).map_err(|why| format!("{FOLDER}: {why}"))?;
    for name in there(root).iter().filter(|name| !pages.contains_key(*name)) {
        fs::remove_file(root.join(FOLDER).join(name)).map_err(|why| format!("{FOLDER}/{name}: {why}"))?;
    }
    for (name, text) in &pages {
        fs::write(root.join(FOLDER).join(name), text).map_err(|why| format!("{FOLDER}/{name}: {why}"))?;
    }
    Ok(format!("{} pages in {FOLDER}", pages.len()))
}

/// Fails where a page is missing, stale or too many, and where a rule has no program that breaks it.
pub fn check(root: &Path) -> Result<String, String> {
    let pages = pages();
    for (name, text) in &pages {
        if fs::read_to_string(root.join(FOLDER).join(name)).ok().as_ref() != Some(text) {
            return Err(format!("{FOLDER}/{name} is stale: cargo run -p xtask -- check-rules"));
        }
    }
    if let Some(name) = there(root).iter().find(|name| !pages.contains_key(*name)) {
        return Err(format!("{FOLDER}/{name} is of no rule"));
    }
    for rule in rules::ALL {
        let program = format!("tests/check/{}.c", rule.id);
        if !root.join(&program).exists() {
            return Err(format!("the rule {} has no {program}, which breaks it", rule.id));
        }
    }
    Ok(format!("{} pages are current", pages.len()))
}
