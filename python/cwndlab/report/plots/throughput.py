"""The plot kind `throughput`: what arrives at the receiver, in windows of chosen length and overlap."""

from __future__ import annotations

from cwndlab.analysis.numeric import windowed_rate
from cwndlab.errors import InputError
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Selection, floats, held, rate_window_s
from cwndlab.results.columns import RATES


def draw(selection: Selection) -> Plot:
    """Return the plot of arrivals in Mbit/s; see `draw_rate`."""
    return draw_rate(selection, "throughput")


def draw_rate(selection: Selection, rate: str) -> Plot:
    """Return the plot of a rate in Mbit/s: each window of `average` seconds is a point at its centre.

    Windows lie in the time window, or from 0 to the run's last sample (the latest of all its flows, so that a
    flow that ends early shows zeros, not nothing). Raises InputError where what the rate counts was not
    recorded.
    """
    options, column = selection.options, RATES[rate]
    window_s = options.average or rate_window_s(selection.results)
    start, stop = options.window or (None, None)
    ends: dict[object, float] = {}
    counters = []
    others: set[str] = set()
    for run, flow in timelines.flows_of(selection):
        # Not cut to the time window: what a window counts is a difference to what was counted before it.
        frame = selection.results.series(run.run_id, flow=flow, table="tcp")
        t_s = floats(frame["t_s"])
        if frame[column].count():
            counters.append((run, flow, t_s, floats(held(frame[column]))))
            ends[run.run_id] = max(ends.get(run.run_id, 0.0), float(t_s[-1]))
        else:
            others.update(name for name, other in RATES.items() if frame[other].count())
    if not counters and others:
        raise InputError(f"{rate}: these runs do not have {column}; --kind {others.pop()} can be drawn")
    lines = []
    for run, flow, t_s, counted in counters:
        centres, rates = windowed_rate(
            t_s,
            counted,
            start_s=start or 0.0,
            stop_s=ends[run.run_id] if stop is None else min(stop, ends[run.run_id]),
            window_s=window_s,
            overlap=options.overlap,
            # Packets arrive one by one, rows tell of several at once.
            steps=rate != "throughput",
        )
        lines.append(
            timelines.Line(run, flow, centres - t_s[0] if options.zero == "flow" else centres, rates)
        )
    if lines and not any(len(line.t_s) for line in lines):
        raise InputError(f"average: no whole window of {window_s:g} s fits into what is shown")
    title = f"{rate}, {window_s:g} s windows"
    return timelines.draw(selection, lines, title=title, ylabel=f"{rate} [Mbit/s]", steps=False)
