"""The stacks and congestion controls that fit: each carried out on the estimated path, and compared by what
was in flight, its growth between losses, what a loss left of it, and how often losses came.

The distance of two runs of the same control with other phases is what chance makes: controls whose distances
differ by less are not told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cwndlab.analysis.explain import limiters, model, path
from cwndlab.analysis.explain.evidence import SENDER, Connection
from cwndlab.analysis.explain.limiters import KIND, Timeline
from cwndlab.analysis.explain.path import Path
from cwndlab.analysis.numeric import Floats

CANDIDATES = (
    ("linux-6.18", "cubic"),
    ("linux-6.18", "reno"),
    ("linux-6.18", "bbr"),
    ("freebsd-15-current", "cubic"),
    ("freebsd-15-current", "newreno"),
    ("freebsd-11", "cubic"),
    ("freebsd-11", "newreno"),
    ("windows-7", "newreno"),
)
"""Stacks and controls that are tried."""

RECEIVERS = ("linux-6.18", "freebsd-15-current")
"""Stacks of a receiver that are tried besides the sender's: how it acknowledges shapes what a sender does."""

REPEATS = 3
"""Runs of each, with phases of their own."""

MOST_PACKETS = 100_000
"""Packets of such a run at most."""

LEAST_ROUNDS = 20
"""Round trips of a connection below which no control shows."""

LEAST_SHARE = 0.2
"""Share of the time from which on the path has to be the limiter: else the control is not seen."""

MOST_HELD = 0.5
"""Share of the time with the receiver's window full from which on no control is seen, full as the link be."""

LEAST_NOISE = 0.02
"""Distance below which two controls are never told apart."""

FAR = 0.15
"""Distance of the nearest one from which on none fits: a kernel's own runs are within 0.1 of their model, and
those of a control that was not tried 0.19 and more from any."""

RECOVERED = 4
"""Round trips of the empty path after which a recovery is over."""

LEAST_GROWTH = 0.1
"""Growth between losses, as a share of the height, below which its shape means nothing."""

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Fit:
    """A stack and control, and how far its runs are from what was observed."""

    stack: str
    cc: str
    distance: float
    spread: float
    """Most that its own runs differ in distance."""


@dataclass(frozen=True)
class Fits:
    """All that were tried, the nearest first."""

    each: Sequence[Fit]
    alike: int
    """Number of the first that cannot be told apart; 0: none fits."""
    refused: str = ""

    @property
    def controls(self) -> list[str]:
        """The controls among those that cannot be told apart."""
        return list(dict.fromkeys(_family(each.cc) for each in self.each[: self.alike]))


def _family(cc: str) -> str:
    return "reno" if cc == "newreno" else cc


def of(found: Connection, seen: Path, line: Timeline) -> Fits:
    """Compare the candidates with a connection."""
    packets = found.packets
    if packets is None or packets.taken_at != SENDER:
        return Fits((), 0, "what was in flight is seen only by a capture at the sender")
    setup = model.setup(found, seen, *CANDIDATES[0])
    if setup is None:
        return Fits((), 0, "the path is not known")
    rounds = found.duration_s / (setup.rtt_ns / 1e9)
    if rounds < LEAST_ROUNDS:
        return Fits((), 0, f"it lasted for {rounds:.0f} round trips only")
    share = sum(part for limiter, part in line.shares().items() if KIND.get(limiter) == "path")
    if share < LEAST_SHARE:
        return Fits((), 0, f"the congestion window limited it for {100 * share:.0f} % of the time only")
    held = _held(found, line)
    if held > MOST_HELD:
        return Fits((), 0, f"the receiver's window, too, was full for {100 * held:.0f} % of the time")
    most = round(1e9 * MOST_PACKETS * 8 * model.PACKET / setup.rate_bps)
    length = max(min(setup.duration_ns, most), 100_000_000)
    setup = replace(setup, duration_ns=length, changes=model.before(found, line))
    scale = seen.bdp_bytes or 1.0
    observed = features(found, seen, scale, length / 1e9)
    fits = []
    for stack, cc in CANDIDATES:
        tried = []
        for receiver in dict.fromkeys((stack, *RECEIVERS)):
            changes = {**model.as_large(found, stack, receiver), **setup.changes}
            made = replace(setup, stack=stack, cc=cc, receiver=receiver, changes=changes)
            runs = [features(run, path.of(run), scale, length / 1e9) for run in model.captured(made, REPEATS)]
            tried.append([_distance(observed, run) for run in runs])
        distances = min(tried, key=min)
        fits.append(Fit(stack, cc, min(distances), max(distances) - min(distances)))
    fits.sort(key=lambda each: each.distance)
    noise = max(fits[0].spread, LEAST_NOISE)
    alike = sum(each.distance - fits[0].distance <= noise for each in fits)
    return Fits(fits, 0 if fits[0].distance > FAR else alike)


def _held(found: Connection, line: Timeline) -> float:
    """Share of the time for which the receiver's window had no room for two packets more."""
    full = (each for each in line.intervals if each.window and each.flight + 2 * found.mss >= each.window)
    return sum(each.length_s for each in full) / sum(each.length_s for each in line.intervals)


def features(found: Connection, seen: Path, scale: float, length_s: float) -> Floats:
    """Figures that are compared, each about 1 apart where controls differ as much as they can."""
    packets = found.packets
    if packets is None:
        return np.zeros(0)
    early = packets.sent_s <= found.begin_s + length_s
    t, flight = packets.sent_s[early], limiters.flights(packets)[early]
    lost = seen.lost[seen.lost <= found.begin_s + length_s]
    grid = np.linspace(t[0], t[-1], 1000)
    level = flight[np.clip(np.searchsorted(t, grid), 0, len(t) - 1)] / scale
    steady = level[200:]
    rtt = seen.full_rtt_s or 0.1
    epochs = [
        _epoch(t, flight, begin + RECOVERED * rtt, end, rtt)
        for begin, end in itertools.pairwise(lost)
        if end - begin > 3 * RECOVERED * rtt
    ]
    shapes = np.array([each for each in epochs if each is not None])
    shape = _medians(shapes) if len(shapes) else np.full(4, np.nan)
    first = flight[t <= t[0] + 0.8 * rtt].max(initial=1.0)
    return np.concatenate(
        [
            np.log(np.maximum(np.quantile(steady, QUANTILES), 1e-3)),
            [0.5 * np.log((len(lost) + 1) / (t[-1] - t[0])), 0.3 * np.log(first / found.mss)],
            2 * shape,
        ]
    )


def _medians(shapes: Floats) -> Floats:
    """The median of each column over the rows that have it."""
    columns = (column[np.isfinite(column)] for column in shapes.T)
    return np.array([float(np.median(column)) if len(column) else np.nan for column in columns])


def _epoch(t: Floats, flight: Floats, begin: float, end: float, rtt: float) -> list[float] | None:
    """Share of the flight that a loss left, and how far it had grown again at quarters of the time."""
    points = []
    for share in (0.02, 0.25, 0.5, 0.75, 0.98):
        at = begin + share * (end - begin)
        start, stop = np.searchsorted(t, [at - rtt, at + rtt])
        if stop <= start:
            return None
        points.append(float(flight[start:stop].max()))
    low, high = points[0], points[-1]
    if high <= 0:
        return None
    left = min(low / high, 1.0)
    # Where nothing grows there is no shape of growth.
    grown = high - low
    shape = [(each - low) / grown if grown > LEAST_GROWTH * high else np.nan for each in points[1:-1]]
    return [left, *(float(np.clip(each, 0, 1)) for each in shape)]


def _distance(one: Floats, other: Floats) -> float:
    """Root of the mean square over what both have; what only one has counts as far as it can."""
    apart = np.abs(one - other)
    alone = np.isnan(one) != np.isnan(other)
    apart = np.where(alone, 0.5, apart)
    return float(np.sqrt(np.nanmean(np.minimum(apart, 1.0) ** 2)))
