"""The report's interactive plots: their place in the page, the data they show, and the page around them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files as resources

import polars as pl

from cwndlab.plots.report import pack
from cwndlab.plots.report.facts import Facts, content_hash, plain, varying_metrics
from cwndlab.plots.report.html import Markup, element, join, raw
from cwndlab.plots.selection import run_labels
from cwndlab.results import columns, inferred

MAX_SHOWN = 5
"""So many runs are shown over time when the page opens; more lines are hard to tell apart."""

PANELS = (
    ("cwnd", "Congestion window", "kB", "dotted: ssthresh"),
    ("rtt", "Round-trip time", "ms", "dotted: smoothed RTT"),
    ("throughput", "Throughput", "Mbit/s", "all data packets that arrive, with headers"),
    ("goodput", "Goodput", "Mbit/s", "payload delivered in order"),
    ("queue", "Queue", "packets", "packets waiting at each hop"),
)
"""Plots of the viewer: kind, heading, unit, what to know."""


def viewer(facts: Facts) -> Markup:
    """The place of the interactive plots in the page."""
    if not facts.packed_runs:
        return raw("")
    plots = []
    for kind, heading, unit, hint in PANELS:
        label = f"{heading} in {unit} over time"
        canvas = element(
            "div",
            element("canvas", role="img", tabindex="0", aria_label=label, class_="base"),
            element("canvas", class_="overlay", aria_hidden="true"),
            class_="plot",
        )
        note = f" {hint}." if hint else ""
        if kind in columns.RATES:
            note += f" Windows of {facts.window_s:g} s."
        caption = element(
            "figcaption",
            element("strong", heading),
            f" [{unit}].{note}",
            element("output", class_="readout"),
        )
        again = element("p", "Make it again: ", element("code", class_="command"), class_="again")
        plots.append(element("figure", caption, canvas, again, data_kind=kind))
    missing = len(facts.shown_runs) - len(facts.packed_runs)
    notes = [
        "Drag across a plot to zoom, double-click to see all; every plot follows.",
        "On the keyboard: arrow keys move, + and − zoom, 0 shows all.",
        "Of long series the lowest and highest sample of each step in time are drawn: no dip is lost.",
    ]
    if missing:
        notes.append(
            f"Series of the first {len(facts.packed_runs)} of {len(facts.shown_runs)} runs are in this file."
        )
    if len(facts.flows) > pack.MAX_FLOWS:
        notes.append(f"Of each run the first {pack.MAX_FLOWS} flows are drawn.")
    controls = element(
        "div",
        element("label", "Add a run ", element("select", id="add-run")),
        element("label", "from ", element("input", id="from", type="number", step="any"), " s"),
        element("label", "to ", element("input", id="to", type="number", step="any"), " s"),
        element(
            "span",
            _button("earlier", "◀", "Earlier"),
            _button("in", "+", "Zoom in"),
            _button("out", "−", "Zoom out"),
            _button("later", "▶", "Later"),
            _button("all", "All", "Show all"),
            class_="buttons",
        ),
        class_="controls",
    )
    legend = element("ul", id="legend", aria_label="Lines shown")
    noscript = element("noscript", element("p", "The plots need JavaScript.", class_="warning"))
    problem = element("p", id="viewer-problem", class_="warning", hidden="")
    return join(element("p", " ".join(notes), class_="hint"), noscript, problem, controls, legend, *plots)


def _button(action: str, text: str, words: str) -> Markup:
    return element("button", text, type="button", data_action=action, aria_label=words, title=words)


def boxes(facts: Facts) -> Markup:
    """The place of the box plots in the page."""
    keys = _box_keys(facts)
    if not keys or not facts.complete.height:
        return raw("")
    return join(
        element(
            "p",
            "Box: quartiles and median; whiskers: the furthest values within 1.5 interquartile ranges; "
            "diamond: mean; dots: flows of runs.",
            class_="hint",
        ),
        element("div", element("label", "Metric ", element("select", id="box-figure")), class_="controls"),
        element("div", id="box-filters", class_="controls", role="group", aria_label="Only runs where"),
        element("div", id="boxes"),
    )


def _box_keys(facts: Facts) -> list[str]:
    keys = ["app", *facts.telling, *(["flow"] if 1 < len(facts.flows) <= 24 else [])]
    return [key for key in keys if 1 < facts.complete[key].n_unique() <= 40]


def _box_data(facts: Facts) -> dict[str, object]:
    """Every metric of every flow and run, and its value of each key; the page makes boxes of them."""
    rows = facts.complete
    keys: list[dict[str, object]] = []
    for key in _box_keys(facts):
        values = columns.ordered(rows[key].to_list())
        places = {value: place for place, value in enumerate(values)}
        names = ["–" if value is None else str(value) for value in values]
        keys.append(
            {
                "key": key,
                "short": facts.short.get(key, key),
                "values": names,
                "written": [name.removesuffix(inferred.MARK) for name in names],  # as --where takes them
                "rows": [places[value] for value in rows[key].to_list()],
                "one": key == "app",  # flows of different applications are never put into one box
            }
        )
    names = [name for name in varying_metrics(rows) if rows[name].n_unique() > 1]
    metrics = []
    for name in sorted(names, key=lambda name: name != "goodput_mbps"):
        shown = columns.describe(name)
        metrics.append({"name": name, "label": shown.label, "rows": plain(rows[name], shown.factor)})
    return {"keys": keys, "figures": metrics}


def document(title: str, body: Markup, facts: Facts) -> str:
    """The whole page."""
    style, script = _asset("report.css"), _asset("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{content_hash(style)}'",
            f"script-src '{content_hash(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = join(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content="cwndlab"),
        element("title", f"{title} – cwndlab"),
        element("style", raw(style)),
    )
    blocks = [*_data(facts), element("script", raw(script))]
    page = element("html", element("head", head), element("body", body, *blocks), lang="en")
    return f"<!doctype html>\n{page.text}\n"


def _data(facts: Facts) -> Iterator[Markup]:
    """The page's data: one block of JSON, and one block of packed series for each run."""
    rows = facts.summary.filter(pl.col("run_id").is_in(facts.packed_runs))
    labels = run_labels(rows, [*facts.telling, "stack", "cc", "repeat"]) if rows.height else {}
    runs = []
    for run_id in facts.packed_runs:
        flows = rows.filter(pl.col("run_id") == run_id)["flow"].to_list()[: pack.MAX_FLOWS]
        packed = pack.pack(pack.lines_of(facts.results, run_id, flows, facts.window_s), facts.columns)
        runs.append({"id": str(run_id), "label": labels[run_id] or f"run {run_id}", "lines": packed.lines})
        yield element("script", packed.text, type="text/plain", class_="series", data_run=str(run_id))
    data = {
        "directory": facts.directory,
        "runs": runs,
        "start": _first_shown(facts),
        "boxes": _box_data(facts),
    }
    # In a script element only `<` could end it or open a comment; JSON can spell it otherwise.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    yield element("script", raw(text), type="application/json", id="report-data")


def _first_shown(facts: Facts) -> list[str]:
    """The runs shown when the page opens: the first, and those that differ from it in the first key only."""
    if not facts.packed_runs:
        return []
    rows = facts.complete.unique("run_id", keep="first", maintain_order=True)
    first = rows.row(0, named=True)
    for key in [*facts.telling[1:], "repeat"]:
        rows = rows.filter(pl.col(key).eq_missing(pl.lit(first[key])))
    packed = set(facts.packed_runs)
    return [str(run) for run in rows["run_id"] if run in packed][:MAX_SHOWN]


def _asset(name: str) -> str:
    return resources("cwndlab.plots.report").joinpath(name).read_text(encoding="utf-8")
