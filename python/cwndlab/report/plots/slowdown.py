"""The plot kind `slowdown`: how many times longer than on an idle path transfers and responses take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from cwndlab.analysis.numeric import Floats, distribution
from cwndlab.errors import InputError
from cwndlab.report.plots import colours, groups, paint
from cwndlab.report.plots.paint import Plot
from cwndlab.report.plots.selection import Options, Run, Selection, floats
from cwndlab.results.ideal import IdlePath, exchange

BINS = 10
"""Sizes are put together in so many bins of equally many samples, where they are more."""

KEYS_OF_SIZE = ("size", "response")
"""Swept keys that are the size itself, which is an axis here."""

_ANY = "goodput_mbps"
"""A column that every flow has, by which flows are grouped."""

DOTTED = (0, (1, 1.6))

SIZE, SLOWDOWN = "size [kB]", "time over that of an idle path"


@dataclass(frozen=True)
class Points:
    """Points of a group: the size of each exchange, and how many times the least time it took."""

    size_kb: Floats
    slowdown: Floats


def draw(selection: Selection) -> Plot:
    """Return the plot: median and 95th percentile of the slowdown over the size, or its distribution.

    The slowdown of an exchange is its time over the least that an idle path needs for so many bytes
    (`results.ideal`); it is never below 1 there. Exchanges are responses of `request-response` and `incast`,
    and transfers of `fixed`, `background` and `bulk` with `bytes`. Where all have one size, the plot is the
    empirical distribution of their slowdown.
    """
    kinds = [name for name in selection.rows["app"].unique().to_list() if name]
    selection = replace(selection, rows=_exchanging(selection))
    asked = bool(selection.options.by)
    keys = selection.group_keys(most=3)
    if not asked:
        keys = [key for key in selection.group_keys(most=3, default=3) if not _is_size(key)][:1]
    keys = selection.apart(keys, _ANY)
    panels, keys = groups.panels(selection, _ANY, keys)
    points = [[_points(selection, group.rows) for group in panel.groups] for panel in panels]
    every = [each for panel in points for each in panel if len(each.slowdown)]
    if not every:
        raise InputError(f"slowdown: no exchange of {', '.join(kinds)} was completed in this time")
    by_size = len(np.unique(np.concatenate([each.size_kb for each in every]))) > 1
    lines = groups.lines(selection, panels, keys)
    options = _scaled(selection, every, by_size=by_size)
    figure, axes = paint.canvas(options, len(panels))
    rows = []
    for axis, panel, drawn in zip(axes, panels, points, strict=True):
        for group, each in zip(panel.groups, drawn, strict=True):
            if not len(each.slowdown):
                continue
            frame = (_over_sizes if by_size else _shares)(axis, each, lines[group.cell].pen)
            told = dict(zip(keys, group.texts, strict=True)) | {"panel": panel.heading}
            rows.append(frame.with_columns(**{key: pl.lit(text) for key, text in told.items()}))
        paint.heading(axis, panel.heading)
    figure.data = pl.concat(rows)
    entries: dict[str, Artist] = {}
    if keys:
        # Flows without exchanges of a size have no line.
        entries |= {
            lines[group.cell].name: Line2D([], [], **colours.pen(lines[group.cell].pen))
            for panel, drawn in zip(panels, points, strict=True)
            for group, each in zip(panel.groups, drawn, strict=True)
            if len(each.slowdown)
        }
    if by_size:
        paint.outer(options, axes, x=SIZE, y=SLOWDOWN)
        entries["median"] = Line2D([], [], color="#595959", marker=".")
        entries["95th percentile"] = Line2D([], [], color="#595959", linestyle=DOTTED)
    else:
        paint.outer(options, axes, x=SLOWDOWN, y="share of exchanges at or below")
    paint.legend(figure, entries, options)
    over = f" by {groups.in_words(keys)}" if keys else ""
    paint.finish(figure, axes, options, f"slowdown of transfers and responses{over}")
    return figure


def _exchanging(selection: Selection) -> pl.DataFrame:
    """Return the rows of flows whose exchanges have a size. Raises InputError where there is none."""
    apps = ("request-response", "incast", "fixed", "background", "bulk")
    rows = selection.rows.filter(pl.col("app").is_in(apps))
    if not rows.height:
        raise InputError(f"slowdown: these runs have no flow of {', '.join(apps[:-1])} or bulk with bytes")
    return rows


def _is_size(key: str) -> bool:
    return key.rpartition(".")[2] in KEYS_OF_SIZE


def _points(selection: Selection, rows: pl.DataFrame) -> Points:
    """Return the exchanges of the flows of some rows of the summary."""
    sizes, slowdowns = [np.empty(0)], [np.empty(0)]
    for (run_id,), own in rows.group_by("run_id", maintain_order=True):
        scenario = selection.results.record(run_id).scenario
        flows = {flow["name"]: flow for flow in scenario["flows"]}
        for name in own["flow"]:
            what = exchange(flows[name]) if name in flows else None
            if what is None:
                continue
            took_ns, size = _samples(selection, Run(run_id, "", (name,)), name, what.kind, what.size)
            path = IdlePath(scenario, flows[name])
            least = {each: path.least_ns(int(each), what.asked) for each in np.unique(size)}
            # A path without rates and delays needs no time.
            least_ns = np.array([least[each] or np.nan for each in size], dtype=np.float64)
            known = ~np.isnan(least_ns)
            sizes.append(size[known] / 1e3)
            slowdowns.append(took_ns[known] / least_ns[known])
    return Points(np.concatenate(sizes), np.concatenate(slowdowns))


def _samples(selection: Selection, run: Run, flow: str, kind: str, size: int | None) -> tuple[Floats, Floats]:
    """Return the times of a flow's exchanges, ns, and their sizes, bytes."""
    if size is None:
        frame = selection.series(run, flow, "events")
        frame = frame.filter(pl.col("kind").cast(pl.String) == "app", pl.col("seq") > 0)
        return floats(frame["value"]), floats(frame["seq"])
    frame = selection.series(run, flow, "samples")
    took = (
        floats(frame.filter(pl.col("kind").cast(pl.String) == kind)["value"]) if frame.height else np.empty(0)
    )
    return took, np.full(len(took), float(size))


def _scaled(selection: Selection, found: Sequence[Points], *, by_size: bool) -> Options:
    """Return the options with logarithmic axes where the values span much, unless axes were named."""
    options = selection.options
    if options.log:
        return options
    size = np.concatenate([each.size_kb for each in found])
    slow = np.concatenate([each.slowdown for each in found])
    wide = [float(values.max()) > 8 * float(values.min()) for values in (size, slow)]
    across, up = wide if by_size else (wide[1], False)
    return replace(options, log="x" * across + "y" * up)


def _over_sizes(axis: Axes, points: Points, place: int) -> pl.DataFrame:
    """Draw median and 95th percentile over the size; return what is drawn."""
    distinct = np.unique(points.size_kb)
    edges = distinct
    if len(distinct) > BINS:
        edges = np.unique(np.quantile(points.size_kb, np.arange(BINS) / BINS))
    bins = np.searchsorted(edges, points.size_kb, side="right")
    told = []
    for number in np.unique(bins):
        inside = bins == number
        middle, high = np.percentile(points.slowdown[inside], (50, 95))
        told.append((float(np.median(points.size_kb[inside])), float(middle), float(high), int(inside.sum())))
    size, middle, high, _ = (np.array(column) for column in zip(*told, strict=True))
    pen = colours.pen(place)
    axis.plot(size, middle, marker=".", **pen)
    dotted = {"linestyle": DOTTED, "marker": "" if len(size) > 1 else "_"}
    axis.plot(size, high, **{**pen, **dotted})
    return pl.DataFrame(told, schema=[SIZE, "median", "95th percentile", "n"], orient="row")


def _shares(axis: Axes, points: Points, place: int) -> pl.DataFrame:
    """Draw the distribution of the slowdown; return what is drawn."""
    values, share = distribution(points.slowdown)
    x, y = np.concatenate((values[:1], values)), np.concatenate(([0.0], share))
    axis.plot(x, y, drawstyle="steps-post", **colours.pen(place))
    axis.set_ylim(0, 1.01)
    return pl.DataFrame({SLOWDOWN: x, "share": y})
