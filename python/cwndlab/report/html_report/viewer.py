"""The report's interactive plots: what the page says of them, and the data they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from cwndlab.report.html_report import pack
from cwndlab.report.html_report.facts import Facts, plain, varying_metrics
from cwndlab.report.plots.selection import run_labels
from cwndlab.results import columns, inferred_models, questions

MAX_SHOWN = 5
"""Number of runs that are shown over time when the page opens; more lines are hard to tell apart."""

MAX_FLOWS_SHOWN = 16
"""Number of flows that are shown over time when the page opens, unless the first run has more."""

PANELS = (
    ("cwnd", "Congestion window", "kB", ", dotted: ssthresh"),
    ("rtt", "Round-trip time", "ms", ", dotted: smoothed RTT"),
    ("throughput", "Throughput", "Mbit/s", ": all data packets that arrive, with headers"),
    ("goodput", "Goodput", "Mbit/s", ": payload delivered in order"),
    ("queue", "Queue", "packets", ": waiting at each hop"),
)
"""Plots of the viewer: kind, heading, unit, what to know."""


def viewer(facts: Facts, runs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Texts of the page about the interactive plots of the packed runs; empty where there is
    nothing to plot.
    """
    kinds = {line["panel"] for run in runs for line in _lines(run)}
    if not kinds:
        return {}
    windows = f"; windows of {facts.window_s:g} s"
    panels = [(*panel[:3], f"{panel[3]}{windows if panel[0] in columns.RATES else ''}") for panel in PANELS]
    panels = [panel for panel in panels if panel[0] in kinds]
    left_out = []
    if len(facts.packed_runs) < len(facts.shown_runs):
        left_out.append(
            f"Series of the first {len(facts.packed_runs)} of {len(facts.shown_runs)} runs are in this file."
        )
    if len(facts.flows) > pack.MAX_FLOWS:
        left_out.append(f"Of each run the first {pack.MAX_FLOWS} flows are drawn.")
    return {"panels": panels, "left_out": " ".join(left_out), "live": bool(facts.live)}


def _lines(run: Mapping[str, object]) -> list[dict[str, object]]:
    lines = run["lines"]
    return lines if isinstance(lines, list) else []


def box_keys(facts: Facts) -> list[str]:
    """The keys over which box plots are drawn; none where nothing is complete."""
    keys = ["app", *facts.telling, *(["flow"] if 1 < len(facts.flows) <= 24 else [])]
    return [key for key in keys if 1 < facts.ran[key].n_unique() <= 40]


def _box_data(facts: Facts) -> dict[str, object]:
    """Every metric of every flow and run, and its value of each key; the page makes boxes of them."""
    rows = facts.ran
    keys: list[dict[str, object]] = []
    for key in box_keys(facts):
        values = columns.ordered(rows[key].to_list())
        places = {value: place for place, value in enumerate(values)}
        names = ["–" if value is None else str(value) for value in values]
        keys.append(
            {
                "key": key,
                "short": facts.short.get(key, key),
                "values": names,
                "written": [
                    name.removesuffix(inferred_models.MARK) for name in names
                ],  # as --where takes them
                "rows": [places[value] for value in rows[key].to_list()],
                "one": key == "app",  # flows of different applications are never put into one box
            }
        )
    names = [name for name in varying_metrics(rows) if rows[name].n_unique() > 1]
    metrics = []
    first = [*(aim.metric for aim in questions.of(facts.results).aims), "goodput_mbps"]
    for name in sorted(names, key=lambda name: first.index(name) if name in first else len(first)):
        shown = columns.describe(name)
        metrics.append({"name": name, "label": shown.label, "rows": plain(rows[name], shown.factor)})
    return {"keys": keys, "metrics": metrics}


def series(facts: Facts) -> tuple[list[tuple[str, str]], list[dict[str, object]]]:
    """Return (of each packed run its number and its series, of each what its lines are)."""
    rows = facts.summary.filter(pl.col("run_id").is_in(facts.packed_runs))
    keys = [*facts.telling, "stack", "cc", "repeat"]
    labels = run_labels(rows, keys, facts.results.labels) if rows.height else {}
    texts: list[tuple[str, str]] = []
    runs: list[dict[str, object]] = []
    pens = _pens(facts, rows)
    for run_id in facts.packed_runs:
        flows = [*pens[run_id]][: pack.MAX_FLOWS]
        packed = pack.pack(pack.lines_of(facts.results, run_id, flows, facts.window_s), facts.columns)
        texts.append((str(run_id), packed.text))
        label = labels[run_id] or f"run {run_id}"
        runs.append(
            {
                "id": str(run_id),
                "label": label,
                "lines": packed.lines,
                "live": facts.live.get(str(run_id)),
                "pens": pens[run_id] if facts.pens[0] else {},
            }
        )
    return texts, runs


def _pens(facts: Facts, rows: pl.DataFrame) -> dict[object, dict[str, int | None]]:
    """Return the flows of each run, and the place of each in the palette if it has a colour by meaning."""
    key, places = facts.pens
    found: dict[object, dict[str, int | None]] = {}
    for run_id, flow, value in rows.select("run_id", "flow", value=key or "flow").iter_rows():
        found.setdefault(run_id, {})[str(flow)] = places.get(value)
    return found


def data(facts: Facts, runs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Data for the script of the page: the packed runs, and the values that box plots are made of."""
    return {
        "directory": facts.directory,
        "runs": runs,
        "start": _first_shown(facts),
        "boxes": _box_data(facts),
    }


def _first_shown(facts: Facts) -> list[str]:
    """The runs shown when the page opens: the first, and those that differ from it in the first key only."""
    if not facts.packed_runs:
        return []
    rows = facts.ran.unique("run_id", keep="first", maintain_order=True)
    first = rows.row(0, named=True)
    for key in [*facts.telling[1:], "repeat"]:
        rows = rows.filter(pl.col(key).eq_missing(pl.lit(first[key])))
    packed = set(facts.packed_runs)
    shown = min(MAX_SHOWN, max(1, MAX_FLOWS_SHOWN // max(1, len(facts.flows))))
    return [str(run) for run in rows["run_id"] if run in packed][:shown]
