"""The page and the command line: the same file, Scenario, hashes and metrics, for random settings."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import needs
from cwndlab import _native
from cwndlab.experiment.plan import scenario_hash
from cwndlab.experiment.scenario import planner
from cwndlab.report.live_page import settings as lab
from cwndlab.report.live_page import templates
from cwndlab.report.live_page.settings import QUEUES, Flow, Settings
from cwndlab.results import limits
from cwndlab.results.summary import flow_metrics
from cwndlab.testbeds import loader, tables

COUNT = 200

CATALOGUE = loader.support("sim").catalogue()
STACKS = {name: stack for name, stack in CATALOGUE.stacks.items() if not stack.guest}


def random_settings(number: int) -> Settings:
    draw = random.Random(number)
    duration = draw.choice([1, 2, 3]) * 10**9
    flows = []
    for place in range(draw.choice([1, 1, 2, 3, 4])):
        stack = draw.choice(list(STACKS.values()))
        receiver = draw.choice(["", "", *STACKS])
        flows.append(
            Flow(
                stack.name,
                draw.choice(stack.cc),
                start=draw.choice([0, 0, draw.randrange(duration // 2)]),
                extra=draw.choice([0, 0, draw.randrange(100_000_000)]),
                receiver=receiver,
                names=draw.choice([None, (f"flow-{place}", f"sender_{place}", f"R{place}")]),
            )
        )
    rate_then = draw.choice([None, None, 2_000_000, draw.randrange(200_000, 20_000_000)])
    return Settings(
        tuple(flows),
        rate_then=rate_then,
        rate_at=0 if rate_then is None else draw.randrange(duration),
        rate=draw.choice([10_000_000, 1_500_000, draw.randrange(200_000, 20_000_000)]),
        rtt=draw.choice([40_000_000, 300_000, draw.randrange(200_000_000)]),
        buffer=draw.choice([1, 3, 90, 1000, draw.randrange(1, 300)]),
        queue=draw.choice(list(QUEUES)),
        loss=draw.choice([0, 0, 10_000_000, draw.randrange(50_000_000)]),
        ecn=draw.random() < 0.3,
        buffers=draw.choice([None, None, 65536, 600_000, draw.randrange(8192, 5_000_000)]),
        merge=draw.choice([0, 0, 45, draw.randrange(1, 60)]),
        processing=draw.choice([0, 0, 40_000, draw.randrange(1, 2_000_000)]),
        duration=duration,
        measure=draw.choice([0, draw.randrange(duration)]),
        seed=draw.randrange(1, 10_000),
        start_jitter=draw.choice([0, draw.randrange(100_000_000)]),
        phase_jitter=draw.choice([0, draw.randrange(10_000_000)]),
        access=draw.choice([10**10, 10**9]),
        tcp=draw.choice([10_000_000, 50_000_000]),
        queue_every=draw.choice([10_000_000, 20_000_000]),
        experiment=draw.choice(["live-lab", "Ours_2"]),
    )


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with what Node needs to know of its files: that they are modules."""
    needs.need_page()
    needs.need(None if shutil.which("node") else "Node is not here")
    copy = tmp_path_factory.mktemp("lab") / "page"
    shutil.copytree(str(files("cwndlab.report.live_page") / "page"), copy)
    (copy / "package.json").write_text('{"type": "module"}')
    return copy


def carried_out(page: Path, addresses: list[str]) -> Iterator[Any]:
    program = ["node", str(Path(__file__).with_name("carry_out.mjs")), str(page)]
    told = subprocess.run(program, input="\n".join(addresses), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return map(json.loads, told.stdout.splitlines())


def hashes(simulation: _native.Simulation) -> dict[str, str]:
    batches: dict[str, list[pa.RecordBatch]] = {}
    for table, batch in simulation.take():
        batches.setdefault(table, []).append(tables.conform(table, pa.record_batch(batch)))
    found = {}
    for table, rows in batches.items():
        digest = tables.RowsHash()
        digest.update(pa.Table.from_batches(rows))
        found[table] = digest.hexdigest()
    return found


@pytest.mark.slow
def test_the_page_makes_and_carries_out_what_the_command_line_does(page: Path) -> None:
    drawn = [random_settings(number) for number in range(COUNT)]
    families = templates.families_of(CATALOGUE)
    addresses = [lab.address(each) for each in drawn]
    count = 0
    for each, address, ours in zip(drawn, addresses, carried_out(page, addresses), strict=True):
        assert (ours["wrong"], ours["again"]) == ([], address)
        planned = planner.make(loader.load(ours["yaml"])).runs[0]
        assert ours["scenario"] == planned.scenario, address
        assert planned.scenario == templates.plan(each, families), address
        assert ours["hashes"]["scenario"] == scenario_hash(planned.scenario)
        simulation = _native.Simulation(json.dumps(planned.scenario), 0)
        assert simulation.advance(2**62)
        expected = hashes(simulation)
        assert ours["hashes"]["tables"] == expected, address
        assert ours["hashes"]["result"] == tables.result_hash(expected)
        compare_metrics(ours["metrics"], flow_metrics(planned.scenario, json.loads(simulation.summary())))
        count += 1
    assert count == COUNT


def compare_metrics(ours: Any, theirs: dict[str, dict[str, Any]]) -> None:
    names = {
        "goodput": "goodput_mbps",
        "rtt50": "rtt_p50_ms",
        "rtt95": "rtt_p95_ms",
        "wait95": "queue_delay_p95_ms",
        "retransmitted": "retransmit_rate",
        "cwnd": "cwnd_mean_bytes",
        "timeouts": "rtos",
    }
    rows = list(theirs.values())
    pairs = [
        (flow[name], theirs[flow["name"]][metric]) for flow in ours["flows"] for name, metric in names.items()
    ]
    for flow in ours["flows"]:
        shown = {what: 100 * share for what, share, _ in flow["limits"]}
        known = limits.shares(theirs[flow["name"]])
        assert {what: known.get(what, 0.0) for what in shown} | known == pytest.approx(
            {what: shown.get(what, 0.0) for what in known} | shown, abs=1e-4
        )
    pairs += [(ours["jain"], rows[0]["jain"])]
    pairs += [(ours["utilisation"], sum(row["utilisation"] for row in rows))]
    for shown, expected in pairs:
        assert (shown is None) == (expected is None)
        assert shown is None or shown == pytest.approx(expected, rel=1e-5)


FLOW = """\
experiment: words
duration: 3s
hosts:
  a: {{stack: freebsd-15-current, cc: newreno}}
  b: {{stack: freebsd-15-current}}
network: {{dumbbell: {{left: [a], right: [b], bottleneck: {{rate: {rate}, delay: {delay}}}}}}}
flows: [{{name: f1, from: a, to: b, app: bulk}}]
"""


def one_flow(rate: str, delay: str) -> Any:
    text = FLOW.format(rate=rate, delay=delay)
    return planner.make(loader.load(text)).runs[0].scenario


@pytest.mark.slow
def test_what_limited_a_flow_is_said(page: Path) -> None:
    path = "rate=100mbit&rtt=20ms&buffer=1000p&duration=5s&f=linux-6.8,cubic"
    addresses = [path, f"{path}&buffers=64KiB", path.replace("cubic", "bbr").replace("1000p", "20p")]
    addresses += ["rate=1gbit&rtt=2ms&buffer=1000p&processing=100us&duration=3s&f=freebsd-15-current,newreno"]
    told = carried_out(page, [*addresses, json.dumps(one_flow("1gbit", "40ms"))])
    plain, small, paced, slow, held = (ours["limits"][0] for ours in told)
    assert plain == "the path all of the time"
    assert small.startswith("the receiver’s window (a buffer of 131,072 bytes, held by SO_RCVBUF) ")
    assert paced.startswith("the path ") and ", then pacing " in paced
    assert slow == "the processing of a host all of the time"
    held_by = "a buffer of 1,683,810 bytes, held by kern.ipc.maxsockbuf"
    assert held.startswith(f"the receiver’s window ({held_by}) ") and held.count("of the time") == 1


@pytest.mark.slow
def test_the_built_in_experiments_of_the_page_are_understood(page: Path) -> None:
    catalogue = templates.templates(CATALOGUE)
    assert catalogue == json.loads((page / "templates.json").read_text())
    addresses = [
        address
        for each in catalogue["presets"]
        for address in (each["address"], each.get("pinned", ""))
        if address
    ]
    short = [address.replace("duration=", "duration=1s&length=") for address in addresses]
    for address, ours in zip(addresses, carried_out(page, short), strict=True):
        assert [wrong for wrong in ours["wrong"] if not wrong.startswith("length")] == [], address


@pytest.mark.slow
def test_an_address_that_is_no_experiment_is_told_and_left_out(page: Path) -> None:
    wrong = [
        "rate=10Mbps",
        "rtt=-1s",
        "buffer=0p",
        "queue=fifo",
        "f=linux-6.8,scalable",
        "f=,",
        "x=1",
        "%",
        "toString=1",
    ]
    wrong += ["seed=1e9", "queue=__proto__", "experiment=a b", "f=linux-6.8,cubic,0s,0s,,a,a,a"]
    for text, ours in zip(wrong, carried_out(page, ["duration=1s&" + text for text in wrong]), strict=True):
        assert len(ours["wrong"]) == 1, text
        assert ours["scenario"]["flows"], text


@pytest.mark.slow
def test_the_plan_takes_whatever_the_page_lets_one_set(page: Path) -> None:
    edges = [
        "rate=100kbit",
        "rate=10gbit",
        "rtt=0s",
        "rtt=2s",
        "loss=50%",
        "merge=10000",
        "merge=1",
        "processing=1ns",
        "processing=100ms",
        "seed=0",
    ]
    edges += [
        "buffers=4096B",
        "buffers=1GiB",
        "access=1mbit",
        "tcp=1ms",
        "tcp=1s",
        "measure=999ms",
        "rate_then=100kbit&rate_at=0s",
        "rate_then=10gbit&rate_at=999ms",
        "start_jitter=600s",
    ]
    edges += [
        f"queue={kind}&buffer={count}p{ecn}"
        for kind in QUEUES
        for count in (1, 10**6)
        for ecn in ("", "&ecn=on")
    ]
    edges += [f"f={stack},{cc},999ms,2s" for stack, known in STACKS.items() for cc in known.cc]
    for text, ours in zip(edges, carried_out(page, ["duration=1s&" + text for text in edges]), strict=True):
        assert ours["wrong"] == [], text
        assert planner.make(loader.load(ours["yaml"])).runs[0].scenario == ours["scenario"], text
