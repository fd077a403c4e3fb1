//! What is shown: things with fields, in lists. One form for people, and one for programs, of the same.

use std::collections::HashMap;
use std::fmt::Write;

use crate::json::quoted;

/// A kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The word that its line begins with.
    pub word: &'static str,
    /// The name of its list in JSON.
    pub list: &'static str,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Not known, or there is none.
    None,
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A number that people read in so many hexadecimal digits at least.
    Hex(u64, usize),
    /// What only grows, modulo 2^32 or more: it has a rate.
    Counter(u64),
    /// Words.
    Text(String),
    /// Several words.
    Words(Vec<String>),
}

impl From<Option<u32>> for Value {
    fn from(number: Option<u32>) -> Self {
        number.map_or(Value::None, |number| Value::Number(number.into()))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        text.map_or(Value::None, Value::Text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

/// A thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its fields, the first of which tell it from its like.
    pub fields: Vec<(&'static str, Value)>,
    /// What it has.
    pub lists: Vec<(Kind, Vec<Item>)>,
}

impl Item {
    /// One that has nothing.
    pub fn plain(fields: Vec<(&'static str, Value)>) -> Self {
        Item { fields, lists: Vec::new() }
    }
}

/// Counters as they were, by where they stand.
pub type Counters = HashMap<String, u64>;

/// How the counters moved since they were looked at before.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// What they were.
    pub before: &'a Counters,
    /// Seconds since then.
    pub seconds: f64,
}

impl Rates<'_> {
    /// How many a second, where the counter was there before.
    fn of(&self, place: &str, now: u64) -> Option<u64> {
        let before = *self.before.get(place)?;
        let moved =
            if now >= before { now - before } else { u64::from((now as u32).wrapping_sub(before as u32)) };
        Some((moved as f64 / self.seconds.max(1e-3)).round() as u64)
    }
}

/// Where a thing stands, so that it is found again: the kinds and first fields down to it.
fn place(above: &str, kind: Kind, item: &Item) -> String {
    let mut place = format!("{above}/{}", kind.word);
    if let Some((_, value)) = item.fields.first() {
        let _ = write!(place, " {value:?}");
    }
    place
}

/// Notes all counters of these things.
pub fn counters(above: &str, kind: Kind, items: &[Item], to: &mut Counters) {
    for item in items {
        let at = place(above, kind, item);
        for (name, value) in &item.fields {
            if let Value::Counter(value) = value {
                to.insert(format!("{at} {name}"), *value);
            }
        }
        item.lists.iter().for_each(|(kind, items)| counters(&at, *kind, items, to));
    }
}

/// Text that a terminal obeys is not repeated to it.
fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Lines for people.
pub fn text(
    above: &str,
    depth: usize,
    kind: Kind,
    items: &[Item],
    rates: Option<Rates<'_>>,
    to: &mut String,
) {
    for item in items {
        let at = place(above, kind, item);
        let _ = write!(to, "{:1$}{2}", "", 2 * depth, kind.word);
        for (name, value) in &item.fields {
            let _ = match value {
                Value::None | Value::Flag(false) => Ok(()),
                Value::Flag(true) => write!(to, " {name}"),
                Value::Number(number) => write!(to, " {name} {number}"),
                Value::Hex(number, digits) => write!(to, " {name} {number:#0width$x}", width = digits + 2),
                Value::Text(text) => write!(to, " {name} {}", harmless(text)),
                Value::Words(words) if words.is_empty() => Ok(()),
                Value::Words(words) => write!(to, " {name} {}", harmless(&words.join(","))),
                Value::Counter(now) => {
                    let _ = write!(to, " {name} {now}");
                    let rate = rates.and_then(|rates| rates.of(&format!("{at} {name}"), *now));
                    rate.map_or(Ok(()), |rate| write!(to, " ({rate}/s)"))
                }
            };
        }
        to.push('\n');
        item.lists.iter().for_each(|(kind, items)| text(&at, depth + 1, *kind, items, rates, to));
    }
}

/// A list of JSON.
pub fn json(above: &str, kind: Kind, items: &[Item], rates: Option<Rates<'_>>, to: &mut String) {
    to.push('[');
    for (count, item) in items.iter().enumerate() {
        let at = place(above, kind, item);
        to.push_str(if count > 0 { ",{" } else { "{" });
        let mut comma = "";
        for (name, value) in &item.fields {
            let _ = write!(to, "{comma}\"{name}\":");
            comma = ",";
            match value {
                Value::None => to.push_str("null"),
                Value::Flag(flag) => to.push_str(if *flag { "true" } else { "false" }),
                Value::Number(number) | Value::Hex(number, _) | Value::Counter(number) => {
                    let _ = write!(to, "{number}");
                }
                Value::Text(text) => quoted(to, text),
                Value::Words(words) => {
                    to.push('[');
                    for (at, word) in words.iter().enumerate() {
                        to.push_str(if at > 0 { "," } else { "" });
                        quoted(to, word);
                    }
                    to.push(']');
                }
            }
            if let (Value::Counter(now), Some(rates)) = (value, rates) {
                let rate = rates.of(&format!("{at} {name}"), *now);
                let _ = write!(to, ",\"{name}_per_second\":");
                to.push_str(&rate.map_or("null".to_owned(), |rate| rate.to_string()));
            }
        }
        for (kind, items) in &item.lists {
            let _ = write!(to, "{comma}\"{}\":", kind.list);
            comma = ",";
            json(&at, *kind, items, rates, to);
        }
        to.push('}');
    }
    to.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTER: Kind = Kind { word: "process", list: "processes" };
    const INNER: Kind = Kind { word: "qp", list: "queue_pairs" };

    fn sample(received: u64) -> Vec<Item> {
        let inner = Item::plain(vec![
            ("number", Value::Hex(2, 6)),
            ("peer", Value::None),
            ("received", Value::Counter(received)),
            ("events", Value::Words(vec!["a".into(), "b".into()])),
            ("far", Value::Flag(true)),
        ]);
        vec![Item { fields: vec![("command", "a\u{1b}[2J\"".into())], lists: vec![(INNER, vec![inner])] }]
    }

    #[test]
    fn both_forms_say_the_same() {
        let (mut lines, mut list) = (String::new(), String::new());
        text("", 0, OUTER, &sample(7), None, &mut lines);
        json("", OUTER, &sample(7), None, &mut list);
        assert_eq!(lines, "process command a?[2J\"\n  qp number 0x000002 received 7 events a,b far\n");
        assert_eq!(
            list,
            "[{\"command\":\"a\\u001b[2J\\\"\",\"queue_pairs\":[{\"number\":2,\"peer\":null,\"received\":7,\
             \"events\":[\"a\",\"b\"],\"far\":true}]}]"
        );
    }

    #[test]
    fn counters_have_rates_also_across_their_end() {
        let mut before = Counters::new();
        counters("", OUTER, &sample(u64::from(u32::MAX)), &mut before);
        let rates = Rates { before: &before, seconds: 0.5 };
        let (mut lines, mut list) = (String::new(), String::new());
        text("", 0, OUTER, &sample(4), Some(rates), &mut lines);
        json("", OUTER, &sample(4), Some(rates), &mut list);
        assert!(lines.contains("received 4 (10/s)"), "{lines}");
        assert!(list.contains("\"received\":4,\"received_per_second\":10,"), "{list}");
        json("elsewhere", OUTER, &sample(4), Some(rates), &mut list);
        assert!(list.contains("\"received_per_second\":null"), "{list}");
    }
}
