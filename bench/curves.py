"""Figures over sizes of messages: tables, and pictures of a latency and a bandwidth."""
import math
import platform
import re
import statistics
import subprocess


def median(values):
    """Of each key."""
    return {key: statistics.median(of) for key, of in values.items()}


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def rounded(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(values, kind, curves):
    """Rows of one kind of `values[kind, size, name]`, the first of them the head. A curve is a name, that in words, a colour."""
    sizes = sorted({size for of, size, _ in values if of == kind})
    rows = [["", *(name for _, name, _ in curves)]]
    for size in sizes:
        rows.append([size_name(size), *(rounded(values[kind, size, name]) if (kind, size, name) in values else "–"
                                        for name, _, _ in curves)])
    return rows


def markdown(kind, of, rows):
    """Lines of a table, whose first column says what it is of."""
    head, *rows = rows
    head = [f"{kind}, {of}", *head[1:]]
    return (["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
            + ["| " + " | ".join(row) + " |" for row in rows] + [""])


def panel(values, kind, of, curves, left, width, height):
    """One diagram, both axes logarithmic, with its left border there."""
    points = {name: sorted((size, value) for (of_kind, size, its), value in values.items() if of_kind == kind and its == name)
              for name, _, _ in curves}
    every = [value for of_curve in points.values() for _, value in of_curve]
    sizes = sorted({size for of_curve in points.values() for size, _ in of_curve})
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    top, bottom = 50, 50

    def x(size):
        return left + width * math.log2(size / sizes[0]) / math.log2(sizes[-1] / sizes[0])

    def y(value):
        return height - bottom - (height - top - bottom) * (math.log10(value) - low) / (high - low)

    svg = [f'<text x="{left}" y="24" font-size="14">{kind.capitalize()}, {of}</text>']
    for power in range(low, high + 1):
        at = y(10.0 ** power)
        svg.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0 ** power:g}</text>')
    for size in sizes[::2]:
        svg.append(f'<text x="{x(size):.1f}" y="{height - bottom + 20}" text-anchor="middle">{size_name(size)}</text>')
    for name, _, colour in curves:
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in points[name])
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return svg


def figure(values, kinds, curves):
    """A picture of both kinds: name in `values`, what it is of and its unit."""
    width, height = 1180, 420
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for left, (kind, (what, unit)) in zip((60, 540), kinds.items()):
        svg += panel(values, kind, f"{what}: {unit}", curves, left, 400, height)
    for place, (_, name, colour) in enumerate(curves):
        at = 60 + 22 * place
        svg.append(f'<line x1="970" x2="994" y1="{at}" y2="{at}" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="1000" y="{at + 4}">{name}</text>')
    return "\n".join(svg + ["</svg>"]) + "\n"


def version(package):
    """Of an installed package of Debian; nothing where it is not."""
    command = ("dpkg-query", "-W", "-f=${Version}", package)
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def machine():
    """Processor and kernel, in words, and the load."""
    model = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo", encoding="utf-8").read())
    load = open("/proc/loadavg", encoding="utf-8").read().split()[0]
    return f"{model[1] if model else platform.machine()}, Linux {platform.release().split('-')[0]}", load
