"""Plots of results: `plot` draws any kind; each kind is one file of this package."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cwndlab.errors import unknown
from cwndlab.experiment import extensions

if TYPE_CHECKING:
    from collections.abc import Callable

    from cwndlab.report.plots.paint import Plot
    from cwndlab.report.plots.selection import Selection
    from cwndlab.results.resultset import ResultSet

KINDS: Mapping[str, str] = {
    "cwnd": "congestion window over time, with ssthresh",
    "rtt": "round-trip time over time",
    "throughput": "bytes arriving at the receiver over time, in windows",
    "goodput": "bytes delivered in order over time, in windows",
    "queue": "queue over time",
    "series": "any column of a series over time",
    "box": "distribution of a column for each value of a key",
    "cdf": "cumulative distribution of a column",
    "bar": "mean of a column for each value of a key, with its interval",
    "difference": "before and after: paired differences with their intervals",
    "heat": "mean of a column over two keys",
    "density": "where the samples of two columns of a series lie",
    "losses": "packets of each flow dropped, or sent again, or duplicate ACKs, so far",
    "bursts": "rounds of an incast apart, and how each flow's answer arrives",
    "slowdown": "time of transfers and responses over what an idle path needs, by their size",
    "delay": "throughput against delay, with ellipses",
    "sequence": "sequence numbers over time: sent, delivered, retransmitted, lost",
    "sojourn": "time in the queue over time",
    "steady": "goodput a second, and its mean from there on: whether a run had settled",
    "phase": "cwnd of one flow against another's, or against its RTT",
}
"""Every kind and what it shows. The kind `x` is drawn by `cwndlab.report.plots.x.draw`; other packages add
kinds by entry points of the group `cwndlab.plots`."""

Draw: TypeAlias = "Callable[[Selection], Plot]"
"""Draws a kind of plot."""


def plot(results: ResultSet, kind: str, out: str | Path | None = None, **options: Any) -> Plot:
    """Return the plot of `kind` over `results`, and write it to `out` if given (`.png`, `.svg` or `.pdf`).

    It is a figure of matplotlib, which a notebook shows; its `data` are what is drawn, which a file has
    beside it: `cwnd.data.csv` beside `cwnd.png`. `options` are the fields of
    `selection.Options`, such as `runs`, `flows`, `window=(start_s, stop_s)`, `value`, `by`,
    `average`, `overlap`, `labels`, `log`, `zero`, `facet`, `size`, `command`.

    Raises InputError, one line with the nearest names, for a kind, option, column, run, flow, hop or key that
    does not exist, and where there is nothing to draw.
    """
    # Loaded when first used: the command line reads KINDS for its help and must not wait for matplotlib.
    paint = importlib.import_module("cwndlab.report.plots.paint")
    selection = importlib.import_module("cwndlab.report.plots.selection")
    added: Mapping[str, Draw] = extensions.load("cwndlab.plots") if kind not in KINDS else {}
    if kind not in KINDS and kind not in added:
        raise unknown("kind", kind, [*KINDS, *added])
    names = [field.name for field in fields(selection.Options)]
    for name in options:
        if name not in names:
            raise unknown("option", name, names)
    chosen = selection.Options(**options)
    draw: Draw = added.get(kind) or importlib.import_module(f"cwndlab.report.plots.{kind}").draw
    with paint.style(chosen):
        bound = selection.bind(results, chosen)
        figure: Plot = draw(bound)
        bound.names.check()
        if out is not None:
            paint.save(figure, Path(out), chosen)
    return figure
