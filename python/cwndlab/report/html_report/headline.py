"""The first screen of a report: the answer in a sentence, and the picture that shows it."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
from markupsafe import Markup

from cwndlab.analysis import answer, bounds
from cwndlab.analysis.effects import Answer
from cwndlab.analysis.numeric import mean_interval
from cwndlab.analysis.runs import OF_BOTTLENECK
from cwndlab.report.html_report.facts import Facts, capital, rounded, some, with_interval
from cwndlab.report.plots import colours
from cwndlab.report.plots.selection import floats
from cwndlab.results import columns, questions, union
from cwndlab.results.keys import whole_rounds
from cwndlab.results.metrics import BY_NAME, FIRST_CHOICE, TOTALS

MAX_ROWS = 16
"""Rows of the picture; of more the first, as far as what is compared is whole."""

MAX_PAIRS = 3
"""Pairs of values that are answered; the other comparisons stand below."""

MAX_LINES = 3
"""Sentences of an answer without a comparison."""

_TOP, _BOTTOM = 8, 40
_EM = 7.6
"""Width of a character of the picture's type."""

_LINE = 16
"""Height of a line of a name that takes several."""

_LOAD = ("responsiveness_hz", "download_kib_s", "upload_kib_s", "smoothness_hz")
"""Metrics of loadlatency, the one that the picture shows first."""


@dataclass(frozen=True)
class _Layout:
    """Sizes of the picture: names stand beside their rows or, on a phone, above them."""

    kind: str
    width: int
    row: int
    right: int
    """Room for the amounts."""
    above: int = 0
    """Distance of names above the lines."""


_LAYOUTS = (_Layout("wide", 720, 26, 150), _Layout("narrow", 360, 42, 14, above=14))


@dataclass(frozen=True)
class _Row:
    """A combination: its name, the mean of the metric with half of its interval, and its colour."""

    label: str
    mean: float
    half: float
    span: tuple[float, float]
    """From where to where its line goes."""
    colour: int


def headline(facts: Facts, classic: str) -> dict[str, object]:
    """Return the answer and its picture, as the page takes them: sentences, each with what stands behind it.

    Of a report of loadlatency they are what its lines say of bufferbloat; of results without a sweep what was
    measured.
    """
    asked = _asked(facts)
    found = answer.answers(facts.results, facts.chosen) if asked or not (_load(facts) or classic) else []
    metric = _metric(facts, found)
    lines = [line for line in classic.splitlines() if line.startswith(("bufferbloat", "responsiveness"))]
    lines = lines or [_measured(facts, name) for name in _load(facts) or asked]
    if not lines and metric is not None:
        lines = [_measured(facts, metric)]
    told = [(each.lead(), each.details()) for each in found[:MAX_PAIRS]]
    if len(found) > MAX_PAIRS:
        told[-1][1].append(
            f"Further values that are compared, under “Is there a difference?”: {_others(found)}."
        )
    by = found[0].by if found else union.KEY
    return {
        "answers": told or [(capital(line), []) for line in lines[:MAX_LINES]],
        "picture": "" if metric is None else _picture(facts, metric, by, _label(metric, found)),
        "pictured": "" if metric is None else _caption(facts, metric, by, _label(metric, found)),
    }


def _label(metric: str, answers: Sequence[Answer]) -> str:
    """Return the metric with its unit, called as the answer calls it where that is the same in all of it."""
    called = {each.called for of in answers for each in of.effects if each.metric == metric}
    shown = columns.describe(metric)
    words = called.pop() if len(called) == 1 else ""
    return replace(shown, words=words or shown.words).label


def _others(found: Sequence[Answer]) -> str:
    sides = [each.effects[0].b for each in found[MAX_PAIRS:]]
    return some(list(dict.fromkeys(sides)))


def _metric(facts: Facts, answers: Sequence[Answer]) -> str | None:
    """Return the metric of the answer that changes most, else the first asked for or that `compare` takes."""
    told = [each for of in answers[:1] for each in of.effects]
    asked = [max(told, key=lambda each: each.weight).metric] if told else []
    names = [
        name for name in (*asked, *_load(facts), *_asked(facts), *FIRST_CHOICE) if name in facts.ran.columns
    ]
    return next((name for name in names if facts.ran[name].count()), None)


def _asked(facts: Facts) -> list[str]:
    """Return the metrics that the experiment names as its answer, where they were measured."""
    names = dict.fromkeys(aim.metric for aim in questions.of(facts.results).aims)
    return [name for name in names if name in facts.ran.columns and facts.ran[name].count()]


def _load(facts: Facts) -> list[str]:
    """Return the metrics of loadlatency that were measured."""
    return [name for name in _LOAD if name in facts.ran.columns and facts.ran[name].count()]


def _measured(facts: Facts, metric: str) -> str:
    """Say what the runs measured of a metric, their flows together.

    Rates of flows that were active at different times have no sum: told is what all of them had, or each.
    """
    if len(facts.flows) > 1 and facts.ran.get_column(f"total_{metric}", default=pl.Series()).count():
        metric = f"total_{metric}"
    shown = columns.describe(metric)
    known = facts.ran.drop_nulls(metric)
    words = shown.words
    of_flows = metric in BY_NAME and BY_NAME[metric].of != "run" and metric not in _LOAD
    if of_flows and len(facts.flows) > 1:
        if BY_NAME[metric].over != "sum" or BY_NAME[metric].adds_up:
            words += " of a flow"
        else:
            known = known.group_by("run_id", maintain_order=True).agg(pl.col(metric).sum())
    values = floats(known[metric]) * shown.factor
    low, high = float(values.min()), float(values.max())
    amount = rounded(low) if math.isclose(low, high, rel_tol=1e-3) else f"{rounded(low)} to {rounded(high)}"
    return f"{words}: {amount} {shown.unit}".rstrip() + "."


def _caption(facts: Facts, metric: str, by: str, label: str) -> str:
    repeated = facts.ran["repeat"].n_unique() > 1
    mean = "mean over repeats with its 95 % interval" if repeated else "each run"
    groups = _groups(facts, metric, by)
    count = len(groups)
    cells = [cell for cell, _ in groups[: _shown(groups, by)]]
    left = f"; the first {len(cells)} of {count} combinations" if count > len(cells) else ""
    same = [key for key in cells[0] if key not in _varying(cells)]
    left += f", of {_words(facts, cells[0], same)}" if same else ""
    return f"{capital(label)}, {mean}{left}."


def _groups(facts: Facts, metric: str, by: str) -> list[tuple[dict[str, object], pl.DataFrame]]:
    """Return the rows of each combination and flow that have the metric.

    What is to be compared stands together, where results stand side by side or not all have room: before
    and after of one combination, then of the next.
    """
    rows = facts.ran.filter(pl.col(metric).is_not_null())
    keys = [*facts.telling, *(["flow"] if len(facts.flows) > 1 else [])]
    if not keys:
        return [({}, rows)]
    parts = rows.group_by(keys, maintain_order=True)
    found = [(dict(zip(keys, values, strict=True)), own) for values, own in parts]
    if by in keys and (by == union.KEY or len(found) > MAX_ROWS):
        rest = [tuple(value for key, value in cell.items() if key != by) for cell, _ in found]
        places = {of: place for place, of in reversed(list(enumerate(rest)))}
        found = [found[place] for place in sorted(range(len(found)), key=lambda place: places[rest[place]])]
    return found


def _shown(groups: Sequence[tuple[Mapping[str, object], pl.DataFrame]], by: str) -> int:
    """Return how many combinations have room, such that of none that are compared some are left out.

    Whole rounds of the other keys, too, where that can be.
    """
    if len(groups) <= MAX_ROWS:
        return len(groups)
    rest = [tuple(value for key, value in cell.items() if key != by) for cell, _ in groups]
    whole = [place for place in range(1, MAX_ROWS + 1) if rest[place] != rest[place - 1]]
    rounds = whole_rounds([tuple(cell.values()) for cell, _ in groups], MAX_ROWS)
    return rounds if rounds in whole else max(whole, default=MAX_ROWS)


def _varying(cells: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the keys that tell the combinations shown apart; all of one combination."""
    return [key for key in cells[0] if len({cell[key] for cell in cells}) > 1] or list(cells[0])


def _words(facts: Facts, cell: Mapping[str, object], keys: Sequence[str]) -> str:
    return facts.results.labels.words(cell, keys, among=facts.telling, alone=["flow"])


def _rows(facts: Facts, metric: str, by: str) -> list[_Row]:
    groups = _groups(facts, metric, by)
    found = groups[: _shown(groups, by)]
    varying = _varying([cell for cell, _ in found])
    factor = columns.describe(metric).factor
    meant, places = facts.pens
    rows = []
    for cell, own in found:
        mean, half = mean_interval(floats(own[metric]) * factor)
        words = _words(facts, cell, varying) or "all runs"
        colour = places.get(cell.get(meant), 0)
        span = bounds.span(own, metric, mean, half)
        rows.append(_Row(words, mean, half, span, colour % len(colours.PALETTE)))
    return rows


def _picture(facts: Facts, metric: str, by: str, label: str) -> Markup:
    """Draw a row for each combination: a dot at the mean, and a line for the interval."""
    rows = _rows(facts, metric, by)
    return Markup("").join(_drawn(rows, layout, label) for layout in _LAYOUTS)


def _drawn(rows: Sequence[_Row], of: _Layout, label: str) -> Markup:
    right = of.width - of.right
    # Characters of a line of a name.
    room = int((right - 90) / _EM) if of.above else min(37, max(len(row.label) for row in rows))
    left = 14.0 if of.above else _EM * room + 12
    top = max(row.span[1] for row in rows) or 1.0
    lowest = min(row.span[0] for row in rows)
    bottom = min(0.0, lowest) if lowest < 0.5 * top else lowest - 0.6 * (top - lowest or 0.1 * top)

    def x(value: float) -> float:
        return left + (right - left) * (value - bottom) / (top - bottom)

    names = [textwrap.wrap(row.label, room) for row in rows]
    tops = [*itertools.accumulate((of.row + _LINE * (len(name) - 1) for name in names), initial=_TOP)]
    floor = tops[-1]
    height = floor + _BOTTOM
    parts = [f'<svg class="{of.kind}" viewBox="0 0 {of.width} {height}" role="img" aria-label="{{}}">']
    for tick in _ticks(bottom, top):
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{floor + 17}" text-anchor="middle">{tick:g}</text>'
        )
    words: list[object] = [_told(rows, label)]
    for row, name, up in zip(rows, names, tops, strict=False):
        more = _LINE * (len(name) - 1)
        # Beside its name a row is in the middle of it, and below it under the last line.
        middle = up + of.row / 2 + (more if of.above else more / 2)
        y, text = middle + 0.7 * of.above, middle + 4.5 - 0.6 * of.above
        first = text - (more if of.above else more / 2)
        low, high = row.span
        pen = f'class="pen{row.colour}"'
        ends = (
            f'x="{left:.1f}"' if of.above else f'x="{left - 10:.1f}" text-anchor="end"',
            f'x="{right:.1f}" text-anchor="end"' if of.above else f'x="{right + 14}"',
        )
        parts.append(f'<line {pen} stroke-width="3" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle {pen} cx="{x(row.mean):.1f}" cy="{y}" r="5"/>')
        for number in range(len(name)):
            parts.append(f'<text class="axis-name" {ends[0]} y="{first + _LINE * number}">{{}}</text>')
        parts.append(f'<text class="tick" {ends[1]} y="{text}">{{}}</text>')
        words += [*name, with_interval(row.mean, row.half)]
    parts.append(
        f'<text class="axis-name" x="{right:.1f}" y="{height - 6}" text-anchor="end">{{}}</text></svg>'
    )
    return Markup("".join(parts)).format(*words, label)


def _told(rows: Sequence[_Row], label: str) -> str:
    values = "; ".join(f"{row.label} {with_interval(row.mean, row.half)}" for row in rows)
    return f"{label}: {values}"


def _ticks(low: float, high: float) -> list[float]:
    """Return round values of a range, about five."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [
        float(f"{step * place:.12g}") for place in range(math.ceil(low / step), math.floor(high / step) + 1)
    ]


def totals(facts: Facts) -> tuple[list[str], list[list[object]]]:
    """Return of the runs of several flows (the metrics of all flows together, cells of each run).

    The cells are the run's keys, how many flows it has, those metrics, and the bottleneck's utilisation where
    all flows pass one.
    """
    rows, briefs = facts.ran, {str(brief.run_id): brief for brief in facts.results.briefs}
    known = [name for name in (*TOTALS, "utilisation", "jain") if name in rows.columns and rows[name].count()]
    heads: list[list[object]] = []
    values: list[list[float]] = []
    for of_run in rows.partition_by("run_id", maintain_order=True) if len(facts.flows) > 1 else ():
        if of_run.height < 2:
            continue
        first = of_run.row(0, named=True)
        number = str(first["run_id"]).partition("-")[0]
        keys = ["–" if first[key] is None else first[key] for key in [*facts.telling, "repeat"]]
        heads.append([number, *keys, of_run.height])
        apart = number in briefs and briefs[number].apart(of_run["flow"].to_list())
        left_out = OF_BOTTLENECK if apart else ()
        values.append([math.nan if name in left_out else _together(of_run[name]) for name in known])
    told = [place for place in range(len(known)) if not all(math.isnan(of_run[place]) for of_run in values)]
    factors = [columns.describe(name).factor for name in known]
    cells = [[_number(of_run[place] * factors[place]) for place in told] for of_run in values]
    return [known[place] for place in told], [[*head, *of] for head, of in zip(heads, cells, strict=True)]


def _together(values: pl.Series) -> float:
    """Return what a run has of a metric: the sum of its flows' parts, or what all of them have alike.

    Flows of unlike applications are not pooled, so that a run may have several indices of fairness.
    """
    if BY_NAME[values.name].over == "sum":
        return float(values.sum())
    alike = values.drop_nulls().unique()
    return float(alike[0]) if len(alike) == 1 else math.nan


def _number(value: float) -> tuple[str, float]:
    return ("", math.nan) if math.isnan(value) else (rounded(value), value)
