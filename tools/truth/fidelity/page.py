"""Writes the comparison down: a table of 80 columns for a terminal, and docs/evidence/fidelity.md."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from cwndlab.experiment.catalogue import catalogue
from cwndlab.report.validation_page import section_of, with_section
from cwndlab.results import files
from tools.truth.fidelity.compare import BOUNDS, DRAWS, PAIRS, PROXY_FACTOR, ROUNDED, UNITS, Check, Row
from tools.truth.fidelity.recordings import Kind

TITLES: dict[Kind, str] = {
    "module": "Congestion-control modules, event by event",
    "bulk": "One flow over a drop-tail queue",
    "noise": "Random loss and ECN",
    "cdg": "CDG, HD and CHD, which draw",
    "share": "The first of two flows",
    "rest": "An outage, and bursts with rests between them",
    "gigabit": "1 Gbit/s, 41 ms",
    "lan": "Every n-th packet lost on a LAN",
    "linux": "Linux 6.18",
    "kernel": "Linux in virtual time",
}

STANDS_BEHIND = {
    "freebsd-9.2": "code of 9.1's modules; that of FreeBSD 11.0 with 9's initial window, as a proxy",
    "freebsd-11": "FreeBSD 11.0's own code in virtual time",
    "freebsd-13": "FreeBSD 13.0's own code in virtual time",
    "freebsd-13/rack": "FreeBSD 13.0's own code in virtual time",
    "freebsd-15-current": "code of main's modules; that of FreeBSD 13.0, as a proxy",
    "freebsd-15-d49540": "code of main's CUBIC with the patch",
    "linux-6.12": "a kernel of 6.12.117 in virtual time",
    "linux-6.18": "a kernel between network namespaces in real time, with a machine's noise",
}
"""Recorded systems by the stack that is compared with them."""

_DRAWN: tuple[Kind, ...] = ("noise", "cdg", "share")
"""Kinds whose recording drew by chance: no run of ours can be the same to the packet."""

_WIDTH = {"drops": 7, "rtos": 5, "share": 12, "utilisation": 13, "retransmits": 13}
_NARROW, _WIDE = 30, 48
"""Width of the first column, where metrics are many and where they are few."""


def text(rows: Sequence[Row]) -> str:
    """The table: how far ours is from what was recorded, `*` where that is outside the bound."""
    lines: list[str] = []
    for kind, members in groupby(rows, key=lambda row: row.recording.kind):
        lines += _section(kind, list(members))
    return "\n".join([*lines, "", *count(rows)]) + "\n"


def count(rows: Sequence[Row]) -> list[str]:
    """How many rows are within their bounds, and what the marks mean."""
    judged = [row for row in rows if not row.by_eye]
    outside = [row for row in judged if not row.within]
    scattered = sum(row.by_chance for row in outside)
    noted = sum(row.note is not None for row in outside)
    lines = [f"{len(judged) - len(outside)} of {len(judged)} rows are within their bounds"]
    if outside:
        apart = f"{scattered} are as near as their draws can tell and " if scattered else ""
        lines[0] += f"; of the {len(outside)} others, {apart}{noted} have a note"
    return [*lines, "* outside the bound; ~ by proxy, with doubled bounds; ? by eye only"]


def _section(kind: Kind, rows: list[Row]) -> Iterator[str]:
    names = list(BOUNDS[kind])
    yield ""
    yield TITLES[kind]
    first = _NARROW if len(names) > 3 else _WIDE if len(names) < 3 else 40
    yield f"{'':{first}}" + "".join(f"{name:>{_width(name)}}" for name in names)
    for group, members in groupby(rows, key=lambda row: row.recording.group):
        yield f" {group}"
        for row in members:
            yield _line(row, names, first)


def _line(row: Row, names: Sequence[str], first: int) -> str:
    mark = "?" if row.by_eye else "~" if row.recording.proxy else " "
    label = f" {mark} {row.recording.label}"
    if row.error is not None:
        return f"{label:{first}} * {row.error}"[:80]
    checks = {check.name: check for check in row.checks}
    cells = [f"{_cell(checks.get(name)):>{_width(name)}}" for name in names]
    return (f"{label:{first}}" + "".join(cells)).rstrip()


def _cell(check: Check | None) -> str:
    if check is None:
        return ""
    return check.deviation + ("" if check.within else "*")


def _width(name: str) -> int:
    return _WIDTH.get(name, max(9, len(name) + 2))


def markdown(rows: Sequence[Row], recordings: str) -> str:
    """The text of docs/evidence/fidelity.md; `recordings` names the directory compared with."""
    lines: list[str] = [
        "# Fidelity",
        "",
        "How close the models come to recordings of the systems they model. Written by `make fidelity`",
        f"from the recordings in `{recordings}`; do not edit. What is known of the",
        "causes of differences is kept in [notes.yaml](../../tools/truth/fidelity/notes.yaml).",
        "",
        "A cell says ours / recorded, and how far apart they are. **Bold** is outside the bound. Rows",
        "*by proxy* compare with the nearest relative of the modelled version; their bounds are",
        f"{PROXY_FACTOR:g} times as wide. Where runs of the model differ by what is drawn (clock phases,",
        "losses, the start of the second flow), ours is the median of several, and the mean where the",
        "recorded run drew losses or CDG's random numbers too.",
        "",
        f"A kernel's experiment that draws was recorded {PAIRS} times, and the model has as many draws, with",
        "the same phases of hosts where those are drawn. Where draws scatter more than a bound is wide,",
        "their mean cannot say whether it is met. Such a row is not counted as within. It is as near as its",
        "draws can tell if the means are no farther apart than chance brings means of as many differences of",
        "draws (95 %; the distance stands beside the metric), and the model's draws spread at most twice as",
        "wide as the kernel's.",
        "",
        count(rows)[0] + ".",
        "",
        *_overview(rows),
    ]
    for kind, members in groupby(rows, key=lambda row: row.recording.kind):
        lines += _markdown_section(kind, list(members))
    return "\n".join(lines) + "\n"


def _overview(rows: Sequence[Row]) -> Iterator[str]:
    """How many rows each stack has of each kind, and what stands behind it; then the stacks without any."""
    parts: dict[tuple[str, Kind], list[Row]] = {}
    for row in rows:
        if not row.by_eye:
            parts.setdefault((row.recording.stack, row.recording.kind), []).append(row)
    yield (
        "*To the packet*: every count is the recorded one and every other metric within"
        f" {ROUNDED * 100:g} % of it. Where a recording"
    )
    yield "drew losses, random numbers or the start of a flow, no run can be the same."
    yield ""
    yield "| stack | what was compared | rows | to the packet | within bounds | what stands behind it |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for (stack, kind), own in sorted(parts.items(), key=lambda part: part[0][0]):
        exact = "drawn" if kind in _DRAWN else str(sum(row.exact for row in own))
        within = sum(row.within for row in own)
        cells = [f"`{stack}`", TITLES[kind], str(len(own)), exact, str(within), STANDS_BEHIND[stack]]
        yield f"| {' | '.join(cells)} |"
    known = {stack for stack, _ in parts}
    models = (name for name, stack in catalogue().stacks.items() if not stack.guest)
    rest = ", ".join(f"`{name}`" for name in models if name not in known)
    yield ""
    yield f"No recording stands behind {rest}: they follow sources, documentation or the stack next to them."


def _markdown_section(kind: Kind, rows: list[Row]) -> Iterator[str]:
    names = list(BOUNDS[kind])
    yield ""
    yield f"## {TITLES[kind]}"
    yield ""
    bounds = "; ".join(f"{name} {bound.words(1)}" for name, bound in BOUNDS[kind].items())
    if kind == "share":
        bounds = "the recorded share lies between the 5th and the 95th percentile of ours"
    draws = f" {DRAWS[kind]} runs a row." if DRAWS[kind] > 1 else ""
    yield f"Bounds: {bounds}.{draws}"
    yield ""
    heads = [name + (f", {UNITS[name]}" if UNITS[name] else "") for name in names]
    yield "| " + " | ".join(["stack", "run", *heads]) + " |"
    yield "| " + " | ".join("---" for _ in (0, 0, *heads)) + " |"
    for row in rows:
        recording = row.recording
        label = recording.label + (" (by eye)" if row.by_eye else "")
        if row.error is not None:
            cells = [f"**{row.error}**", *("" for _ in names[1:])]
        else:
            checks = {check.name: check for check in row.checks}
            cells = [_markdown_cell(checks.get(name)) for name in names]
        yield "| " + " | ".join([recording.group, label, *cells]) + " |"
    noted = [row for row in rows if row.note is not None and not row.within]
    if noted:
        yield ""
        yield "What is known of rows outside their bounds:"
        yield ""
        for row in noted:
            yield f"- `{row.recording.key}`: {row.note}"
    unexplained = [
        row for row in rows if row.note is None and not (row.within or row.by_chance or row.by_eye)
    ]
    if unexplained:
        yield ""
        keys = ", ".join(f"`{row.recording.key}`" for row in unexplained)
        yield f"Outside, cause not known: {keys}."


def _markdown_cell(check: Check | None) -> str:
    if check is None:
        return ""
    if check.name == "equal":
        cell = check.deviation
    elif check.name == "worst":
        cell = f"{check.ours:.3g}"
    elif check.name == "share":
        cell = f"{check.low:.3f} to {check.high:.3f} / {check.recorded:.3f}"
    else:
        chance = "" if check.chance is None else f", chance ±{check.chance / check.recorded * 100:.1f}%"
        cell = f"{_number(check.ours)} / {_number(check.recorded)} ({check.deviation}{chance})"
    return cell if check.within else f"**{cell}**"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def write(rows: Sequence[Row], path: Path, recordings: str) -> None:
    """Rewrite the document at `path`; the section that `cwndlab compare --testbed` wrote there stays."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = section_of(before)
    made = markdown(rows, recordings)
    files.save(path, (with_section(made, kept) if kept else made).encode())
