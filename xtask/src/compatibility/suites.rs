//! Programs of Debian's suites on one build: the table that `tests/suites/programs` reads, what it knows to
//! fail, and what it has recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::read;

const TABLE: &str = "tests/suites/programs.txt";
const KNOWN: &str = "tests/suites/programs-known.txt";
const RESULTS: &str = "tests/results/suites.txt";

/// Where the programs run, in the order of the columns, and what the column is called.
const PLACES: [(&str, &str); 6] = [
    ("bullseye", "Debian 11"),
    ("bookworm", "Debian 12"),
    ("trixie", "Debian 13"),
    ("sid", "sid"),
    ("bullseye-sid", "server Debian 11, client sid"),
    ("sid-bullseye", "server sid, client Debian 11"),
];

/// The section.
pub fn section(root: &Path) -> Result<String, String> {
    text(&read(root, TABLE)?, &read(root, KNOWN)?, &read(root, RESULTS)?)
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

/// Whether a case is for a place.
fn belongs(place: &str, wanted: &str) -> bool {
    match wanted {
        "across" => true,
        "within" => !place.contains('-'),
        suites => suites.split(',').any(|suite| suite == place),
    }
}

fn text(table: &str, known: &str, results: &str) -> Result<String, String> {
    let mut reasons: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in lines(known) {
        let (case, rest) = line.split_once(char::is_whitespace).ok_or(format!("{KNOWN}: {line}"))?;
        let (places, reason) =
            rest.trim_start().split_once(char::is_whitespace).ok_or(format!("{KNOWN}: {line}"))?;
        for place in places.split(',') {
            reasons.insert((case, place), reason.trim());
        }
    }
    let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
    for line in lines(results) {
        let mut words = line.splitn(3, ' ');
        let (Some(case), Some(place), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return Err(format!("{RESULTS}: {line}"));
        };
        if case == "=" {
            versions.insert(place, rest);
        } else {
            seen.insert((case, place), rest);
        }
    }
    let mut text = String::from(
        "\n## Programs of other Debian suites\n\n\
         One build of the library, the command and what it preloads, in the root of each suite: the suite's \
         own programs, \
         librdmacm and glibc run on the software device, unchanged, behind `ironverbs run`. In the last \
         columns server and \
         client are of different suites. `tests/suites/programs` runs it again, `tests/suites/programs \
         SUITE:CASE` a case \
         alone. A dash: the case is not for this place.\n\n| suite | versions |\n|---|---|\n",
    );
    for (place, title) in PLACES {
        if let Some(versions) = versions.get(place) {
            let _ = writeln!(text, "| {title} | {} |", versions.replace(' ', ", ").replace('=', " "));
        }
    }
    let _ = writeln!(
        text,
        "\n| program |{}\n|---|{}",
        PLACES.map(|(_, title)| format!(" {title} |")).concat(),
        "---|".repeat(PLACES.len())
    );
    let mut notes: Vec<&str> = Vec::new();
    let mut cases = BTreeSet::new();
    for line in lines(table) {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        let [case, wanted, ..] = columns[..] else { return Err(format!("{TABLE}: {line}")) };
        cases.insert(case);
        let _ = write!(text, "| `{case}` |");
        for (place, _) in PLACES {
            let cell = match (seen.get(&(case, place)), reasons.get(&(case, place))) {
                _ if !belongs(place, wanted) => "—".to_owned(),
                (None, _) => "not run".to_owned(),
                (Some(&"works"), _) => "works".to_owned(),
                (Some(_), None) => "**fails**".to_owned(),
                (Some(_), Some(reason)) => {
                    let number = notes.iter().position(|note| note == reason).unwrap_or_else(|| {
                        notes.push(reason);
                        notes.len() - 1
                    });
                    format!("fails ({})", number + 1)
                }
            };
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text.push('\n');
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. {note}", number + 1);
    }
    if let Some((case, place)) = seen.keys().chain(reasons.keys()).find(|(case, _)| !cases.contains(case)) {
        return Err(format!("{TABLE} has no case {case}, which is known of {place}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_cell_says_what_was_seen_where_the_case_belongs() {
        let table = "a | within | 1 | - | a\nb | across | 1 | - | b\nc | sid | 1 | - | c\n";
        let found = text(
            table,
            "a sid,trixie  lacks it\n",
            "= sid libc6=2\na sid fails\na trixie works\nb sid fails\n",
        )
        .unwrap();
        assert!(found.contains("| sid | libc6 2 |"), "{found}");
        assert!(found.contains("| `a` | not run | not run | works | fails (1) | — | — |"), "{found}");
        assert!(
            found.contains("| `b` | not run | not run | not run | **fails** | not run | not run |"),
            "{found}"
        );
        assert!(found.contains("| `c` | — | — | — | not run | — | — |"), "{found}");
        assert!(found.contains("\n1. lacks it\n"), "{found}");
        assert!(text(table, "", "d sid works\n").is_err());
    }
}
