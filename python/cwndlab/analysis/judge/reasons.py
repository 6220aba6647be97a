"""Causes that a difference from a reference points to, and the rule that the reference goes by."""

from __future__ import annotations

import math

from cwndlab.analysis.judge.verdict import REDUCTIONS, Verdict

SMALLEST_PACKETS = 4
"""Packets of a window up to which it is as small as any stack lets it become."""

NEAR = 0.015
"""Distance of two factors that are taken for the same: a packet of a window of some 70."""

RULES = {
    "cubic": {
        "loss": "RFC 9438 section 4.6: one reduction in a round trip, to beta_cubic = 0.7 of the window",
        "ecn": "RFC 9438 section 4.6: an ECN echo reduces as a loss does, to beta_cubic = 0.7 of the window",
        "avoidance": "RFC 9438 sections 4.2 to 4.5: C (t - K)^3 + W_max, or Reno's window if that is larger",
    },
    "reno": {
        "loss": "RFC 5681 section 3.2: one reduction in a round trip, to half of what is in flight",
        "ecn": "RFC 3168 section 6.1.2: an ECN echo reduces as a loss does, to half, once in a round trip",
        "avoidance": "RFC 5681 section 3.1: about one packet in a round trip",
    },
}
"""Rules of congestion controls, by what is compared."""

COMMON = {
    "slow-start": "RFC 5681 section 3.1: slow start adds what is acknowledged, twice the window in a round",
    "timeout": "RFC 5681 section 3.1: after a timeout the window is one packet (RFC 9002 section 7.6.2: two)",
}
"""Rules of all."""


def of(cc: str, first: Verdict, mss: int) -> str:
    """Say in two sentences what a difference points to, and the rule of the reference."""
    rule = RULES.get(cc, {}).get(first.compared) or COMMON[first.compared]
    packets = first.found / mss
    if packets <= SMALLEST_PACKETS and first.found < first.expected:
        cause = f"the window is pinned at its minimum, {packets:.1f} packets, where the reference's is larger"
    elif first.compared == "timeout":
        cause = f"the window is not given up: {first.found / max(first.before, 1):.2f} of it is left"
    elif first.compared in REDUCTIONS:
        cause = _reduction(cc, first, mss)
    else:
        cause = _growth(first.ratio)
    return f"{cause}. {rule}."


def _reduction(cc: str, first: Verdict, mss: int) -> str:
    found, expected = first.found / max(first.before, 1), first.expected / max(first.before, 1)
    known = {
        expected * expected: f"{expected:.2f} x {expected:.2f}: the window is reduced twice for one loss",
        1.0: "the window is not reduced",
    }
    if cc == "cubic":
        half = (1 + expected) / 2
        known[expected * half] = (
            f"{expected:.2f} x {half:.2f}: the factor of fast convergence, (1 + beta) / 2 (section 4.7), is"
            " applied to the window and not only to W_max"
        )
        known[0.5] = "the factor of Reno (RFC 5681), not CUBIC's"
    else:
        known[0.7] = "the factor of CUBIC (RFC 9438), not Reno's"
    near = min(known, key=lambda factor: abs(factor - found))
    if abs(near - found) <= max(NEAR, mss / max(first.before, 1)):
        return f"{found:.3f} is {known[near]}" if near != 1.0 else known[near]
    return f"the window is left at {found:.3f} of what it was, the reference's at {expected:.3f}"


def _growth(found: float) -> str:
    if not math.isfinite(found):
        return "the window grows where the reference's does not"
    if found < 0:
        return "the window shrinks, and nothing that was told is a reason"
    if found <= 0.1:
        return "the window does not grow"
    if abs(found - 2) <= 0.25:
        return f"the window grows twice as fast: {found:.2f} times the reference's growth"
    return f"the window grows {found:.2f} times as fast as the reference's"
