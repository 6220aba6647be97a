"""Writes a validation down: a table for a terminal, CSV, an overlay, an HTML page, a section of
docs/evidence/fidelity.md."""

import base64
import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from cwndlab.analysis.validation.compare import ALL, METRICS, WANTED, Metric, Row, median_errors
from cwndlab.analysis.validation.judge import within
from cwndlab.errors import InputError
from cwndlab.report.html_report.html import Table, page
from cwndlab.report.plots import colours, paint
from cwndlab.report.plots.selection import Options
from cwndlab.results import files, texttable
from cwndlab.results.labels import Labels
from cwndlab.results.resultset import ResultSet

BEGIN, END = "<!-- validate: begin -->", "<!-- validate: end -->"
"""Marks around the section about validation of docs/evidence/fidelity.md."""

IN_FULL = 8
"""Flows up to which a terminal gets every metric."""

PANELS = 36
"""Cells drawn at most."""


OUTSIDE = " !"
"""Stands behind a difference that is larger than it may be."""

Allowed = Mapping[str, float]
"""Distance allowed between metrics, as a share of the kernel's; a metric that is not there may be
anything.
"""


def text(rows: Sequence[Row], allowed: Allowed = MappingProxyType({})) -> str:
    """The comparison for a terminal: few flows with every metric, many with how far apart they are; medians
    below."""
    told = _in_full(rows, allowed) if len(rows) <= IN_FULL else _errors(rows, allowed)
    return "\n".join([*told, "", *verdicts(rows, allowed)]) + "\n"


def _in_full(rows: Sequence[Row], allowed: Allowed) -> Iterator[str]:
    """A block for each flow: a line per metric."""
    for row in rows:
        yield ", ".join([*(f"{key} {value}" for key, value in row.cell.items()), row.flow, row.cc])
        metrics = [metric for metric in row.metrics.values() if (metric.model, metric.kernel) != (None, None)]
        spans = [
            "" if one.interval is None else f"[{_number(one.interval[0])}, {_number(one.interval[1])}]"
            for one in metrics
        ]
        columns = [
            ["", *(METRICS[one.name] for one in metrics)],
            ["model", *(_number(one.model) for one in metrics)],
            ["kernel", *(_number(one.kernel) for one in metrics)],
            ["apart", *(_marked(one, allowed) for one in metrics)],
            ["95 % of the difference" if any(spans) else "", *spans],
        ]
        grid = [texttable.Column(column, right=place > 0) for place, column in enumerate(columns)]
        yield from (f"  {line}" for line in texttable.lines(grid))


def _errors(rows: Sequence[Row], allowed: Allowed) -> Iterator[str]:
    """A line for each flow: how far the model is from the kernel in each metric."""
    keys = texttable.telling(list(rows[0].cell), [row.cell for row in rows])
    short = texttable.short_names(keys)
    labels = Labels({key: [row.cell[key] for row in rows] for key in keys})
    columns = [[short[key], *(str(labels.value(key, row.cell[key])) for row in rows)] for key in keys]
    columns += [["flow", *(row.flow for row in rows)]]
    grid = [texttable.Column(column) for column in columns]
    for name, title in METRICS.items():
        cells = [title.partition(",")[0], *(_marked(row.metrics[name], allowed) for row in rows)]
        grid.append(texttable.Column(cells, right=True))
    yield from texttable.lines(grid)


def verdicts(rows: Sequence[Row], allowed: Allowed = MappingProxyType({})) -> list[str]:
    """The median error of each metric in words, and whether it is as small as allowed, else as we want it."""
    lines = []
    limits = {**WANTED, **allowed}
    for name, (error, count) in median_errors(rows).items():
        wanted = limits.get(name)
        over = f"{count} flow{'s' * (count > 1)}"
        line = f"{METRICS[name].partition(',')[0]}: median error {error:.1%} over {over}"
        if wanted is not None:
            line += f", {'within' if error <= wanted else 'outside'} the {100 * wanted:g}% wanted"
        lines.append(line)
    doubtful = sum(row.doubtful for row in rows if row.flow != ALL)
    if doubtful:
        lines.append(f"{doubtful} flows ran over an emulated path that fell behind its schedule (unreliable)")
    return lines


def write(
    directory: Path,
    rows: Sequence[Row],
    model: ResultSet,
    kernel: ResultSet,
    allowed: Allowed = MappingProxyType({}),
) -> None:
    """Write validate.csv, overlay.png and validate.html into the directory of a validation."""
    files.replace(directory / "validate.csv", csv_text(rows).encode())
    overlay(model, kernel, directory / "overlay.png")
    written = html(rows, kernel, directory / "overlay.png", allowed)
    files.replace(directory / "validate.html", written.encode())


def csv_text(rows: Sequence[Row]) -> str:
    """A line per metric of each flow: both values, the error, the interval of the difference."""
    out = io.StringIO(newline="")
    lines = csv.writer(out, lineterminator="\n")
    keys = list(rows[0].cell) if rows else []
    lines.writerow([*keys, "flow", "cc", "metric", "model", "kernel", "error", "low", "high", "unreliable"])
    for row in rows:
        for metric in row.metrics.values():
            low, high = metric.interval or (None, None)
            values = (metric.model, metric.kernel, metric.error, low, high)
            numbers = ["" if value is None else f"{value:.6g}" for value in values]
            lines.writerow([*row.cell.values(), row.flow, row.cc, metric.name, *numbers, row.doubtful])
    return out.getvalue()


def overlay(model: ResultSet, kernel: ResultSet, out: Path) -> None:
    """Draw the congestion windows of both over each other, a panel for the first repeat of each cell."""
    options = Options()
    first = kernel.runs.filter(pl.col("repeat") == 0)["run_index"].to_list()[:PANELS]
    across = min(3, max(len(first), 1))
    down = -(-len(first) // across) or 1
    with paint.style(options):
        figure = Canvas(figsize=(4.2 * across, 2.2 * down), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(down, across, squeeze=False)
        for place, run in enumerate(first):
            axis = axes[place // across][place % across]
            for number, flow in enumerate(kernel.record(run).scenario["flows"]):
                for results, name, dash in ((kernel, "kernel", "-"), (model, "model", (0, (4, 2)))):
                    series = results.series(run, flow=flow["name"])
                    colour = colours.PALETTE[number % len(colours.PALETTE)]
                    label = f"{flow['name']}, {name}" if place == 0 else None
                    axis.plot(
                        series["t_s"],
                        series["cwnd_bytes"] / 1e3,
                        color=colour,
                        linestyle=dash,
                        lw=0.8,
                        label=label,
                    )
            axis.set_title(", ".join(kernel.record(run).cell.values()), fontsize="small", fontweight="normal")
        for axis in axes[-1]:
            axis.set_xlabel("t, s")
        for row in axes:
            row[0].set_ylabel("cwnd, kB")
        for place in range(len(first), down * across):
            axes[place // across][place % across].set_visible(False)
        figure.legend(loc="outside lower center", ncols=4)
        image = io.BytesIO()
        figure.savefig(image, dpi=110, metadata={"Software": "cwndlab"})
        files.replace(out, image.getvalue())


def html(rows: Sequence[Row], kernel: ResultSet, picture: Path, allowed: Allowed) -> str:
    """A page of its own: what was found, the table, the overlay, and what the kernel's runs warned of."""
    cells = [[*_labels(row), *(_cell(row.metrics[name], allowed) for name in METRICS)] for row in rows]
    caption = "Model / kernel (difference); in brackets the interval over repeats."
    if allowed:
        caption += f" Behind a difference that is larger than it may be stands{OUTSIDE}"
    warnings = [[str(record.run_id), line] for record in kernel.records() for line in record.warnings]
    return page(
        "validation.html",
        title=f"{kernel.header.experiment}: model against kernel",
        verdicts=verdicts(rows, allowed),
        cells=Table([*_heads(rows), *METRICS.values()], cells, caption),
        picture=base64.b64encode(picture.read_bytes()).decode(),
        warnings=Table(["run", "warning"], warnings, "Of the kernel's runs."),
    )


def markdown(rows: Sequence[Row], kernel: ResultSet) -> str:
    """Make the section about validation of docs/evidence/fidelity.md."""
    command = (
        f"cwndlab compare --testbed {kernel.header.testbed} {kernel.header.experiment}"
        " --document docs/evidence/fidelity.md"
    )
    durations = sorted({record.scenario["duration_ns"] / 1e9 for record in kernel.records()})
    lengths = " and ".join(f"{seconds:g} s" for seconds in durations)
    lines = [
        BEGIN,
        "## The live kernel",
        "",
        f"Written by `{command}`: the models beside",
        f"Linux {kernel.header.versions['kernel']} over the same path, emulated in real time. A cell says",
        "model / kernel, and how far apart they are."
        f" {kernel.summary['run_id'].n_unique()} runs of {lengths}.",
        "",
        *(f"- {line}" for line in verdicts(rows)),
        "",
        "| " + " | ".join([*_heads(rows), *METRICS.values()]) + " |",
        "| " + " | ".join("---" for _ in (*_heads(rows), *METRICS)) + " |",
    ]
    for row in rows:
        cells = [*_labels(row), *(_cell(row.metrics[name]) for name in METRICS)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, END]) + "\n"


def write_section(document: Path, section: str) -> None:
    """Put the section about validation into a document, in place of the one that is there, or at its end."""
    try:
        before = document.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{document}: {error.strerror}") from None
    files.save(document, with_section(before, section).encode())


def with_section(text: str, section: str) -> str:
    """A document's text with the section about validation; an empty one takes nothing away."""
    start, end = text.find(BEGIN), text.find(END)
    if start >= 0 and end > start:
        return text[:start] + section + text[end + len(END) :].lstrip("\n")
    return text.rstrip("\n") + "\n\n" + section


def section_of(text: str) -> str:
    """Find the section about validation in a document's text. Empty if it has none."""
    start, end = text.find(BEGIN), text.find(END)
    return text[start : end + len(END)] + "\n" if start >= 0 and end > start else ""


def _heads(rows: Sequence[Row]) -> list[str]:
    keys = list(rows[0].cell) if rows else []
    short = texttable.short_names(keys)
    return [*(short[key] for key in keys), "flow", "cc"]


def _labels(row: Row) -> list[str]:
    return [*row.cell.values(), row.flow, row.cc]


def _marked(metric: Metric, allowed: Allowed) -> str:
    """Format the distance of the sides, marked where it is more than it may be."""
    share = allowed.get(metric.name)
    outside = share is not None and metric.error is not None and not within(metric, share)
    return _share(metric.error) + OUTSIDE * outside


def _cell(metric: Metric, allowed: Allowed = MappingProxyType({})) -> str:
    if metric.model is None and metric.kernel is None:
        return ""
    cell = f"{_number(metric.model)} / {_number(metric.kernel)}"
    if _share(metric.error):
        cell += f" ({_marked(metric, allowed)})"
    if metric.interval is not None:
        cell += f" [{_number(metric.interval[0])}, {_number(metric.interval[1])}]"
    return cell


def _share(error: float | None) -> str:
    return "" if error is None or not math.isfinite(error) else f"{error:+.1%}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
