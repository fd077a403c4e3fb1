"""What the log of a layer says: how many cases passed and failed, and how each that failed is run alone."""

import re

COUNTS = re.compile(r"(\d+) passed[,;] (\d+) failed")
# The summary line of a test that cargo ran, and that which names the binary of tests that failed.
CARGO = re.compile(r"test result: .*?(\d+) passed; (\d+) failed")
PACKAGE = re.compile(r"to rerun pass `([^`]*)")
TEST = re.compile(r"    [a-z_0-9:]+$")


def counts(text):
    """(passed, failed), or None where a layer does not count.

    The last line `N passed, N failed` is the sum of what a runner did. Where cargo's results come after it, these are
    added up: a runner that shows what cargo said has counted that itself.
    """
    last, cargo, cargo_is_last = None, None, False
    for line in text.split("\n"):
        if match := CARGO.match(line):
            cargo = tuple(map(int.__add__, cargo or (0, 0), map(int, match.groups())))
            cargo_is_last = True
        elif match := COUNTS.search(line):
            last, cargo_is_last = (int(match[1]), int(match[2])), False
    return cargo if cargo_is_last else last


def cases_alone(text):
    """The commands that run each failed case alone: runners say it, cargo as far as the package."""
    found, tests, listed = set(), [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("alone: "):
            found.add(line.lstrip()[len("alone: ") :])
        elif line == "failures:":
            tests, listed = [], True
        elif listed and TEST.match(line):
            tests.append(line.strip())
        elif match := PACKAGE.search(line):
            found.update(f"cargo test {match[1]} -- --exact {test}" for test in tests)
            tests, listed = [], False
    return sorted(found)
