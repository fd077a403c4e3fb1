//! The table of `-c`: how often each verb was called, how often it failed, and how long that took.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::event::Event;
use super::print::duration;

#[derive(Default)]
struct Row {
    calls: u64,
    errors: u64,
    nanos: u64,
}

/// The table.
#[derive(Default)]
pub struct Summary {
    rows: BTreeMap<String, Row>,
    empty: u64,
    bytes: u64,
}

impl Summary {
    /// More names than these are no verbs.
    const MOST: usize = 1000;

    /// Counts a call.
    pub fn add(&mut self, event: &Event) {
        if self.rows.len() >= Self::MOST && !self.rows.contains_key(&event.verb) {
            return;
        }
        let row = self.rows.entry(event.verb.clone()).or_default();
        row.calls = row.calls.saturating_add(event.count);
        row.errors += u64::from(event.failed.is_some());
        row.nanos = row.nanos.saturating_add(event.nanos);
        if event.is_empty_poll {
            self.empty = self.empty.saturating_add(event.count);
        }
        self.bytes = self.bytes.saturating_add(event.bytes);
    }

    /// The table as text, what took longest first.
    pub fn table(&self) -> String {
        let all: u64 = self.rows.values().fold(0, |sum, row| sum.saturating_add(row.nanos));
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|(a_name, a), (b_name, b)| b.nanos.cmp(&a.nanos).then(a_name.cmp(b_name)));
        let mut text = String::from("% time      total    average      calls   errors  verb\n");
        for (verb, row) in rows {
            let share = row.nanos as f64 * 100.0 / all.max(1) as f64;
            let average = row.nanos / row.calls.max(1);
            let errors = if row.errors > 0 { row.errors.to_string() } else { String::new() };
            let _ = writeln!(
                text,
                "{share:6.2} {:>10} {:>10} {:>10} {errors:>8}  {verb}",
                duration(row.nanos),
                duration(average),
                row.calls
            );
        }
        let calls: u64 = self.rows.values().fold(0, |sum, row| sum.saturating_add(row.calls));
        let errors: u64 = self.rows.values().map(|row| row.errors).sum();
        let _ = writeln!(text, "100.00 {:>10} {:>10} {calls:>10} {errors:>8}  total", duration(all), "");
        let _ = writeln!(text, "{} polls found nothing; {} bytes were posted", self.empty, self.bytes);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    #[test]
    fn calls_errors_and_times_are_added() {
        let mut summary = Summary::default();
        summary.add(&Event { nanos: 2000, ..event("ibv_reg_mr") });
        summary.add(&Event { nanos: 4000, failed: Some(12), ..event("ibv_reg_mr") });
        summary.add(&Event { count: 7, is_empty_poll: true, nanos: 700, ..event("ibv_poll_cq") });
        summary.add(&Event { bytes: 4096, ..event("ibv_post_send") });
        let table = summary.table();
        let row = |verb: &str| {
            let line = table.lines().find(|line| line.ends_with(verb)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("ibv_reg_mr"), "89.55 6.0 µs 3.0 µs 2 1 ibv_reg_mr");
        assert_eq!(row("ibv_poll_cq"), "10.45 700 ns 100 ns 7 ibv_poll_cq");
        assert!(table.ends_with("7 polls found nothing; 4096 bytes were posted\n"));
    }
}
