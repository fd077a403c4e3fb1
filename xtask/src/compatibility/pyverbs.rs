//! pyverbs of Debian's suites: what `tests/suites/pyverbs` has recorded.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::read;

const RESULTS: &str = "tests/results/pyverbs-suites.txt";

/// What the tests of Debian 12 did on soft-RoCE, which `tests/stock/run` records.
const STOCK: &str = "tests/results/pyverbs-rxe.txt";

/// The suites, in the order of the rows.
const SUITES: [(&str, &str); 3] = [("bookworm", "Debian 12"), ("trixie", "Debian 13"), ("sid", "sid")];

/// What the tests ran on: rdma-core's library and ours on soft-RoCE, natively and by plugin, and the software
/// device.
const RUNS: [(&str, &str); 4] = [
    ("rdma-core", "soft-RoCE, rdma-core's library"),
    ("ours", "soft-RoCE, native"),
    ("plugins", "soft-RoCE, by plugin"),
    ("soft", "software device"),
];

/// Outcome of each test, and what they were seen with, of one suite's run.
#[derive(Default)]
struct Run<'a> {
    outcomes: BTreeMap<&'a str, &'a str>,
    seen_with: &'a str,
}

/// The section.
pub fn section(root: &Path) -> Result<String, String> {
    text(&read(root, RESULTS)?, &read(root, STOCK)?)
}

/// The runs of Debian 12 that the other record has, where ours has none: it names rdma-core's outcome where
/// this library's is the same.
fn add_stock<'a>(runs: &mut BTreeMap<(&'a str, &'a str), Run<'a>>, stock: &'a str) -> Result<(), String> {
    let suite = SUITES[0].0;
    if runs.contains_key(&(suite, RUNS[0].0)) {
        return Ok(());
    }
    for line in stock.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(test), Some(run), Some(outcome), Some(seen_with)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("{STOCK}: {line}"));
        };
        let (theirs, here) = match outcome {
            "only-here" => ("skipped", "ok"),
            same => (same, same),
        };
        for (run, outcome) in [(RUNS[0].0, theirs), (run, here)] {
            let run = runs.entry((suite, run)).or_default();
            run.outcomes.insert(test, outcome);
            run.seen_with = seen_with;
        }
    }
    Ok(())
}

fn text(results: &str, stock: &str) -> Result<String, String> {
    let mut runs: BTreeMap<(&str, &str), Run> = BTreeMap::new();
    for line in results.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(suite), Some(run), Some(test), Some(outcome)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("{RESULTS}: {line}"));
        };
        let run = runs.entry((suite, run)).or_default();
        if test == "=" {
            run.seen_with = outcome;
        } else {
            run.outcomes.insert(test, outcome);
        }
    }
    add_stock(&mut runs, stock)?;
    let mut text = String::from(
        "\n## pyverbs of other Debian suites\n\n\
         The tests of rdma-core's Python bindings as each suite has them, with its Python and librdmacm, in \
         its root. On soft-RoCE they run in the guest, on the kernel that the table names; on the software \
         device natively, without rights. The columns count tests; the last one those that pass with \
         rdma-core's library on soft-RoCE and not here. A test whose outcome differs runs ten times more \
         with rdma-core's library; one that comes out there in more than one way is unsteady, and in no other \
         column. What the software device skips has its reason in tests/suites/pyverbs-skips.txt. \
         `tests/suites/pyverbs SUITE` and `tests/suites/pyverbs --guest SUITE` run them again; those of \
         Debian 12 on soft-RoCE are what `tests/stock/run` has recorded.\n\n\
         | suite | on | rdma-core, kernel | pass | skipped | fail | unsteady | lost |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (suite, title) in SUITES {
        for (name, on) in RUNS {
            let Some(run) = runs.get(&(suite, name)) else {
                let _ = writeln!(text, "| {title} | {on} | not run | | | | | |");
                continue;
            };
            let count = |wanted: &str| run.outcomes.values().filter(|outcome| **outcome == wanted).count();
            let (passed, skipped, unsteady) = (count("ok"), count("skipped"), count("unsteady"));
            let lost = match runs.get(&(suite, RUNS[0].0)) {
                Some(_) if name == RUNS[0].0 => "—".to_owned(),
                Some(reference) => reference
                    .outcomes
                    .iter()
                    .filter(|(test, outcome)| **outcome == "ok" && run.outcomes.get(*test) != Some(&"ok"))
                    .count()
                    .to_string(),
                None => "not compared".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {title} | {on} | {} | {passed} | {skipped} | {} | {unsteady} | {lost} |",
                run.seen_with.replace(' ', ", "),
                run.outcomes.len() - passed - skipped - unsteady
            );
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn rows_count_what_was_seen() {
        let found = text(
            "sid rdma-core = 65.0-1 7.0\nsid rdma-core a ok\nsid rdma-core b ok\nsid rdma-core c skipped\n\
             sid rdma-core d unsteady\n\
             sid soft = 65.0-1\nsid soft a ok\nsid soft b skipped\nsid soft c ERROR\n\
             bookworm soft = 44.0-2\nbookworm soft a ok\nbookworm soft b ok\n",
            "a ours ok 44.0-2 6.1\nb ours only-here 44.0-2 6.1\na plugins ok 44.0-2 6.1\n",
        )
        .unwrap();
        let rows = |row: &str| assert!(found.contains(row), "{row} in {found}");
        rows("| sid | soft-RoCE, rdma-core's library | 65.0-1, 7.0 | 2 | 1 | 0 | 1 | — |");
        rows("| sid | software device | 65.0-1 | 1 | 1 | 1 | 0 | 1 |");
        rows("| Debian 13 | software device | not run |");
        rows("| Debian 12 | soft-RoCE, rdma-core's library | 44.0-2, 6.1 | 1 | 1 | 0 | 0 | — |");
        rows("| Debian 12 | soft-RoCE, native | 44.0-2, 6.1 | 2 | 0 | 0 | 0 | 0 |");
        rows("| Debian 12 | software device | 44.0-2 | 2 | 0 | 0 | 0 | 0 |");
        assert!(text("sid soft a\n", "").is_err());
    }
}
