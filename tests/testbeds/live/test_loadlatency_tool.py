"""The loadlatency tool between network namespaces, over the emulated path: it shows what a queue does.

Both ends are real processes over this kernel's TCP.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl
import pytest

import cwndlab as api
from cwndlab import _native
from patience import PATIENCE

pytestmark = pytest.mark.live

RATE_MBPS = 10.0

BEST_KIB_S = RATE_MBPS * 1e6 / 8 / 1024 * 1448 / 1514
"""Payload of full packets at the rate, with timestamps in the header and Ethernet's header counted."""

PATH = """\
experiment: path
duration: 1s
hosts: {{a: {{stack: linux}}, b: {{stack: linux}}}}
network:
  dumbbell: {{left: [a], right: [b], bottleneck: {{rate: 10mbit, delay: 5ms, queue: {queue}}}}}
flows: [{{name: f, from: a, to: b, app: bulk}}]
"""

SECOND_DEEP = "{kind: pfifo, limit: 825p}"
"""825 packets of 1514 bytes take a second at 10 Mbit/s."""


NUMBERS = itertools.count(1)
"""Of pairs of hosts."""


@dataclass(frozen=True)
class Pair:
    """Two hosts with the emulator between them."""

    name: str

    def inside(self, which: str, *command: str) -> list[str]:
        """A command in a namespace."""
        return ["ip", "netns", "exec", f"{self.name}-{which}", *command]

    def tool(self, which: str, *words: str) -> list[str]:
        """A command of the tool there."""
        return self.inside(which, sys.executable, "-m", "cwndlab", "loadlatency", *words)


@contextmanager
def emulated(queue: str) -> Iterator[Pair]:
    """Hosts 10.98.0.1 and 10.98.0.2 at either end of a bottleneck with this queue in both directions."""
    pair = Pair(f"cwndlabtest-{os.getpid()}-{next(NUMBERS)}")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=PATIENCE)

    with ExitStack() as stack:
        for which in ("a", "b", "e"):
            ip("netns", "add", f"{pair.name}-{which}")
            stack.callback(ip, "netns", "del", f"{pair.name}-{which}")
        for number, which in enumerate("ab", 1):
            own, between = f"{pair.name}-{which}", f"{pair.name}-e"
            peer = ("peer", "name", f"{which}0", "netns", between)
            ip("-n", own, "link", "add", "eth0", "type", "veth", *peer)
            ip("-n", own, "addr", "add", f"10.98.0.{number}/24", "dev", "eth0")
            ip("-n", own, "link", "set", "eth0", "up")
            ip("-n", between, "link", "set", f"{which}0", "up")
            _native.set_offloads(own, "eth0", tso=False, gro=False)
            _native.set_offloads(between, f"{which}0", tso=False, gro=False)
        (run,) = api.load(PATH.format(queue=queue)).plan().runs
        links = [link for link in run.scenario["links"] if link["bottleneck"]]
        forward, reverse = (dict(link) for link in (links[0], links[-1]))
        forward |= {"name": "there", "from": "a", "to": "b"}
        reverse |= {"name": "back", "from": "b", "to": "a"}
        hour = 3_600_000_000_000
        scenario = run.scenario | {
            "links": [forward, reverse],
            "hosts": [],
            "nodes": [],
            "flows": [],
            "duration_ns": hour,
            "measure": {"from_ns": 0, "to_ns": hour},
        }
        config = {
            "run_id": 0,
            "netns": f"{pair.name}-e",
            "scenario": scenario,
            "cables": [{"a": "a0", "b": "b0", "forward": "there", "reverse": "back"}],
            "flows": [],
            "captures": [],
            "threads": 1,
            "real_time": True,
        }
        emulator = _native.Emulator(json.dumps(config))
        emulator.start()
        emulator.mark_start(time.monotonic_ns())
        yield pair
        emulator.stop()


@contextmanager
def serving(pair: Pair, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in b, and its port."""
    command = pair.tool("b", "serve", "--bind", "10.98.0.2", "--port", "0", *options)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"port (\d+)", line)
        assert found is not None, line or server.communicate()
        yield server, found[1]
    finally:
        server.kill()
        server.communicate()


def measuring(
    pair: Pair, port: str, *options: str, cwd: Path | None = None, stdout: IO[str] | int = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """A client in a, running."""
    command = pair.tool("a", "run", "10.98.0.2", "--port", port, *options)
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=cwd)


def test_a_deep_fifo_shows_as_bloat_and_fair_queueing_takes_it_away(tmp_path: Path) -> None:
    # Reno fills any queue at once; what it overshoots by takes seconds to repair, and a
    # second in which nothing can be read may come at the end, of which 25 lose less than 5 %.
    # CUBIC loses less to CoDel; the time that a busy machine holds it up is as small a part of 25 s.
    cases = {"fifo": (SECOND_DEEP, "reno"), "fair": ("{kind: fq_codel}", "cubic")}
    found: dict[str, dict[str, Any]] = {}
    printed = {}
    with ExitStack() as stack:
        clients = {}
        for name, (queue, cc) in cases.items():
            pair = stack.enter_context(emulated(queue))
            _, port = stack.enter_context(serving(pair, "--once", "--cc", cc))
            words = ("--scenario", "1,2", "--duration", "25", "--cc", cc)
            clients[name] = measuring(pair, port, *words, "--json", str(tmp_path / f"{name}.json"))
        for name, client in clients.items():
            printed[name], errors = client.communicate(timeout=PATIENCE)
            assert client.returncode == 0, errors
    for name, (_, cc) in cases.items():
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
        for scenario in found[name]["observed"]["scenarios"]:
            (flow,) = scenario["transfers"]
            assert flow["sender"]["cc"] == cc
            assert flow["killed"] is None
        for metrics, way in zip(found[name]["metrics"], ("down_kib_s", "up_kib_s"), strict=True):
            assert metrics[way] == pytest.approx(BEST_KIB_S, rel=0.05), f"{name}: {way}"
    fifo, fair = found["fifo"]["overall"], found["fair"]["overall"]
    assert fifo["responsiveness_hz"] < 1
    assert "\nLink Responsiveness: 0 Hz\n" in printed["fifo"]
    assert fair["responsiveness_hz"] > 10
    # A full second in the queue against hardly anything; the way of the data is the one that grew.
    assert fifo["bufferbloat"]["grade"] == "F"
    assert fair["bufferbloat"]["grade"] in ("A+", "A", "B")
    down, up = (metrics["one_way"] for metrics in found["fifo"]["metrics"])
    assert down["down"]["p50_ms"] > 5 * max(down["up"]["p50_ms"], 1)
    assert up["up"]["p50_ms"] > 5 * max(up["down"]["p50_ms"], 1)
    assert fifo["rpm"] < 300 < fair["rpm"]
    assert fifo["min_rtt_ns"] >= 10_000_000


def test_a_run_is_a_directory_of_results_like_any_other(tmp_path: Path) -> None:
    with emulated("{kind: pfifo, limit: 50p}") as pair, serving(pair) as (server, port):
        whole = measuring(pair, port, "--scenario", "4", "--duration", "2", "-o", str(tmp_path / "out"))
        _, errors = whole.communicate(timeout=PATIENCE)
        assert whole.returncode == 0, errors
        words = ("--duration", "30", "--scenario", "4,1", "--classic")
        # What it prints goes into a file: reading a pipe by lines and then whole loses some.
        with (tmp_path / "lost.txt").open("w") as file:
            lost = measuring(pair, port, *words, cwd=tmp_path, stdout=file)
        while "Scenario 4" not in (tmp_path / "lost.txt").read_text() and lost.poll() is None:
            time.sleep(0.1)
        time.sleep(2)
        server.send_signal(signal.SIGKILL)
        _, stderr = lost.communicate(timeout=PATIENCE)
        stdout = (tmp_path / "lost.txt").read_text()
    results = api.open(tmp_path / "out")
    results.verify()
    assert results.summary["flow"].to_list() == ["up1", "down1", "pinger"]
    rows = {row["flow"]: row for row in results.summary.to_dicts()}
    assert 1 < rows["up1"]["goodput_mbps"] < RATE_MBPS
    assert rows["pinger"]["rtt_min_ms"] >= 10
    assert rows["pinger"]["load_scenario"] == 4
    assert rows["pinger"]["smoothness_hz"] > 0
    delivered = results.series(0, flow="down1")["delivered_bytes"]
    assert (delivered.diff().drop_nulls() >= 0).all()
    samples = results.series(0, flow="pinger", table="samples")
    kinds = set(samples["kind"].cast(pl.String))
    assert kinds == {"probe-rtt", "connect", "in-band", "one-way-up", "one-way-down"}
    for kind, value in (("goodput", None), ("rtt", None), ("rtt", "samples.one-way-up")):
        options = {"value": value} if value else {}
        assert results.plot(kind, tmp_path / "x.png", **options) is not None
    # The same again from the document.
    from cwndlab.formats import base

    (recording,) = base.read(tmp_path / "out" / "loadlatency.json")
    assert recording.flows == ("up1", "down1", "pinger")

    # A server that dies: what was measured is printed and kept.
    assert lost.returncode == 1
    assert "connection to the server was lost" in stderr
    assert "Scenario 4: 1 uploads, 1 downloads... " in stdout
    assert "OVERALL:" in stdout
    (kept,) = (tmp_path / "results").glob("loadlatency-*")
    assert (
        api.open(kept)
        .record(0)
        .warnings[-1]
        .startswith("was cut short: the connection to the server was lost")
    )
