//! A call as it is shown: from a record of a traced process, in which nothing is believed.

use std::collections::HashMap;
use std::fmt::Write;

use ironverbs_trace::record::{OBJECT, OBJECT_END, SEPARATOR, data, flag};

use super::calls;
use super::rings::{Body, Record};

/// A value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(u64),
    Struct(Vec<(&'static str, Value)>),
    List(Vec<Value>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A call.
#[derive(Clone, Debug)]
pub struct Event {
    pub pid: u32,
    pub tid: u32,
    /// Nanoseconds of the monotonic clock.
    pub begin: u64,
    pub nanos: u64,
    pub verb: String,
    pub arguments: Vec<(String, Value)>,
    pub answer: String,
    /// The error's number, where the call failed.
    pub failed: Option<i32>,
    /// How many calls it stands for: polls that found nothing are many.
    pub count: u64,
    pub is_empty_poll: bool,
    /// Bytes of messages that were posted.
    pub bytes: u64,
    /// Something was too long to be recorded.
    pub cut: bool,
}

/// The numbers of a process's objects, by kind and address.
#[derive(Default)]
pub struct Objects {
    numbers: HashMap<(String, u64), u64>,
    given: HashMap<String, u64>,
}

impl Objects {
    /// More than these are shown by their addresses.
    const MOST: usize = 1 << 20;

    /// How an object is called: `cq:1`.
    pub fn name(&mut self, kind: &str, address: u64) -> String {
        if address == 0 {
            return "NULL".to_owned();
        }
        let key = (kind.to_owned(), address);
        if let Some(number) = self.numbers.get(&key) {
            return format!("{kind}:{number}");
        }
        if self.numbers.len() >= Self::MOST || self.given.len() >= 256 && !self.given.contains_key(kind) {
            return format!("{kind}:{address:#x}");
        }
        let next = self.given.entry(kind.to_owned()).or_insert(0);
        *next += 1;
        let number = *next;
        self.numbers.insert(key, number);
        format!("{kind}:{number}")
    }

    /// The object is gone: what is made in its place is another.
    fn end(&mut self, kind: &str, address: u64) {
        self.numbers.remove(&(kind.to_owned(), address));
    }
}

/// Text of a traced process, harmless for a terminal: what is no letter of ASCII or one of the library's own
/// signs is shown by its number.
pub fn harmless(bytes: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(bytes).chars() {
        if letter.is_ascii_graphic() || letter == ' ' || letter == '…' {
            text.push(letter);
        } else {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    text
}

/// Text with objects by their names; the first of them is returned, too.
fn named(bytes: &[u8], objects: &mut Objects) -> (String, Option<(String, u64)>) {
    let mut text = String::new();
    let mut first = None;
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == OBJECT) {
        text.push_str(&harmless(&rest[..at]));
        rest = &rest[at + 1..];
        let end = rest.iter().position(|byte| *byte == OBJECT_END);
        let object = end.and_then(|end| {
            let inner = std::str::from_utf8(&rest[..end]).ok()?;
            let (kind, address) = inner.split_once(' ')?;
            let is_kind = kind.len() <= 16 && kind.bytes().all(|byte| byte.is_ascii_lowercase());
            Some((is_kind.then_some(kind)?, u64::from_str_radix(address, 16).ok()?, end))
        });
        if let Some((kind, address, end)) = object {
            text.push_str(&objects.name(kind, address));
            first = first.or(Some((kind.to_owned(), address)));
            rest = &rest[end + 1..];
        }
    }
    text.push_str(&harmless(rest));
    (text, first)
}

/// Makes an event of a record. `earlier` are the words of the parts before it.
pub fn decode(pid: u32, tid: u32, record: Record, earlier: Vec<u64>, objects: &mut Objects) -> Event {
    let header = record.header;
    let mut event = Event {
        pid,
        tid,
        begin: header.begin,
        nanos: header.nanos,
        verb: String::new(),
        arguments: Vec::new(),
        answer: String::new(),
        failed: (header.flags & flag::FAILED != 0).then_some(header.errno),
        count: 1,
        is_empty_poll: false,
        bytes: 0,
        cut: header.flags & flag::CUT != 0,
    };
    match record.body {
        Body::Text { name, ends, arguments, answer } => {
            event.verb = harmless(&name);
            let mut ended = None;
            for argument in arguments.split(|byte| *byte == SEPARATOR).filter(|argument| !argument.is_empty())
            {
                let at = argument.iter().position(|byte| *byte == b'=').unwrap_or(argument.len());
                let (value, object) = named(argument.get(at + 1..).unwrap_or_default(), objects);
                if event.arguments.is_empty() && ends {
                    ended = object;
                }
                event.arguments.push((harmless(&argument[..at]), Value::Text(value)));
            }
            event.answer = named(&answer, objects).0;
            if let Some((kind, address)) = ended {
                objects.end(&kind, address);
            }
        }
        Body::Words(words) => {
            event.verb =
                data::verb(header.call).map_or_else(|| format!("call {}", header.call), str::to_owned);
            event.answer = calls::answer(header.call, header.answer);
            let words = calls::whole(header.call, earlier, words);
            calls::arguments(header.call, &words, objects, &mut event);
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_program_moves_no_terminal() {
        assert_eq!(harmless(b"a\x1b[2Jb\n\x07"), "a\\u{1b}[2Jb\\u{a}\\u{7}");
        assert_eq!(harmless("\u{202e}x\u{9b}".as_bytes()), "\\u{202e}x\\u{9b}");
        assert_eq!(harmless(b"\xff"), "\\u{fffd}");
    }

    #[test]
    fn objects_have_numbers_until_they_end() {
        let mut objects = Objects::default();
        assert_eq!(named(b"\x02cq 10\x03, \x02pd 10\x03", &mut objects).0, "cq:1, pd:1");
        assert_eq!(named(b"[\x02cq 20\x03]", &mut objects).0, "[cq:2]");
        objects.end("cq", 0x10);
        assert_eq!(named(b"\x02cq 10\x03", &mut objects).0, "cq:3");
        assert_eq!(named(b"\x02cq 0\x03", &mut objects).0, "NULL");
        for bad in [&b"\x02cq"[..], b"\x02cq zz\x03", b"\x02\x1b 1\x03", b"\x02\x03", b"\x02"] {
            assert!(named(bad, &mut objects).0.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
