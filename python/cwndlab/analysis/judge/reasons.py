"""Causes that a difference from a reference points to, and the rule that the reference goes by."""

from __future__ import annotations

import math

from cwndlab.analysis.judge.verdict import GROWTH, REDUCTIONS, Verdict

SMALLEST_PACKETS = 4
"""Packets of a window up to which it is as small as any stack lets it become."""

SEVERAL = 3.0
"""Packets of an ACK from which it matters whether ACKs or bytes are counted: receivers acknowledge two."""

NEAR = 0.015
"""Distance of two factors that are taken for the same: a packet of a window of some 70."""

LEAST_PACE = 0.5
"""Share of the reference's growth below which a slow start is none."""

FIRST_OF_FREEBSD = 0.03
"""Distance from a half of what CUBIC's first reduction leaves on FreeBSD: half, or 0.7 x 0.7."""

FACTORS = {"cubic": 0.7, "reno": 0.5}
"""Share of a window that a reduction leaves, by congestion control; the reference's is of whole packets."""

FIRST_EPOCH = (
    "Until the first loss Linux adds a packet for every 20 acknowledged (bictcp_update); RFC 9438 section"
    " 4.10 has C t^3 above the window that slow start was left with"
)
"""Rule of the reference in congestion avoidance before any reduction, where it grows faster."""

RULES = {
    "cubic": {
        "loss": "RFC 9438 section 4.6: one reduction in a round trip, to beta_cubic = 0.7 of the window",
        "ecn": "RFC 9438 section 4.6: an ECN echo reduces as a loss does, to beta_cubic = 0.7 of the window",
        "threshold": "RFC 9438 section 4.8: after a timeout, too, the threshold is 0.7 of the window",
        "avoidance": "RFC 9438 sections 4.2 to 4.5: C (t - K)^3 + W_max, or Reno's window if that is larger",
    },
    "reno": {
        "loss": "RFC 5681 section 3.2: one reduction in a round trip, to half of what is in flight",
        "ecn": "RFC 3168 section 6.1.2: an ECN echo reduces as a loss does, to half, once in a round trip",
        "threshold": "RFC 5681 section 3.1: the threshold after a timeout is half of what is in flight",
        "avoidance": "RFC 5681 section 3.1: about one packet in a round trip",
    },
}
"""Rules of congestion controls, by what is compared."""

FREEBSD = {
    "slow-start": "FreeBSD adds two packets for an ACK at most (sysctl abc_l_var; RFC 3465 section 2.3)",
}
"""Rules of congestion controls of FreeBSD that differ, by what is compared."""

UNUSED = (
    "RFC 9438 section 5.8, RFC 9002 section 7.8: a window that the application leaves unused does not grow"
    " (tcp_is_cwnd_limited)"
)
"""Rule of references of Linux where a window was never used up, and grows."""

OTHER_NAMES = {"newreno": "reno"}
"""Names of congestion controls on FreeBSD, with those of Linux."""

COMMON = {
    "slow-start": "RFC 5681 section 3.1: slow start adds what is acknowledged, twice the window in a round",
    "timeout": "RFC 5681 section 3.1: after a timeout the window is one packet (RFC 9002 section 7.6.2: two)",
}
"""Rules of all."""


def of(against: str, first: Verdict, mss: int, *, reduced: bool, per_ack: float) -> str:
    """Say in two sentences what a difference from CC@STACK points to, and the rule of the reference.

    `reduced`: a reduction was compared before; `per_ack`: packets that an ACK covers, on average.
    """
    name, _, stack = against.partition("@")
    cc, linux = OTHER_NAMES.get(name, name), stack.startswith("linux")
    rule = RULES[cc].get(first.compared) or COMMON[first.compared]
    if not linux:
        rule = FREEBSD.get(first.compared, rule)
    if linux and cc == "cubic" and first.compared == "avoidance" and not reduced and first.ratio < 1:
        rule = FIRST_EPOCH
    unused = first.compared in GROWTH and first.unused and first.found > first.expected
    rule = UNUSED if unused else rule
    packets = first.found / mss
    if unused:
        cause = "the window grows though the sender does not use it up"
    elif packets <= SMALLEST_PACKETS and first.found < first.expected:
        cause = f"the window is pinned at its minimum, {packets:.1f} packets, where the reference's is larger"
    elif first.compared == "timeout":
        cause = f"the window is not given up: {first.found / max(first.before, 1):.2f} of it is left"
    elif first.compared in REDUCTIONS:
        cause = _reduction(cc, first, mss)
    else:
        cause = (first.compared == "slow-start" and _slow_start(first, mss)) or _growth(first.ratio)
        if 0 < first.ratio < 1 and per_ack >= SEVERAL:
            cause += f"; an ACK covers {per_ack:.0f} packets here, and growth counted by ACKs is slower"
    return f"{cause}. {rule}."


def _reduction(cc: str, first: Verdict, mss: int) -> str:
    found, expected = first.found / max(first.before, 1), first.expected / max(first.before, 1)
    beta = FACTORS[cc]
    halved = cc == "cubic" and abs(expected - 0.5) <= FIRST_OF_FREEBSD
    known = {
        beta * beta: f"{beta:.2f} x {beta:.2f}: the window is reduced twice for one loss",
        1.0: "the window is not reduced",
        (1 + beta) / 2: f"(1 + {beta:.2g}) / 2: the factor of a sender that stands for two connections",
    }
    if first.compared == "ecn":
        known |= dict.fromkeys((0.8, 0.85), "the factor of ABE (RFC 8511), milder than after a loss")
    if cc == "cubic":
        half = (1 + beta) / 2
        known[beta * half] = (
            f"{beta:.2f} x {half:.2f}: the factor of fast convergence, (1 + beta) / 2 (section 4.7), is"
            " applied to the window and not only to W_max"
        )
        known[0.5] = "the factor of Reno (RFC 5681), not CUBIC's"
        if halved:
            known[beta] = (
                "beta_cubic, which FreeBSD's CUBIC keeps from the second reduction on: the first halves"
            )
    else:
        known[0.7] = "the factor of CUBIC (RFC 9438), not Reno's"
    near = min(known, key=lambda factor: abs(factor - found))
    if abs(near - found) <= max(NEAR, mss / max(first.before, 1)):
        return f"{found:.3f} is {known[near]}" if near != 1.0 else known[near]
    return f"the window is left at {found:.3f} of what it was, the reference's at {expected:.3f}"


def _slow_start(first: Verdict, mss: int) -> str | None:
    """Say what a slow start does at its beginning or end that another does not; None for its pace."""
    if first.threshold is None:
        return "there is no slow start from the beginning on" if first.ratio < LEAST_PACE else None
    ends, threshold = first.found / mss, first.threshold / mss
    if first.found > first.expected and first.expected >= first.threshold:
        return f"slow start goes on above its threshold of {threshold:.0f} packets, to {ends:.0f}"
    if first.ratio < LEAST_PACE:
        return f"slow start ends at {ends:.0f} packets, below its threshold of {threshold:.0f}"
    return None


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
