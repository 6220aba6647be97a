"""The summary as a table for a terminal: as many columns as fit, swept keys first, repeats averaged."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cwndlab.errors import InputError, nearest, shown
from cwndlab.results import inferred, texttable
from cwndlab.results.catalogue import FAILED, MISSING, SUMMARY
from cwndlab.results.resultset import ResultSet

MAX_ROWS = 40
"""Rows shown unless all are asked for."""

WIDTH = 80
"""Columns of characters a table fits in unless the terminal is wider."""


@dataclass(frozen=True)
class _Head:
    name: str
    unit: str = ""
    factor: float = 1.0


_METRICS: dict[str, _Head] = {
    "upload_kib_s": _Head("up", "KiB/s"),
    "download_kib_s": _Head("down", "KiB/s"),
    "smoothness_hz": _Head("smooth", "Hz"),
    "responsiveness_hz": _Head("respons", "Hz"),
    "rpm": _Head("RPM"),
    "goodput_mbps": _Head("goodput", "Mbit/s"),
    "utilisation": _Head("util", "%", 100),
    "retransmit_rate": _Head("retrans", "%", 100),
    "rtt_p50_ms": _Head("RTT p50", "ms"),
    "rtt_p95_ms": _Head("RTT p95", "ms"),
    "cwnd_mean_bytes": _Head("cwnd", "kB", 1e-3),
    "jain": _Head("Jain"),
    "fast_recoveries": _Head("recov"),
    "rtos": _Head("RTOs"),
    "cycle_s": _Head("cycle", "s"),
    "queue_delay_p95_ms": _Head("qdelay p95", "ms"),
    "drop_rate": _Head("drops", "%", 100),
    "throughput_mbps": _Head("throughput", "Mbit/s"),
    "ce_marks": _Head("CE marks"),
    "cwnd_max_bytes": _Head("cwnd max", "kB", 1e-3),
    "rtt_min_ms": _Head("RTT min", "ms"),
    "rtt_mean_ms": _Head("RTT mean", "ms"),
    "rtt_max_ms": _Head("RTT max", "ms"),
    "completion_s": _Head("completion", "s"),
    "response_p50_ms": _Head("response p50", "ms"),
    "response_p95_ms": _Head("response p95", "ms"),
    "round_p50_ms": _Head("round p50", "ms"),
    "round_p95_ms": _Head("round p95", "ms"),
    "one_way_p50_ms": _Head("one-way p50", "ms"),
    "one_way_p95_ms": _Head("one-way p95", "ms"),
    "completion_p50_ms": _Head("transfer p50", "ms"),
    "completion_p95_ms": _Head("transfer p95", "ms"),
    "stalled_s": _Head("stalled", "s"),
    "convergence_s": _Head("converged", "s"),
    "time_to_90_s": _Head("filled", "s"),
    "slow_start_exit_s": _Head("slow start", "s"),
    "power": _Head("power", "Mbit/s²"),
    "jain_1s_mean": _Head("Jain 1s"),
    "jain_1s_min": _Head("Jain min"),
    "queue_delay_p50_ms": _Head("qdelay p50", "ms"),
    "queue_delay_max_ms": _Head("qdelay max", "ms"),
    "limited_cwnd_pct": _Head("by cwnd", "%"),
    "limited_rwnd_pct": _Head("by rwnd", "%"),
    "limited_sndbuf_pct": _Head("by sndbuf", "%"),
    "limited_app_pct": _Head("by app", "%"),
}
"""Metrics in the order in which they are given room, with what stands above them."""


def table(results: ResultSet, *, width: int = WIDTH, every: bool = False, columns: Sequence[str] = ()) -> str:
    """The summary as lines of text.

    Repeats of a cell are averaged over those there (`n` says how many). What is the same in all rows
    is said once above them. Without `every`, a long table shows its first rows, and below them the smallest,
    the median and the largest of each metric over all rows of an application, and of a loadlatency scenario
    only the row of its pinger, which has the scenario's metrics. `columns` names columns of the summary to
    show, a row per flow of each run, instead of as many as fit in `width` characters; an unknown one raises
    InputError.
    """
    if columns:
        _check(columns, results.summary.columns)
        rows, once, labels, metrics = results.summary, list[str](), list(columns), list[str]()
    else:
        rows = _cells(results, every=every)
        once, labels = _labels(results, rows)
        # What is zero everywhere gets room last.
        known = [name for name in _METRICS if rows[name].count()]
        metrics = sorted(known, key=lambda name: not (rows[name] != 0).any())
    cut = not every and rows.height > MAX_ROWS
    alike = rows.partition_by("app", maintain_order=True) if cut else []
    heads = texttable.short_names([name for name in labels if name not in _METRICS])
    grid = []
    for place, name in enumerate(labels):
        ends = _ends_of_rows(alike, named="app" not in labels[1:]) if place == 0 else _ends(name, alike)
        head = _METRICS.get(name) or _Head(heads[name])
        grid.append(_column(_marked(rows[name]), head, ends, numbers=place > 0))
    for name in metrics:
        column = _column(rows[name], _METRICS[name], _ends(name, alike))
        if len(texttable.GAP.join([*(other[0] for other in grid), column[0]])) <= width:
            grid.append(column)
    lines = [", ".join(once)] if once else []
    lines += texttable.lines(grid)
    if any(f"{name}{inferred.STAR}" in line for line in lines for name in inferred.of_rows(rows)):
        lines.append(inferred.FOOTNOTE)
    if cut:
        more = rows.height - MAX_ROWS
        lines.append(f"and {more} more rows: --all shows them, and {results.path / SUMMARY} holds them")
    return "\n".join(lines)


def json_lines(results: ResultSet, columns: Sequence[str] = ()) -> str:
    """The summary as a line of JSON per flow of each run, a missing metric null.

    Of `columns`, too, each line says first which row it is: run, repeat, flow and the swept keys.
    """
    _check(columns, results.summary.columns)
    wanted = list(dict.fromkeys(["run_id", "repeat", "flow", *results.keys, *columns]))
    rows = results.summary.select(wanted if columns else pl.all()).iter_rows(named=True)
    return "".join(json.dumps(row) + "\n" for row in rows)


def _cells(results: ResultSet, *, every: bool) -> pl.DataFrame:
    """A row per cell and flow, the metrics averaged over the repeats that are there."""
    index = pl.col("run_id").str.split("-").list.first().alias("run")
    there = pl.col("status") != MISSING
    part = pl.col("smoothness_hz").is_not_null() & pl.col("load_scenario").is_null()
    return (
        results.summary.filter(pl.lit(every) | ~part)
        .with_columns(index)
        .group_by([*results.keys, "flow", "app", "stack", "cc"], maintain_order=True)
        .agg(
            pl.col("run").first(),
            (there & (pl.col("status") != FAILED)).sum().alias("n"),
            pl.len().alias("repeats"),
            pl.col("status").unique(maintain_order=True).str.join("/"),
            pl.col(*_METRICS).mean(),
        )
    )


def _labels(results: ResultSet, rows: pl.DataFrame) -> tuple[list[str], list[str]]:
    """What is to be said once above the rows, and the columns that name a row."""
    once, labels = [], ["run"] if rows["repeats"].max() == 1 else []
    keys = _telling(results.keys, rows)
    labels += keys
    before = list(keys)
    for name in ("flow", "app", "stack", "cc"):
        swept = any(key.endswith(f".{name}") for key in keys)
        if rows[name].n_unique() == 1:
            known = name in ("stack", "cc") and rows[name][0] is not None
            once += [f"{name} {inferred.marked(rows[name][0], inferred.STAR)}"] if known else []
        elif not swept or name in _telling([*before, name], rows):
            labels.append(name)
        before.append(name)
    if len(keys) < len(results.keys):
        more = len(results.keys) - len(keys)
        once.append(f"{more} more swept key{' varies' if more == 1 else 's vary'} along with those shown")
    if rows["repeats"].max() != 1:
        labels.append("n")
    if results.summary["status"].n_unique() > 1 or not results.complete:
        labels.append("status")
    return once, labels


def _telling(names: Sequence[str], rows: pl.DataFrame) -> list[str]:
    return texttable.telling(names, rows.select(names).to_dicts())


def _column(values: pl.Series, head: _Head, ends: Sequence[Any], *, numbers: bool = True) -> list[str]:
    """The cells of a column, all as wide: two lines of head, the rows and, where these are cut, the ends.

    A column of numbers is shown as text unless `numbers`."""
    numbers = numbers and values.dtype.is_numeric()
    cells = [*(values.head(MAX_ROWS) if ends else values), *ends]
    if numbers:
        texts = _numbers(values, head.factor, cells)
    else:
        texts = ["" if value is None else str(value) for value in cells]
    return texttable.aligned([head.name, head.unit, *texts], right=numbers)


def _ends_of_rows(alike: Sequence[pl.DataFrame], *, named: bool) -> list[str]:
    """What stands before the statistics below a table that is cut, three for each application's rows."""
    several = named and len(alike) > 1
    return [f"{rows['app'][0]}: {what}" if several else what for rows in alike for what in _SPREAD]


def _ends(name: str, alike: Sequence[pl.DataFrame]) -> list[Any]:
    """The statistics of a column below a table that is cut."""
    if name == "app":
        return [rows["app"][0] for rows in alike for _ in _SPREAD]
    return [end for rows in alike for end in _spread(rows[name])]


def _marked(values: pl.Series) -> pl.Series:
    """A column with a star behind each stack whose model is inferred."""
    if not inferred.is_stack_key(values.name):
        return values
    marked = [None if value is None else inferred.marked(value, inferred.STAR) for value in values]
    return pl.Series(values.name, marked, dtype=pl.String)


_SPREAD = ("min", "median", "max")


def _spread(values: pl.Series) -> list[float | None]:
    """Smallest, median and largest value; three times None of what are no numbers."""
    if not values.dtype.is_numeric():
        return [None] * len(_SPREAD)
    found = (values.min(), values.median(), values.max())
    return [float(value) if isinstance(value, int | float) else None for value in found]


def _numbers(values: pl.Series, factor: float, chosen: Sequence[float | None]) -> list[str]:
    """The chosen numbers with the decimals that suit all `values`: none where all are whole."""
    scaled = [abs(value * factor) for value in values.drop_nulls() if value]
    whole = all(value == round(value) for value in scaled)
    # Four digits of the largest and three of the smallest, within reason.
    decimals = 0 if whole else min(3, max(4 - _digits(max(scaled)), 3 - _digits(min(scaled)), 0))
    return ["" if value is None else f"{value * factor:.{decimals}f}" for value in chosen]


def _digits(value: float) -> int:
    """Digits before the point, none of a number below 1."""
    return len(str(int(value))) if value >= 1 else 0


def _check(columns: Sequence[str], known: Sequence[str]) -> None:
    for name in columns:
        if name not in known:
            near = nearest(name, known) or f"there is {', '.join(known)}"
            raise InputError(f"column: {shown(name)} does not exist; {near}")
