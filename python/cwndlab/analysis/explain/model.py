"""The connection in the model: an experiment file of the estimated path, with what limits the sender."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File

import polars as pl

from cwndlab.analysis.advice import buffers
from cwndlab.analysis.explain import limiters
from cwndlab.analysis.explain.evidence import Connection, read
from cwndlab.analysis.explain.limiters import Timeline
from cwndlab.analysis.explain.path import Path
from cwndlab.execution import faults, runner
from cwndlab.experiment.catalogue import catalogue

MOST_PACKETS = 1_000_000
"""Packets of a simulated run at most: a faster connection is simulated for a shorter time."""

LONGEST_S = 60.0

PACKET = 1514
"""Bytes of a full packet with Ethernet's header."""

HANDSHAKE = 2
"""Packets that a sender sends before data: SYN and ACK."""

MOST_LOST = 2000
"""Packets that are lost again one by one at most."""

RAISED = ("linux", "freebsd")
"""Systems whose buffers have sysctls."""

DRAWS = 5
"""Runs where packets are lost by chance."""

LEAST_BUFFER = 4
"""Packets that a bottleneck has room for at least."""

_COLUMNS = ("goodput_mbps", "rtt_p50_ms")


@dataclass(frozen=True)
class Setup:
    """Contents of an experiment file; `changes` are keys of the file and their values."""

    rate_bps: int
    rtt_ns: int
    buffer_packets: int
    duration_ns: int
    stack: str
    cc: str
    loss: float = 0.0
    lost: tuple[int, ...] = ()
    """Packets that were lost, counted from the SYN, to be lost again; empty: by chance, so many of them."""
    policer_bytes: int = 0
    family: str = "ipv4"
    receiver: str = ""
    """Stack of the receiver; empty: the sender's."""
    changes: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The experiment before any change."""
        half = self.rtt_ns // 2
        loss = f", loss: {{random: {100 * self.loss:.6f}%}}" if self.loss else ""
        if self.lost:
            loss = f", loss: {{list: [{', '.join(map(str, self.lost))}]}}"
        queue = f"queue: {{kind: pfifo, limit: {self.buffer_packets}p}}"
        shaper = f"shaper: {{kind: policer, rate: {self.rate_bps}bit, burst: {self.policer_bytes}B}}"
        limit = shaper if self.policer_bytes else f"rate: {self.rate_bps}bit"
        back = "" if self.policer_bytes else f"rate: {self.rate_bps}bit, "
        return "\n".join(
            [
                "experiment: explained",
                f"duration: {self.duration_ns}ns",
                "repeat: 1",
                "record: {tcp: off, queue: off}",
                "hosts:",
                f"  a: {{stack: {self.stack}, cc: {self.cc}}}",
                f"  b: {{stack: {self.receiver or self.stack}}}",
                "network:",
                f"  family: {self.family}",
                "  dumbbell:",
                "    left: [a]",
                "    right: [b]",
                f"    bottleneck: {{{limit}, delay: {half}ns, {queue}{loss}}}",
                f"    reverse: {{{back}delay: {half}ns, queue: {{kind: pfifo, limit: 1000p}}}}",
                "flows:",
                "  - {name: f1, from: a, to: b, app: bulk}",
                "",
            ]
        )

    def overrides(self, *more: str) -> list[str]:
        """The changes, as `--set` takes them."""
        return [*(f"{key}={value}" for key, value in self.changes.items()), *more]


@dataclass(frozen=True)
class Outcome:
    """Result of a cell."""

    goodput_bps: float
    rtt_p50_ms: float | None
    limited_by: str
    """Limit for most of the time, as `results.limits` names it."""


def setup(found: Connection, path: Path, stack: str, cc: str) -> Setup | None:
    """The model of a connection's path; None where rate or round trip are not known."""
    if path.rate_bps is None or path.rtt_s is None or path.bdp_bytes is None:
        return None
    rate = max(round(path.rate_bps.value), 1)
    longest = min(found.duration_s, LONGEST_S, MOST_PACKETS * PACKET * 8 / rate)
    trip = path.rtt_s.value
    if path.rtt_s.source != "the handshake":
        # A full packet takes its time at the bottleneck.
        trip = max(trip - 8 * PACKET / rate, 0.1 * trip)
    return Setup(
        rate,
        round(1e9 * trip),
        buffer_packets(path),
        max(round(1e9 * longest), 100_000_000),
        stack,
        cc,
        loss=path.loss.value if path.loss is not None else 0.0,
        lost=_lost(found) if path.loss is not None and not path.buffer_full else (),
        policer_bytes=max(round(path.policer_bytes.value), 2 * PACKET)
        if path.policer_bytes is not None
        else 0,
        family=found.family,
    )


def _lost(found: Connection) -> tuple[int, ...]:
    """The places of the packets that were sent again, among all that were sent; none where too many are."""
    packets = found.packets
    if packets is None:
        return ()
    first = {int(offset): place for place, offset in reversed(list(enumerate(packets.offset)))}
    gone = sorted({first[int(each)] + HANDSHAKE for each in packets.offset[packets.again > 0]})
    return tuple(gone) if len(gone) <= MOST_LOST else ()


def buffer_packets(path: Path) -> int:
    """Packets that the bottleneck keeps: as losses show, or a bandwidth-delay product and what was seen."""
    seen = path.buffer_bytes.value if path.buffer_bytes is not None else 0.0
    if not path.buffer_full:
        seen = max(1.1 * seen, path.bdp_bytes or 0.0)
    return max(round(seen / PACKET), LEAST_BUFFER)


def run(found: Setup) -> Outcome:
    """Carry the experiment out on the models; where packets are lost by chance, the mean of some runs."""
    with tempfile.TemporaryDirectory(prefix="cwndlab-explain-") as directory:
        overrides = found.overrides(f"repeat={DRAWS if found.loss and not found.lost else 1}")
        results = runner.run(faults.load(found.text(), overrides), out=File(directory) / "results")
        row = results.summary.select(pl.col(_COLUMNS).mean(), pl.col("limited_by").first()).row(0, named=True)
    return Outcome(1e6 * (row["goodput_mbps"] or 0.0), row["rtt_p50_ms"], str(row["limited_by"]))


def captured(found: Setup, repeats: int) -> list[Connection]:
    """Carry the experiment out several times, with phases of their own, and read what its sender would have
    captured."""
    overrides = found.overrides("record.pcap=[a]", f"repeat={repeats}")
    with tempfile.TemporaryDirectory(prefix="cwndlab-explain-") as directory:
        results = runner.run(faults.load(found.text(), overrides), out=File(directory) / "results")
        return [read(results.captures(str(run))[0], None) for run in results.runs["run_id"].to_list()]


def as_large(found: Connection, sender: str, receiver: str) -> dict[str, str]:
    """Sysctls of hosts whose buffers have to hold what was in flight, and offer what was offered."""
    packets = found.packets
    if packets is None:
        return {}
    flight, window = float(limiters.flights(packets).max()), float(packets.window.max())
    changes: dict[str, str] = {}
    for host, name, size in (("a", sender, flight), ("b", receiver, window)):
        system = catalogue().stack(name)
        if system is not None and system.family in RAISED:
            raised = buffers.raised(system, round(size), receive=host == "b")
            changes |= {f"hosts.{host}.sysctl.{key}": str(value) for key, value in raised.items()}
    return changes


def held(line: Timeline) -> float | None:
    """The buffer that held the sender back, as far as it shows, bytes; None where none did."""
    if line.main() == "sndbuf":
        return line.plateau
    windows = [each.window for each in line.intervals if each.limiter == limiters.RWND and each.window]
    return max(windows) if line.main() == "rwnd" and windows else None


def before(found: Connection, line: Timeline) -> dict[str, str]:
    """The keys that hold the modelled sender back as the observed one was."""
    size = held(line)
    if size is not None:
        return {"hosts.b.rcvbuf" if line.main() == "rwnd" else "hosts.a.sndbuf": f"{round(size)}B"}
    if line.main() == "app" and found.goodput_bps:
        return {"flows.f1.app": f"{{kind: rate-limited, rate: {round(found.goodput_bps)}bit, write: 4KB}}"}
    return {}
