"""Advice for a home line: queue disciplines under an upload, a download and a call, the best first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from cwndlab.analysis.advice import simulated
from cwndlab.errors import InputError
from cwndlab.experiment import units
from cwndlab.experiment.units import BadValue
from cwndlab.results import texttable

DISCIPLINES = ("pfifo", "codel", "pie", "fq_pie", "fq_codel", "cake")
"""Disciplines that are compared: that of a router without a setting, and the AQMs of tc(8)."""

BUFFER = "1000p"
"""Buffer of a router without a setting: Linux's txqueuelen."""

SHAPED = Fraction(95, 100)
"""The share of the line's rate that a router sends at, so that packets wait in it and not in the modem."""

_FLOWS = {
    "upload": ("laptop", "far", "bulk"),
    "download": ("far", "laptop", "bulk"),
    "call-out": ("phone", "far", "voip"),
    "call-in": ("far", "phone", "voip"),
}

_COLUMNS = ("run_id", "flow", "goodput_mbps", "one_way_p95_ms", "drop_rate", "mos")


@dataclass(frozen=True)
class Line:
    """Rates and round-trip time of a line."""

    down_bps: int
    up_bps: int
    rtt_ns: int
    """Round trip while nothing waits."""


@dataclass(frozen=True)
class Found:
    """Results of a discipline on the line."""

    queue: str
    upload_mbps: float
    download_mbps: float
    mos: float
    """Mean opinion score of the worse way of the call."""
    delay_ms: float
    """One-way delay of the call, 95th percentile, of the worse way."""
    loss: float
    """Share of the call's packets that were lost, of the worse way."""


def parse(text: str, rtt: str) -> Line:
    """Read `DOWN/UP`, such as `50/10mbit`; raises InputError for anything else."""
    down, slash, up = text.partition("/")
    unit = up.lstrip("0123456789. ")
    try:
        if not slash:
            raise BadValue(problem="no two rates")
        down_bps = units.parse_rate(down if down.strip(" 0123456789.") else down + unit)
        return Line(down_bps, units.parse_rate(up), units.parse_time(rtt))
    except BadValue as error:
        raise InputError(f"--line: found {text!r}, {rtt!r}; expected DOWN/UP such as 50/10mbit") from error


def experiment(line: Line, stack: str) -> str:
    """The experiment that compares the disciplines on both ends of the line, as the text of its file."""
    names = [
        f"  - {{name: {name}, from: {sender}, to: {receiver}, app: {app}}}"
        for name, (sender, receiver, app) in _FLOWS.items()
    ]
    queues = ", ".join(
        f"{{kind: {name}, limit: {BUFFER}}}" if name == "pfifo" else f"{{kind: {name}}}"
        for name in DISCIPLINES
    )
    bottleneck = "network.dumbbell.bottleneck"
    return "\n".join(
        [
            "experiment: home-line",
            "duration: 25s",
            "measure: {from: 5s}",
            "record: {tcp: off, queue: off}",
            "hosts:",
            *(f"  {host}: {{stack: {stack}}}" for host in ("laptop", "phone", "far")),
            "network:",
            "  dumbbell:",
            "    left: [laptop, phone]",
            "    right: [far]",
            f"    access: {{rate: {min(10 * max(line.down_bps, line.up_bps), units.MAX_RATE)}bit}}",
            f"    bottleneck: {{rate: {line.up_bps}bit, delay: {line.rtt_ns // 2}ns}}",
            f"    reverse: {{rate: {line.down_bps}bit}}",
            "flows:",
            *names,
            "sweep:",
            f"  - zip: {{{bottleneck}.queue: [{queues}],"
            f" {bottleneck}.rate: [{_rates(line.up_bps)}],"
            f" network.dumbbell.reverse.rate: [{_rates(line.down_bps)}]}}",
            "",
        ]
    )


def _rates(bps: int) -> str:
    """The rate at which each discipline sends."""
    return ", ".join(f"{bps if name == DISCIPLINES[0] else int(bps * SHAPED)}bit" for name in DISCIPLINES)


def compare(line: Line, stack: str, jobs: int) -> list[Found]:
    """Carry the comparison out; the discipline that serves the call best first, of equals the faster one.

    Scores that differ by less than 0.1 are equal: nobody hears that.
    """
    rows = simulated(experiment(line, stack), _COLUMNS, jobs)
    found = []
    for place, queue in enumerate(DISCIPLINES):
        flows: dict[str, Any] = {
            row["flow"]: row for row in rows if int(str(row["run_id"]).partition("-")[0]) == place
        }
        calls = [flows["call-out"], flows["call-in"]]
        found.append(
            Found(
                queue,
                flows["upload"]["goodput_mbps"],
                flows["download"]["goodput_mbps"],
                min(call["mos"] or 1.0 for call in calls),
                max(call["one_way_p95_ms"] or 0.0 for call in calls),
                max(call["drop_rate"] or 0.0 for call in calls),
            )
        )

    def carried(each: Found) -> float:
        return each.upload_mbps / line.up_bps + each.download_mbps / line.down_bps

    return sorted(found, key=lambda each: (-round(each.mos, 1), -carried(each)))


def commands(line: Line, queue: str) -> list[str]:
    """The lines that set a discipline on a Linux router whose interface to the modem is WAN."""
    up, down = (units.format_rate(int(rate * SHAPED)) for rate in (line.up_bps, line.down_bps))
    if queue == "pfifo":
        return [f"tc qdisc replace dev WAN root pfifo limit {BUFFER[:-1]}"]
    ingress = [
        "ip link add ifb-wan type ifb && ip link set ifb-wan up",
        "tc qdisc replace dev WAN handle ffff: ingress",
        "tc filter replace dev WAN parent ffff: matchall action mirred egress redirect dev ifb-wan",
    ]
    if queue == "cake":
        return [
            f"tc qdisc replace dev WAN root cake bandwidth {up}",
            *ingress,
            f"tc qdisc replace dev ifb-wan root cake bandwidth {down} ingress",
        ]
    return [*_shaped("WAN", up, queue), *ingress, *_shaped("ifb-wan", down, queue)]


def _shaped(device: str, rate: str, queue: str) -> list[str]:
    return [
        f"tc qdisc replace dev {device} root handle 1: htb default 1",
        f"tc class replace dev {device} parent 1: classid 1:1 htb rate {rate}",
        f"tc qdisc replace dev {device} parent 1:1 {queue}",
    ]


def as_json(line: Line, found: list[Found]) -> str:
    """Format the contents of `text`, a line of JSON for each discipline."""
    return "\n".join(json.dumps({**asdict(each), "lines": commands(line, each.queue)}) for each in found)


def text(line: Line, found: list[Found]) -> str:
    """The comparison as a table, and the lines to paste."""
    cells = [
        ["", "discipline", *(each.queue for each in found)],
        ["call", "MOS", *(f"{each.mos:.2f}" for each in found)],
        ["delay p95", "ms", *(f"{each.delay_ms:.1f}" for each in found)],
        ["loss", "%", *(f"{100 * each.loss:.2f}" for each in found)],
        ["upload", "Mbit/s", *(f"{each.upload_mbps:.2f}" for each in found)],
        ["download", "Mbit/s", *(f"{each.download_mbps:.2f}" for each in found)],
    ]
    rates = f"{units.format_rate(line.down_bps)} down, {units.format_rate(line.up_bps)} up"
    best = found[0].queue
    lines = [
        f"A home line, {rates}, {units.format_time(line.rtt_ns)} there and back, with an upload,",
        "a download and a call at once:",
        "",
        *texttable.lines([texttable.Column(column, right=place > 0) for place, column in enumerate(cells)]),
        "",
        f"pfifo is a router that keeps {BUFFER[:-1]} packets, at the line's whole rate. The others send at",
        f"{int(100 * SHAPED)} % of it, so that packets wait in them and not in the modem. Of the call's",
        "two ways the worse counts. The models shape both ways before the line; a router can",
        "shape what comes down only behind it, which is less exact. MOS: cwndlab help results.",
        "",
        f"{best}, on a Linux router whose interface to the modem is WAN:",
        "",
        *(f"  {command}" for command in commands(line, best)),
    ]
    return "\n".join(lines)
