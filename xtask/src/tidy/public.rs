//! Public modules of the workspace's own libraries: each has a user outside of its crate. One that has none is
//! public by accident, and says more than the crate promises.

use std::collections::{BTreeMap, BTreeSet};

use super::allowed::List;
use super::imports::{Mention, Names, names};
use super::source::tokens;
use super::{Finding, Tree};

const ALLOWED: &str = "tests/tidy/public.txt";
/// The folder of each library, and its name in Rust.
const LIBRARIES: &[(&str, &str)] = &[
    ("softrdma", "softrdma"),
    ("cm", "ironverbs_cm"),
    ("ucma", "ironverbs_ucma"),
    ("os", "ironverbs_os"),
    ("umad", "ibumad"),
];

/// Public modules without a user outside.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut allowed = List::read(tree, ALLOWED);
    let mut findings = Vec::new();
    let all: Vec<(&str, Names)> = tree.sources().map(|(path, code)| (path, names(&tokens(code)))).collect();
    for (folder, library) in LIBRARIES {
        let used = used_modules(tree, &all, folder, library);
        for (module, (path, line)) in public_modules(tree, folder) {
            if !used.contains(&module) && !allowed.allows(|entry| entry == format!("{library}::{module}")) {
                let what = format!("nothing outside of {folder}/src uses {library}::{module}");
                let remedy = format!("make it `mod` or `pub(crate) mod`; {ALLOWED} is for what cannot be");
                findings.push(Finding::at(&path, line, what, &remedy));
            }
        }
    }
    findings.extend(allowed.finish());
    findings
}

/// The public modules that others can reach, each by its path and with the place where it is declared.
fn public_modules(tree: &Tree, folder: &str) -> BTreeMap<String, (String, usize)> {
    let mut found = BTreeMap::new();
    // A file, and the module that it is.
    let mut files = vec![(format!("{folder}/src/lib.rs"), String::new())];
    while let Some((path, above)) = files.pop() {
        let Some(names) = tree.product_names(&path) else { continue };
        let own = path.rsplit_once('/').map_or("", |(own, _)| own);
        let stem = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        let children = if matches!(stem, "lib" | "mod") { own.to_owned() } else { format!("{own}/{stem}") };
        for module in names.modules.iter().filter(|module| module.public) {
            let around = joined(&above, &module.inside.join("::"));
            if !module.inside.is_empty() && !found.contains_key(&around) {
                continue;
            }
            let name = joined(&around, &module.name);
            let below =
                module.inside.iter().chain([&module.name]).map(|part| format!("/{part}")).collect::<String>();
            for file in [format!("{children}{below}.rs"), format!("{children}{below}/mod.rs")] {
                files.push((file, name.clone()));
            }
            found.insert(name, (path.clone(), module.line));
        }
    }
    found
}

fn joined(above: &str, name: &str) -> String {
    match (above, name) {
        ("", name) => name.to_owned(),
        (above, "") => above.to_owned(),
        (above, name) => format!("{above}::{name}"),
    }
}

/// The paths within a library that others name, with all that lead to them.
fn used_modules(tree: &Tree, all: &[(&str, Names)], folder: &str, library: &str) -> BTreeSet<String> {
    let inner = format!("{folder}/src/");
    let mut used = BTreeSet::new();
    let mut take = |path: &[String]| {
        for length in 1..=path.len() {
            used.insert(path[..length].join("::"));
        }
    };
    // What other sources of a crate call a part of the library: they import it from each other.
    let outside = || all.iter().filter(|(path, _)| !path.starts_with(&inner));
    let mut shared: BTreeMap<(&str, &str), BTreeSet<Vec<String>>> = BTreeMap::new();
    for (path, names) in outside() {
        for (name, import) in &names.imports {
            if let Some(within) = within(&import.path, library) {
                shared.entry((crate_of(path), name)).or_default().insert(within);
            }
        }
    }
    for (path, names) in outside() {
        for Mention { path: parts, .. } in &names.mentions {
            if let Some(within) = within(parts, library) {
                take(&within);
            } else if let Some(first) =
                parts.iter().find(|part| !matches!(part.as_str(), "crate" | "super" | "self"))
            {
                let rest = parts.iter().skip_while(|part| *part != first).skip(1);
                for begun in shared.get(&(crate_of(path), first.as_str())).into_iter().flatten() {
                    take(&begun.iter().chain(rest.clone()).cloned().collect::<Vec<_>>());
                }
            }
        }
    }
    // Examples in the library's own documentation are its users, too, and so are macros of it that others
    // expand.
    for (path, names) in all.iter().filter(|(path, _)| path.starts_with(&inner)) {
        let examples = tree.text(path).map(examples).unwrap_or_default();
        for Mention { path: parts, .. } in super::imports::names(&tokens(&examples)).mentions {
            take(&within(&parts, library).unwrap_or_default());
        }
        for Mention { path: parts, .. } in &names.mentions {
            if parts.first().is_some_and(|first| first == "$crate") {
                take(&parts[1..]);
            }
        }
    }
    used
}

/// The path within the library.
fn within(path: &[String], library: &str) -> Option<Vec<String>> {
    (path.first()? == library).then(|| path[1..].to_vec())
}

fn crate_of(path: &str) -> &str {
    path.find("/src/")
        .or_else(|| path.find("/tests/"))
        .or_else(|| path.find("/benches/"))
        .map_or("", |end| &path[..end])
}

/// The code in a source's documentation.
fn examples(text: &str) -> String {
    let mut open = false;
    let mut code = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(said) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            if said.trim_start().starts_with("```") {
                open = !open;
            } else if open {
                code.push_str(said);
                code.push('\n');
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, tree};
    use super::*;

    const LIB: (&str, &str) = ("os/src/lib.rs", "pub mod a;\npub mod b;\nmod c;\n");

    #[test]
    fn modules_without_a_user_are_found() {
        let with = |user: &str| {
            said(check(&tree(&[LIB, ("os/src/a.rs", "pub mod d {}"), ("cli/src/main.rs", user)])))
        };
        assert_eq!(with("use ironverbs_os::{a::d, b::X};"), [""; 0]);
        assert_eq!(
            with("use ironverbs_os as os;\nuse ironverbs_os::a;\nfn f() { a::d::g(); os::b::h() }"),
            [""; 0]
        );
        let found = with("use ironverbs_os::a::X;");
        assert!(found[1].starts_with("os/src/lib.rs:2: nothing outside of os/src uses ironverbs_os::b"));
        assert!(found[0].starts_with("os/src/a.rs:1: nothing outside of os/src uses ironverbs_os::a::d"));
        let own = said(check(&tree(&[("os/src/lib.rs", "pub mod a;\nuse a::X;")])));
        assert_eq!(own.len(), 1, "the crate itself is no user");
    }

    #[test]
    fn tests_and_examples_are_users_and_exceptions_shrink() {
        let test = ("os/tests/t.rs", "use ironverbs_os::a;");
        let example = ("os/src/b.rs", "/// ```\n/// ironverbs_os::b::f();\n/// ```\npub fn f() {}");
        assert_eq!(said(check(&tree(&[LIB, test, example]))), [""; 0]);
        let list = (ALLOWED, "ironverbs_os::b: why\n");
        assert_eq!(said(check(&tree(&[LIB, test, list]))), [""; 0]);
        assert!(
            said(check(&tree(&[LIB, test, example, list])))[0]
                .contains("nothing needs the exception for ironverbs_os::b")
        );
    }
}
