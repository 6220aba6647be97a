"""The bulk transfers that speed is measured with; as a program, writes them for `cargo bench -p cwndlab-sim`.

.venv/bin/python benches/scenarios.py target/bench
"""

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cwndlab import load


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One dumbbell: `flows` flows from one host to another for `seconds`."""

    name: str
    file: str
    """Under this name for the engine's benchmark."""
    rate_mbit: int
    access_mbit: int
    delay_ms: float
    """One way."""
    queue_packets: int
    """Limit of a pfifo."""
    queue: str = ""
    """Another discipline, as the experiment file writes it."""
    flows: int
    seconds: int
    stack: str = ""
    """Stack of both hosts, whatever is asked for."""
    cc: str = "cubic"
    drop_every: int = 0
    """The first of every so many packets is lost; 0: none."""
    start_spread_s: float = 0.0
    """Flows start evenly over so many seconds."""
    buffer_bytes: int = 64 << 20
    """Send and receive buffer of each flow: more than the window ever needs."""
    record: str = "10ms"
    """Interval of the rows."""
    ns3_seconds: float | None = None
    """How long ns-3 simulates, where it would need an hour for as much as cwndlab does."""


GIGABIT = Scenario(
    name="1 Gbps x 41 ms",
    file="1g-41ms",
    rate_mbit=1000,
    access_mbit=10_000,
    delay_ms=20.5,
    queue_packets=83,
    flows=1,
    seconds=20,
)

SCENARIOS = (
    GIGABIT,
    Scenario(
        name="10 Mbps x 40 ms",
        file="10m-40ms",
        rate_mbit=10,
        access_mbit=1000,
        delay_ms=20,
        queue_packets=83,
        flows=1,
        seconds=300,
    ),
    Scenario(
        name="10 Gbps x 20 ms",
        file="10g-20ms",
        rate_mbit=10_000,
        access_mbit=40_000,
        delay_ms=10,
        queue_packets=1000,
        flows=1,
        seconds=20,
        buffer_bytes=128 << 20,
        ns3_seconds=2,
    ),
    replace(
        GIGABIT,
        name="1 Gbps x 41 ms, 100 flows",
        file="100-flows",
        queue_packets=1000,
        flows=100,
        start_spread_s=1,
        ns3_seconds=5,
    ),
    replace(
        GIGABIT,
        name="1 Gbps x 41 ms, 10,000 flows",
        file="10000-flows",
        queue_packets=3500,
        flows=10_000,
        start_spread_s=1,
        buffer_bytes=1 << 20,
        record="1s",
        ns3_seconds=1.2,
    ),
)

RACK = Scenario(
    name="RACK of 13 under loss",
    file="timers-rack-13",
    stack="freebsd-13/rack",
    cc="newreno",
    rate_mbit=1000,
    access_mbit=10_000,
    delay_ms=0.3,
    queue_packets=1000,
    drop_every=100,
    flows=1,
    seconds=20,
)

TIMERS = (
    replace(GIGABIT, name="BBR's pacing", file="timers-bbr", stack="linux-6.8", cc="bbr"),
    RACK,
    replace(RACK, name="RACK of 15 under loss", file="timers-rack-15", stack="freebsd-15-current/rack"),
)
"""Where timers do the work: BBR's pacing, RACK's reordering timer and held output. ns-3 has none of them."""


def resolve(scenario: Scenario, stack: str) -> dict[str, Any]:
    """The Scenario as the engine takes it; both hosts run `stack`, or the scenario's own."""
    stack = scenario.stack or stack
    loss = f"loss: {{nth: {{every: {scenario.drop_every}, packet: 0}}}}" if scenario.drop_every else ""
    text = f"""\
experiment: compare
duration: {scenario.seconds}s
hosts:
  a: {{stack: {stack}, cc: {scenario.cc}, sndbuf: {scenario.buffer_bytes}B, rcvbuf: {scenario.buffer_bytes}B}}
  b: {{stack: {stack}, sndbuf: {scenario.buffer_bytes}B, rcvbuf: {scenario.buffer_bytes}B}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: {scenario.access_mbit}mbit}}
    bottleneck:
      rate: {scenario.rate_mbit}mbit
      delay: {scenario.delay_ms}ms
      queue: {scenario.queue or f"{{kind: pfifo, limit: {scenario.queue_packets}p}}"}
      {loss}
flows:
  - {{name: f, from: a, to: b, app: bulk, count: {scenario.flows}}}
record: {{tcp: {scenario.record}, queue: {scenario.record}}}
"""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "compare.yaml")
        file.write_text(text, encoding="utf-8")
        resolved = dict(load(file).plan().runs[0].scenario)
    spread_ns = round(scenario.start_spread_s * 1e9)
    resolved["start_jitter_ns"] = 0
    for index, flow in enumerate(resolved["flows"]):
        flow["start_ns"] = spread_ns * index // scenario.flows
    return resolved


def main(folder: Path, stack: str = "freebsd-13") -> None:
    """Write every scenario as `folder/FILE.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for scenario in (*SCENARIOS, *TIMERS):
        text = json.dumps(resolve(scenario, stack))
        Path(folder, f"{scenario.file}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
