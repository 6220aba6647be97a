"""Holds our metrics of a recording against the recorded ones: how far off, and whether within the bound."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tools.truth.fidelity.recordings import Cell, Kind, Metrics, Recording


@dataclass(frozen=True)
class Bound:
    """Within `relative` of the recorded metric, or within `absolute` of it, whichever is wider."""

    relative: float = 0.0
    absolute: float = 0.0

    def margin(self, recorded: float, factor: float) -> float:
        """The widest difference allowed; `factor` widens the bounds of proxies."""
        return max(abs(recorded) * self.relative, self.absolute) * factor

    def words(self, factor: float) -> str:
        """The bound as a reader wants it."""
        parts = []
        if self.relative:
            parts.append(f"{self.relative * factor * 100:g} %")
        if self.absolute:
            parts.append(f"{self.absolute * factor:g}")
        return " or ".join(parts) or "equal"


BOUNDS: dict[Kind, dict[str, Bound]] = {
    "module": {"equal": Bound(absolute=0.01), "worst": Bound(absolute=1.0)},
    "bulk": {
        "goodput": Bound(relative=0.01),
        "period": Bound(relative=0.03),
        "peak": Bound(relative=0.02),
        "trough": Bound(relative=0.02),
        "drops": Bound(relative=0.10, absolute=3.0),
        "rtos": Bound(),
    },
    "noise": {"goodput": Bound(relative=0.10)},
    "cdg": {"utilisation": Bound(absolute=0.03), "interval": Bound(relative=0.20)},
    "share": {"share": Bound()},
    "rest": {"goodput": Bound(relative=0.03), "drops": Bound(relative=0.10, absolute=3.0), "rtos": Bound()},
    "gigabit": {"goodput": Bound(relative=0.10), "drops": Bound(relative=0.25)},
    "lan": {"goodput": Bound(relative=0.15)},
    "linux": {
        "goodput": Bound(relative=0.01),
        "period": Bound(relative=0.05),
        "retransmits": Bound(relative=0.15),
    },
    "kernel": {
        "goodput": Bound(relative=0.03),
        "retransmits": Bound(relative=0.15, absolute=3.0),
        "recoveries": Bound(relative=0.15, absolute=3.0),
        "cwnd": Bound(relative=0.10),
    },
}
"""What is compared of each kind of recording, and how far off it may be."""

DRAWS: dict[Kind, int] = {
    "module": 1,
    "bulk": 5,
    "noise": 8,
    "cdg": 5,
    "share": 20,
    "rest": 5,
    "gigabit": 3,
    "lan": 3,
    "linux": 5,
    "kernel": 1,
}
"""Runs of the model behind a row, each with draws of its own: losses, clock phases, initial sequence numbers,
and of two flows the start of the second."""

PAIRS = 10
"""Draws of a kernel's experiment from which on their own spread says how near means can be told."""

SURE = 2.262
"""Student's t for a mean of `PAIRS` differences, 95 % (two-sided); of more it is smaller."""

PROXY_FACTOR = 2.0
"""How much wider bounds are where a recording stands for another version."""

BY_EYE = ("linux c100",)
"""Recordings too disturbed to be compared by metrics; they are shown."""

UNITS = {
    "equal": "share of events",
    "worst": "segments",
    "goodput": "Mb/s",
    "period": "s",
    "interval": "s",
    "peak": "bytes",
    "trough": "bytes",
    "drops": "packets",
    "rtos": "",
    "retransmits": "packets",
    "recoveries": "",
    "cwnd": "bytes",
    "utilisation": "",
    "share": "",
}

COUNTS = ("drops", "rtos", "retransmits", "worst")
"""Metrics that are whole numbers."""

ROUNDED = 0.0005
"""Largest relative error of a recorded metric that its last printed digit allows."""


@dataclass(frozen=True)
class Check:
    """One metric of a row."""

    name: str
    recorded: float
    ours: float
    low: float
    """The smallest and largest metric of ours over the draws; of two flows, the 5th and 95th percentile."""
    high: float
    bound: str
    within: bool
    chance: float | None = None
    """How far means of the draws are apart by chance, where the metric is outside its bound but nearer."""

    @property
    def exact(self) -> bool:
        """Ours is the recorded metric; 0.05 % are what recordings were rounded by, never for a count."""
        if self.name in COUNTS:
            return self.ours == self.recorded
        return abs(self.ours - self.recorded) <= ROUNDED * abs(self.recorded)

    @property
    def deviation(self) -> str:
        """How far ours is from the recorded metric, in a few characters."""
        if self.name == "share":
            return f"{self.low:.2f}-{self.high:.2f}"
        if self.name == "equal":
            return f"{self.ours * 100:.2f}%"
        if self.name in ("drops", "rtos", "worst"):
            return f"{self.ours - self.recorded:+g}"
        if self.name == "utilisation":
            return f"{self.ours - self.recorded:+.3f}"
        if self.recorded == 0:
            return "=" if self.ours == 0 else f"{self.ours:+.3g}"
        return f"{(self.ours / self.recorded - 1) * 100:+.2f}%"


@dataclass(frozen=True)
class Row:
    """A recording with its verdict."""

    recording: Recording
    checks: tuple[Check, ...]
    note: str | None
    error: str | None = None
    """Why it could not be run: a line."""

    @property
    def by_eye(self) -> bool:
        """It is shown and not judged."""
        return self.recording.key in BY_EYE

    @property
    def exact(self) -> bool:
        """Every count is the recorded one, and every other metric as near as the recording was rounded."""
        return self.error is None and all(check.exact for check in self.checks)

    @property
    def within(self) -> bool:
        """Every metric is within its bound."""
        return self.error is None and all(check.within for check in self.checks)

    @property
    def by_chance(self) -> bool:
        """Metrics outside their bounds are no farther off than draws scatter: nothing is proven."""
        near = all(check.within or check.chance is not None for check in self.checks)
        return self.error is None and not self.within and near


def compare(recording: Recording, draws: Sequence[Metrics], note: str | None) -> Row:
    """The row of a recording, from our metrics in each draw."""
    factor = PROXY_FACTOR if recording.proxy else 1.0
    checks = []
    for name, bound in BOUNDS[recording.kind].items():
        recorded = recording.metrics.get(name)
        if recorded is None:
            continue
        ours = sorted(metrics[name] for metrics in draws)
        chance = None
        if recording.kind == "share":
            low, high = percentile(ours, 5), percentile(ours, 95)
            middle, within, words = statistics.median(ours), low <= recorded <= high, "5th to 95th percentile"
        else:
            low, high = ours[0], ours[-1]
            mean = recording.kind in ("noise", "cdg", "kernel")
            middle = statistics.fmean(ours) if mean else statistics.median(ours)
            # A metric is not off by what floating-point division adds to it.
            off = abs(middle - recorded)
            within = off <= bound.margin(recorded, factor) * (1 + 1e-9)
            words = bound.words(factor)
            if not within and isinstance(recording.what, Cell):
                scatter = by_chance(recording.what.drawn[name], [metrics[name] for metrics in draws])
                chance = scatter if scatter is not None and off <= scatter else None
        checks.append(Check(name, recorded, middle, low, high, words, within, chance))
    return Row(recording, tuple(checks), note)


def draws_of(recording: Recording) -> int:
    """Runs of the model behind a row: of a kernel's experiment as many as it has, else `DRAWS`."""
    return len(recording.what.runs) if isinstance(recording.what, Cell) else DRAWS[recording.kind]


def by_chance(recorded: Sequence[float], ours: Sequence[float]) -> float | None:
    """How far apart the means of so many draws of the same system are by chance, 95 % sure.

    Each draw of ours is held against the recorded one with the same phases of the hosts, where those are
    drawn; else one pair is as good as another. None where the draws are too few, or ours spread more than
    twice as wide as the kernel's: then the model is another, whatever means say.
    """
    if len(recorded) < PAIRS or statistics.stdev(ours) > 2 * statistics.stdev(recorded):
        return None
    apart = [mine - theirs for mine, theirs in zip(ours, recorded, strict=True)]
    return SURE * statistics.stdev(apart) / math.sqrt(len(apart))


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The percentile of values in order, interpolated between neighbours."""
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
