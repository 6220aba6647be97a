"""Cells that are planned together are what each of them is when it is resolved alone."""

from pathlib import Path

import pytest

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.experiment import locate, suites
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.plan import scenario_hash
from cwndlab.experiment.scenario import planner
from cwndlab.experiment.scenario.notes import Notes
from cwndlab.experiment.scenario.resolve import resolve

FILES = [
    *sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml")),
    *(suite.path for suite in suites.suites()),
]
BASE = malformed.GOOD[: malformed.GOOD.index("sweep:")]
SWEEPS = {
    "leaves of every section": [
        "hosts.a.cc: [newreno, cubic]",
        "hosts.b.nic.tx_queue: [10p, 20p]",
        "network.dumbbell.bottleneck.queue.limit: [10p, 1bdp]",
        "network.dumbbell.bottleneck.delay: [5ms, 10ms]",
        "flows.f1.cc: [newreno, cubic]",
        "duration: [90s, 91s]",
        "measure.from: [1s, 2s]",
    ],
    "a section inside another": [
        "network.dumbbell.access.rate: [1gbit, 2gbit]",
        "network.dumbbell.access.reverse.delay: [1ms, 2ms]",
        "network.dumbbell.bottleneck.mtu: [1500, 9000]",
    ],
    "whole sections": [
        "network.dumbbell.bottleneck: [{rate: 1mbit, queue: {kind: codel}}, {rate: 2mbit, delay: 1ms}]",
        "hosts.a: [{stack: freebsd-13}, {stack: linux-6.8, count: 2}]",
    ],
    "a mapping that an axis makes": [
        "network.dumbbell.access_of.a.mtu: [1500, 1400]",
        "hosts.a.egress.delay: [1ms, 2ms]",
        "flows.f1.app.kind: [bulk, ping]",
    ],
    "levels that set different keys": [
        "{name: tuning, values: {none: {}, one: {hosts.a.cc: cubic, network.dumbbell.bottleneck.mtu: 1600},"
        " two: {hosts.a.hz: 100, measure.from: 1s}, three: {hosts.b: {stack: linux-3.9}}}}",
        "network.dumbbell.bottleneck.rate: [1mbit, 2mbit]",
        "{name: load, values: {1: {flows.f1.app: bulk, hosts.b.mss: 1000}, 2: {flows.f1.app.kind: ping}}}",
    ],
}


def alone(experiment: Experiment) -> list[tuple[object, ...]]:
    """What each cell is by itself; what is wrong with the first that is refused ends the list."""
    schema, support = type(experiment.spec), experiment.support
    catalogue = support.catalogue()
    part = planner.subset(experiment.tree, experiment.axes, schema, support, catalogue)
    found: list[tuple[object, ...]] = []
    try:
        for cell in part.cells():
            made = resolve(locate.check(schema, cell.tree), cell.tree, catalogue, support)
            notes = (*experiment.notes, *part.notes, *made.notes, *Notes(catalogue).of(made.scenario))
            digest = scenario_hash(made.scenario)
            found.append((list(cell.values.items()), repr(made.scenario), digest, notes, made.warnings))
    except ExperimentError as error:
        return [("refused", str(error), [str(each) for each in error.all])]
    return found


def planned(experiment: Experiment) -> list[tuple[object, ...]]:
    try:
        plan = planner.make(experiment)
    except ExperimentError as error:
        return [("refused", str(error), [str(each) for each in error.all])]
    firsts = [run for run in plan.runs if run.repeat == 0]
    # What is said of an axis no cell alone knows.
    notes = [tuple(note for note in run.notes if not note.startswith("sweep: ")) for run in firsts]
    return [
        (list(run.cell.items()), repr(run.scenario), run.scenario_hash, said, run.warnings)
        for run, said in zip(firsts, notes, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_examples_and_suites(file: Path) -> None:
    if "experiment:" not in file.read_text():
        pytest.skip("no experiment")
    experiment = load(file)
    assert planned(experiment) == alone(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("axes", SWEEPS.values(), ids=SWEEPS)
def test_sections_of_every_kind(axes: list[str]) -> None:
    experiment = load(BASE + "sweep:\n" + "".join(f"  - {axis}\n" for axis in axes))
    assert planned(experiment) == alone(experiment)


@pytest.mark.parametrize(
    "axes",
    [
        ["hosts.a.cc: [newreno, nonsense]", "network.dumbbell.bottleneck.rate: [1mbit, 2]"],
        ["network.dumbbell.bottleneck.rate: [1mbit, 2mbit]", "hosts.a.cc: [newreno, nonsense]"],
        ["network.dumbbell.bottleneck.mtu: [1500, 1400]", "hosts.a.mss: [1460, 9000]"],
        ["flows.f1.start: [0s, 1s]", "flows.f1.stop: [2s, 1s]"],
        ["flows.f1.name: [f1, x]", "flows.f1.start: [0s, 1s]"],
        ["duration: [90s, 1s]", "measure.from: [0s, 5s]"],
        ["{name: x, values: {a: {}, b: {hosts.a.frob: 1}}}", "duration: [90s, 80s]"],
        ["{name: x, values: {a: {}, b: {network.chain.bottlenecks.1.rate: 1mbit}}}"],
        ["{name: x, values: {a: {hosts.a.cc: cubic}, b: {hosts.a.mss: nonsense}}}"],
    ],
)
def test_what_is_wrong_with_a_cell_is_said_as_of_it_alone(axes: list[str]) -> None:
    experiment = load(BASE + "sweep:\n" + "".join(f"  - {axis}\n" for axis in axes))
    assert planned(experiment) == alone(experiment)
    assert planned(experiment)[0][0] == "refused"
