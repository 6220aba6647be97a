"""An explanation as text of 80 columns, the answer first, and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cwndlab.analysis.explain import limiters
from cwndlab.analysis.explain.counterfactual import Change, Counterfactual
from cwndlab.analysis.explain.evidence import Connection
from cwndlab.analysis.explain.fits import Fits
from cwndlab.analysis.explain.limiters import Interval, Timeline
from cwndlab.analysis.explain.path import Estimate, Path
from cwndlab.errors import printable
from cwndlab.results import limits, texttable
from cwndlab.results.texttable import Column

WIDTH = 80

MOST_ROWS = 12
"""Intervals that are listed; the JSON has all."""

OF_PATH = {
    limiters.LINK: "the link was full",
    limiters.SLOW_START: "slow start",
    limiters.GROWTH: "the congestion window grew",
    limiters.LOSS: "recovery from losses",
}
"""Words for how the path limits."""

NAMES = {
    **{each: f"{limits.WORDS['path']}: {words}" for each, words in OF_PATH.items()},
    limiters.RWND: limits.WORDS["rwnd"],
    limiters.SNDBUF: limits.WORDS["sndbuf"],
    limiters.APP: limits.WORDS["app"],
    limiters.UNKNOWN: "not told",
}
"""Words for the limiters: those of the summary of results, and how the path does."""

SHORT = {
    limiters.LINK: "path: link full",
    limiters.SLOW_START: "path: slow start",
    limiters.GROWTH: "path: cwnd grows",
    limiters.LOSS: "path: recovery",
    limiters.RWND: "receiver's window",
    limiters.SNDBUF: "send buffer",
    limiters.APP: "application",
    limiters.UNKNOWN: "not told",
}


@dataclass(frozen=True)
class Explanation:
    """All that is said of a connection."""

    found: Connection
    path: Path
    line: Timeline
    fits: Fits
    what_if: Counterfactual | str
    """Simulation before and after; or the reason why there is none."""


def text(said: Explanation) -> str:
    """Write an explanation for a reader."""
    lines = [
        *_answer(said),
        "",
        *_timeline(said),
        "",
        *_path(said),
        "",
        *_fits(said.fits),
        *_what_if(said.what_if),
        *(["", *(f"note: {printable(note)}" for note in said.found.notes)] if said.found.notes else []),
    ]
    return "\n".join(part for line in lines for part in _wrapped(line)) + "\n"


def _wrapped(line: str) -> list[str]:
    inner = " " * (len(line) - len(line.lstrip()) + 2)
    return [line] if len(line) <= WIDTH else textwrap.wrap(line, WIDTH, subsequent_indent=inner)


def _answer(said: Explanation) -> Iterator[str]:
    found, main = said.found, said.line.main()
    carried = f"{_mbps(found.goodput_bps)} Mbit/s" if found.goodput_bps else "goodput not told"
    yield f"{printable(found.name)}: {carried} in {found.duration_s:.4g} s"
    parts = {
        each: part for each, part in said.line.shares().items() if limiters.KIND.get(each, "unknown") == main
    }
    share = sum(parts.values())
    if main == "unknown":
        yield f"What limited it is not told: {said.line.unsaid}."
    else:
        word = "a policer on the path" if said.path.policed and main == "path" else limits.WORDS[main]
        of_path = [
            f"{OF_PATH[each]} {limits.percentage(100 * part)}"
            for each, part in parts.items()
            if each in OF_PATH
        ]
        yield f"Limited by {word}, {limits.percentage(100 * share)} of the time" + (
            f": {', '.join(of_path)}." if of_path else "."
        )
    if isinstance(said.what_if, Counterfactual) and said.what_if.changes:
        yield f"By simulation, {_change(said.what_if, _best(said.what_if))}."


def _best(what_if: Counterfactual) -> Change:
    """The change to tell first: the first one, or the one behind it where another buffer would limit next."""
    first = what_if.changes[0]
    further = [each for each in what_if.changes[1:] if each.cells.items() >= first.cells.items()]
    return further[0] if further else first


def _change(what_if: Counterfactual, change: Change) -> str:
    before = what_if.before
    if before is None:
        return ""
    low, high = change.range_bps
    between = "" if high <= 1.01 * low else f", {_mbps(low)} to {_mbps(high)} by the bottleneck's buffer"
    trip = ""
    if before.rtt_p50_ms and change.after.rtt_p50_ms:
        trip = f", RTT p50 {before.rtt_p50_ms:.4g} to {change.after.rtt_p50_ms:.4g} ms"
    goodputs = f"{_mbps(before.goodput_bps)} to {_mbps(change.after.goodput_bps)} Mbit/s"
    return f"{change.words}: {goodputs}{between}{trip}"


def _timeline(said: Explanation) -> Iterator[str]:
    shares = said.line.shares().items()
    yield "What limited it:"
    yield from (f"  {limits.percentage(100 * part):>14}  {NAMES[each]}" for each, part in shares)
    if said.line.unsaid and said.line.main() != "unknown":
        yield f"  This is {said.found.format}: {said.line.unsaid}."
    counted = [
        f"{limits.WORDS[kind]} {limits.percentage(said.found.told[name])}"
        for kind in ("rwnd", "sndbuf")
        if (name := f"limited_{kind}_pct") in said.found.told
    ]
    if counted:
        yield f"  The system itself counted, of the time with data: {', '.join(counted)}."
    chosen = sorted(said.line.intervals, key=lambda each: -each.length_s)[:MOST_ROWS]
    rows = [each for each in said.line.intervals if each in chosen]
    yield from texttable.lines(
        [
            Column(["  from, s", *(f"{each.begin_s - said.found.begin_s:.2f}" for each in rows)], right=True),
            Column(["to, s", *(f"{each.end_s - said.found.begin_s:.2f}" for each in rows)], right=True),
            Column(["limited by", *(SHORT[each.limiter] for each in rows)]),
            Column(["Mbit/s", *(_mbps(each.rate_bps) for each in rows)], right=True),
            Column(["as", *(each.evidence for each in rows)]),
        ],
        WIDTH,
    )
    left = len(said.line.intervals) - len(rows)
    if left:
        yield f"  {left} shorter ones are in the JSON."


def _path(said: Explanation) -> Iterator[str]:
    path, packets = said.path, said.found.packets
    if packets is not None:
        yield f"Taken at {packets.taken_at}: {packets.how}."
    yield "The path it saw:"
    rate = "policer" if path.policed else "bottleneck"
    rows = [
        ("round trip", path.rtt_s, 1e3, "ms"),
        (rate, path.rate_bps, 1e-6, "Mbit/s"),
        ("burst", path.policer_bytes, 1e-3, "kB"),
        ("buffer" if path.buffer_full else "buffer, at least", path.buffer_bytes, 1e-3, "kB"),
        ("loss", path.loss, 100, "%"),
    ]
    yield from (_estimate(*row) for row in rows if row[1] is not None)
    if path.rtt_s is None:
        yield "  round trip: nothing shows it"
    if path.rate_bps is None:
        yield "  bottleneck: no train of packets shows it"


def _estimate(name: str, found: Estimate | None, factor: float, unit: str) -> str:
    if found is None:
        return ""
    low, high = found.low * factor, found.high * factor
    spread = math.isfinite(high) and high - low > 0.005 * found.value * factor
    between = f" ({low:.4g} to {high:.4g})" if spread else ""
    return f"  {name} {found.value * factor:.4g} {unit}{between}, from {found.source}"


def _fits(found: Fits) -> Iterator[str]:
    if found.refused:
        yield f"Stacks and controls are not told: {found.refused}."
        return
    near = [f"{each.cc} as {each.stack} has it" for each in found.each[: found.alike]]
    if not near:
        yield "None of the stacks and controls that were tried fits:"
    elif len(near) == 1:
        yield f"Fits: {near[0]}, nearest by more than its own runs differ:"
    else:
        yield f"Fit, and cannot be told apart: {', '.join(near)}:"
    yield from texttable.lines(
        [
            Column(["  distance", *(f"{each.distance:.3f}" for each in found.each)], right=True),
            Column(["own spread", *(f"{each.spread:.3f}" for each in found.each)], right=True),
            Column(["stack", *(each.stack for each in found.each)]),
            Column(["control", *(each.cc for each in found.each)]),
        ]
    )


def _what_if(found: Counterfactual | str) -> Iterator[str]:
    yield ""
    if isinstance(found, str):
        yield f"No counterfactual: {found}."
        return
    if found.refused:
        yield f"No counterfactual: {found.refused}."
        return
    yield f"By simulation ({found.setup.stack}, {found.setup.cc}):"
    if found.before is not None and found.off is not None:
        yield (
            f"  as it was: {_mbps(found.before.goodput_bps)} Mbit/s, {100 * found.off:+.1f} % from what was"
            f" observed"
        )
    for change in found.changes:
        then = limits.WORDS.get(change.after.limited_by)
        yield f"  {_change(found, change)}" + (f"; then limited by {then}" if then else "")


def _mbps(bps: float | None) -> str:
    return "-" if bps is None else f"{bps / 1e6:.4g}"


def as_json(said: Explanation) -> str:
    """Write the same for programs, in bytes, seconds and bits per second."""
    found, packets, what_if = said.found, said.found.packets, said.what_if
    document: dict[str, Any] = {
        "connection": found.name,
        "file": found.source,
        "format": found.format,
        "taken_at": packets.taken_at if packets else None,
        "duration_s": found.duration_s,
        "goodput_bps": found.goodput_bps,
        "mss_bytes": found.mss,
        "limited_by": said.line.main(),
        "limiter": said.line.detail(),
        "shares": said.line.shares(),
        "intervals": [_interval(each) for each in said.line.intervals],
        "not_told": said.line.unsaid or None,
        "path": {
            "rtt_s": _fields(said.path.rtt_s),
            "rate_bps": _fields(said.path.rate_bps),
            "buffer_bytes": _fields(said.path.buffer_bytes),
            "buffer_full": said.path.buffer_full,
            "loss": _fields(said.path.loss),
            "policed": said.path.policed,
            "policer_bytes": _fields(said.path.policer_bytes),
        },
        "fits": {
            "refused": said.fits.refused or None,
            "alike": said.fits.alike,
            "each": [asdict(each) for each in said.fits.each],
        },
        "counterfactual": {"refused": what_if} if isinstance(what_if, str) else _counterfactual(what_if),
        "notes": list(found.notes),
    }
    return json.dumps(document, indent=2) + "\n"


def _interval(each: Interval) -> dict[str, Any]:
    return {
        "begin_s": each.begin_s,
        "end_s": each.end_s,
        "limiter": each.limiter,
        "rate_bps": each.rate_bps,
        "flight_bytes": each.flight,
        "window_bytes": each.window,
        "evidence": each.evidence,
    }


def _fields(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    high = found.high if math.isfinite(found.high) else None
    return {"value": found.value, "low": found.low, "high": high, "from": found.source}


def _counterfactual(found: Counterfactual) -> dict[str, Any]:
    return {
        "refused": found.refused or None,
        "observed_bps": found.observed_bps,
        "before": asdict(found.before) if found.before else None,
        "off": found.off,
        "experiment": found.setup.text(),
        "set": dict(found.setup.changes),
        "changes": [
            {
                "words": each.words,
                "set": dict(each.cells),
                "after": asdict(each.after),
                "goodput_bps_range": each.range_bps,
            }
            for each in found.changes
        ],
    }
