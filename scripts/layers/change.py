"""What changed, and which layers a change triggers: tests/triggers.txt."""

import os
import re
import subprocess

TRIGGERS = "tests/triggers.txt"
# A clone of what CI judges does not say what was there before: what came within this time before its last commit is judged
# together.
TOGETHER = 12 * 3600


class Triggers:
    """The table: which paths trigger which layers, and which layers they are a reason to run by hand."""

    def __init__(self, text, layers):
        self.rules = []
        lines = (line.partition("#")[0].rstrip() for line in text.replace("\\\n", "").split("\n"))
        for line in filter(None, lines):
            patterns, arrow, rest = line.partition("->")
            triggered, _, by_hand = rest.partition("; by hand")
            rule = patterns.split(), triggered.split(), by_hand.split()
            unknown = [name for name in rule[1] + rule[2] if name not in layers]
            if not arrow or not rule[0] or not rule[1] + rule[2] or unknown:
                what = f"no layer {', '.join(unknown)}" if unknown else "not PATH... -> LAYER... [; by hand LAYER...]"
                raise ValueError(f"{TRIGGERS}: {what}: {line}")
            self.rules.append(rule)

    def of(self, paths):
        """The layers that these paths trigger, and those that they are a reason to run by hand: to each a path."""
        triggered, by_hand = {}, {}
        for patterns, now, later in self.rules:
            path = next((path for path in paths if any(matches(path, pattern) for pattern in patterns)), None)
            if path is not None:
                for names, found in ((now, triggered), (later, by_hand)):
                    for name in names:
                        found.setdefault(name, path)
        return triggered, {name: path for name, path in by_hand.items() if name not in triggered}

    def reasons(self, layer):
        """The patterns of paths that are a reason to run a layer."""
        return [pattern for patterns, now, later in self.rules if layer in now + later for pattern in patterns]


def read(project, layers):
    """The project's table of triggers."""
    with open(os.path.join(project, TRIGGERS), encoding="utf-8") as opened:
        return Triggers(opened.read(), layers)


def matches(path, pattern):
    """Whether a path is that file, lies in that folder (`softrdma/`), or looks so.

    `*` stands for a part of a name; a pattern without a slash is one of a file's name in any folder (`*.rs`).
    """
    if pattern.endswith("/"):
        return path.startswith(pattern)
    if "/" not in pattern:
        path = path.rpartition("/")[2]
    return re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]*"), path) is not None


def git(project, *arguments):
    """What git prints, or None where it fails."""
    command = ["git", "-C", project, *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def base(project, asked=None, in_ci=False):
    """The commit to compare with, and why that one; None and why there is none.

    It is the one that was asked for; where commits or changes lie beyond the branch that this one follows, that branch.
    In CI, which has cloned just what it judges, and where no branch is followed, it is the newest commit from before
    TOGETHER seconds before the last one.
    """
    if git(project, "rev-parse", "--show-toplevel") != os.path.realpath(project):
        return None, "this is no checkout of git"
    if asked:
        commit = git(project, "rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}")
        return (commit, f"as asked: {asked}") if commit else (None, f"there is no commit {asked}")
    head, follows = git(project, "rev-parse", "HEAD"), None
    for upstream in ("@{upstream}", "origin/HEAD", "origin/main"):
        commit = git(project, "merge-base", "HEAD", upstream)
        if commit:
            follows = git(project, "rev-parse", "--abbrev-ref", upstream) or upstream
            if commit != head or git(project, "status", "--porcelain"):
                return commit, f"where this branch left {follows}"
    if follows and not in_ci:
        return None, f"nothing lies beyond {follows}"
    commits = git(project, "log", "--first-parent", "--format=%H %ct") or ""
    commits = [(commit, int(time)) for commit, time in (line.split() for line in commits.split("\n") if line)]
    if git(project, "rev-parse", "--is-shallow-repository") != "false":
        commits.pop()  # its parents may be missing
    for commit, time in commits:
        if time < commits[0][1] - TOGETHER:
            return commit, f"the last commit over {TOGETHER // 3600} hours before the newest one"
    return None, "the history does not reach far enough back"


def paths_since(project, commit):
    """The paths that changed since a commit: in commits, in the work tree, and new files."""
    changed = git(project, "diff", "--name-only", "--no-renames", "-z", commit) or ""
    new = git(project, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return sorted(path for path in set(f"{changed}\0{new}".split("\0")) if path)
