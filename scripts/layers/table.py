"""The table of test layers, tests/layers.txt, and how docs/testing.md shows it."""

import os
import re
from dataclasses import dataclass, field

TABLE = "tests/layers.txt"
DOCUMENT = "docs/testing.md"
BEGIN = "<!-- of tests/layers.txt -->\n"
END = "<!-- end of tests/layers.txt -->\n"

# What runs a layer, by its set.
SETS = {"base": "`make test`", "test": "`make test` by change", "all": "`make test-all`", "soak": "`make soak`"}
# Needs that are no layer: of these but `root` one layer at a time has each.
RESOURCES = ("root", "guest", "cargo", "sanitizer")
KINDS = ("timed", "shares")


class TableError(Exception):
    """What is wrong with a table, with its place."""


@dataclass
class Layer:
    """An entry of the table."""

    name: str
    set: str
    seconds: int
    cases: int
    layers: list = field(default_factory=list)
    resources: list = field(default_factory=list)
    kinds: list = field(default_factory=list)
    run: str = ""
    shows: str = ""
    by: str = ""


def parse(text, name=TABLE):
    """The layers by name, in the table's order."""
    layers = {}
    last = field_name = None
    for number, line in enumerate(text.split("\n"), 1):

        def wrong(what):
            return TableError(f"{name}, line {number}: {what}: {line.strip()}")

        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            last = _head(line.split(), layers, wrong)
            layers[last.name] = last
            continue
        if last is None:
            raise wrong("no layer before")
        if not line.startswith("    "):
            field_name, _, line = line.strip().partition(" ")
            if field_name not in ("run", "shows", "by"):
                raise wrong("no such field")
        words = " ".join(filter(None, (getattr(last, field_name or "run"), line.strip())))
        setattr(last, field_name or "run", words)
    for layer in layers.values():
        if not layer.run or not layer.shows:
            raise TableError(f"{name}: {layer.name}: lacks what it runs or shows")
    if not layers:
        raise TableError(f"{name}: no layer")
    return layers


def _head(words, layers, wrong):
    if len(words) < 4 or words[1] not in SETS or not words[2].isdigit() or not words[3].isdigit():
        raise wrong("not LAYER SET SECONDS CASES NEEDS")
    layer = Layer(words[0], words[1], int(words[2]), int(words[3]))
    if layer.name in layers:
        raise wrong("a layer that stands there twice")
    if layer.cases == 0:
        raise wrong("a layer without a case shows nothing")
    for need in words[4:]:
        if need in RESOURCES:
            layer.resources.append(need)
        elif need in KINDS:
            layer.kinds.append(need)
        elif need not in layers:
            raise wrong(f"it needs {need}, which no line before it has")
        elif list(SETS).index(layers[need].set) > list(SETS).index(layer.set):
            raise wrong(f"it needs {need}, which a larger set has")
        else:
            layer.layers.append(need)
    return layer


def read(project):
    """The project's table. A program that it runs and that is not there is an error."""
    with open(os.path.join(project, TABLE), encoding="utf-8") as opened:
        layers = parse(opened.read())
    for layer in layers.values():
        programs = (word for word in layer.run.split() if re.fullmatch(r"[\w-]+(/[\w-]+)+", word))
        for program in list(programs)[:1]:
            if not os.path.exists(os.path.join(project, program)):
                raise TableError(f"{TABLE}: {layer.name}: no {program}")
    return layers


def with_needs(layers, names):
    """The layers of these names and those that they need, in the table's order."""
    chosen = set()

    def choose(name):
        if name not in chosen:
            chosen.add(name)
            for need in layers[name].layers:
                choose(need)

    for name in names:
        choose(name)
    return [name for name in layers if name in chosen]


def _shown(layers):
    def from_docs(text):
        return text.replace("](", "](../").replace("](../docs/", "](")

    lines = ["| layer | run by | what it shows | how |", "|---|---|---|---|"]
    for name, by in SETS.items():
        for layer in layers.values():
            if layer.set == name:
                lines.append(f"| `{layer.name}` | {by} | {from_docs(layer.shows)} | {from_docs(layer.by)} |")
    return "\n".join(lines)


def document(project, layers, check):
    """Writes the table into the document, or with `check` only says whether it is there; a line to print."""
    path = os.path.join(project, DOCUMENT)
    with open(path, encoding="utf-8") as opened:
        old = opened.read()
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TableError(f"{DOCUMENT}: no lines {BEGIN.strip()} and {END.strip()}")
    new = f"{before}{BEGIN}\n{_shown(layers)}\n\n{END}{after}"
    if new != old:
        if check:
            raise TableError(f"{DOCUMENT} shows another table than {TABLE}; `scripts/test --document` writes it")
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(new)
    return f"{DOCUMENT} has the {len(layers)} layers of {TABLE}"
