"""Windows of another sender beside those of a reference: where they first part, and how far in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cwndlab import _native
from cwndlab.analysis.judge import reasons
from cwndlab.analysis.judge.stream import Stream
from cwndlab.analysis.judge.verdict import GROWTH, REDUCTIONS, Verdict
from cwndlab.errors import InputError, nearest

SLACK_PACKETS = 2
"""Packets by which windows that grow may differ: an ACK more or less, and a rounding."""

SLACK = 0.05
"""Share of the reference's window by which windows that grow may differ."""

SLACK_FACTOR = 0.01
"""Difference of the factors of a reduction, beside that of some packets, that is none."""

SLACK_REDUCED_PACKETS = 1.5
"""Packets by which reduced windows may differ: the reference's are whole, before and after."""

LEAST_FOR_GROWTH = 4.0
"""ACKs in a round trip below which growth is not judged: the reference would take several for one."""

LEAST_FOR_REDUCTIONS = 1.0
"""ACKs in a round trip below which reductions are not judged either."""

MOST_ACKS = 0.4
"""ACKs for each packet of a window that a receiver which delays them sends, a little less than a half."""

ALPHA = 9 / 17
"""Packets by which Reno's estimate grows in a round trip until the window before the reduction is reached."""

PIECE = 1 << 15
"""Rows that the reference is handed at a time."""


Ended = tuple[str, int, int, int, int, int, int, int | None, bool]
"""Row of `cwndlab._native.Reference.feed`."""


@dataclass(frozen=True)
class Spread:
    """Verdicts of one kind: how many, how many differ, and percentiles 5, 50 and 95 of their ratios."""

    compared: str
    count: int
    differ: int
    ratios: tuple[float, float, float] | None


@dataclass(frozen=True)
class Judgement:
    """The answer of a reference about a sender."""

    against: str
    mss: int
    stream: Stream
    verdicts: list[Verdict]
    causes: Mapping[str, str]
    """By what is compared, from the first on: cause that a difference points to, and the reference's rule."""
    notes: list[str]

    @property
    def first(self) -> Verdict | None:
        """The first verdict that differs."""
        return next((each for each in self.verdicts if each.differs), None)

    def spreads(self) -> list[Spread]:
        """The distributions, a kind each."""
        found = []
        for compared in (*GROWTH, *REDUCTIONS):
            of_kind = [each for each in self.verdicts if each.compared == compared]
            ratios = [each.ratio for each in of_kind if np.isfinite(each.ratio)]
            low, middle, high = np.percentile(ratios, [5, 50, 95]) if ratios else (np.nan, np.nan, np.nan)
            if of_kind:
                spread = (float(low), float(middle), float(high)) if ratios else None
                found.append(Spread(compared, len(of_kind), sum(each.differs for each in of_kind), spread))
        return found


def judge(stream: Stream, against: str, mss: int) -> Judgement:
    """Feed a reference, CC@STACK, with a stream, in packets of `mss` bytes.

    Raises InputError for what is no reference.
    """
    known = _native.references()
    if against not in known:
        hint = nearest(against, known)
        raise InputError(
            f"--against {against}: no reference; there are {', '.join(known)}"
            + (f" (hint: {hint})" if hint else "")
        )
    cc, _, stack = against.partition("@")
    reference = _native.Reference(cc, stack, mss, stream.told)
    ended: list[Ended] = []
    for start in range(0, len(stream.rows), PIECE):
        ended += reference.feed(stream.rows[start : start + PIECE].tobytes())
    notes, judged = _judged(stream, mss)
    verdicts = []
    prior = 0
    for row in ended:
        if row[0] in judged:
            verdicts.append(_verdict(row, mss, prior if cc == "cubic" else 0))
        if row[0] in REDUCTIONS:
            prior = row[3]
    causes: dict[str, str] = {}
    reduced = False
    for each in verdicts:
        reduced |= each.compared in REDUCTIONS
        if each.differs and each.compared not in causes:
            causes[each.compared] = reasons.of(
                against, each, mss, reduced=reduced, per_ack=stream.per_ack / mss
            )
    return Judgement(against, mss, stream, verdicts, causes, [*stream.notes, *notes])


def _judged(stream: Stream, mss: int) -> tuple[list[str], Sequence[str]]:
    """Say what the rows are too sparse for, in words, and what is judged."""
    often = f"{stream.per_round:.2f} ACKs in a round trip"
    # A receiver acknowledges every other packet: a small window has no more ACKs.
    most = MOST_ACKS * stream.window / mss
    if stream.per_round < min(LEAST_FOR_REDUCTIONS, most):
        return [f"{often} are too few to tell anything"], ()
    if stream.per_round < min(LEAST_FOR_GROWTH, most):
        return [f"{often} are too few to judge growth: only reductions are"], REDUCTIONS
    return [], (*REDUCTIONS, *GROWTH, "exit")


def _verdict(ended: Ended, mss: int, prior: int) -> Verdict:
    """Compare two windows; `prior`: that before the last reduction, 0 where Reno's growth is no matter."""
    compared, since, now, before, found, expected, acked, threshold, unused = ended
    if compared == "exit":
        differs = False
    elif compared == "timeout":
        # A window of two packets, or of one and what is believed to be in flight, is as small.
        differs = found > max(before // 2, 4 * mss)
    elif compared in ("loss", "ecn"):
        differs = abs(found - expected) > SLACK_FACTOR * before + SLACK_REDUCED_PACKETS * mss
    else:
        slack = SLACK_PACKETS * mss + SLACK * expected
        highest = float(expected)
        if compared == "avoidance" and prior:
            highest = max(expected, _as_reno(before, prior, acked / max(before, 1), mss))
        differs = found < expected - slack or found > highest + slack
    times = since / 1e9, now / 1e9
    return Verdict(compared, *times, before, found, expected, acked, bool(differs), threshold, unused)


def _as_reno(before: int, prior: int, rounds: float, mss: int) -> float:
    """Return the window that RFC 9438 section 4.3 allows; Linux grows by ALPHA all the time."""
    slow = min(rounds, max(prior - before, 0) / (ALPHA * mss))
    return before + mss * (ALPHA * slow + rounds - slow)
