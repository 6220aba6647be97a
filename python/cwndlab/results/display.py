"""The summary as a table for a terminal: as many columns as fit, swept keys first, repeats averaged."""

import json
import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cwndlab.errors import InputError, nearest, shown
from cwndlab.results import inferred_models, limits, metrics, texttable, user_metrics
from cwndlab.results.catalogue import FAILED, MISSING, SUMMARY, summary_columns
from cwndlab.results.metrics import Metric
from cwndlab.results.resultset import ResultSet
from cwndlab.results.texttable import Column

MAX_ROWS = 40
"""Rows shown unless all are asked for."""

LEAST = (3, 2)
"""Numbers of metrics that are always shown if the keys of a row leave room for them over several lines; the
last of these numbers also if words of the keys have to be broken for it.
"""

_FIRST = {
    "response_p95_ms": ("goodput_mbps", "response_p95_ms"),
    "mos": ("goodput_mbps", "mos", "mos_error", "one_way_p95_ms", "one_way_error_ms", "drop_rate"),
}
"""Metrics that get room before all others where there is that of an application: its requests, its call."""


def table(
    results: ResultSet, *, width: int = texttable.WIDTH, every: bool = False, columns: Sequence[str] = ()
) -> str:
    """The summary as lines of text.

    Repeats of a cell are averaged over those there (`n` says how many). What is the same in all rows
    is said once above them. Without `every`, a long table shows its first rows, and below them the smallest,
    the median and the largest of each metric over all rows of an application, and of a loadlatency scenario
    only the row of its pinger, which has the scenario's metrics. `columns` names columns of the summary to
    show, behind what names the row, a row per flow of each run, instead of as many as fit in `width`
    characters; an unknown one raises InputError.
    """
    in_order = user_metrics.shown(results.header.metrics or ())
    rows = _flows(results, columns) if columns else _cells(results, every=every)
    once, labels = _labels(results, rows)
    if columns:
        once, labels = [], [name for name in labels if name != ("run" if "run_id" in columns else "status")]
        measured = [name for name in columns if name not in labels]
    else:
        # What is zero everywhere gets room last.
        known = [name for name in in_order if any(value is not None for value in rows[name])]
        if len(results.arrow["run_id"].unique()) == results.arrow.num_rows:  # each run has one flow
            known = [name for name in known if name not in metrics.TOTALS]
        first = [name for sign, names in _FIRST.items() if sign in known for name in names]
        measured = [*first, *sorted(known, key=lambda name: not any(rows[name]))]
        measured = list(dict.fromkeys(name for name in measured if name in known))
    cut = not every and rows.height > MAX_ROWS
    alike = rows.by_app() if cut else []
    heads = texttable.short_names([name for name in labels if name not in in_order])
    grid = []
    for place, name in enumerate(labels):
        ends = _ends_of_rows(alike, named="app" not in labels[1:]) if place == 0 else _ends(name, alike)
        values = [results.labels.value(name, value) for value in _marked(name, rows[name])]
        numbers = place > 0 and name in rows.numeric
        grid.append(_column(values, Metric(name, name, head=heads[name]), ends, numbers=numbers))
    behind = []
    for name in measured:
        head = in_order.get(name) or Metric(name, name, head=heads.get(name, name))
        behind.append(_column(rows[name], head, _ends(name, alike), numbers=name in rows.numeric))
    grid = _beside(grid, [behind] if columns else [behind[:least] for least in LEAST], width)
    for place, column in enumerate(behind):
        if place == 0 or columns or texttable.width_of([*grid, column]) <= width:
            grid.append(column)
    lines = [", ".join(once)] if once else []
    lines += texttable.lines(grid)
    if not columns and any("RTT" in column.cells[0] for column in grid):
        lines += _round_trips(rows)
    if any(f"{name}{inferred_models.STAR}" in line for line in lines for name in rows.inferred()):
        lines.append(inferred_models.FOOTNOTE)
    if cut:
        more = rows.height - MAX_ROWS
        lines.append(f"and {more} more rows: --all shows them, and {results.path / SUMMARY} holds them")
    return "\n".join(lines)


def _round_trips(rows: "_Rows") -> list[str]:
    """A line where TCP's smoothed RTT is another than the path's."""
    names = ("rtt_p50_ms", "srtt_mean_ms")
    pairs = zip(*(rows[name] for name in names), strict=True)
    found = [pair[1] for pair in pairs if limits.apart(dict(zip(names, pair, strict=True)))]
    if not found:
        return []
    return [
        f"RTT is the path's; TCP's own (srtt), with the hosts, is {min(found):.3g} to {max(found):.3g} ms"
    ]


def json_lines(results: ResultSet, columns: Sequence[str] = ()) -> str:
    """The summary as a line of JSON per flow of each run, a missing metric null.

    Of `columns`, too, each line says first which row it is: run, repeat, flow and the swept keys.
    """
    wanted = list(dict.fromkeys(["run_id", "repeat", "flow", *results.keys, *columns]))
    rows = _checked(results, columns)
    batches = rows.select(wanted if columns else rows.column_names).to_batches()
    return "".join(json.dumps(row) + "\n" for batch in batches for row in batch.to_pylist())


@dataclass(frozen=True)
class _Rows:
    """Columns of rows, by name: lists, as a table for a terminal needs no library of data frames."""

    columns: Mapping[str, list[Any]]
    numeric: Collection[str]
    """The columns that hold numbers."""

    @staticmethod
    def of(table: pa.Table, names: Sequence[str]) -> "_Rows":
        """Columns of a table of Arrow."""
        columns = {name: table[name].to_pylist() for name in names}
        words = (pa.types.is_string, pa.types.is_large_string)
        return _Rows(columns, {name for name in names if not any(is_(table[name].type) for is_ in words)})

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    @property
    def height(self) -> int:
        """Number of rows."""
        return len(self.columns["app"])

    def by_app(self) -> "list[_Rows]":
        """The rows of each application."""
        places: dict[Any, list[int]] = {}
        for place, app in enumerate(self["app"]):
            places.setdefault(app, []).append(place)
        return [
            _Rows({name: [values[row] for row in own] for name, values in self.columns.items()}, self.numeric)
            for own in places.values()
        ]

    def inferred(self) -> list[str]:
        """The stacks named in them whose models are inferred."""
        keys = filter(inferred_models.is_stack_key, self.columns)
        return inferred_models.among(value for key in keys for value in self[key])


def _beside(grid: list[Column], others: Sequence[Sequence[Column]], width: int) -> list[Column]:
    """The columns of the keys, so narrow that some other columns have room beside them, the first of these
    that can be, or else the last."""
    for wanted in others:
        room = width - sum(len(texttable.GAP) + column.width for column in wanted)
        found = texttable.fitted(grid, room, texttable.PARTS[:1])
        if texttable.width_of(found) <= room:
            return found
    return texttable.fitted(grid, room)


def _flows(results: ResultSet, columns: Sequence[str]) -> _Rows:
    """A row per flow and run."""
    table = _checked(results, columns)
    names = [*results.keys, "flow", "app", "stack", "cc", "repeat", "status", *columns]
    rows = _Rows.of(table, list(dict.fromkeys(names)))
    runs = [str(name).partition("-")[0] for name in table["run_id"].to_pylist()]
    return _Rows({**rows.columns, "run": runs, "repeats": [1] * len(runs)}, rows.numeric)


def _cells(results: ResultSet, *, every: bool) -> _Rows:
    """A row per cell and flow, the metrics averaged over the repeats that are there."""
    table = results.arrow
    if not every:
        table = table.filter(pc.field("smoothness_hz").is_null() | pc.field("load_scenario").is_valid())
    names = list(dict.fromkeys([*results.keys, "flow", "app", "stack", "cc"]))
    places: dict[tuple[Any, ...], int] = {}
    cells = zip(*(table[name].to_pylist() for name in names), strict=True)
    place = np.array([places.setdefault(cell, len(places)) for cell in cells], dtype=np.int64)
    _, first, repeats = np.unique(place, return_index=True, return_counts=True)
    columns: dict[str, list[Any]] = dict(
        zip(names, map(list, zip(*places, strict=True)) if places else [[] for _ in names], strict=True)
    )
    runs = table["run_id"].to_pylist()
    columns["run"] = [runs[row].partition("-")[0] for row in first]
    columns["repeats"] = repeats.tolist()
    in_order = user_metrics.shown(results.header.metrics or ())
    said: list[dict[str, int]] = [{} for _ in places]
    columns["n"] = [0] * len(places)
    # A run that failed has no metric, a flow whose connection broke has those until then.
    measured = _measured(table, [name for name in in_order if name in table.column_names])
    for cell, status, there in zip(place, table["status"].to_pylist(), measured, strict=True):
        said[cell][status] = said[cell].get(status, 0) + 1
        columns["n"][cell] += there or status not in (FAILED, MISSING)
    columns["status"] = ["/".join(each) for each in said]
    words = {name for name, metric in in_order.items() if metric.kind == "word"}
    for name in in_order:
        together = _words if name in words else _means
        columns[name] = together(table[name], place, len(places))
    return _Rows(columns, {*in_order, "n"} - words)


def _measured(table: pa.Table, names: Sequence[str]) -> list[bool]:
    """Whether a row has any of these metrics."""
    found = np.zeros(table.num_rows, dtype=bool)
    for name in names:
        found |= table[name].is_valid().to_numpy()
    return list(found.tolist())


def _words(
    values: "pa.ChunkedArray[Any]", place: "np.ndarray[Any, np.dtype[np.int64]]", cells: int
) -> list[Any]:
    """The words of a metric in each cell, each once, None where no run has any."""
    said: list[dict[str, None]] = [{} for _ in range(cells)]
    for cell, value in zip(place.tolist(), values.to_pylist(), strict=True):
        if value is not None:
            said[cell][value] = None
    return ["/".join(each) or None for each in said]


def _means(
    values: "pa.ChunkedArray[Any]", place: "np.ndarray[Any, np.dtype[np.int64]]", cells: int
) -> list[Any]:
    """The mean of a metric in each cell, None where no run has it."""
    numbers = np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)
    there = ~np.isnan(numbers)  # no metric is NaN but one that is missing
    counts = np.bincount(place[there], minlength=cells)
    sums = np.bincount(place[there], numbers[there], minlength=cells)
    return [
        total / count if count else None for total, count in zip(sums.tolist(), counts.tolist(), strict=True)
    ]


def _labels(results: ResultSet, rows: _Rows) -> tuple[list[str], list[str]]:
    """Find the words to say once above the rows, and the columns that name a row."""
    several = max(rows["repeats"], default=0) != 1
    once, labels = [], list[str]() if several else ["run"]
    keys = _telling(results.keys, rows)
    labels += keys
    before = list(keys)
    if "repeat" in rows.columns and len(set(rows["repeat"])) > 1:
        labels.append("repeat")
    for name in ("flow", "app", "stack", "cc"):
        swept = any(key.endswith(f".{name}") for key in keys)
        if len(set(rows[name])) == 1:
            known = name in ("stack", "cc") and rows[name][0] is not None
            once += [f"{name} {inferred_models.marked(rows[name][0], inferred_models.STAR)}"] if known else []
        elif not swept or name in _telling([*before, name], rows):
            labels.append(name)
        before.append(name)
    if len(keys) < len(results.keys):
        more = len(results.keys) - len(keys)
        which = "1 swept key whose value follows" if more == 1 else f"{more} swept keys whose values follow"
        once.append(f"not shown: {which} from those shown")
    if several:
        labels.append("n")
    if len(results.arrow["status"].unique()) > 1 or not results.complete:
        labels.append("status")
    return once, labels


def _telling(names: Sequence[str], rows: _Rows) -> list[str]:
    cells = zip(*(rows[name] for name in names), strict=True)
    return texttable.telling(names, [dict(zip(names, cell, strict=True)) for cell in cells])


def _column(values: list[Any], head: Metric, ends: Sequence[Any], *, numbers: bool) -> Column:
    """A column: two lines of head, the rows and, where these are cut, the ends.

    They are shown as text unless `numbers`."""
    cells = [*(values[:MAX_ROWS] if ends else values), *ends]
    if numbers:
        texts = _numbers(values, head.factor, cells)
    else:
        texts = ["" if value is None else str(value) for value in cells]
    return Column([head.head, head.unit, *texts], right=numbers)


def _ends_of_rows(alike: Sequence[_Rows], *, named: bool) -> list[str]:
    """Labels of the statistics below a table that is cut, three for each application's rows."""
    several = named and len(alike) > 1
    return [f"{rows['app'][0]}: {what}" if several else what for rows in alike for what in _SPREAD]


def _ends(name: str, alike: Sequence[_Rows]) -> list[Any]:
    """The statistics of a column below a table that is cut."""
    if name == "app":
        return [rows["app"][0] for rows in alike for _ in _SPREAD]
    return [end for rows in alike for end in _spread(rows[name], numbers=name in rows.numeric)]


def _marked(name: str, values: list[Any]) -> list[Any]:
    """A column with a star behind each stack whose model is inferred."""
    if not inferred_models.is_stack_key(name):
        return values
    return [
        None if value is None else inferred_models.marked(value, inferred_models.STAR) for value in values
    ]


_SPREAD = ("min", "median", "max")


def _spread(values: list[Any], *, numbers: bool) -> list[float | None]:
    """Smallest, median and largest value; three times None of what are no numbers."""
    known = [float(value) for value in values if value is not None] if numbers else []
    return [min(known), statistics.median(known), max(known)] if known else [None] * len(_SPREAD)


def _numbers(values: list[Any], factor: float, chosen: Sequence[float | None]) -> list[str]:
    """The chosen numbers with the decimals that suit all `values`: none where all are whole."""
    scaled = [min(abs(value * factor), sys.float_info.max) for value in values if value]
    whole = all(value == round(value) for value in scaled)
    # Four digits of the largest and three of the smallest, within reason.
    decimals = 0 if whole else min(3, max(4 - _digits(max(scaled)), 3 - _digits(min(scaled)), 0))
    return ["" if value is None else f"{value * factor:.{decimals}f}" for value in chosen]


def _digits(value: float) -> int:
    """Digits before the point, none of a number below 1."""
    return len(str(int(value))) if value >= 1 else 0


def _checked(results: ResultSet, columns: Sequence[str]) -> pa.Table:
    """The rows of the summary; raises InputError for a column that it does not have."""
    rows = results.arrow.select(summary_columns(results.arrow.column_names))
    for name in columns:
        if name not in rows.column_names:
            near = nearest(name, rows.column_names) or f"there is {', '.join(rows.column_names)}"
            raise InputError(f"column: {shown(name)} does not exist; {near}")
    return rows
