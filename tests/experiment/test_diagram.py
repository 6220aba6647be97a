"""Pictures of networks: every host and router is there, in 80 columns."""

from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.experiment.scenario import diagram
from experiments import dumbbell

EXAMPLES = Path(__file__).parents[2] / "examples"
HOST = "stack: linux-6.8, cc: cubic"


def drawn(text: str | Path) -> list[str]:
    scenario = load(text).plan().runs[0].scenario
    picture = diagram.draw(scenario)
    assert max(map(len, picture)) <= 80
    return picture


def test_a_dumbbell() -> None:
    text = dumbbell("x", duration="9s", a=HOST, b=HOST, c=HOST, bottleneck="rate: 10mbit")
    assert drawn(text) == [
        "     a",
        "     c                            b",
        "     |                            |",
        "router.left == bottleneck == router.right",
    ]
    many = drawn(text.replace(f"a: {{{HOST}}}", f"a: {{{HOST}, count: 30}}", 1))
    assert [line.split()[0] for line in many[:5]] == ["a.1", "a.2", "a.3", "a.4", "a.5"]
    assert many[5].split()[:3] == ["and", "26", "more"]


def test_a_chain_and_a_network_in_a_line() -> None:
    assert (
        drawn(EXAMPLES / "chain.yaml")[-1]
        == "router.1 == bottleneck.1 == router.2 == bottleneck.2 == router.3"
    )
    assert drawn(EXAMPLES / "network.yaml") == ["a            b", "|            |", "r1 == dsl == r2"]


def test_a_star() -> None:
    assert drawn(EXAMPLES / "incast.yaml") == [
        "star.switch",
        "|-- client",
        "|-- server.1",
        "|-- server.2",
        "|-- server.3",
        "`-- server.4",
    ]


def test_routers_in_a_circle() -> None:
    text = """\
experiment: circle
duration: 9s
hosts: {a: {stack: linux-6.8, cc: cubic}, b: {stack: linux-6.8, cc: cubic}}
network:
  nodes: [r, s, t]
  links:
    - {from: a, to: r}
    - {from: b, to: t}
    - {from: r, to: s, name: first}
    - {from: s, to: t, name: second}
    - {from: t, to: r, name: third, rate: 1mbit}
flows: [{from: a, to: b}]
"""
    assert drawn(text) == [
        "r",
        "|-- a",
        "|-- s  (first)",
        "`-- t  (third)",
        "    `-- b",
        "also s -- t  (second)",
    ]


@pytest.mark.parametrize("count", [2, 12])
def test_a_long_chain_goes_down(count: int) -> None:
    hosts = ", ".join(f"h{number}-of-a-chain: {{{HOST}}}" for number in range(count + 1))
    lists = ", ".join(f"[h{number}-of-a-chain]" for number in range(count + 1))
    text = f"""\
experiment: long
duration: 9s
hosts: {{{hosts}}}
network:
  chain:
    bottlenecks: [{", ".join(["{rate: 10mbit}"] * count)}]
    hosts: [{lists}]
flows: [{{from: h0-of-a-chain, to: h{count}-of-a-chain}}]
"""
    picture = "\n".join(drawn(text))
    for number in range(count + 1):
        assert f"h{number}-of-a-chain" in picture
        assert f"router.{number + 1}" in picture
