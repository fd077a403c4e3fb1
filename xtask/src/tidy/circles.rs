//! Circles of imports: files of which each needs all others, so that none can be read, tested or moved alone.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Names;
use super::{Finding, Tree};

const ALLOWED: &str = "tests/tidy/circles.txt";
/// The crates that are looked at.
const CRATES: &[&str] = &["softrdma", "cm", "os"];

type Module = Vec<String>;
/// The files of a circle, and which others of it each needs.
type Circle = BTreeMap<String, Vec<String>>;

/// Circles that are not listed, and what of listed ones is none any more.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (listed, mut findings) = listed(tree.text(ALLOWED).unwrap_or_default());
    let circles: Vec<Circle> = CRATES.iter().flat_map(|name| Crate::read(tree, name).circles()).collect();
    for circle in &circles {
        if !listed.iter().any(|files| circle.keys().all(|file| files.contains_key(file))) {
            let needs: Vec<String> =
                circle.iter().map(|(file, needs)| format!("{file} needs {}", needs.join(" and "))).collect();
            let what = format!("a circle of imports: {}", needs.join("; "));
            let remedy = format!(
                "put what both sides need into a file below them; {ALLOWED} is for what has a reason"
            );
            let first = circle.keys().next().expect("a circle has files");
            findings.push(Finding::at(first, 1, what, &remedy));
        }
    }
    let within: BTreeSet<&String> = circles.iter().flat_map(BTreeMap::keys).collect();
    for (file, line) in listed.iter().flatten().filter(|(file, _)| !within.contains(file)) {
        findings.push(Finding::at(ALLOWED, *line, format!("{file} is in no circle"), "take the line out"));
    }
    findings
}

/// The listed circles: the files of each, with their lines. `circle: REASON`, more of it indented by four, and
/// the files indented by two.
fn listed(text: &str) -> (Vec<BTreeMap<String, usize>>, Vec<Finding>) {
    let (mut circles, mut findings) = (Vec::<BTreeMap<_, _>>::new(), Vec::new());
    for (number, text) in
        text.lines().enumerate().filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
    {
        let line = number + 1;
        if let Some(reason) = text.strip_prefix("circle:") {
            circles.push(BTreeMap::new());
            if reason.trim().is_empty() {
                findings.push(Finding::at(ALLOWED, line, "no reason", "write `circle: REASON`"));
            }
        } else if text.starts_with("    ") && !circles.is_empty() {
            // More of the reason.
        } else if let (Some(file), Some(circle)) = (text.strip_prefix("  "), circles.last_mut()) {
            circle.insert(file.to_owned(), line);
        } else {
            findings.push(Finding::at(
                ALLOWED,
                line,
                "neither a circle nor a file of one",
                "see the list's head",
            ));
        }
    }
    (circles, findings)
}

/// The files of a crate and what they name.
struct Crate {
    files: BTreeMap<Module, (String, Names)>,
}

impl Crate {
    /// Reads it, without its tests.
    fn read(tree: &Tree, folder: &str) -> Self {
        let inner = format!("{folder}/src/");
        let mut files = BTreeMap::new();
        for (path, _) in tree.sources() {
            let Some(inside) = path.strip_prefix(&inner) else { continue };
            let mut module: Module = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                module.pop();
            }
            files.insert(module, path.to_owned());
        }
        // A file that only tests declare is not declared by the product.
        let names = |path: &String| tree.product_names(path).unwrap_or_default();
        let mut read: BTreeMap<Module, (String, Names)> =
            files.iter().map(|(module, path)| (module.clone(), (path.clone(), names(path)))).collect();
        let declared: BTreeSet<Module> = read
            .iter()
            .flat_map(|(module, (_, names))| {
                names
                    .modules
                    .iter()
                    .map(move |it| [&module[..], &it.inside, std::slice::from_ref(&it.name)].concat())
            })
            .collect();
        let in_product =
            |module: &Module| (1..=module.len()).all(|length| declared.contains(&module[..length]));
        read.retain(|module, _| in_product(module));
        Self { files: read }
    }

    /// The file that a path leads to, through what other files import under a name.
    fn file_of(&self, path: &[String], steps: usize) -> Option<&Module> {
        let (module, length) = (0..=path.len())
            .rev()
            .find_map(|length| self.files.get_key_value(&path[..length]).map(|(it, _)| (it, length)))?;
        let Some(next) = path.get(length).filter(|_| steps > 0) else { return Some(module) };
        let import = self.files[module].1.imports.get(next).filter(|import| import.inside.is_empty());
        let further = import.and_then(|import| self.absolute(module, &import.path, &[]));
        match further {
            Some(mut further) if further != path[..=length] => {
                further.extend_from_slice(&path[length + 1..]);
                self.file_of(&further, steps - 1)
            }
            _ => Some(module),
        }
    }

    /// A path from the crate's root on; none that leads out of the crate.
    fn absolute(&self, module: &Module, path: &[String], inside: &[String]) -> Option<Module> {
        let mut here = [&module[..], inside].concat();
        match path.first()?.as_str() {
            "crate" => here.clear(),
            "self" => {}
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                here.truncate(here.len().checked_sub(up)?);
                return Some([&here[..], &path[up..]].concat());
            }
            // A module below this one, which it re-exports from.
            first => {
                here.push(first.to_owned());
                return self.files.contains_key(&here).then(|| [&here[..], &path[1..]].concat());
            }
        }
        Some([&here[..], &path[1..]].concat())
    }

    /// The files that a file needs: those that paths from `crate`, `super` and `self` on lead to.
    fn needs(&self, module: &Module) -> BTreeSet<&Module> {
        let mentions = &self.files[module].1.mentions;
        let own = |first: &str| matches!(first, "crate" | "super" | "self");
        mentions
            .iter()
            .filter(|mention| own(&mention.path[0]))
            .filter_map(|mention| self.absolute(module, &mention.path, &mention.inside))
            .filter_map(|path| self.file_of(&path, 8))
            .filter(|needed| *needed != module)
            .collect()
    }

    /// The files that need each other, circle by circle.
    fn circles(&self) -> Vec<Circle> {
        let needs: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.keys().map(|module| (module, self.needs(module))).collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = needs
            .keys()
            .map(|module| {
                let (mut seen, mut open) = (BTreeSet::new(), vec![*module]);
                while let Some(at) = open.pop() {
                    open.extend(needs[at].iter().copied().filter(|next| seen.insert(*next)));
                }
                (*module, seen)
            })
            .collect();
        let mut circles: BTreeSet<Circle> = BTreeSet::new();
        for (module, there) in &reached {
            if there.contains(module) {
                let circle: BTreeSet<&Module> =
                    there.iter().copied().filter(|other| reached[*other].contains(module)).collect();
                let path = |module: &Module| self.files[module].0.clone();
                let of = |module: &Module| {
                    needs[module].intersection(&circle).map(|needed| path(needed)).collect()
                };
                circles.insert(circle.iter().map(|module| (path(module), of(module))).collect());
            }
        }
        circles.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    const LIB: (&str, &str) = ("cm/src/lib.rs", "mod a;\nmod b;\npub mod c;\nmod d;\n");

    #[test]
    fn circles_are_found() {
        let one_way = [LIB, ("cm/src/a.rs", "use crate::b::B;"), ("cm/src/b.rs", "use std::fmt;")];
        assert_eq!(said(check(&tree(&one_way))), [""; 0]);
        let two = [LIB, ("cm/src/a.rs", "use crate::b::B;"), ("cm/src/b.rs", "fn f() { super::a::g() }")];
        assert!(said(check(&tree(&two)))[0].starts_with(
            "cm/src/a.rs:1: a circle of imports: cm/src/a.rs needs cm/src/b.rs; cm/src/b.rs needs"
        ));
    }

    #[test]
    fn reexports_lead_to_their_files() {
        let files = [
            LIB,
            ("cm/src/c/mod.rs", "mod e;\npub use e::E;\nuse crate::a::A;"),
            ("cm/src/c/e.rs", ""),
            ("cm/src/a.rs", "use crate::c::E;"),
        ];
        assert_eq!(said(check(&tree(&files))), [""; 0], "a needs e, and only c needs a");
    }

    #[test]
    fn tests_make_no_circles() {
        let inside = "use crate::b::B;\n#[cfg(test)]\nmod tests;";
        let files = [
            LIB,
            ("cm/src/a.rs", inside),
            ("cm/src/a/tests.rs", "use super::A;"),
            ("cm/src/b.rs", "#[cfg(test)] mod t { use crate::a::A; }"),
        ];
        assert_eq!(said(check(&tree(&files))), [""; 0]);
    }

    #[test]
    fn listed_circles_only_shrink() {
        let (a, b) = (("cm/src/a.rs", "use crate::b::B;"), ("cm/src/b.rs", "use crate::a::A;"));
        let with = |list: &str| said(check(&tree(&[LIB, a, b, (ALLOWED, list)])));
        assert_eq!(with("# head\ncircle: one\n    family\n  cm/src/a.rs\n  cm/src/b.rs\n"), [""; 0]);
        assert_eq!(with("circle: one family\n  cm/src/a.rs\n").len(), 1);
        let more = with("circle: one family\n  cm/src/a.rs\n  cm/src/b.rs\n  cm/src/d.rs\n");
        assert!(more[0].starts_with("tests/tidy/circles.txt:4: cm/src/d.rs is in no circle"));
        assert!(with("circle:\n  cm/src/a.rs\n  cm/src/b.rs\n")[0].contains("no reason"));
    }
}
