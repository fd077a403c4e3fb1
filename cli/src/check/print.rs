//! How findings and rules are shown.

use std::fmt::Write;

use ironverbs::check::rules::{self, Class, Rule};

use super::findings::{Finding, Frame};
use super::symbols::Symbols;
use crate::json::quoted;

/// Columns of text.
const WIDTH: usize = 100;

/// Text in lines that begin with `indent`.
fn wrapped(to: &mut String, indent: &str, text: &str) {
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() + word.len() + 1 > WIDTH && line.len() > indent.len() {
            let _ = writeln!(to, "{line}");
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(to, "{line}");
}

fn frames(to: &mut String, frames: &[Frame], symbols: &mut Symbols) {
    for (at, frame) in frames.iter().enumerate() {
        let word = if at == 0 { "at" } else { "by" };
        let all = symbols.of(frame);
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        if all.is_empty() {
            let _ = match file {
                "" => writeln!(to, "    {word} {:#x}", frame.address),
                file => writeln!(to, "    {word} {file}+{:#x}", frame.offset),
            };
        }
        for (inner, symbol) in all.iter().enumerate() {
            let word = if inner == 0 { word } else { "by" };
            let _ = match (symbol.function.as_str(), symbol.line.as_str()) {
                (function, "") => writeln!(to, "    {word} {function} (in {file})"),
                (function, line) => writeln!(to, "    {word} {function} ({line})"),
            };
        }
        if all.iter().any(|symbol| symbol.function == "main") {
            break;
        }
    }
}

/// A finding for people.
pub fn text(finding: &Finding, symbols: &mut Symbols, colours: bool) -> String {
    let (rule, class) = (finding.rule, finding.class.name());
    let (strong, end) = match (colours, finding.class) {
        (false, _) => ("", ""),
        (true, Class::Error) => ("\x1b[1;31m", "\x1b[0m"),
        (true, Class::Note) => ("\x1b[1m", "\x1b[0m"),
    };
    let mut text = format!("{strong}{class}: {}{end} [process {}]\n", rule.id, finding.pid);
    wrapped(&mut text, "  ", rule.sentence);
    wrapped(&mut text, "  ", &format!("Here: {}.", finding.what));
    if !finding.call.is_empty() {
        let _ = writeln!(text, "  {} was called", finding.call);
        frames(&mut text, &finding.at, symbols);
    }
    if !finding.post.is_empty() {
        text.push_str("  the request was posted\n");
        frames(&mut text, &finding.post, symbols);
    }
    if !finding.object.is_empty() {
        let _ = writeln!(text, "  {}, made by {}", finding.object, finding.made);
        frames(&mut text, &finding.from, symbols);
    }
    wrapped(&mut text, "  ", &format!("Remedy: {}", rule.remedy));
    text.push('\n');
    text
}

fn json_frames(to: &mut String, frames: &[Frame], symbols: &mut Symbols) {
    to.push('[');
    for (at, frame) in frames.iter().enumerate() {
        let all = symbols.of(frame);
        // Of functions that were put into others, the outermost is the one that is there.
        let symbol = all.last().cloned().unwrap_or_default();
        to.push_str(if at > 0 { ",{" } else { "{" });
        to.push_str("\"file\":");
        quoted(to, &frame.file);
        let _ = write!(to, ",\"offset\":{}", frame.offset);
        for (name, value) in [("function", &symbol.function), ("line", &symbol.line)] {
            if !value.is_empty() {
                let _ = write!(to, ",\"{name}\":");
                quoted(to, value);
            }
        }
        to.push('}');
    }
    to.push(']');
}

/// A line of JSON.
pub fn json(finding: &Finding, symbols: &mut Symbols) -> String {
    let mut line = String::from("{\"rule\":");
    quoted(&mut line, finding.rule.id);
    let _ = write!(
        line,
        ",\"class\":\"{}\",\"pid\":{},\"tid\":{}",
        finding.class.name(),
        finding.pid,
        finding.tid
    );
    for (name, value) in [
        ("what", finding.what.as_str()),
        ("sentence", finding.rule.sentence),
        ("remedy", finding.rule.remedy),
        ("call", &finding.call),
        ("object", &finding.object),
        ("made", &finding.made),
    ] {
        if !value.is_empty() {
            let _ = write!(line, ",\"{name}\":");
            quoted(&mut line, value);
        }
    }
    for (name, all) in [("at", &finding.at), ("post", &finding.post), ("from", &finding.from)] {
        if !all.is_empty() {
            let _ = write!(line, ",\"{name}\":");
            json_frames(&mut line, all, symbols);
        }
    }
    line.push_str("}\n");
    line
}

fn counted(count: usize, name: &str) -> String {
    match count {
        0 => format!("no {name}s"),
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
    }
}

/// What is said at the end.
pub fn summary(errors: usize, notes: Option<usize>) -> String {
    match notes {
        Some(notes) => format!("ironverbs check: {}, {}\n", counted(errors, "error"), counted(notes, "note")),
        None => format!("ironverbs check: {}\n", counted(errors, "error")),
    }
}

/// All rules.
pub fn list() -> String {
    let width = rules::ALL.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for rule in rules::ALL {
        let _ = writeln!(text, "{:width$}  {:5}  {}", rule.id, rule.class.name(), rule.sentence);
    }
    text
}

/// All of a rule.
pub fn explanation(rule: &Rule) -> String {
    let mut text = format!("{} ({})\n\n", rule.id, rule.class.name());
    wrapped(&mut text, "", rule.sentence);
    for (title, part) in [("Remedy", rule.remedy), ("How it is found", rule.how), ("Source", rule.source)] {
        let _ = writeln!(text, "\n{title}");
        wrapped(&mut text, "  ", part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped() {
        let mut text = String::new();
        wrapped(&mut text, "  ", &"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")));
        assert_eq!(text.split_whitespace().count(), 50);
    }

    #[test]
    fn what_was_found_is_counted() {
        assert_eq!(summary(0, None), "ironverbs check: no errors\n");
        assert_eq!(summary(1, Some(2)), "ironverbs check: 1 error, 2 notes\n");
    }
}
