"""The plot kind `sojourn`: how long a packet that arrives now will wait in each hop's queue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cwndlab.analysis.numeric import Floats
from cwndlab.errors import InputError
from cwndlab.report.plots import timelines
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.queue import hops_of
from cwndlab.report.plots.selection import Selection, floats


def draw(selection: Selection) -> Plot:
    """Return the plot in ms: the bytes that wait over the link's rate at that time, exact for a FIFO queue.

    The packet in service is not counted. The rate is that of the run's Scenario with its schedule, or that of
    a token bucket or htb behind the queue where it is lower, as when the burst is spent; hops without a rate
    have no queue, and those that change with an event no rate that the Scenario knows: they are left out.
    Raises InputError if no hop is left.
    """
    lines = []
    for run, hop, frame in hops_of(selection, "backlog_bytes"):
        scenario = selection.results.record(run.run_id).scenario
        link = next((link for link in scenario["links"] if link["name"] == hop), None)
        shaper: Mapping[str, Any] = (link and link.get("shaper")) or {}
        bucket_bps = float(shaper["rate_bps"]) if shaper.get("kind") in ("token-bucket", "htb") else math.inf
        if link is None or not (link["rate_bps"] or bucket_bps < math.inf):
            continue
        if any(change.get("on") for change in scenario["schedule"] if change["link"] == hop):
            continue
        t_s = floats(frame["t_s"])
        changes = [
            (change["at_ns"] / 1e9, float(rate))
            for change in scenario["schedule"]
            if change["link"] == hop and (rate := change.get("rate_bps"))
        ]
        rate_bps = np.minimum(rates_at(t_s, float(link["rate_bps"] or math.inf), changes), bucket_bps)
        lines.append(timelines.Line(run, hop, t_s, floats(frame["backlog_bytes"]) * 8e3 / rate_bps))
    if not lines:
        raise InputError("sojourn: no queue of a link with a rate was recorded for these runs")
    return timelines.draw(selection, lines, title="queueing delay", ylabel="queueing delay [ms]", steps=True)


def rates_at(t_s: Floats, first_bps: float, changes: list[tuple[float, float]]) -> Floats:
    """Return the rate in bit/s at each time, for a rate that changes at (s, bit/s)."""
    at = np.array([change[0] for change in changes])
    rates = np.array([first_bps, *(change[1] for change in changes)])
    return np.asarray(rates[np.searchsorted(at, t_s, side="right")], dtype=np.float64)
