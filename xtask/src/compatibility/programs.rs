//! How programs ended on each device: the tables that the runs read, and the files of outcomes that the runs
//! write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::read;

/// A table of programs, and where its outcomes are.
struct Suite {
    title: &'static str,
    table: &'static str,
    results: &'static str,
    /// What writes the outcomes.
    command: &'static str,
}

const SUITES: [Suite; 3] = [
    Suite {
        title: "Debian's programs, librdmacm's and perftest on soft-RoCE",
        table: "tests/programs/cases.txt",
        results: "tests/results/programs-rxe.txt",
        command: "RECORD=1 scripts/test programs",
    },
    Suite {
        title: "Debian's programs, librdmacm's and perftest on soft-iWARP",
        table: "tests/programs/siw.txt",
        results: "tests/results/programs-siw.txt",
        command: "RECORD=1 scripts/test siw",
    },
    Suite {
        title: "perftest as Debian builds it, UCX, libfabric and Open MPI on soft-RoCE",
        table: "tests/stock/cases.txt",
        results: "tests/results/stock.txt",
        command: "RECORD=1 scripts/test stock",
    },
];

/// The device whose pyverbs outcomes a file has.
const PYVERBS: [(&str, &str, &str); 2] = [
    ("soft-RoCE", "tests/results/pyverbs-rxe.txt", "RECORD=1 scripts/test stock"),
    ("soft-iWARP", "tests/results/pyverbs-siw.txt", "RECORD=1 scripts/test stock"),
];

/// Programs on the software device.
const SOFT_SUITES: [(Suite, &[(&str, &str)]); 3] = [
    (
        Suite {
            title: "Debian's pingpongs and perftest",
            table: "tests/soft/cases.txt",
            results: "tests/results/programs-soft.txt",
            command: "RECORD=1 scripts/test soft_programs network_programs",
        },
        &WAYS,
    ),
    (
        Suite {
            title: "UCX, Open MPI and MPICH",
            table: "tests/soft/stock.txt",
            results: "tests/results/stock-soft.txt",
            command: "RECORD=1 scripts/test soft_stock network_programs",
        },
        &WAYS,
    ),
    (
        Suite {
            title: "libfabric's functional tests",
            table: "tests/cm/fabtests.txt",
            results: "tests/results/fabtests-soft.txt",
            command: "RECORD=1 scripts/test cm_fabtests network_fabtests network_guest_fabtests",
        },
        &CONNECTED_WAYS,
    ),
];

/// pyverbs' outcomes on the software device.
const SOFT_PYVERBS: (&str, &str) = ("tests/results/pyverbs-soft.txt", "RECORD=1 scripts/test soft_stock");

/// The ways that payload travels between processes on the software device, as runs name them.
const WAYS: [(&str, &str); 3] = [("cma", "one copy"), ("bounce", "two copies"), ("network", "between hosts")];

/// The same of those that connect by librdmacm, also with a kernel's soft-RoCE on the other side.
const CONNECTED_WAYS: [(&str, &str); 4] = [
    ("cma", "one host"),
    ("network", "between hosts"),
    ("serves", "server of soft-RoCE"),
    ("calls", "client of soft-RoCE"),
];

/// What has nothing to do between hosts, and why.
const WITHOUT: &str = "tests/network/programs-without.txt";

/// The devices of the kernel in a process.
const HARDWARE: &str = "tests/hardware/devices.txt";

/// How the library drives the device, as runs name it.
const VARIANTS: [(&str, &str); 2] = [("ours", "native"), ("plugins", "by plugin")];

/// Outcomes of a file: of each case, by variant; and what they were seen with.
#[derive(Default)]
struct Results {
    outcomes: BTreeMap<String, BTreeMap<String, String>>,
    seen_with: BTreeSet<String>,
}

impl Results {
    fn read(root: &Path, path: &str) -> Result<Self, String> {
        let mut results = Self::default();
        if !root.join(path).exists() {
            return Ok(results);
        }
        for line in read(root, path)?.lines() {
            let [case, variant, outcome, version, kernel] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("{path}: {line}"));
            };
            results
                .outcomes
                .entry(case.to_owned())
                .or_default()
                .insert(variant.to_owned(), outcome.to_owned());
            results.seen_with.insert(format!("rdma-core {version} and Linux {kernel}"));
        }
        Ok(results)
    }

    fn of(&self, case: &str, variant: &str) -> Option<&str> {
        self.outcomes.get(case)?.get(variant).map(String::as_str)
    }

    /// What was seen, and by which command it is seen again.
    fn origin(&self, command: &str) -> String {
        if self.seen_with.is_empty() {
            return format!("Not run yet: `{command}` runs it.");
        }
        let seen_with: Vec<_> = self.seen_with.iter().map(String::as_str).collect();
        format!("Seen with {}; `{command}` runs it again.", seen_with.join(", "))
    }
}

impl Suite {
    /// Appends the suite's table: a row for each case, a column for each way to run it, given by its name in
    /// the results and its title. `say` makes words of what was seen of a case and what it should end with.
    fn write(
        &self,
        root: &Path,
        text: &mut String,
        ways: &[(&str, &str)],
        say: impl Fn(Option<&str>, &str) -> &'static str,
    ) -> Result<(), String> {
        let results = Results::read(root, self.results)?;
        let _ = writeln!(text, "\n### {}\n\n{}\n", self.title, results.origin(self.command));
        let titles: String = ways.iter().map(|(_, title)| format!(" {title} |")).collect();
        let _ = writeln!(text, "| program |{titles}\n|---|{}", "---|".repeat(ways.len()));
        let table = read(root, self.table)?;
        let mut known = BTreeSet::new();
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let columns: Vec<_> = line.split('|').map(str::trim).collect();
            let [case, outcome, ..] = columns[..] else { return Err(format!("{}: {line}", self.table)) };
            known.insert(case);
            let seen = ways.iter().map(|(way, _)| format!(" {} |", say(results.of(case, way), outcome)));
            let _ = writeln!(text, "| `{case}` |{}", seen.collect::<String>());
        }
        match results.outcomes.keys().find(|case| !known.contains(case.as_str())) {
            Some(lost) => Err(format!("{}: {} has no case {lost}", self.results, self.table)),
            None => Ok(()),
        }
    }
}

/// The sections about programs.
pub fn sections(root: &Path) -> Result<String, String> {
    let mut text = String::from(
        "## Programs on devices\n\n\
         Each program runs unchanged on rdma-core's library and on this one, with the native provider and \
         with rdma-core's \
         plugin in its place. \"same\" means that every line of output that does not vary by itself, and the \
         status, were the \
         same on both sides of the connection; \"refuses alike\" that the device cannot do it, and says so \
         in the same words.\n",
    );
    for suite in &SUITES {
        suite.write(root, &mut text, &VARIANTS, |seen, outcome| match (seen, outcome) {
            (None, _) => "not run",
            (Some("same"), "ok") => "same",
            (Some("same"), _) => "refuses alike",
            (Some(_), _) => "**differs**",
        })?;
    }
    text.push_str(
        "\n### pyverbs\n\nThe tests of rdma-core's Python bindings. A test that passes, or is skipped \
         because the device lacks \
         the feature, must do so here too; what is skipped there may pass here.\n\n\
         | device | driven | passed alike | passed only here | skipped alike | other alike | differ |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut origins = String::new();
    for (device, path, command) in PYVERBS {
        let results = Results::read(root, path)?;
        for (variant, driven) in VARIANTS {
            let outcomes: Vec<_> =
                results.outcomes.values().filter_map(|of_test| of_test.get(variant)).collect();
            let count = |outcome: &str| outcomes.iter().filter(|seen| seen.as_str() == outcome).count();
            let (passed, only_here) = (count("ok"), count("only-here"));
            let (skipped, differ) = (count("skipped"), count("differs"));
            if outcomes.is_empty() {
                let _ = writeln!(text, "| {device} | {driven} | not run | | | | |");
            } else {
                let other = outcomes.len() - passed - only_here - skipped - differ;
                let _ = writeln!(
                    text,
                    "| {device} | {driven} | {passed} | {only_here} | {skipped} | {other} | {differ} |"
                );
            }
        }
        let _ = writeln!(origins, "\n{device}: {}", results.origin(command));
    }
    text.push_str(&origins);
    text.push_str(&software(root)?);
    text.push_str(&plugins(root)?);
    Ok(text)
}

/// What ran natively on the software device.
fn software(root: &Path) -> Result<String, String> {
    let mut text = String::from(
        "\n## Programs on the software device\n\n\
         Each program runs unchanged through `ironverbs run`, without rights and without a device of the \
         kernel, once with the \
         kernel's copy between processes, once with two copies through shared memory, and once between two \
         hosts: network namespaces with an Ethernet cable between them and a folder each. libfabric's tests \
         also have a kernel's soft-RoCE, with rdma-core's library, on the other side. A dash:\n\n",
    );
    for line in read(root, WITHOUT)?.lines().filter(|line| !line.starts_with('#')) {
        let (pattern, why) = line.split_once('\t').ok_or(format!("{WITHOUT}: {line}"))?;
        let _ = writeln!(text, "- `{pattern}`: {why}");
    }
    for (suite, ways) in &SOFT_SUITES {
        suite.write(root, &mut text, ways, |seen, outcome| match (seen, outcome) {
            (None, _) => "not run",
            (Some("without"), _) => "—",
            (Some("ok"), "ok") => "works",
            (Some("ok"), _) => "refuses, as it should",
            (Some(_), _) => "**fails**",
        })?;
    }
    let (path, command) = SOFT_PYVERBS;
    let results = Results::read(root, path)?;
    let count = |outcome: &str| {
        results.outcomes.keys().filter(|test| results.of(test, "soft") == Some(outcome)).count()
    };
    let (passed, skipped, all) = (count("ok"), count("skipped"), results.outcomes.len());
    let _ = writeln!(
        text,
        "\n### pyverbs\n\n{}\n\n{all} tests: {passed} pass, {skipped} are skipped for the reasons in \
         tests/soft/pyverbs-skips.txt, {} fail.",
        results.origin(command),
        all - passed - skipped
    );
    Ok(text)
}

/// The providers of devices that no test machine has.
fn plugins(root: &Path) -> Result<String, String> {
    let mut text = String::from(
        "\n## Plugins of hardware\n\n\
         rdma-core's plugins of Debian 12 for devices that are not there: a kernel in the process has one of \
         each and writes \
         down every request. `make test` compares the requests and what programs get with those on \
         rdma-core's library, on \
         three kinds of kernel. No message goes through such a device.\n\n| plugin | device | test \
         |\n|---|---|---|\n",
    );
    for line in read(root, HARDWARE)?.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [provider, _, _, _, _, link, vendor, device, ..] = columns[..] else {
            return Err(format!("{HARDWARE}: {line}"));
        };
        if vendor != "0000" {
            let link = if link == "1" { "InfiniBand" } else { "Ethernet" };
            let _ = writeln!(
                text,
                "| {provider} | PCI {vendor}:{device}, {link} | `tests/hardware/run {provider}` |"
            );
        }
    }
    Ok(text)
}
