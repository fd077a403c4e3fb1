//! Rules of others that the project keeps (`tests/rules.txt`), and where: `// rule: ID` stands at the code that
//! meets one and in the test that shows it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tidy::source::{test_lines, tokens};
use crate::tidy::{Finding, Tree};

const TABLE: &str = "tests/rules.txt";
const MARK: &str = "// rule: ";

/// A rule, and where it is cited.
#[derive(Default)]
struct Rule {
    line: usize,
    source: String,
    text: String,
    code: Vec<String>,
    tests: Vec<String>,
}

/// Which rules no code, or no test, names.
///
/// # Errors
/// What is wrong with the table or with citations.
pub fn report(root: &Path) -> Result<String, String> {
    let (rules, findings) = read(&Tree::read(root)?);
    if !findings.is_empty() {
        return Err(findings.iter().map(|finding| format!("{finding}\n")).collect());
    }
    Ok(listed(&rules))
}

fn listed(rules: &BTreeMap<String, Rule>) -> String {
    let without = |what: &str, places: fn(&Rule) -> &Vec<String>| -> String {
        let missing = rules.iter().filter(|(_, rule)| places(rule).is_empty());
        missing
            .map(|(id, rule)| format!("{TABLE}:{}: no {what} names {id}: {}\n", rule.line, rule.text))
            .collect()
    };
    let (code, tests) = (without("code", |rule| &rule.code), without("test", |rule| &rule.tests));
    let count = |places: fn(&Rule) -> usize| rules.values().map(places).sum::<usize>();
    format!(
        "{code}{tests}{} rules; code names them {} times, tests {} times",
        rules.len(),
        count(|rule| rule.code.len()),
        count(|rule| rule.tests.len())
    )
}

/// What is wrong with the table, and citations of what it has not.
pub fn check(tree: &Tree) -> Vec<Finding> {
    read(tree).1
}

fn read(tree: &Tree) -> (BTreeMap<String, Rule>, Vec<Finding>) {
    let (mut rules, mut findings) = table(tree.text(TABLE).unwrap_or_default());
    for (path, code) in tree.sources() {
        let text = tree.text(path).unwrap_or_default();
        if !text.contains(MARK) {
            continue;
        }
        let tests = test_lines(&tokens(code));
        let whole =
            ["tests", "testing", "benches"].iter().any(|name| path.split('/').any(|part| part == *name))
                || path.ends_with("/tests.rs");
        let cited =
            text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.trim().strip_prefix(MARK)?)));
        for (line, ids) in cited {
            for id in ids.split(", ") {
                let Some(rule) = rules.get_mut(id) else {
                    let what = format!("{TABLE} has no rule {id}");
                    findings.push(Finding::at(
                        path,
                        line,
                        what,
                        "name one that is there, or add it with its source",
                    ));
                    continue;
                };
                let in_test = whole || tests.iter().any(|lines| lines.contains(&line));
                let places = if in_test { &mut rule.tests } else { &mut rule.code };
                places.push(format!("{path}:{line}"));
            }
        }
    }
    (rules, findings)
}

/// The rules of the table: an id, and below, indented, `source` and `rule`, each of one or more lines.
fn table(text: &str) -> (BTreeMap<String, Rule>, Vec<Finding>) {
    let (mut rules, mut findings) = (BTreeMap::<String, Rule>::new(), Vec::new());
    let mut id = String::new();
    let mut into_source = false;
    for (number, text) in
        text.lines().enumerate().filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
    {
        let line = number + 1;
        let Some(said) = text.strip_prefix("  ") else {
            id = text.to_owned();
            if rules.insert(id.clone(), Rule { line, ..Rule::default() }).is_some() {
                findings.push(Finding::at(TABLE, line, format!("{id} again"), "give it an id of its own"));
            }
            continue;
        };
        let Some(rule) = rules.get_mut(&id) else {
            findings.push(Finding::at(TABLE, line, "no id above", "begin a rule with its id"));
            continue;
        };
        let said = if let Some(source) = said.strip_prefix("source ") {
            into_source = true;
            source
        } else if let Some(rule) = said.strip_prefix("rule ") {
            into_source = false;
            rule
        } else {
            said
        };
        let part = if into_source { &mut rule.source } else { &mut rule.text };
        if !part.is_empty() {
            part.push(' ');
        }
        part.push_str(said.trim());
    }
    for (id, rule) in rules.iter().filter(|(_, rule)| rule.source.is_empty() || rule.text.is_empty()) {
        findings.push(Finding::at(
            TABLE,
            rule.line,
            format!("{id} lacks its source or its sentence"),
            "add it",
        ));
    }
    (rules, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())))
    }

    const TABLE_OF_TWO: (&str, &str) = (
        TABLE,
        "# head\n\na-b\n  source  man\n  rule    One thing,\n          and more.\n\n\
         c\n  source  man\n  rule    Two.\n",
    );

    #[test]
    fn rules_without_code_or_test_are_listed() {
        let source =
            "    // rule: a-b, c\nfn f() {}\n#[cfg(test)]\nmod tests {\n    // rule: a-b\n    fn g() {}\n}\n";
        let (rules, findings) = read(&tree(&[TABLE_OF_TWO, ("x/src/l.rs", source)]));
        assert!(findings.is_empty());
        assert_eq!(rules["a-b"].text, "One thing, and more.");
        assert_eq!(
            (&rules["a-b"].code[..], &rules["a-b"].tests[..]),
            (&["x/src/l.rs:1".into()][..], &["x/src/l.rs:5".into()][..])
        );
        assert_eq!(
            listed(&rules),
            "tests/rules.txt:8: no test names c: Two.\n2 rules; code names them 2 times, tests 1 times"
        );
        let (rules, _) = read(&tree(&[
            TABLE_OF_TWO,
            ("x/tests/t.rs", "// rule: c\n"),
            ("x/src/l/tests.rs", "// rule: c\n"),
        ]));
        assert_eq!((rules["c"].code.len(), rules["c"].tests.len()), (0, 2));
    }

    #[test]
    fn what_the_table_lacks_is_found() {
        let said =
            |files: &[(&str, &str)]| check(&tree(files)).iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = said(&[TABLE_OF_TWO, ("x/src/l.rs", "\n// rule: a-b, d\n")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("x/src/l.rs:2: tests/rules.txt has no rule d"));
        assert!(
            said(&[(TABLE, "a\n  rule  One.\n")])[0].starts_with("tests/rules.txt:1: a lacks its source")
        );
        assert!(
            said(&[(TABLE, "a\n  source  s\n  rule  One.\na\n  source  s\n  rule  One.\n")])[0]
                .contains("a again")
        );
        assert!(said(&[(TABLE, "  rule  One.\n")])[0].contains("no id above"));
    }
}
