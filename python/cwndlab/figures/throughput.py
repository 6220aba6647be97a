"""The figure kind `throughput`: bytes acknowledged per second, in windows of chosen length and overlap."""

from __future__ import annotations

from matplotlib.figure import Figure

from cwndlab.errors import InputError
from cwndlab.figures import timelines
from cwndlab.figures.numeric import windowed_rate
from cwndlab.figures.request import Request, floats


def draw(request: Request) -> Figure:
    """Return the figure in Mbit/s: each window of `average` seconds is a point at its centre.

    Windows lie in the time window, or from 0 to the run's last sample (the latest of all its flows, so that a
    flow that ends early shows zeros, not nothing).
    """
    options = request.options
    start, stop = options.window or (None, None)
    ends: dict[object, float] = {}
    counters = []
    for run, flow in timelines.flows_of(request):
        # Not cut to the time window: what a window delivered is a difference to what was delivered before it.
        frame = request.results.series(run.run_id, flow=flow, table="tcp")
        t_s = floats(frame["t_s"])
        if frame["delivered_bytes"].count():
            counters.append((run, flow, t_s, floats(frame["delivered_bytes"])))
            ends[run.run_id] = max(ends.get(run.run_id, 0.0), float(t_s[-1]))
    lines = []
    for run, flow, t_s, delivered in counters:
        centres, rates = windowed_rate(
            t_s,
            delivered,
            start_s=start or 0.0,
            stop_s=ends[run.run_id] if stop is None else min(stop, ends[run.run_id]),
            window_s=options.average,
            overlap=options.overlap,
        )
        lines.append(
            timelines.Line(run, flow, centres - t_s[0] if options.zero == "flow" else centres, rates)
        )
    if lines and not any(len(line.t_s) for line in lines):
        raise InputError(f"average: no whole window of {options.average:g} s fits into what is shown")
    title = f"throughput, {options.average:g} s windows"
    return timelines.draw(request, lines, title=title, ylabel="throughput [Mbit/s]", steps=False)
