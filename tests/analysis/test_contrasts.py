"""Which runs are compared by a key: also one that several swept keys end with."""

from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.analysis import contrasts
from cwndlab.analysis.comparison import Contrast, RunSet
from cwndlab.errors import InputError
from cwndlab.results.labels import Labels

FILE = """\
experiment: systems
duration: 500ms
hosts: {a: {stack: linux-6.8}, b: {stack: linux-6.8}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 1ms}}}
flows: [{name: f1, from: a, to: b, app: bulk}]
sweep:
  - zip:
      hosts.a.stack: [freebsd-13, freebsd-13, linux-6.8, linux-6.8]
      hosts.b.stack: STACKS
      hosts.a.cc: [newreno, cubic, newreno, cubic]
record: {tcp: "off", queue: "off"}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "stacks",
    [
        "[freebsd-13, freebsd-13, linux-6.8, linux-6.8]",
        "[linux-6.8, linux-6.8, freebsd-13, freebsd-13]",
    ],
    ids=["the same at both ends", "the other at the other end"],
)
def test_keys_that_change_together_are_one(tmp_path: Path, stacks: str) -> None:
    results = load(FILE.replace("STACKS", stacks)).run(out=tmp_path / "r")
    found = contrasts.by_key(results, "stack")
    assert [(each.a.label, each.b.label, each.contrast.name) for each in found.each] == [
        ("freebsd-13", "linux-6.8", "newreno"),
        ("freebsd-13", "linux-6.8", "cubic"),
    ]


@pytest.mark.slow
def test_keys_that_change_apart_are_not(tmp_path: Path) -> None:
    text = FILE.replace("STACKS", "[freebsd-13, linux-6.8, freebsd-13, linux-6.8]")
    results = load(text).run(out=tmp_path / "r")
    with pytest.raises(InputError, match=r"stack may be hosts\.a\.stack or hosts\.b\.stack; give the whole"):
        contrasts.by_key(results, "stack")


def test_where_is_told_from_the_key_that_is_compared():
    """Of the stacks of two hosts, a value by itself would not say whose it is."""
    where = [{"hosts.b.stack": stack, "hosts.b.cc": "cubic"} for stack in ("freebsd-13", "linux-6.8")]
    given = [Contrast(RunSet("a", []), RunSet("b", []), cell) for cell in where]
    found = contrasts.told(given, Labels({}), ["hosts.a.stack"])
    assert [each.name for each in found] == ["b.stack freebsd-13", "b.stack linux-6.8"]
    assert [each.name for each in contrasts.told(given, Labels({}))] == ["freebsd-13", "linux-6.8"]
