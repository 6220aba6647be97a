"""Advice on socket buffers: how large they have to be for a path, and the sysctls that let them be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cwndlab.analysis.advice import simulated
from cwndlab.errors import InputError, unknown
from cwndlab.experiment import units
from cwndlab.experiment.catalogue import Stack, catalogue
from cwndlab.results import limits, texttable

MIB = 1 << 20

MULTIPLES = (1, 2, 4)
"""Sizes that are tried, in multiples of what is on the way."""

ENOUGH = 0.99
"""The smallest size is taken that carries this share of what the best one does."""

LARGEST = "kern.ipc.maxsockbuf"
"""FreeBSD's limit for any socket buffer, which the others need."""

_COLUMNS = (
    "run_id",
    "goodput_mbps",
    "utilisation",
    "limited_by",
    "held_by",
    *(f"limited_{kind}_pct" for kind in limits.KINDS),
)

FULL = 0.95
"""A link of which so much is used has no room left."""

CONGESTION_CONTROL = "congestion control"

_HOLDS = {"rwnd": "the receive buffer", "sndbuf": "the send buffer"}


@dataclass(frozen=True)
class Asked:
    """The path and the hosts that advice is for."""

    rate_bps: int
    rtt_ns: int
    cc: str | None
    """Congestion control; None: each stack's own."""

    @property
    def bdp(self) -> int:
        """Bytes on the way at any time: the bandwidth-delay product."""
        return self.rate_bps * self.rtt_ns // (8 * 10**9)


@dataclass(frozen=True)
class Setting:
    """Sysctls that are tried together."""

    name: str
    sysctls: dict[str, int]


@dataclass(frozen=True)
class Tried:
    """Results of a setting of the buffers in the model."""

    setting: Setting
    goodput_mbps: float
    utilisation: float
    held_by: str
    """Limit that kept the sender from sending for most of the time."""


def settings(stack: Stack, bdp: int) -> list[Setting]:
    """The settings that are tried: as installed, each side alone, and both up to growing sizes."""
    found = [Setting("as installed", {})]
    for multiple in MULTIPLES:
        size = _whole(multiple * bdp)
        send, receive = (_raised(stack, side) for side in _limits(stack, size))
        sides = {"send alone": send, "receive alone": receive} if multiple == 2 else {}
        for name, values in {**sides, "both": {**send, **receive}}.items():
            if values not in [known.sysctls for known in found]:
                found.append(Setting(f"{name}, {size // MIB} MiB", values))
    return found


def raised(stack: Stack, size: int, *, receive: bool) -> dict[str, int]:
    """The sysctls that let the send or the receive buffer hold `size` bytes of payload, in whole MiB; empty
    where it may already."""
    return _raised(stack, _limits(stack, _whole(size))[int(receive)])


def _raised(stack: Stack, values: Mapping[str, int]) -> dict[str, int]:
    """The sysctls that have to be raised; none is made smaller than it is."""
    known = stack.sysctls
    raised = {
        name: min(value, known[name].max) for name, value in values.items() if value > known[name].default
    }
    return {} if list(raised) == [LARGEST] else raised


def _limits(stack: Stack, size: int) -> tuple[dict[str, int], dict[str, int]]:
    """The sysctls that let send and receive buffers hold `size` bytes of payload."""
    if stack.family == "linux":
        # Memory, of which a half is payload (tcp_adv_win_scale 1, or skb->truesize of full frames).
        return {"net.ipv4.tcp_wmem.max": 2 * size}, {"net.ipv4.tcp_rmem.max": 2 * size}
    if stack.family == "freebsd":
        # A buffer may hold 8/9 of maxsockbuf (sbreserve(9): MCLBYTES of MSIZE + MCLBYTES).
        largest = {LARGEST: _whole(-(-size * 9 // 8))}
        return {**largest, "net.inet.tcp.sendbuf_max": size}, {**largest, "net.inet.tcp.recvbuf_max": size}
    raise InputError(f"--stack: {stack.name} has no sysctls for its buffers; name a FreeBSD or a Linux")


def _whole(size: int) -> int:
    """A size in whole MiB."""
    return -(-size // MIB) * MIB


def stacks(names: str, cc: str | None) -> list[Stack]:
    """The stacks of a list with commas; `linux` is the newest one.

    Raises InputError for an unknown one, one without such sysctls, and one that lacks the congestion control.
    """
    engine = catalogue()
    found = []
    for name in (each.strip() for each in names.split(",")):
        stack = engine.stack(name)
        if stack is None:
            raise unknown("--stack", name, engine.stack_names())
        if cc is not None and stack.cc_alias.get(cc, cc) not in stack.cc:
            raise unknown(f"--cc of {stack.name}", cc, stack.cc)
        _limits(stack, MIB)
        found.append(stack)
    return found


def experiment(asked: Asked, stack: Stack, tried: Sequence[Setting]) -> str:
    """The experiment that tries the settings on both ends of an idle path, as the text of its file.

    The bottleneck keeps one bandwidth-delay product. It runs for 8 s and 100 round trips, and the second
    half counts.
    """
    keys = list(dict.fromkeys(key for each in tried for key in each.sysctls))
    known = {name: sysctl.default for name, sysctl in stack.sysctls.items()}
    values = {key: [each.sysctls.get(key, known[key]) for each in tried] for key in keys}
    axes = [
        f"hosts.{host}.sysctl.{key}: [{', '.join(map(str, values[key]))}]" for host in "ab" for key in keys
    ]
    length = 8 * 10**9 + 100 * asked.rtt_ns
    return "\n".join(
        [
            "experiment: buffers",
            f"duration: {length}ns",
            f"measure: {{from: {length // 2}ns}}",
            "record: {tcp: off, queue: off}",
            "hosts:",
            f"  a: {{stack: {stack.name}, cc: {asked.cc or stack.default_cc}}}",
            f"  b: {{stack: {stack.name}}}",
            "network:",
            "  dumbbell:",
            "    left: [a]",
            "    right: [b]",
            f"    access: {{rate: {min(10 * asked.rate_bps, units.MAX_RATE)}bit}}",
            f"    bottleneck: {{rate: {asked.rate_bps}bit, delay: {asked.rtt_ns // 2}ns,"
            " queue: {kind: pfifo, limit: 1bdp}}",
            "flows:",
            "  - {name: f1, from: a, to: b, app: bulk}",
            *(["sweep:", f"  - zip: {{{', '.join(axes)}}}"] if axes else []),
            "",
        ]
    )


def compare(asked: Asked, stack: Stack, jobs: int) -> list[Tried]:
    """Carry the settings out, in their order."""
    tried = settings(stack, asked.bdp)
    rows = simulated(experiment(asked, stack, tried), _COLUMNS, jobs)
    return [
        Tried(
            setting,
            row["goodput_mbps"] or 0.0,
            row["utilisation"] or 0.0,
            _held_by(row),
        )
        for setting, row in zip(tried, rows, strict=True)
    ]


def _held_by(row: Mapping[str, Any]) -> str:
    """Name the limit that would have to be higher: a buffer, by the sysctl that holds it, the link or another
    one; all of them with their shares of the time where none is the main one.
    """
    limit = row["limited_by"]
    if limit == limits.SEVERAL:
        return limits.parts(row)
    if limit in _HOLDS:
        return str(row["held_by"] or _HOLDS[limit])
    if limit == "path" or limit not in limits.WORDS:
        return "the link" if (row["utilisation"] or 0.0) >= FULL else CONGESTION_CONTROL
    return limits.WORDS[limit]


def best(found: Sequence[Tried]) -> Tried:
    """The one that raises least of those that carry as much as the best does."""
    most = max(each.goodput_mbps for each in found)
    enough = [each for each in found if each.goodput_mbps >= ENOUGH * most]
    return min(enough, key=lambda each: sum(each.setting.sysctls.values()))


def lines(asked: Asked, stack: Stack, chosen: Setting) -> list[str]:
    """Lines to write into the files of the system."""
    values = chosen.sysctls
    known = {name: sysctl.default for name, sysctl in stack.sysctls.items()}
    if stack.family == "linux":
        found = ["# /etc/sysctl.d/90-buffers.conf; then: sysctl --system"] if values or asked.cc else []
        for name in ("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"):
            if f"{name}.max" in values:
                three = (known[f"{name}.min"], known[f"{name}.default"], values[f"{name}.max"])
                found.append(f"{name} = {' '.join(map(str, three))}")
        return found + ([f"net.ipv4.tcp_congestion_control = {asked.cc}"] if asked.cc else [])
    found = []
    if asked.cc and asked.cc != stack.default_cc:
        found += ["# /boot/loader.conf", f'cc_{asked.cc}_load="YES"']
    if values or asked.cc:
        found.append("# /etc/sysctl.conf; then: service sysctl restart")
    found += [f"{name}={value}" for name, value in values.items()]
    return found + ([f"net.inet.tcp.cc.algorithm={asked.cc}"] if asked.cc else [])


def as_json(asked: Asked, stack: Stack, found: Sequence[Tried]) -> str:
    """Format the contents of `text` as a line of JSON."""
    chosen = best(found)
    tried = [
        {
            "buffers": each.setting.name,
            "sysctls": each.setting.sysctls,
            "goodput_mbps": each.goodput_mbps,
            "utilisation": each.utilisation,
            "held_by": each.held_by,
        }
        for each in found
    ]
    told = {"stack": stack.name, "bdp_bytes": asked.bdp, "take": chosen.setting.name}
    return json.dumps({**told, "lines": lines(asked, stack, chosen.setting), "tried": tried})


def text(asked: Asked, stack: Stack, found: Sequence[Tried]) -> str:
    """Format the results of each setting, and the lines of the one to take."""
    chosen = best(found)
    cells = [
        ["", "buffers", *(each.setting.name for each in found)],
        ["goodput", "Mbit/s", *(f"{each.goodput_mbps:.4g}" for each in found)],
        ["util", "%", *(f"{100 * each.utilisation:.1f}" for each in found)],
        ["", "held back by", *(each.held_by for each in found)],
        ["", "", *("<- take this" if each is chosen else "" for each in found)],
    ]
    paste = lines(asked, stack, chosen.setting) or ["(nothing: what is installed will do)"]
    return "\n".join(
        [
            f"{stack.name}, {asked.cc or stack.default_cc}, at both ends:",
            "",
            *texttable.lines(
                [texttable.Column(column, right=place in (1, 2)) for place, column in enumerate(cells)]
            ),
            "",
            *(f"  {line}" for line in paste),
            *_remark(found, chosen),
        ]
    )


def _remark(found: Sequence[Tried], chosen: Tried) -> list[str]:
    """Remark on settings that carry less although they allow more."""
    more = sum(chosen.setting.sysctls.values())
    less = [
        each
        for each in found
        if sum(each.setting.sysctls.values()) > more and each.goodput_mbps < 0.9 * chosen.goodput_mbps
    ]
    if not any(each.held_by == CONGESTION_CONTROL for each in less):
        return []
    return [
        "",
        "Larger buffers carry less here: slow start runs on until the queue overflows, and what was lost",
        "at once takes long to repair. Another congestion control may do better: --cc.",
    ]


def why(asked: Asked) -> str:
    """Explain why buffers matter on this path."""
    return (
        f"{units.format_rate(asked.rate_bps)} and {units.format_time(asked.rtt_ns)} there and back:"
        f" {asked.bdp / 1e6:.3g} MB are on the way at any time. A sender keeps\n"
        "what is not acknowledged, and a receiver offers room for it, so both buffers must hold that\n"
        "much. Systems let buffers grow by themselves, up to limits, which these sysctls are."
    )
