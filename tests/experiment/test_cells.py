"""Cells that are planned together are what each of them is when it is resolved alone."""

from pathlib import Path
from random import Random

import pytest

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.experiment import locate, suites
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.plan import scenario_hash
from cwndlab.experiment.scenario import memo, planner
from cwndlab.experiment.scenario.notes import Notes
from cwndlab.experiment.scenario.resolve import resolve
from cwndlab.experiment.schema import Flow, Host, Link, Section, Spec

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
    "rates and delays beside what follows from them": [
        "network.dumbbell.bottleneck.rate: [1mbit, 2mbit]",
        "network.dumbbell.bottleneck.delay: [1ms, 20ms]",
        "network.dumbbell.bottleneck.queue.limit: [2bdp, 90p]",
    ],
    "rates and delays at every place": [
        "network.dumbbell.reverse: [{delay: 3ms, mtu: 1400}, {rate: 300kbit}]",
        "network.dumbbell.access.delay: [1ms, 2ms]",
        "network.dumbbell.access_of.a.rate: [900kbit, 5mbit]",
        "hosts.b.nic.rate: [500kbit, 1gbit]",
        "{name: line, values: {slow: {network.dumbbell.bottleneck.rate: 1mbit}, shaped:"
        " {network.dumbbell.bottleneck.shaper: {kind: policer, rate: 800kbit, burst: 10KB}}, whole:"
        " {network.dumbbell.bottleneck: {rate: 2mbit, delay: 9ms}}}}",
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
        repeat = planner.make(experiment).repeat
        for cell in part.cells():
            made = resolve(locate.check(schema, cell.tree), cell.tree, catalogue, support, repeat)
            notes = (
                *experiment.notes,
                *part.notes,
                *made.notes,
                *Notes(catalogue).of(made),
            )
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


def below(section: type[Section]) -> list[type[Section]]:
    """The sections that are made of one, and of those."""
    return [each for own in section.__subclasses__() for each in (own, *below(own))]


DRAWN = 60
"""Sweeps drawn for each kind of network."""

NETWORKS = {
    "dumbbell": """
  dumbbell:
    left: [a, c]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 2bdp}}""",
    "chain": """
  chain:
    bottlenecks: [{rate: 9mbit, delay: 1ms, queue: {kind: bfifo, limit: 1bdp}}, {rate: 8mbit}]
    hosts: [[a], [c], [b]]""",
    "star": """
  star: {switch: {buffer: 100KB}, link: {rate: 100mbit, delay: 1ms}}""",
    "general": """
  nodes: [r]
  links:
    - {from: a, to: r, rate: 5mbit, delay: 2ms, queue: {kind: pfifo, limit: 1bdp}}
    - {from: b, to: r}
    - {from: c, to: r}""",
}
LINKS = {
    "dumbbell": ["dumbbell.bottleneck", "dumbbell.reverse", "dumbbell.access", "dumbbell.access.reverse"],
    "chain": ["chain.bottlenecks.1", "chain.bottlenecks.2.reverse", "chain.access", "chain.access_of.a"],
    "star": ["star.link", "star.link.reverse", "star.link_of.b"],
    "general": ["links.1", "links.2", "links.1.reverse"],
}
OF_LINKS = {
    "rate": ["1mbit", "20mbit", "3mbit"],
    "delay": ["0ms", "7ms", "30ms"],
    "queue": [
        "codel",
        "{kind: pfifo, limit: 2bdp}",
        "{kind: red, limit: 60KB}",
        "{kind: cake, bandwidth: 2mbit}",
    ],
    "queue.limit": ["10p", "1bdp", "64KB"],
    "mtu": ["1500", "9000", "600"],
    "overhead": ["0", "38"],
    "loss": ["{random: 1%}", "{nth: {every: 10}}"],
    "shaper": ["{kind: tbf, rate: 2mbit, burst: 20KB}"],
    "schedule": ["[{at: 1s, set: {rate: 2mbit}}]", "[{at: 1s, set: {queue: {kind: bfifo, limit: 3bdp}}}]"],
}
OF_ENDS = {
    "hosts.a.cc": ["cubic", "reno", "newreno"],
    "hosts.a": ["{stack: freebsd-13}", "{stack: linux-6.8, count: 2, cc: reno}"],
    "hosts.a.stack": ["linux-3.9", "freebsd-15", "windows-7"],
    "hosts.a.count": ["1", "2"],
    "hosts.a.mss": ["1000", "1460", "8000"],
    "hosts.a.nic.rate": ["4mbit", "50mbit"],
    "hosts.a.nic.tx_queue": ["10p", "20p"],
    "hosts.a.sndbuf": ["64KB", "8MB"],
    "hosts.b.rcvbuf": ["64KB", "auto"],
    "hosts.b.ecn": ["on", "off"],
    "hosts.b.egress.delay": ["1ms", "20ms"],
    "hosts.b.sysctl.net.ipv4.tcp_ecn": ["0", "1"],
    "flows.f1.cc": ["reno", "cubic"],
    "flows.f1.app": ["bulk", "{kind: loadlatency, scenario: 7}", "ping", "{kind: rate-limited, rate: 1mbit}"],
    "flows.f1.app.kind": ["bulk", "ping"],
    "flows.f1.start": ["0s", "1s", "6s"],
    "flows.f1.stop": ["3s", "5s"],
    "flows.f1.bytes": ["1MB", "20MB"],
    "flows.f1.count": ["1", "3"],
    "flows.second.to": ["a", "c"],
    "flows.second.sndbuf": ["32KB", "auto"],
    "flows.second.name": ["second", "x"],
    "duration": ["8s", "4s", "9s"],
    "start_jitter": ["0s", "1ms"],
    "phase_jitter": ["0s", "1ms"],
    "measure.from": ["0s", "2s"],
    "measure": ["{from: 1s}", "{to: 3s}"],
    "record.tcp": ["off", "10ms"],
    "record.pcap": ["[{at: a}]", "[]"],
}


def drawn(random: Random, kind: str) -> str:
    """An experiment with a network of a kind and a few axes, some of which do not go together."""
    links = {f"network.{link}.{key}": values for link in LINKS[kind] for key, values in OF_LINKS.items()}
    keys, axes = {**links, **OF_ENDS}, []
    left = random.sample(sorted(links), random.randint(0, 2))
    left += random.sample(sorted(OF_ENDS), random.randint(1, 3))
    random.shuffle(left)
    while left:
        key = left.pop()
        values = random.sample(keys[key], random.randint(1, min(3, len(keys[key]))))
        match random.randrange(4) if left else 0:
            case 0 | 1:
                axes.append(f"{key}: [{', '.join(values)}]")
            case 2:
                other = left.pop()
                both = [f"{{{key}: {value}, {other}: {random.choice(keys[other])}}}" for value in values]
                levels = (f"l{number}: {level}" for number, level in enumerate([*both, "{}"]))
                axes.append(f"{{name: n{len(axes)}, values: {{{', '.join(levels)}}}}}")
            case _:
                other = left.pop()
                column = [random.choice(keys[other]) for _ in values]
                axes.append(f"zip: {{{key}: [{', '.join(values)}], {other}: [{', '.join(column)}]}}")
    return (
        "experiment: drawn\nduration: 8s\n"
        "hosts: {a: {stack: linux-6.8}, b: {stack: linux-6.18}, c: {stack: freebsd-13}}\n"
        f"network:{NETWORKS[kind]}\n"
        "flows:\n  - {from: a, to: b}\n  - {name: second, from: b, to: c, start: 500ms}\n"
        "sweep:\n" + "".join(f"  - {axis}\n" for axis in axes)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
def test_sweeps_drawn_at_random(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever axes touch together, and however little is kept from cell to cell."""
    random, sound = Random(kind), 0
    for number in range(DRAWN):
        monkeypatch.setattr(memo, "MOST", random.choice([1, 3, 1024]))
        text = drawn(random, kind)
        try:
            experiment = load(text)
        except ExperimentError:
            continue
        found = planned(experiment)
        assert found == alone(experiment), f"{number}:\n{text}"
        sound += found[0][0] != "refused"
    assert sound > DRAWN // 5, "most of what is drawn is refused"


@pytest.mark.parametrize(
    "section", [Spec, Host, Flow, Link, *below(Link)], ids=lambda section: section.__name__
)
def test_sections_with_a_rule_over_several_fields_name_them(section: type[Section]) -> None:
    """Other fields are checked by themselves."""
    rules = section.__pydantic_decorators__.model_validators.keys() - {"_known_keys"}
    assert bool(rules) == bool(section.ruled)
    assert section.ruled <= section.model_fields.keys()
