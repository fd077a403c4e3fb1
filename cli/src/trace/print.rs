//! How a call is printed: as strace prints system calls, or as a line of JSON.

use std::ffi::CStr;
use std::fmt::Write;

use super::event::{Event, Value};
use crate::json::quoted;

/// A length of time as people read it.
pub fn duration(nanos: u64) -> String {
    let whole = nanos as f64;
    match nanos {
        0..1000 => format!("{nanos} ns"),
        1000..10_000 => format!("{:.1} µs", whole / 1e3),
        10_000..10_000_000 => format!("{:.0} µs", whole / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} ms", whole / 1e6),
        _ => format!("{:.1} s", whole / 1e9),
    }
}

/// The name of an error number and the system's words for it.
pub fn error(errno: i32) -> (String, String) {
    let name = match nix::errno::Errno::from_raw(errno) {
        nix::errno::Errno::UnknownErrno => format!("error {errno}"),
        known => format!("{known:?}"),
    };
    // SAFETY: answers a C string that is there until the thread asks again.
    let words = unsafe { CStr::from_ptr(libc::strerror(errno)) };
    (name, words.to_string_lossy().into_owned())
}

fn value(to: &mut String, value: &Value) {
    let between = |to: &mut String, at: usize| to.push_str(if at > 0 { ", " } else { "" });
    match value {
        Value::Text(text) => to.push_str(text),
        Value::Number(number) => {
            let _ = write!(to, "{number}");
        }
        Value::Struct(fields) => {
            to.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                between(to, at);
                let _ = write!(to, "{name}=");
                self::value(to, field);
            }
            to.push('}');
        }
        Value::List(values) => {
            to.push('[');
            for (at, one) in values.iter().enumerate() {
                between(to, at);
                self::value(to, one);
            }
            to.push(']');
        }
    }
}

/// A line for people. `begin` is when the trace began; `who` says process and thread.
pub fn line(event: &Event, begin: u64, who: bool) -> String {
    let mut line = String::new();
    if who {
        let _ = match event.pid == event.tid {
            true => write!(line, "[{}] ", event.pid),
            false => write!(line, "[{}/{}] ", event.pid, event.tid),
        };
    }
    let _ = write!(line, "{:10.6} {}(", event.begin.saturating_sub(begin) as f64 / 1e9, event.verb);
    for (at, (name, argument)) in event.arguments.iter().enumerate() {
        let _ = write!(line, "{}{name}=", if at > 0 { ", " } else { "" });
        value(&mut line, argument);
    }
    if event.cut {
        line.push('…');
    }
    if event.is_empty_poll && event.count > 1 {
        let _ = write!(line, ") = {} {} times", event.answer, event.count);
    } else {
        let _ = write!(line, ") = {}", event.answer);
    }
    if let Some(errno) = event.failed.filter(|errno| *errno != 0) {
        let (name, words) = error(errno);
        let _ = write!(line, " {name} ({words})");
    }
    let _ = writeln!(line, " <{}>", duration(event.nanos));
    line
}

fn json_value(to: &mut String, value: &Value) {
    match value {
        Value::Text(text) => quoted(to, text),
        Value::Number(number) => {
            let _ = write!(to, "{number}");
        }
        Value::Struct(fields) => {
            json_object(to, fields.iter().map(|(name, value)| (*name, value)));
        }
        Value::List(values) => {
            to.push('[');
            for (at, one) in values.iter().enumerate() {
                to.push_str(if at > 0 { "," } else { "" });
                json_value(to, one);
            }
            to.push(']');
        }
    }
}

fn json_object<'a>(to: &mut String, fields: impl Iterator<Item = (&'a str, &'a Value)>) {
    to.push('{');
    for (at, (name, value)) in fields.enumerate() {
        to.push_str(if at > 0 { "," } else { "" });
        quoted(to, name);
        to.push(':');
        json_value(to, value);
    }
    to.push('}');
}

/// A line of JSON.
pub fn json(event: &Event, begin: u64) -> String {
    let mut line = String::new();
    let _ = write!(
        line,
        "{{\"time\":{:.9},\"pid\":{},\"tid\":{},\"call\":",
        event.begin.saturating_sub(begin) as f64 / 1e9,
        event.pid,
        event.tid
    );
    quoted(&mut line, &event.verb);
    line.push_str(",\"arguments\":");
    json_object(&mut line, event.arguments.iter().map(|(name, value)| (name.as_str(), value)));
    line.push_str(",\"result\":");
    quoted(&mut line, &event.answer);
    if let Some(errno) = event.failed {
        let _ = write!(line, ",\"errno\":{errno},\"error\":");
        quoted(&mut line, &error(errno).0);
    }
    if event.count > 1 {
        let _ = write!(line, ",\"count\":{}", event.count);
    }
    let _ = writeln!(line, ",\"nanoseconds\":{}}}", event.nanos);
    line
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    #[test]
    fn failures_have_names_and_words() {
        let failed = Event {
            failed: Some(libc::ENOMEM),
            answer: "NULL".into(),
            arguments: vec![("cqe".into(), Value::Number(256))],
            nanos: 12_345,
            ..event("ibv_create_cq")
        };
        assert_eq!(
            line(&failed, 0, false),
            "  0.000000 ibv_create_cq(cqe=256) = NULL ENOMEM (Cannot allocate memory) <12 µs>\n"
        );
        assert_eq!(
            json(&failed, 0),
            "{\"time\":0.000000000,\"pid\":1,\"tid\":1,\"call\":\"ibv_create_cq\",\"arguments\":{\"cqe\":256},\
             \"result\":\"NULL\",\"errno\":12,\"error\":\"ENOMEM\",\"nanoseconds\":12345}\n"
        );
    }
}
