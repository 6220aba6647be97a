"""One comparison of another sender's window with the reference's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REDUCTIONS = ("loss", "ecn", "timeout", "threshold")
GROWTH = ("slow-start", "avoidance")


@dataclass(frozen=True)
class Verdict:
    """Both windows, in bytes, at the end of a reaction, or of a round trip of growth."""

    compared: str
    """One of `REDUCTIONS` and `GROWTH`, or `exit`: slow start that the sender left without congestion."""
    since_s: float
    at_s: float
    before: int
    found: int
    expected: int
    acked: int
    differs: bool
    threshold: int | None
    """The reference's slow-start threshold; None: there was none."""
    unused: bool
    """Whether the reference took the window for one that was never used up."""

    @property
    def ratio(self) -> float:
        """Growth, or the factor of a reduction, in multiples of the reference's."""
        if self.compared in REDUCTIONS:
            return self.found / max(self.expected, 1)
        grown, wanted = self.found - self.before, self.expected - self.before
        return grown / wanted if wanted else np.nan if not grown else np.inf
