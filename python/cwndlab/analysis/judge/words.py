"""A judgement as text of 80 columns, and as JSON."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from cwndlab.analysis.judge.verdict import REDUCTIONS, Verdict
from cwndlab.analysis.judge.verdicts import Judgement
from cwndlab.errors import printable

WIDTH = 80

NAMES = {
    "slow-start": "slow start",
    "avoidance": "congestion avoidance",
    "loss": "reaction to loss",
    "ecn": "reaction to an ECN echo",
    "timeout": "reaction to a timeout",
    "threshold": "threshold after one",
}
"""Words for what is compared."""


def text(found: Judgement, what: str) -> str:
    """Write a judgement of `what`, a file and a flow."""
    stream = found.stream
    often = f", {stream.per_round:.0f} in a round trip of {1e3 * stream.rtt_s:.1f} ms" if stream.rtt_s else ""
    lines = [
        f"{printable(what)} beside {found.against}",
        f"{stream.acks} ACKs in {stream.duration_s:.1f} s{often}; packets of {found.mss} bytes",
        "",
        *_first(found),
        *_table(found),
        *(["", *(f"note: {note}" for note in found.notes)] if found.notes else []),
    ]
    return "\n".join(wrapped for line in lines for wrapped in textwrap.wrap(line, WIDTH) or [""]) + "\n"


def _first(found: Judgement) -> list[str]:
    first = found.first
    if first is None:
        if not any(each.compared in NAMES for each in found.verdicts):
            return ["These rows cannot tell: nothing was compared."]
        return ["No difference: every window is as the reference's, within what is allowed."]
    head = f"First difference at {first.at_s:.3f} s: {NAMES[first.compared]}"
    return [head, *_windows(first), found.causes[first.compared]]


def _windows(first: Verdict) -> list[str]:
    def share(window: int) -> str:
        return f"{window / max(first.before, 1):.3f} of it"

    span = f"in {first.at_s - first.since_s:.3f} s, in which {first.acked} bytes were acknowledged"
    return [
        f"  before     {first.before:>12} bytes",
        f"  found      {first.found:>12} bytes, {share(first.found)}",
        f"  reference  {first.expected:>12} bytes, {share(first.expected)}",
        *([] if first.compared in REDUCTIONS else [f"  {span}"]),
    ]


def _table(found: Judgement) -> list[str]:
    spreads = found.spreads()
    if not spreads:
        return []
    rows = ["", "compared                   n  differ   found / reference: 5 %  median    95 %"]
    for each in spreads:
        ratios = each.ratios or ()
        cells = "".join(f"{ratio:8.3f}" for ratio in ratios) or "       -" * 3
        rows.append(f"{NAMES[each.compared]:<23}{each.count:>5}{each.differ:>8}{'':>18}{cells}")
    further = [kind for kind in found.causes if found.first and kind != found.first.compared]
    rows += [f"Also, {NAMES[kind]}: {found.causes[kind]}" for kind in further]
    exits = sum(each.compared == "exit" for each in found.verdicts)
    if exits:
        times = "once" if exits == 1 else f"{exits} times"
        rows.append(f"Slow start was left {times} without congestion, which the reference followed.")
    return rows


def as_json(found: Judgement, what: str) -> str:
    """Write the same for programs, in bytes and seconds."""
    first = found.first
    document: dict[str, Any] = {
        "judged": what,
        "against": found.against,
        "mss_bytes": found.mss,
        "acks": found.stream.acks,
        "duration_s": found.stream.duration_s,
        "rtt_s": found.stream.rtt_s or None,
        "acks_per_rtt": found.stream.per_round if found.stream.rtt_s else None,
        "first": None if first is None else {**_fields(first), "why": found.causes[first.compared]},
        "compared": [
            {
                "compared": each.compared,
                "count": each.count,
                "differ": each.differ,
                "ratio_p5_p50_p95": each.ratios,
                "why": found.causes.get(each.compared),
            }
            for each in found.spreads()
        ],
        "verdicts": [{**_fields(each), "differs": each.differs} for each in found.verdicts],
        "notes": found.notes,
    }
    return json.dumps(document, indent=2) + "\n"


def _fields(each: Verdict) -> dict[str, Any]:
    return {
        "compared": each.compared,
        "since_s": each.since_s,
        "at_s": each.at_s,
        "before_bytes": each.before,
        "found_bytes": each.found,
        "reference_bytes": each.expected,
        "acked_bytes": each.acked,
    }
