"""Links as queue disciplines of a kernel, decided and made without one that has them."""

from collections.abc import Sequence
from typing import Any

import pytest

from cwndlab import load
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.linux import tc
from cwndlab.testbeds.live.linux.trial import Trials
from cwndlab.testbeds.live.path.links import Look
from cwndlab.testbeds.netns import kernel_path
from cwndlab.testbeds.netns.kernel_path import KernelPath
from cwndlab.testbeds.netns.layout import lay_out
from cwndlab.testbeds.netns.network import Network
from cwndlab.testbeds.netns.reach import Namespace

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, queue: {kind: pfifo, limit: 30p}}}}
flows: [{name: f, from: a, to: b}]
"""
HAS = ("pfifo", "htb", "netem")


def scenario(**bottleneck: str) -> Any:
    return load(TEXT, [f"network.dumbbell.bottleneck.{key}={value}" for key, value in bottleneck.items()]) \
        .plan().runs[0].scenario  # fmt: skip


class Kernel:
    """Stands for a kernel with some queue disciplines, which takes every parameter."""

    def __init__(self, has: Sequence[str]) -> None:
        self._has = has

    def refused(self, trials: Trials) -> dict[str, str]:
        return {kind: "Specified qdisc kind is unknown" for kind in trials if kind not in self._has}


def said_of(made: Any, has: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(kernel_path, "_tried", Kernel(has))
    monkeypatch.setattr(programs, "need", lambda name, purpose: name)
    said = list(kernel_path.troubles(made))
    assert not any("\n" in trouble for trouble in said)
    return [trouble for trouble in said if trouble.startswith("link bottleneck: ")]


@pytest.mark.parametrize(
    ("bottleneck", "has", "complaint"),
    [
        ({"delay": "5ms"}, HAS[:-1], "refuses queue discipline netem (Specified qdisc kind is unknown); try"),
        ({"loss": "{random: 1%}"}, ("htb", "pfifo"), "; try modprobe sch_netem, or use emulator: own"),
        ({"queue": "{kind: codel}"}, HAS, "this kernel refuses queue discipline codel"),
        ({"loss": "{nth: {every: 5}}"}, HAS, "not nth; ingress.after_gro of a host has nth, or use emulator"),
        ({"queue": "{kind: fq_codel, quantum: 255B}"}, (*HAS, "fq_codel"), "at least 256 bytes, not 255"),
        (
            {"queue": "{kind: fq, ce_threshold: 5ms}"},
            (*HAS, "fq"),
            "where that is the same kernel; use emulator: own",
        ),
        ({"overhead": "20"}, HAS, "the kernel counts 14 bytes of overhead, not 20"),
    ],
)
def test_what_the_kernel_lacks_is_said_in_one_line(
    bottleneck: dict[str, str], has: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = said_of(scenario(**bottleneck), has, monkeypatch)
    assert complaint in said


def test_what_machines_make_with_tc_this_one_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage, and a discipline that only the maker of links knows."""
    made = scenario(delay="5ms", loss="{random: 1%}", corrupt="1%", queue="{kind: pie}")
    assert said_of(made, (*HAS, "pie"), monkeypatch) == []


def test_everything_that_a_kernel_lacks_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_of(scenario(delay="5ms", queue="{kind: codel}", overhead="20"), ["pfifo"], monkeypatch)
    assert [trouble.split(" (")[0] for trouble in said] == [
        "link bottleneck: this kernel refuses queue discipline htb",
        "link bottleneck: this kernel refuses queue discipline netem",
        "link bottleneck: this kernel refuses queue discipline codel",
        "link bottleneck: the kernel counts 14 bytes of overhead, not 20",
    ]


def test_links_are_made_where_their_packets_leave_and_counted_from_the_runs_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = scenario(delay="5ms")
    layout = lay_out(made)
    told: dict[str, list[Sequence[str]]] = {}
    network = Network({node: f"ns-{node}" for node in (*layout.hosts, *layout.nodes)}, None)

    def run(self: Namespace, words: Sequence[str], undo: Sequence[str]) -> None:
        told.setdefault(self.namespace, []).append(words)

    monkeypatch.setattr(Namespace, "run", run)
    path = KernelPath(3, made, layout, network)
    path._polls.clear()
    path.start()
    (link,) = (link for link in made["links"] if link["name"] == "bottleneck")
    (port,) = (c.near for c in layout.cables if c.forward is not None and c.forward["name"] == "bottleneck")
    assert [words for words in told[f"ns-{port.node}"] if port.interface in words] == tc.commands(
        link, port.interface
    )
    counters = iter([Look(10, 1000, 1, 0, 0)] * len(made["links"]) + [Look(30, 4000, 3, 0, 0)] * 9)
    monkeypatch.setattr(path, "_look", lambda name: next(counters))
    path.mark_start(0)
    (counted,) = (link for link in path.stop().links if link["link"] == "bottleneck")
    assert (counted["packets"], counted["bytes"], counted["drops"]) == (20, 3000, 2)
