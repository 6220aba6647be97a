"""How often a cell is run where the file does not say: once, or several times where something is drawn."""

from pathlib import Path

import pytest

import cwndlab
from cwndlab.cli import overview
from cwndlab.execution import estimate
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario import chance
from experiments import dumbbell

ONE = dumbbell(
    "one",
    duration="3s",
    a="stack: linux",
    bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 20p}",
)
LINK = "network.dumbbell.bottleneck"
TWO = ONE.replace("flows:\n", "flows:\n  - {name: f2, from: a, to: b}\n")


@pytest.mark.parametrize(
    ("text", "overrides", "drawn"),
    [
        (ONE, [f"{LINK}.loss=random: 1%"], "the loss of link bottleneck"),
        (ONE, [f"{LINK}.loss={{gilbert: {{p: 1%, r: 50%}}}}"], "the loss of link bottleneck"),
        (ONE, [f"{LINK}.jitter={{kind: normal, sd: 1ms}}"], "the jitter of link bottleneck"),
        (ONE, [f"{LINK}.duplicate=1%"], "the duplication of link bottleneck"),
        (
            ONE,
            [f"{LINK}.schedule=[{{at: 1s, set: {{loss: {{random: 1%}}}}}}]"],
            "the loss of link bottleneck",
        ),
        (ONE, [f"{LINK}.queue.kind=pie"], "the drops of pie of link bottleneck"),
        (TWO, [f"{LINK}.queue.kind=fq_codel"], "the hash of fq_codel of link bottleneck"),
        (ONE, ["hosts.a.egress.loss=random: 1%"], "the loss of host a"),
        (ONE, ["hosts.b.noise.stall={every: 1s, length: 1ms}"], "the stalls of host b"),
        (ONE, ["hosts.a.cc=bbr"], "what bbr of flow f1 does"),
        (ONE, ["flows.f1.app={kind: udp-vbr, size: 100B, interval: exp(2ms)}"], "the traffic of flow f1"),
        (ONE, ["start_jitter=1ms"], "the start of each flow"),
        (TWO, [], "the start of each flow"),
        (ONE, ["phase_jitter=1ms"], "the phase of each host"),
    ],
)
def test_five_runs_where_something_is_drawn(text: str, overrides: list[str], drawn: str):
    plan = cwndlab.load(text, overrides).plan()
    said = f"note: repeat: 5 by default, as draws decide {drawn}; repeat: 1 makes one run"
    assert (plan.repeat, len(plan.runs)) == (5, 5)
    assert said in estimate.as_text(plan, 1).splitlines()
    assert said in overview.as_text(plan, 1).splitlines()
    assert all("phase_jitter_ns" in run.scenario for run in plan.runs)


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (ONE, []),
        (ONE, [f"{LINK}.queue.kind=fq_codel"]),
        (ONE, [f"{LINK}.loss={{nth: {{every: 100, packet: 3}}}}"]),
        (ONE, ["flows.f1.app={kind: udp-vbr, size: 100B, interval: 2ms}"]),
        (TWO, ["start_jitter=0s"]),
    ],
)
def test_one_run_where_nothing_is_drawn(text: str, overrides: list[str]):
    plan = cwndlab.load(text, overrides).plan()
    assert (plan.repeat, len(plan.runs), plan.why) == (1, 1, "")
    assert "phase_jitter_ns" not in plan.runs[0].scenario


@pytest.mark.parametrize("repeat", [1, 3])
def test_the_file_decides(repeat: int):
    plan = cwndlab.load(TWO, [f"repeat={repeat}"]).plan()
    assert (plan.repeat, len(plan.runs), plan.why) == (repeat, repeat, "")


def test_one_cell_that_draws_is_enough():
    sweep = f"sweep:\n  - {LINK}.queue.kind: [pfifo, codel, pie]\n"
    plan = cwndlab.load(ONE + sweep).plan()
    assert (plan.cells, plan.repeat) == (3, 5)
    # It plans the same when its defaults are written out.
    again = cwndlab.load(cwndlab.load(ONE + sweep).as_yaml()).plan()
    assert [run.scenario_hash for run in again.runs] == [run.scenario_hash for run in plan.runs]


APPS = [
    "bulk",
    "{kind: on-off, on: 100ms, off: 100ms, distribution: exponential}",
    "{kind: udp-vbr, size: exp(200B), interval: exp(2ms)}",
    "{kind: background, load: 1mbit, size: 20KB}",
    "{kind: media, controller: gcc}",
]


SIZES = {
    "pfifo": ", limit: 20p",
    "bfifo": ", limit: 30KB",
    "cake": ", bandwidth: 9mbit",
    "red": ", limit: 60KB",
    "choke": ", limit: 60p",
    "fq": ", flow_limit: 20p",
}
QUEUES = [f"{{kind: {kind}{SIZES.get(kind, '')}}}" for kind in sorted(catalogue().queues)]


STACKS = ("linux-6.18", "linux-7.3")
"""Stacks with all congestion controls of Linux between them; what FreeBSD carries hangs on its clocks."""


def test_all_congestion_controls_of_linux_are_tried():
    found = {name: set(stack.cc) for name, stack in catalogue().stacks.items() if stack.family == "linux"}
    assert set().union(*found.values()) == set().union(*(found[stack] for stack in STACKS))


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        *([f"{LINK}.queue={queue}", "hosts.a.cc=reno"] for queue in QUEUES),
        *(
            [f"hosts.a.stack={of}", f"hosts.a.cc={cc}"]
            for of in STACKS
            for cc in catalogue().stacks[of].cc
            if cc != "westwood"  # estimates its rate in bytes per tick of the host's clock
        ),
        *([f"flows.f1.app={app}", "hosts.a.cc=reno"] for app in APPS),
    ],
    ids=" ".join,
)
def test_what_differs_between_runs_is_drawn(tmp_path: Path, overrides: list[str]):
    """Clocks move a tenth of the drops and two packets of goodput at most; what differs by more is drawn."""
    still = ["start_jitter=0s", "phase_jitter=0s", *overrides]
    results = cwndlab.load(ONE, [*still, "repeat=3"]).run(out=tmp_path / "results")
    summaries = [record.summary for record in results.records() if record.summary]
    assert len(summaries) == 3
    drops, goodput = (
        [flow[key] for of in summaries for flow in of["flows"]] for key in ("drops", "goodput_bytes")
    )
    alike = max(drops) - min(drops) <= max(drops) // 10 and max(goodput) - min(goodput) < 2 * 1448
    scenario = cwndlab.load(ONE, still).plan().runs[0].scenario
    assert alike or chance.Chance(start=False).of(scenario, None, None)
