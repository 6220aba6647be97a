"""Writes the report: gathers what the results hold and puts it into one HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from cwndlab import files
from cwndlab.analysis import contrasts, verdict
from cwndlab.analysis.comparison import Comparison, Options
from cwndlab.analysis.numeric import mean_interval
from cwndlab.errors import InputError
from cwndlab.parts.store import RunRecord
from cwndlab.plots.report import pack, published
from cwndlab.plots.report.html import Markup, details, element, join, raw, table
from cwndlab.plots.selection import floats, run_labels
from cwndlab.results import columns, inferred, loadlatency
from cwndlab.results.keys import distinguishing
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import CARRIED_OUT
from cwndlab.results.texttable import short_names
from cwndlab.scenario.queries import is_datagrams

MAX_SENTENCES = 6
"""Comparisons by a key that get a sentence each; more get a count, and a table."""

MAX_SHOWN = 5
"""So many runs are shown over time when the page opens; more lines are hard to tell apart."""

MOSTLY = 50.0
"""Per cent of the time above which a limit is a flow's main one."""

MAX_FACTS = 20
"""Runs of which is shown what a testbed found on its hosts."""

MAX_ROWS = 2000
"""Rows of the table of runs; the rest is in summary.csv."""

PANELS = (
    ("cwnd", "Congestion window", "kB", "dotted: ssthresh"),
    ("rtt", "Round-trip time", "ms", "dotted: smoothed RTT"),
    ("throughput", "Throughput", "Mbit/s", "all data packets that arrive, with headers"),
    ("goodput", "Goodput", "Mbit/s", "payload delivered in order"),
    ("queue", "Queue", "packets", "packets waiting at each hop"),
)
"""Plots of the viewer: kind, heading, unit, what to know."""


def write(results: ResultSet, path: str | Path) -> Path:
    """Write the report of `results` to the file `path` and return it.

    All text is escaped, and the page's own policy allows its one script and nothing from elsewhere. Raises
    InputError if the results are damaged or the file cannot be written.
    """
    target = Path(path)
    page = render(results)
    try:
        files.save(target, page.encode())
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    return target


def render(results: ResultSet) -> str:
    """Return the report as HTML."""
    facts = _Facts(results)
    sections = [
        ("results", "Results", _results(facts)),
        ("loadlatency", "Scenarios of loadlatency", _classic(facts)),
        ("verdicts", "Is there a difference?", _verdicts(facts)),
        ("published", "Beside the published figures", _published(facts)),
        ("time", "Over time", _viewer(facts)),
        ("by-parameter", "By parameter", _boxes(facts)),
        ("testbed", "Testbed", _testbed(facts)),
        ("provenance", "Provenance", _provenance(facts)),
    ]
    shown = [(anchor, heading, body) for anchor, heading, body in sections if body.text]
    links = [element("a", heading, href=f"#{anchor}") for anchor, heading, _ in shown]
    question = _question(results)
    header = element(
        "header",
        element("h1", results.header.experiment),
        element("p", question, class_="question") if question else raw(""),
        _glance(facts),
        element("nav", *links, aria_label="Sections"),
    )
    main = [element("section", element("h2", heading), body, id=anchor) for anchor, heading, body in shown]
    return _document(results.header.experiment, join(header, element("main", *main)), facts)


def _question(results: ResultSet) -> str:
    """The experiment's description."""
    try:
        experiment = yaml.safe_load(results.experiment)
    except yaml.YAMLError:
        return ""
    return str(experiment.get("description") or "") if isinstance(experiment, dict) else ""


class _Facts:
    """What several sections need of the results."""

    def __init__(self, results: ResultSet) -> None:
        self.results = results
        self.summary = inferred.with_marks(results.summary)
        self.keys = columns.swept_keys(self.summary)
        self.telling = distinguishing(self.summary, self.keys)
        """The swept keys that tell combinations apart; the others vary along with them."""
        self.short = short_names(self.telling)
        self.records: list[RunRecord] = list(results.records())
        self.complete = self.summary.filter(pl.col("status").is_in(CARRIED_OUT))
        self.shown_runs = self.complete["run_id"].unique(maintain_order=True).to_list()
        self.flows = self.summary["flow"].unique(maintain_order=True).to_list()
        fitting, self.columns = pack.columns_for(len(self.shown_runs), len(self.flows))
        self.packed_runs = self.shown_runs[:fitting]

    @property
    def directory(self) -> str:
        """The results' directory as a shell word."""
        return shlex.quote(str(self.results.path))

    @property
    def duration_s(self) -> float:
        """The longest run."""
        return max((record.scenario["duration_ns"] / 1e9 for record in self.records), default=0.0)

    @property
    def window_s(self) -> float:
        """Length of the throughput windows of the viewer: a second, less for short runs."""
        return 1.0 if self.duration_s >= 20 else max(0.001, float(f"{self.duration_s / 40:.1g}"))


def _glance(facts: _Facts) -> Markup:
    statuses = facts.results.runs["status"].to_list()
    done = sum(status in CARRIED_OUT for status in statuses)
    doubtful = statuses.count("unreliable")
    runs = f"{done} complete" + (f", {len(statuses) - done} not" if done < len(statuses) else "")
    items = [
        ("runs", runs + (f", {doubtful} unreliable (its warnings say why)" if doubtful else "")),
        ("testbed", facts.results.header.testbed),
        ("stacks", ", ".join(_distinct(facts.summary["stack"]))),
        ("congestion control", ", ".join(_distinct(facts.summary["cc"]))),
        ("duration of a run", f"{facts.duration_s:g} s"),
    ]
    facts_list = element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in items if value),
        class_="glance",
    )
    warning = raw("")
    if done < len(statuses):
        missing = len(statuses) - done
        text = (
            f"{missing} of {len(statuses)} runs failed or are missing: what follows covers the others only."
        )
        warning = element("p", text, class_="warning", role="note")
    names = inferred.of_rows(facts.results.summary)
    said = element("p", f"Stacks {inferred.note(names)}.", class_="hint") if names else raw("")
    return join(facts_list, said, warning)


def _results(facts: _Facts) -> Markup:
    parts = []
    if facts.complete.height and facts.summary["repeat"].n_unique() > 1:
        parts += [element("h3", "Each combination, mean over its repeats"), _cells(facts)]
    parts += [element("h3", "Every flow of every run"), _runs(facts), _limits(facts)]
    return join(*parts)


def _classic(facts: _Facts) -> Markup:
    """The lines of the loadlatency tool, where there are scenarios of it."""
    lines = loadlatency.classic(facts.results)
    return element("pre", lines) if lines else raw("")


_LIMITS = {
    "limited_cwnd_pct": "the congestion window",
    "limited_rwnd_pct": "the receiver's window",
    "limited_sndbuf_pct": "the send buffer",
    "limited_app_pct": "the application",
}


def _limits(facts: _Facts) -> Markup:
    """What limited the connections: a sentence for each, or for many how often each was the main limit.

    Only those count of which some limit was measured: datagrams have none.
    """
    known = facts.complete.filter(pl.sum_horizontal(pl.col(list(_LIMITS)).fill_null(0.0)) > 0)
    if not known.height:
        return raw("")
    labels = run_labels(known, [*facts.telling, "stack", "cc", "repeat"])
    sentences, mains = [], []
    for row in known.iter_rows(named=True):
        shares = sorted(((row[name] or 0.0, words) for name, words in _LIMITS.items()), reverse=True)
        said = [f"{_share(share)} of the time by {words}" for share, words in shares if share > 0]
        mains.append(shares[0][1] if shares[0][0] > MOSTLY else "")
        name = ", ".join(part for part in (labels[row["run_id"]], row["flow"]) if part)
        sentences.append(f"{name}: limited " + (", ".join(said) or "by nothing for long") + ".")
    every = element("ul", *(element("li", text) for text in sentences))
    heading = element("h3", "What limited the flows")
    if len(sentences) <= 16:
        return join(heading, every)
    counts = sorted(((mains.count(words), words) for words in dict.fromkeys(mains)), reverse=True)
    summed = (
        element("li", f"{count} of {len(mains)} TCP flows were limited {_mostly(words)}.")
        for count, words in counts
    )
    return join(heading, element("ul", *summed), details("Each flow", every))


def _mostly(words: str) -> str:
    if words:
        return f"by {words} for more than half of the time"
    return "by none of these for more than half of the time"


def _share(percent: float) -> str:
    return f"{percent:.0f} %" if percent >= 0.5 else "less than 1 %"


def _cells(facts: _Facts) -> Markup:
    names = [name for name in _varying_figures(facts.complete) if name in _HEADLINE]
    keys = [*facts.telling, "flow"] if len(facts.flows) > 1 else facts.telling
    groups = facts.complete.group_by(keys, maintain_order=True) if keys else [((), facts.complete)]
    rows = []
    for values, rows_of in groups:
        cells: list[object] = [_key_cell(value) for value in values]
        cells.append(rows_of.height)
        for name in names:
            mean, half = mean_interval(floats(rows_of[name]) * columns.describe(name).factor)
            cells.append((_with_interval(mean, half), mean))
        rows.append(cells)
    heads = [
        *(facts.short.get(key, key) for key in keys),
        "runs",
        *(columns.describe(name).label for name in names),
    ]
    note = (
        "± is the 95 % confidence interval of the mean (Student's t over runs); none where runs cannot vary."
    )
    caption = f"{len(rows)} combinations. {note}"
    return table(heads, rows, caption=caption, sortable=True, row_heads=len(keys), titles=[*keys, "", *names])


def _runs(facts: _Facts) -> Markup:
    names = _varying_figures(facts.summary)
    constant = [name for name in ("stack", "cc") if facts.summary[name].n_unique() == 1]
    words = [name for name in ("repeat", "stack", "cc") if name not in constant]
    words += ["app"] if facts.summary["app"].n_unique() > 1 else []
    constant = [name for name in constant if facts.summary[name][0] is not None]
    if facts.summary["repeat"].n_unique() == 1:
        words.remove("repeat")
    # A sweep over hosts.a.cc says what the column cc would repeat.
    words = [name for name in words if not any(key.endswith(f".{name}") for key in facts.telling)]
    heads = ["run", *(["flow"] if len(facts.flows) > 1 else []), *facts.telling, *words]
    packed = set(facts.packed_runs)
    rows = []
    for row in facts.summary.head(MAX_ROWS).iter_rows(named=True):
        cells = [_run_cell(str(row["run_id"]), pick=row["run_id"] in packed)]
        cells += [_key_cell(row[name]) for name in heads[1:]]
        for name in names:
            value = row[name]
            factor = columns.describe(name).factor
            cells.append(("", math.nan) if value is None else (_number(value * factor), value * factor))
        cells.append(row["status"])
        rows.append(cells)
    shown = [facts.short.get(name, name) for name in heads] + [columns.describe(name).label for name in names]
    unmeasured = [
        name for name in columns.numeric_columns(facts.summary) if facts.summary[name].is_null().all()
    ]
    sentences = [f"{facts.summary.height} rows; press a run's number to show it over time."]
    if facts.summary.height > MAX_ROWS:
        sentences[0] = f"The first {MAX_ROWS} of {facts.summary.height} rows; all are in summary.csv."
    if constant:
        sentences.append(
            "In all rows: " + ", ".join(f"{name} {facts.summary[name][0]}" for name in constant) + "."
        )
    if unmeasured:
        sentences.append(
            "Not measured here: " + ", ".join(columns.describe(name).words for name in unmeasured) + "."
        )
    return table(
        [*shown, "status"],
        rows,
        caption=" ".join(sentences),
        sortable=True,
        row_heads=1,
        titles=[*heads, *names, ""],
        filterable=len(rows) > 12,
    )


def _run_cell(run_id: str, *, pick: bool) -> object:
    number = run_id.partition("-")[0]
    order = float(number) if number.isdigit() else 0.0
    if not pick:
        return number, order
    hint = "Show over time"
    return element("button", number, class_="pick", data_run=run_id, aria_pressed="false", title=hint), order


def _verdicts(facts: _Facts) -> Markup:
    """What each swept key changes, with how sure that is.

    Nothing of a run of the tool loadlatency, whose scenarios are different loads on one path.
    """
    if facts.results.header.testbed == loadlatency.TOOL:
        return raw("")
    parts = []
    for key in facts.telling:
        try:
            found = contrasts.by_key(facts.results, key, options=Options(within=False))
        except InputError:
            # Nothing is left to compare by this key: the runs of all its values but one failed.
            continue
        said = [verdict.sentence(each) for each in found.overall]
        few = len(found.each) <= MAX_SENTENCES
        said += [verdict.sentence(each) for each in found.each] if few else verdict.tally(found.each)
        parts.append(element("h3", f"By {facts.short.get(key, key)}"))
        parts.append(element("ul", *(element("li", _capital(text)) for text in said), class_="verdicts"))
        if found.notes:
            parts.append(element("p", "; ".join(found.notes) + ".", class_="hint"))
        if not few:
            rows = [_verdict_row(each) for each in found.each]
            names = list(dict.fromkeys(name for each in found.each for name in each.contrast.where))
            heads = [*names, "of", "against", "difference", "95 % interval", "p, corrected", "verdict"]
            body = table(
                heads, rows, caption=f"{len(rows)} comparisons.", sortable=True, row_heads=len(names)
            )
            parts.append(details("Each combination", body))
        command = f"cwndlab compare {facts.directory} --by {shlex.quote(key)}"
        parts.append(element("p", "Make it again: ", element("code", command), class_="again"))
    if not parts:
        return raw("")
    note = (
        "Runs are the unit. A verdict rests on a permutation test, corrected for the number of comparisons; "
        "docs/statistics.md says how."
    )
    return join(element("p", note, class_="hint"), *parts)


def _verdict_row(found: Comparison) -> list[object]:
    """A row of the table of comparisons."""
    share = found.share(found.difference)
    difference = (verdict.difference(found), math.nan if share is None else 100 * share)
    p = found.corrected_p
    return [
        *found.contrast.where.values(),
        found.b.label,
        found.a.label,
        difference,
        verdict.interval(found),
        ("", math.nan) if p is None else (f"{p:.2g}", p),
        found.kind.value,
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_HEADLINE = (
    "goodput_mbps",
    "utilisation",
    "retransmit_rate",
    "cycle_s",
    "rtt_mean_ms",
    "rtt_p95_ms",
    "queue_delay_p95_ms",
    "cwnd_mean_bytes",
    "jain",
)
"""Figures in the table of combinations; the table of runs has all."""


def _published(facts: _Facts) -> Markup:
    compared, others = published.compare(published.figures_of(facts.results), facts.results.summary)
    parts = []
    if compared:
        rows = [_comparison(row) for row in compared]
        heads = ["figure", "published", "ours", "unit", "difference [%]", "source", "note"]
        known = [abs(row.difference_pct) for row in compared if row.difference_pct is not None]
        caption = f"{len(rows)} published figures"
        if known:
            caption += f"; ours differ by {np.median(known):.1f} % in the median, {max(known):.1f} % at most"
        parts.append(table(heads, rows, caption=f"{caption}.", sortable=True, row_heads=1))
    if others:
        lines = [
            [
                row.note,
                "" if row.value is None else f"{row.value:g} {row.unit}",
                _cell_words(row.cell),
                row.source,
            ]
            for row in others
        ]
        parts.append(element("h3", "Findings that no single figure stands for"))
        caption = "Compare with the plots."
        parts.append(table(["finding", "value", "where", "source"], lines, caption=caption))
    return join(*parts)


def _comparison(row: published.Comparison) -> list[object]:
    ours: object = ("not run", math.nan)
    if row.ours is not None:
        low, high = row.ours
        ours = (_number(low) if low == high else f"{_number(low)} to {_number(high)}", low)
    difference = row.difference_pct
    shown = ("", math.nan) if difference is None else (f"{difference:+.1f}", difference)
    return [row.figure, (_number(row.published), row.published), ours, row.unit, shown, row.source, row.note]


def _cell_words(cell: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {inferred.marked(value)}" for key, value in cell.items())


def _viewer(facts: _Facts) -> Markup:
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


def _boxes(facts: _Facts) -> Markup:
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
        element("div", element("label", "Figure ", element("select", id="box-figure")), class_="controls"),
        element("div", id="box-filters", class_="controls", role="group", aria_label="Only runs where"),
        element("div", id="boxes"),
    )


def _box_keys(facts: _Facts) -> list[str]:
    keys = ["app", *facts.telling, *(["flow"] if 1 < len(facts.flows) <= 24 else [])]
    return [key for key in keys if 1 < facts.complete[key].n_unique() <= 40]


def _box_data(facts: _Facts) -> dict[str, object]:
    """Every figure of every flow and run, and its value of each key; the page makes boxes of them."""
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
    names = [name for name in _varying_figures(rows) if rows[name].n_unique() > 1]
    figures = []
    for name in sorted(names, key=lambda name: name != "goodput_mbps"):
        shown = columns.describe(name)
        figures.append({"name": name, "label": shown.label, "rows": _plain(rows[name], shown.factor)})
    return {"keys": keys, "figures": figures}


def _plain(values: pl.Series, factor: float) -> list[float | None]:
    """Values in shown units, with the six digits a summary has."""
    return [None if value is None else float(f"{value * factor:.6g}") for value in values.to_list()]


def _testbed(facts: _Facts) -> Markup:
    parts = [_parameters(facts)]
    if facts.records:
        scenario = facts.records[0].scenario
        parts += [
            element("h3", "Hosts"),
            _objects(scenario["hosts"], "Hosts of the first run, swept keys aside the same in all"),
            element("h3", "Links"),
            _objects(scenario["links"], "One direction of a cable each"),
            element("h3", "Flows"),
            _objects(_flows(scenario), "Who sends to whom, and how"),
        ]
    parts.append(
        details("The experiment as run, defaults written out", element("pre", facts.results.experiment))
    )
    return join(*parts)


def _flows(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The flows of a Scenario; datagrams have no congestion control, though a Scenario names one."""
    return [{**flow, "cc": None} if is_datagrams(flow) else flow for flow in scenario["flows"]]


def _parameters(facts: _Facts) -> Markup:
    rows: list[list[object]] = []
    for key in facts.keys:
        values = columns.ordered(facts.summary[key].to_list())
        how = "swept" if key in facts.telling else "follows from the others"
        if len(values) == 1:
            how = "the same in all"
        rows.append([key, ", ".join("–" if value is None else str(value) for value in values), how])
    if facts.records:
        scenario = facts.records[0].scenario
        repeats = facts.summary["repeat"].n_unique()
        measure = scenario["measure"]
        rows += [
            ["repeat", str(repeats), "of each combination"],
            ["seed", str(scenario["seed"]), "of every random stream"],
            ["duration", _quantity("duration_ns", scenario["duration_ns"]), ""],
            [
                "measure",
                f"{_quantity('from_ns', measure['from_ns'])} to {_quantity('to_ns', measure['to_ns'])}",
                "the part of a run that tables cover",
            ],
            [
                "start jitter",
                _quantity("_ns", scenario["start_jitter_ns"]),
                "flows start at random within it",
            ],
        ]
    return table(["parameter", "values", ""], rows, caption="What was varied and what was not.", row_heads=1)


def _objects(objects: Sequence[Mapping[str, Any]], caption: str) -> Markup:
    """A table of like objects of a Scenario: a column per field that any of them sets, nested ones too."""
    flat = [dict(_flat(item)) for item in objects[:200]]
    names = list(dict.fromkeys(name for item in flat for name, value in item.items() if value is not None))
    if len(objects) > 200:
        caption += f" (the first 200 of {len(objects)})"
    rows = [[_quantity(name, item.get(name)) for name in names] for item in flat]
    return table([_field_name(name) for name in names], rows, caption=f"{caption}.", row_heads=1)


def _flat(item: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in item.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < 2:
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in ({}, []):
            yield f"{prefix}{name}", value


_FIELD_UNITS = ("_ns", "_bps", "_bytes", "_ppb")


def _field_name(name: str) -> str:
    for suffix in _FIELD_UNITS:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _quantity(name: str, value: object) -> str:
    """A field of a Scenario as people write it: 20 ms, 10 Mbit/s."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        for suffix, units in _SCALES.items():
            if name.endswith(suffix):
                return _scaled(value, units)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


_BYTES = ((1, "B"),)
_SCALES: Mapping[str, Sequence[tuple[int, str]]] = {
    "_ns": ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns")),
    "_bps": ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s"), (1, "bit/s")),
    "_ppb": ((10**7, "%"),),
    "_bytes": _BYTES,
    "sndbuf": _BYTES,
    "rcvbuf": _BYTES,
}
"""Units of a Scenario's integers by the end of their names, the largest first."""


def _scaled(value: int, units: Sequence[tuple[int, str]]) -> str:
    size, unit = next(((size, unit) for size, unit in units if abs(value) >= size), units[-1])
    return f"{value / size:.10g}\u00a0{unit}"


def _provenance(facts: _Facts) -> Markup:
    header, records = facts.results.header, facts.records
    rows: list[list[object]] = [[f"version of {name}", text] for name, text in header.versions.items()]
    rows += [["testbed", header.testbed], ["results", str(facts.results.path)]]
    if records:
        started = sorted(record.started for record in records)
        rows += [
            ["first run started", started[0]],
            ["last run started", started[-1]],
            ["time the runs took", f"{sum(record.wall_s for record in records):.4g} s, summed over workers"],
        ]
        machines = dict.fromkeys(tuple(record.machine.items()) for record in records)
        for machine in machines:
            rows += [[f"machine: {name}", text] for name, text in machine]
        rows += [["machine: " + name, text] for name, text in _machine(records)]
        seeds = sorted({int(record.scenario["seed"]) for record in records})
        rows.append(["seed", ", ".join(map(str, seeds))])
    parts = [table(["what", "value"], rows, caption="Where these results come from.", row_heads=1)]
    for heading, kind in (("Warnings", "warnings"), ("Notes", "notes")):
        said: dict[str, list[str]] = {}
        for record in records:
            for text in getattr(record, kind):
                said.setdefault(text, []).append(str(record.run_id))
        if said:
            lines = [[text, _some(runs)] for text, runs in said.items()]
            parts += [
                element("h3", heading),
                table([heading.lower(), "runs"], lines, caption=f"{heading} of the runs."),
            ]
    failed = [[str(record.run_id), record.error or ""] for record in records if record.status != "complete"]
    absent = facts.results.runs.filter(pl.col("status") == "missing")["run_id"].to_list()
    failed += [[str(run), "not carried out yet; cwndlab run --resume does it"] for run in absent]
    if failed:
        parts += [
            element("h3", "Runs that are not complete"),
            table(["run", "reason"], failed[:MAX_ROWS], caption=f"{len(failed)} runs."),
        ]
    found = {json.dumps(record.facts, sort_keys=True): record for record in records if record.facts}
    for record in list(found.values())[:MAX_FACTS]:
        text = json.dumps(record.facts, indent=2, ensure_ascii=False)
        of_run = f", run {record.run_id}" if len(found) > 1 else ""
        parts.append(details(f"What the testbed found on its hosts{of_run}", element("pre", text)))
    if len(found) > MAX_FACTS:
        more = f"What it found in {len(found) - MAX_FACTS} more runs is in their runs.jsonl."
        parts.append(element("p", more, class_="hint"))
    parts.append(
        element(
            "p",
            "Make this report again: ",
            element("code", f"cwndlab report {facts.directory}"),
            class_="again",
        )
    )
    return join(*parts)


def _machine(records: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    """What real machines were, as far as a reader has to know it; each fact of several runs once."""
    machines = [record.facts["machine"] for record in records if "machine" in record.facts]
    for place, words in _MACHINE.items():
        values = [machine.get(place[0], {}).get(place[1]) for machine in machines]
        known = dict.fromkeys(_fact(value) for value in values if value is not None)
        if known:
            yield words, ", ".join(known)


_MACHINE = {
    ("cpu", "model"): "processor",
    ("cpu", "online"): "processors in use",
    ("cpu", "governor"): "frequency governor",
    ("clock", "source"): "clock source",
    ("clock", "synchronised"): "clock synchronised (NTP)",
}


def _fact(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:20]) + (f" and {len(items) - 20} more" if len(items) > 20 else "")


def _document(title: str, body: Markup, facts: _Facts) -> str:
    style, script = _asset("report.css"), _asset("report.js")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
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


def _data(facts: _Facts) -> Iterator[Markup]:
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


def _first_shown(facts: _Facts) -> list[str]:
    """The runs shown when the page opens: the first, and those that differ from it in the first key only."""
    if not facts.packed_runs:
        return []
    rows = facts.complete.unique("run_id", keep="first", maintain_order=True)
    first = rows.row(0, named=True)
    for key in [*facts.telling[1:], "repeat"]:
        rows = rows.filter(pl.col(key).eq_missing(pl.lit(first[key])))
    packed = set(facts.packed_runs)
    return [str(run) for run in rows["run_id"] if run in packed][:MAX_SHOWN]


def _varying_figures(summary: pl.DataFrame) -> list[str]:
    """The summary's figures that hold any value."""
    return [name for name in columns.numeric_columns(summary) if not summary[name].is_null().all()]


def _key_cell(value: object) -> tuple[str, float | str]:
    text = "–" if value is None else str(value)
    ((kind, amount, _),) = columns.natural_key(value)
    return text, amount if kind == 0 else text


def _distinct(values: pl.Series) -> list[str]:
    return [str(value) for value in columns.ordered(values.drop_nulls().to_list())]


def _number(value: float) -> str:
    """Four significant digits, without an exponent where a reader does better without."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return (
        f"{value:,.0f}".replace(",", "\u202f") if abs(value) < 1e9 and abs(value) >= 1e4 else f"{value:.3e}"
    )


def _with_interval(mean: float, half: float) -> str:
    """A mean and the half width of its interval, to the interval's second significant digit."""
    if math.isnan(mean):
        return ""
    if math.isnan(half) or half == 0:
        return _number(mean)
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:.{decimals}f} ± {half:.{decimals}f}"


def _asset(name: str) -> str:
    return resources("cwndlab.plots.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
