"""docs/proven.md: when each layer was run last, on which commit, with which counts."""

import datetime
import os
import re

from . import change

PAGE = "docs/proven.md"
BEGIN = "| layer | share | commit | date | passed | failed | seconds |\n|---|---|---|---|---|---|---|\n"
ROW = re.compile(r"\| `([a-z_0-9]+)` \| ([0-9/]+) \| ([0-9a-f]+\+?) \| ([0-9-]+) \| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \|")


def commit_of(project):
    """The commit that is tested, with `+` where the work tree has more."""
    commit = change.git(project, "rev-parse", "--short=8", "HEAD")
    if commit is None:
        return None
    dirty = change.git(project, "status", "--porcelain", "--", ".", f":(exclude){PAGE}")
    return commit + ("+" if dirty else "")


def rows(text):
    """The rows of the page, by layer and share."""
    return {(match[1], match[2]): match for match in ROW.finditer(text)}


def record(project, commit, layers, results):
    """Writes what results say, (layer, share, passed, failed, seconds) each, into the page.

    A layer has a row for the whole, or one for each share of it that was run: what is newer takes the other's place.
    """
    path = os.path.join(project, PAGE)
    with open(path, encoding="utf-8") as opened:
        head, begin, old = opened.read().partition(BEGIN)
    if not begin:
        raise ValueError(f"{PAGE}: no table {BEGIN!r}")
    kept = {key: match[0] for key, match in rows(old).items()}
    today = datetime.date.today().isoformat()
    for name, share, passed, failed, seconds in results:
        parts = share.partition("/")[2]
        for other in [key for key in kept if key[0] == name and key[1].partition("/")[2] != parts]:
            del kept[other]
        kept[name, share] = f"| `{name}` | {share} | {commit} | {today} | {passed} | {failed} | {seconds} |"
    order = list(layers)
    known = sorted((key for key in kept if key[0] in layers), key=lambda key: (order.index(key[0]), key[1]))
    with open(path, "w", encoding="utf-8") as opened:
        opened.write(head + begin + "".join(kept[key] + "\n" for key in known))


def stale(project, layers, triggers):
    """A line for each layer beyond `make test`: what the page says of it, and what changed since."""
    with open(os.path.join(project, PAGE), encoding="utf-8") as opened:
        found = rows(opened.read())
    for layer in layers.values():
        if layer.set not in ("all", "soak"):
            continue
        mine = [match for (name, _), match in found.items() if name == layer.name]
        if not mine:
            yield f"{layer.name:18} never"
        for _, share, commit, date, passed, failed, _ in (match.groups() for match in mine):
            bare = commit.rstrip("+")
            since = change.git(project, "rev-list", "--count", f"{bare}..HEAD")
            paths = change.git(project, "diff", "--name-only", "--no-renames", bare) if since else None
            reasons = triggers.reasons(layer.name)
            touched = sum(any(change.matches(path, it) for it in reasons) for path in (paths or "").split("\n"))
            age = f"{since} commits ago; {touched} files that are a reason to run it changed" if since else "not in this history"
            yield f"{layer.name:18} {share:4} {date} {commit:9} {passed} passed, {failed} failed; {age}"
