//! From cbindgen's C to the C of verbs.h: unnamed structs and unions in their places, enum-typed fields and
//! arguments, names that Rust could not have, comments on one line.

use std::collections::BTreeMap;

/// Longest line on which a comment is kept whole.
const LINE: usize = 100;

/// Functions that read nothing but their arguments.
const CONST_FUNCTIONS: [&str; 4] =
    ["ibv_rate_to_mult", "mult_to_ibv_rate", "ibv_rate_to_mbps", "mbps_to_ibv_rate"];

/// Types that C does name although their names read like `<owner>_<field>`.
const NAMED: [&str; 1] = ["ibv_context_ops"];

/// A struct or union taken out of the text, to be put where it is used.
struct Nested {
    keyword: String,
    /// The lines between the braces, one level deep.
    body: Vec<String>,
}

/// Turns the declarations that cbindgen printed into those of the header.
pub fn finish(raw: &str) -> Result<String, String> {
    let text: Vec<String> = raw.lines().map(respell).collect();
    let (mut lines, nested) = take_nested(&text)?;
    excuse_structs_of_unnamed_members(&mut lines);
    // Bodies may use each other; a bounded number of rounds is enough for any finite nesting.
    for _ in 0..=nested.len() {
        lines = place(&lines, &nested);
    }
    for line in &lines {
        if let Some((_, name, _)) = member(line)
            && nested.contains_key(name)
        {
            return Err(format!("`{name}` cannot be placed"));
        }
    }
    Ok(lay_out(&lines))
}

/// Spells what C names otherwise: `ibv_mtu_t` is `enum ibv_mtu`, `type_` is `type`.
fn respell(line: &str) -> String {
    if line.trim_start().starts_with("/*") || line.trim_start().starts_with('*') {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        match word {
            "type_" => out.push_str("type"),
            "priv_" => out.push_str("priv"),
            _ => match word.strip_suffix("_t") {
                Some(name) if name.starts_with("ibv_") => {
                    out.push_str("enum ");
                    out.push_str(name);
                }
                Some(name) if name.starts_with("ib_uverbs_") => {
                    out.push_str("enum ibv_");
                    out.push_str(&name["ib_uverbs_".len()..]);
                }
                _ => out.push_str(word),
            },
        }
    }
    out.push_str(rest);
    out
}

/// Whether a type has no name in C: `<owner>_anonN`, or a further level below one.
fn is_anonymous(name: &str) -> bool {
    name.rsplit_once("_anon").is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `struct name {` or `union name {` at the left margin.
fn definition(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_suffix(" {")?;
    let (keyword, name) = line.split_once(' ')?;
    matches!(keyword, "struct" | "union").then_some((keyword, name))
}

/// `struct name field;` or `union name field;`: keyword, type and field.
fn member(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.trim().strip_suffix(';')?.split(' ');
    let (keyword, name, field) = (words.next()?, words.next()?, words.next()?);
    (matches!(keyword, "struct" | "union") && words.next().is_none() && !field.starts_with('*'))
        .then_some((keyword, name, field))
}

/// Separates the types that have no name in C from the rest.
fn take_nested(lines: &[String]) -> Result<(Vec<String>, BTreeMap<String, Nested>), String> {
    let mut names = BTreeMap::new();
    let mut owner = "";
    for line in lines {
        if let Some((_, name)) = definition(line) {
            owner = name;
        } else if let Some((keyword, name, field)) = member(line)
            && (is_anonymous(name) || name == format!("{owner}_{field}"))
            && !NAMED.contains(&name)
        {
            names.insert(name.to_owned(), keyword.to_owned());
        }
    }
    let mut kept: Vec<String> = Vec::new();
    let mut nested = BTreeMap::new();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        let found = definition(line).filter(|(_, name)| names.contains_key(*name));
        let Some((keyword, name)) = found else {
            kept.push(line.clone());
            at += 1;
            continue;
        };
        // The comment in front describes a type that the reader will not see.
        if kept.last().is_some_and(|line| line == " */") {
            while kept.pop().is_some_and(|line| line != "/*") {}
        }
        let end = lines[at..].iter().position(|line| line == "};").ok_or(format!("`{name}` has no end"))?;
        let body = lines[at + 1..at + end].to_vec();
        nested.insert(name.to_owned(), Nested { keyword: keyword.to_owned(), body });
        at += end + 1;
    }
    Ok((kept, nested))
}

/// Standard C wants a struct to have at least one member with a name of its own.
fn excuse_structs_of_unnamed_members(lines: &mut [String]) {
    for at in 0..lines.len() {
        if definition(&lines[at]).is_none() {
            continue;
        }
        let mut members =
            lines[at + 1..].iter().take_while(|line| *line != "};").filter(|line| line.ends_with(';'));
        if members.all(|line| member(line).is_some_and(|(_, _, field)| is_unnamed(field))) {
            lines[at].insert_str(0, "__extension__ ");
        }
    }
}

/// Whether a field only stands for an unnamed member.
fn is_unnamed(field: &str) -> bool {
    field.strip_prefix("anon").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Replaces every member of a nested type by the type's body.
fn place(lines: &[String], nested: &BTreeMap<String, Nested>) -> Vec<String> {
    let mut out = Vec::new();
    for line in lines {
        let Some((name, field)) = member(line)
            .filter(|(_, name, _)| nested.contains_key(*name))
            .map(|(_, name, field)| (name, field))
        else {
            out.push(line.clone());
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let Nested { keyword, body } = &nested[name];
        let unnamed = is_unnamed(field);
        // Members without a name are no part of C99, and types inside them no part of C++.
        out.push(format!("{indent}{}{keyword} {{", if unnamed { "__extension__ " } else { "" }));
        out.extend(body.iter().map(|line| format!("{indent}{line}")));
        out.push(if unnamed { format!("{indent}}};") } else { format!("{indent}}} {field};") });
    }
    out
}

/// Indents with tabs, shortens comments, leaves one empty line between declarations.
fn lay_out(lines: &[String]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_end();
        let depth = (line.len() - line.trim_start().len()) / 8;
        let indent = "\t".repeat(depth);
        let text = line.trim_start();
        if text == "/*" {
            let end = lines[at..].iter().position(|line| line.trim() == "*/").unwrap_or(0);
            let words: Vec<&str> = lines[at + 1..at + end]
                .iter()
                .flat_map(|line| line.trim().trim_start_matches('*').split_whitespace())
                .collect();
            out.extend(comment(&indent, depth * 8, &words));
            at += end + 1;
            continue;
        }
        let last_is_empty = out.last().is_none_or(String::is_empty);
        if text.is_empty() {
            if !last_is_empty {
                out.push(String::new());
            }
        } else if let Some(name) = text.strip_prefix("enum ").and_then(|rest| rest.strip_suffix(" {")) {
            let tail = lines[at..].iter().take_while(|line| line.trim() != "};");
            // An enumerator beyond the range of int is an extension in C99 and C11.
            let wide = tail.clone().any(|line| line.contains("1 << 31"));
            let extension = if wide { "__extension__ " } else { "" };
            let name = if is_anonymous(name) { String::new() } else { format!("{name} ") };
            out.push(format!("{indent}{extension}enum {name}{{"));
        } else if text.contains("1 << 31") {
            out.push(format!("{indent}{}", text.replace("1 << 31", "1U << 31")));
        } else if text.ends_with("[0];") {
            // An array of no elements is an extension.
            out.push(format!("{indent}__extension__ {text}"));
        } else if text.contains('(') {
            out.extend(declarator(&indent, depth * 8, text));
        } else {
            out.push(format!("{indent}{text}"));
        }
        at += 1;
    }
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    out.join("\n") + "\n"
}

/// A prototype or function pointer, its parameters on further lines where one line is too long.
fn declarator(indent: &str, column: usize, text: &str) -> Vec<String> {
    let text = text.strip_prefix("extern ").unwrap_or(text);
    // Rust has no array parameters; compilers warn where declarations of a function differ in their bound.
    let text = &text.replace("uint8_t *eth_mac", "uint8_t eth_mac[ETHERNET_LL_SIZE]");
    let constant = CONST_FUNCTIONS.iter().any(|name| text.contains(&format!(" {name}(")));
    let mut lines = Vec::new();
    let mut line = format!("{indent}{}", if constant { "__attribute__((const)) " } else { "" });
    let mut width = column + line.len() - indent.len();
    for part in text.split_inclusive(", ") {
        if width + part.trim_end().len() > LINE {
            lines.push(line.trim_end().to_owned());
            line = format!("{indent}\t\t");
            width = column + 16;
        }
        line.push_str(part);
        width += part.len();
    }
    lines.push(line);
    lines
}

/// A comment of these words, on one line if they fit.
fn comment(indent: &str, column: usize, words: &[&str]) -> Vec<String> {
    let whole = words.join(" ").replace('`', "");
    if column + whole.len() + 6 <= LINE {
        return vec![format!("{indent}/* {whole} */")];
    }
    let mut lines = vec![format!("{indent}/*")];
    let mut line = String::new();
    for word in whole.split(' ') {
        if !line.is_empty() && column + 3 + line.len() + 1 + word.len() > LINE {
            lines.push(format!("{indent} * {line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(format!("{indent} * {line}"));
    lines.push(format!("{indent} */"));
    lines
}
