//! Rust sources as their words: comments and literals are blanked, the rest is cut into words and marks. No
//! grammar: a tree of 100,000 lines is looked at in less than a second, also without optimisation.

use std::ops::{Range, RangeInclusive};

/// A source whose comments and literals are blanks. Lines stay where they are.
pub fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Where the comment or literal that begins here ends: here, where none begins.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => comment_end(bytes, at),
        [b'"', ..] => string_end(bytes, at),
        [b'r', b'"' | b'#', ..] | [b'b' | b'c', b'r', b'"' | b'#', ..] if !continues_word(bytes, at) => {
            raw_end(bytes, at)
        }
        [b'\'', ..] => character_end(bytes, at),
        _ => at,
    }
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut here) = (0_usize, at);
    while here + 1 < bytes.len() {
        match &bytes[here..here + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                here += 1;
                continue;
            }
        }
        here += 2;
        if depth == 0 {
            return here;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut here = at + 1;
    while here < bytes.len() {
        match bytes[here] {
            b'\\' => here += 2,
            b'"' => return here + 1,
            _ => here += 1,
        }
    }
    bytes.len()
}

/// Of `r"…"`, `br#"…"#`; here, where it is a raw identifier.
fn raw_end(bytes: &[u8], at: usize) -> usize {
    let hashes_at = at + 1 + usize::from(bytes[at] != b'r');
    let hashes = bytes[hashes_at..].iter().take_while(|&&byte| byte == b'#').count();
    if bytes.get(hashes_at + hashes) != Some(&b'"') {
        return at;
    }
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let inside = hashes_at + hashes + 1;
    bytes[inside..]
        .windows(closing.len())
        .position(|window| window == closing)
        .map_or(bytes.len(), |length| inside + length + closing.len())
}

/// Of a character; here, where it is a lifetime.
fn character_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            let from = at + 3;
            bytes
                .get(from..)
                .and_then(|rest| rest.iter().position(|&byte| byte == b'\''))
                .map_or(at, |it| from + it + 1)
        }
        Some(&first) => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + width + 2 } else { at }
        }
        None => at,
    }
}

/// A word, `::`, or another mark of one character, with its line from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// The characters.
    pub text: &'a str,
    /// The line.
    pub line: usize,
}

/// The words and marks of a source that [`code_of`] has blanked.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let byte = bytes[at];
        let length = if byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii() {
            bytes[at..]
                .iter()
                .take_while(|&&byte| byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii())
                .count()
        } else if bytes[at..].starts_with(b"::") {
            2
        } else {
            1
        };
        if byte == b'\n' {
            line += 1;
        } else if !byte.is_ascii_whitespace() {
            found.push(Token { text: &code[at..at + length], line });
        }
        at += length;
    }
    found
}

/// Whether this is a word, no mark and no number.
pub fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first == '_' || first.is_alphabetic())
}

/// The place behind the bracket that closes the one at `open`.
pub fn closed(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return place + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The words and marks of the product alone: items marked `#[cfg(test)]`, or with more conditions beside
/// `test`, are left out.
pub fn without_tests<'a>(all: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut from = 0;
    for tests in test_items(all) {
        kept.extend(&all[from..tests.start]);
        from = tests.end;
    }
    kept.extend(&all[from..]);
    kept
}

/// The lines of those items.
pub fn test_lines(all: &[Token<'_>]) -> Vec<RangeInclusive<usize>> {
    test_items(all).into_iter().map(|item| all[item.start].line..=all[item.end - 1].line).collect()
}

fn test_items(all: &[Token<'_>]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < all.len() {
        if all[at].text == "#" && all.get(at + 1).is_some_and(|token| token.text == "[") {
            let end = closed(all, at + 1);
            let said: Vec<&str> = all[at + 2..end].iter().map(|token| token.text).collect();
            if said.starts_with(&["cfg", "("])
                && said.contains(&"test")
                && !said.iter().any(|it| matches!(*it, "not" | "any"))
            {
                let item_end = item_end(all, end);
                found.push(at..item_end);
                at = item_end;
                continue;
            }
        }
        at += 1;
    }
    found
}

/// The place behind an item that begins here, attributes before it included.
fn item_end(all: &[Token<'_>], start: usize) -> usize {
    let mut at = start;
    while let Some(token) = all.get(at) {
        match token.text {
            ";" => return at + 1,
            "use" => return at + all[at..].iter().take_while(|token| token.text != ";").count() + 1,
            "{" => return closed(all, at),
            "(" | "[" => at = closed(all, at),
            _ => at += 1,
        }
    }
    all.len()
}

/// A function that has a body.
#[derive(PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of `fn`.
    pub line: usize,
    /// Lines from there to the end of the body.
    pub lines: usize,
}

/// The functions of a source.
pub fn functions(all: &[Token<'_>]) -> Vec<Function> {
    let mut found = Vec::new();
    for (place, pair) in all.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if keyword.text != "fn" || !is_word(name.text) {
            continue;
        }
        let mut at = place + 2;
        while let Some(token) = all.get(at) {
            match token.text {
                ";" | "}" => break,
                "(" | "[" => at = closed(all, at),
                "{" => {
                    let last = closed(all, at) - 1;
                    let lines = all[last].line - keyword.line + 1;
                    found.push(Function { name: name.text.to_owned(), line: keyword.line, lines });
                    break;
                }
                _ => at += 1,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(&code_of(text)).iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(words("a /* b /* c */ d */ e // f\ng"), ["a", "e", "g"]);
        let literals = r##"a("b\"c", r#"d"e"#, br"f", 'g', '\'', '\u{1f}', 'é')"##;
        assert_eq!(words(literals), ["a", "(", ",", ",", ",", ",", ",", ",", ")"]);
        assert_eq!(words("fn a<'b>(c: &'b str) {}")[..6], ["fn", "a", "<", "'", "b", ">"]);
        assert_eq!(tokens(&code_of("\"\n\n\" a"))[0].line, 3);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        let code = "a; #[cfg(test)] mod t { b } #[cfg(all(test, x))] use c::{d};\n\
                    #[cfg(not(test))] fn e() {} #[cfg(test)] mod t;";
        let all = tokens(code);
        let kept: Vec<&str> =
            without_tests(&all).iter().map(|token| token.text).filter(|text| is_word(text)).collect();
        assert_eq!(kept, ["a", "cfg", "not", "test", "fn", "e"]);
    }

    #[test]
    fn functions_have_their_length() {
        let code = "trait T { fn a(); }\nfn b(x: [u8; 2]) -> fn(u8)\nwhere X: Y,\n{\n  if c {}\n}\n";
        let found = functions(&tokens(code));
        assert_eq!(found, [Function { name: "b".into(), line: 2, lines: 5 }]);
    }
}
