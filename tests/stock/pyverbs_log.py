"""Reads the log of pyverbs' tests, run as `seeded-tests run_tests.py -v`, to which `status N` was added in the end."""

import re

HEAD = re.compile(r"^(test_\w+) \(([\w.]+)\)", re.M)
OUTCOME = re.compile(
    r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success|died)[ \t]*$", re.M)
# The details of failures, which repeat the names, and the sum, of one process.
SUMMARY = re.compile(r"^(?:={70}|-{70})$.*?^Ran \d+ tests? .*?$", re.M | re.S)


def each_outcome(text):
    """Yields a test's name with its outcome, for each time that one ran: what unittest said, with a skip's reason;
    or died."""
    text = SUMMARY.sub("", text)
    heads = list(HEAD.finditer(text))
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(text)
        outcome = OUTCOME.findall(text[head.start() : end])
        name = head[2] if head[2].endswith(head[1]) else f"{head[2]}.{head[1]}"
        yield name, outcome[-1] if outcome else "died"


def outcomes(text):
    """Yields each test's name with its last outcome: one that died is named again, whatever it had said before."""
    yield from dict(each_outcome(text)).items()


def came_to_its_end(text):
    """Whether unittest summed up, and then said 0 or 1 for its status: no crash, not even at the very end.

    Where modules ran apart, a crash is the outcome of one test."""
    return re.search(r"^Ran \d+ tests? .*^status [01]$", text, re.M | re.S)
