"""Reads the log of pyverbs' tests, run as `run_tests.py -v`, to which `status N` was added in the end."""

import re

HEAD = re.compile(r"^(test_\w+) \(([\w.]+)\)", re.M)
OUTCOME = re.compile(
    r"(?:\.\.\. |^)(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)[ \t]*$", re.M)


def outcomes(text):
    """Yields each test's name with its outcome: what unittest said, with a skip's reason; or died."""
    # The details of failures repeat the names.
    text = re.split(r"^={70}$|^-{70}$", text, maxsplit=1, flags=re.M)[0]
    heads = list(HEAD.finditer(text))
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(text)
        outcome = OUTCOME.findall(text[head.start() : end])
        name = head[2] if head[2].endswith(head[1]) else f"{head[2]}.{head[1]}"
        yield name, outcome[-1] if outcome else "died"


def came_to_its_end(text):
    """Whether unittest summed up, and then said 0 or 1 for its status: no crash, not even at the very end."""
    return re.search(r"^Ran \d+ tests? .*^status [01]$", text, re.M | re.S)
