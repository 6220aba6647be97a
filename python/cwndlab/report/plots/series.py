"""The plot kind `series`: any column of a series over time, by its name."""

from __future__ import annotations

from cwndlab.errors import InputError
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.queue import hops_of
from cwndlab.report.plots.selection import Selection, floats
from cwndlab.results.columns import describe


def draw(selection: Selection) -> Plot:
    """Return the plot: `value` is a column of a series (`tcp.inflight_bytes` is the default).

    A column of `tcp` or `tcp_info` gives a line per flow, one of `queue` a line per hop, `samples.KIND` the
    samples of that kind, `siftr.COLUMN` a column of an imported log. Counters, states and what logs hold stay
    until the next row, other samples are joined by lines. Raises
    InputError for a column of the summary, which has no time.
    """
    column = selection.options.value or "tcp.inflight_bytes"
    table, name = selection.locate(column)
    shown = describe(name)
    if table is None:
        raise InputError(f"value: {column} is one value per run; this kind shows a column of a series")
    if table == "queue":
        lines = [
            timelines.Line(run, hop, floats(frame["t_s"]), floats(frame[name]) * shown.factor)
            for run, hop, frame in hops_of(selection, name)
        ]
    elif table == "samples":
        flows = timelines.flows_of(selection)
        lines = [timelines.sample_line(selection, run, flow, name, shown.factor) for run, flow in flows]
    else:
        flows = timelines.flows_of(selection)
        lines = [
            timelines.tcp_line(selection, run, flow, name, shown.factor, table=table) for run, flow in flows
        ]
    return timelines.draw(
        selection, lines, title=shown.words, ylabel=shown.label, steps=table != "samples" or "." in name
    )
