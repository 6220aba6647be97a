"""The name of an axis is a column of tables, and may not be one of the others."""

import pytest

from cwndlab.errors import ExperimentError
from cwndlab.execution import runner
from cwndlab.results import metrics
from cwndlab.testbeds import loader

FILE = """\
experiment: x
duration: 1s
hosts: {a: {stack: linux-6.8}, b: {stack: linux-6.8}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 1mbit, delay: 1ms}}}
flows: [{name: f1, from: a, to: b, app: bulk}]
sweep:
  - {name: NAME, values: {a: {}, b: {hosts.a.cc: reno}}}
"""


@pytest.mark.parametrize("name", ["rtos", "flow", "stack", "results", "run", *metrics.NAMES[:3]])
def test_it_is_no_other_column(name: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        runner.check(loader.load(FILE.replace("NAME", name)), "sim")
    assert str(refused.value) == (
        f"<text>:7: sweep.{name}.name: found '{name}'; expected another name, as {name} means something else"
        " in tables"
    )


def test_any_other_is_a_column() -> None:
    plan = runner.check(loader.load(FILE.replace("NAME", "tuning")), "sim")
    assert plan.keys == ("tuning",)


def test_it_is_no_metric_of_ones_own() -> None:
    text = FILE.replace("NAME", "twice") + "metrics: {twice: goodput_mbps * 2}\n"
    with pytest.raises(ExperimentError) as refused:
        runner.check(loader.load(text), "sim")
    assert str(refused.value) == (
        "<text>:7: sweep.twice.name: found 'twice'; expected another name, as twice means something else"
        " in tables"
    )
