"""The plot of an explained connection: what was in flight, the window offered, and its limiters as bands."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.patches import Patch

from cwndlab.analysis.explain import limiters
from cwndlab.analysis.explain.words import SHORT, Explanation
from cwndlab.analysis.numeric import Floats, envelope
from cwndlab.report.plots import colours, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Options

COLUMNS = 1600
"""Pixel columns of the envelope of a line."""

SHADES = ("#000000", "#595959", "#a0a0a0")
"""Colours of lines, which stand on coloured bands."""

_ORDER = tuple(SHORT)
"""Limiters, in the order of their colours."""


def draw(said: Explanation, options: Options) -> Plot:
    """Return the plot: bytes in flight and windows over the bands, below them the rate of each interval."""
    with paint.style(options):
        figure, (axis, below) = paint.canvas(options, 2, shared="x")
        zero = said.found.begin_s
        entries: dict[str, Artist] = {}
        drawn, tops = [], []
        for name, t_s, value, steps in _lines(said):
            places = envelope(t_s, value, COLUMNS)
            x, y = t_s[places] - zero, value[places] / 1e3
            place = len(entries)
            look = {"color": SHADES[place], "linestyle": colours.DASHES[place]}
            (line,) = axis.plot(x, y, drawstyle="steps-post" if steps else "default", **look)
            entries[name] = line
            tops.append(float(y.max()))
            drawn.append(pl.DataFrame({"line": name, "t_s": x, "value": y}))
        for each in said.line.intervals:
            colour = colours.PALETTE[_ORDER.index(each.limiter) % len(colours.PALETTE)]
            for panel in (axis, below):
                panel.axvspan(each.begin_s - zero, each.end_s - zero, color=colour, alpha=0.25, linewidth=0)
            entries.setdefault(SHORT[each.limiter], Patch(facecolor=colour, alpha=0.25))
        edges = [each.begin_s - zero for each in said.line.intervals] + [said.line.intervals[-1].end_s - zero]
        rates = [each.rate_bps / 1e6 for each in said.line.intervals]
        below.stairs(rates, edges, color="#000000")
        drawn.append(pl.DataFrame({"line": "rate, Mbit/s", "t_s": edges[:-1], "value": rates}))
        if said.path.rate_bps is not None:
            below.axhline(
                said.path.rate_bps.value / said.found.wire / 1e6, color="#595959", linestyle=(0, (1, 1.3))
            )
        figure.data = pl.concat(drawn)
        # A window many times what was in flight would press the rest to the ground.
        axis.set_ylim(0, min(axis.get_ylim()[1], 3 * tops[0]))
        below.set_ylim(bottom=0)
        axis.set_xlim(0, edges[-1])
        below.set_xlabel("Time, s")
        axis.set_ylabel("kB")
        below.set_ylabel("Mbit/s")
        paint.legend(figure, entries, options)
        note = "dotted: what the bottleneck carries of payload" if said.path.rate_bps is not None else ""
        paint.finish(figure, (axis, below), options, f"What limited {said.found.name}", note)
    return figure


def _lines(said: Explanation) -> list[tuple[str, Floats, Floats, bool]]:
    packets, rows = said.found.packets, said.found.rows
    if packets is not None:
        flight = limiters.flights(packets)
        found = [("in flight", packets.sent_s, flight, False)]
        return [*found, ("window offered", packets.acked_s, packets.window, True)]
    named = (("in flight", "inflight_bytes"), ("cwnd", "cwnd_bytes"), ("window offered", "send_window_bytes"))
    return [
        (name, rows["t_s"][known], rows[column][known], True)
        for name, column in named
        if column in rows and (known := np.isfinite(rows[column])).any()
    ]
