//! What a Rust source imports and which paths it names.

use std::collections::BTreeMap;

use super::source::{Token, closed, is_word};

/// A path that a source names, in a `use` or elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mention {
    /// Its parts, from `crate`, `super`, `self`, a crate or a name of the source on. The last is `*` for all
    /// names.
    pub path: Vec<String>,
    /// The modules in braces around it, from the file's own module on.
    pub inside: Vec<String>,
    /// The line.
    pub line: usize,
}

/// What a source names.
#[derive(Default, Debug)]
pub struct Names {
    /// Everything, imports among it.
    pub mentions: Vec<Mention>,
    /// The path that each imported name stands for. One that is imported twice has its last.
    pub imports: BTreeMap<String, Mention>,
    /// The modules that it declares: their names, and whether they are public (`pub mod`), with their lines.
    pub modules: Vec<Module>,
}

/// A declaration of a module.
#[derive(PartialEq, Eq, Debug)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// The modules in braces around it.
    pub inside: Vec<String>,
    /// Whether it is `pub mod`, not `pub(crate) mod` or `mod`.
    pub public: bool,
    /// The line.
    pub line: usize,
}

/// Reads what a source names.
pub fn names(all: &[Token<'_>]) -> Names {
    let mut found = Names::default();
    // The modules in braces, with the place where each ends.
    let mut inside: Vec<(String, usize)> = Vec::new();
    let mut at = 0;
    while at < all.len() {
        inside.retain(|(_, end)| at < *end);
        let around = || inside.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let text = |place: usize| all.get(place).map_or("", |token| token.text);
        match all[at].text {
            "mod" if is_word(text(at + 1)) && matches!(text(at + 2), ";" | "{") => {
                let public = at > 0 && text(at - 1) == "pub";
                let name = text(at + 1).to_owned();
                found.modules.push(Module {
                    name: name.clone(),
                    inside: around(),
                    public,
                    line: all[at].line,
                });
                if text(at + 2) == "{" {
                    inside.push((name, closed(all, at + 2)));
                }
                at += 3;
            }
            "use" if is_word(text(at + 1)) || matches!(text(at + 1), "{" | "::") => {
                let end = at + all[at..].iter().take_while(|token| token.text != ";").count();
                let around = around();
                leaves(&all[at + 1..end], &[], &mut |path, alias, line| {
                    let mention = Mention { path, inside: around.clone(), line };
                    found.imports.insert(alias, mention.clone());
                    found.mentions.push(mention);
                });
                at = end + 1;
            }
            word if is_word(word) && text(at + 1) == "::" && (at == 0 || text(at - 1) != "::") => {
                let (mut path, line) = (vec![word.to_owned()], all[at].line);
                while text(at + 1) == "::" && is_word(text(at + 2)) {
                    path.push(text(at + 2).to_owned());
                    at += 2;
                }
                if path.len() > 1 {
                    found.mentions.push(Mention { path, inside: around(), line });
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// Calls `each` with every path of a tree of imports, the name that it is imported under, and its line.
fn leaves(tree: &[Token<'_>], before: &[String], each: &mut impl FnMut(Vec<String>, String, usize)) {
    let mut path = before.to_vec();
    let (mut alias, mut at) = (None, 0);
    let mut line = tree.first().map_or(0, |token| token.line);
    let mut finish = |path: &mut Vec<String>, alias: &mut Option<String>, line: usize| {
        if path.len() > before.len() {
            if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                path.pop();
            }
            let name = alias.take().or_else(|| path.last().cloned()).unwrap_or_default();
            each(std::mem::replace(path, before.to_vec()), name, line);
        }
    };
    let mut groups = Vec::new();
    while at < tree.len() {
        let token = tree[at];
        match token.text {
            "," => finish(&mut path, &mut alias, line),
            "{" => {
                let end = closed(tree, at);
                groups.push((at + 1..end - 1, std::mem::replace(&mut path, before.to_vec())));
                at = end;
                continue;
            }
            "as" => {
                alias = tree.get(at + 1).map(|token| token.text.to_owned());
                at += 1;
            }
            "::" => {}
            text => {
                line = token.line;
                path.push(text.to_owned());
            }
        }
        at += 1;
    }
    finish(&mut path, &mut alias, line);
    for (range, path) in groups {
        leaves(&tree[range], &path, each);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::tokens;
    use super::*;

    #[test]
    fn imports_are_all_paths_of_their_trees() {
        let found = names(&tokens("use a::{b, c::{self, d as e}, f::*};\nmod m { use super::g; }\nh::i();"));
        let paths: Vec<String> = found.mentions.iter().map(|mention| mention.path.join("::")).collect();
        assert_eq!(paths, ["a::b", "a::f::*", "a::c", "a::c::d", "super::g", "h::i"].map(String::from));
        assert_eq!(found.imports["e"].path, ["a", "c", "d"].map(String::from));
        assert_eq!(found.imports["g"].inside, ["m".to_owned()]);
        assert_eq!(found.mentions[5].line, 3);
    }

    #[test]
    fn modules_are_public_or_not() {
        let found = names(&tokens("pub mod a { pub(crate) mod b; }\nmod c;"));
        let said: Vec<_> =
            found.modules.iter().map(|it| (it.name.as_str(), it.inside.len(), it.public)).collect();
        assert_eq!(said, [("a", 0, true), ("b", 1, false), ("c", 0, false)]);
    }
}
