"""The summary of a run on the real kernel, made of what was seen without one."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from cwndlab import load
from cwndlab.testbeds.live import summary
from cwndlab.testbeds.live.path import PathReport
from cwndlab.testbeds.live.traffic.apps import Clock, Metrics

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit}}}
flows: [{name: f, from: a, to: b, app: APP}]
"""
SECOND = 10**9


class Stopped(Clock):
    """A clock of a run of 2 s that is measured from its first second on."""

    def __init__(self) -> None:
        super().__init__((SECOND, 2 * SECOND), 2 * SECOND)
        self.at = SECOND

    def now(self) -> int:
        return self.at


def reader(numbers: list[int]) -> Metrics:
    """An end to which these came in the window, 200 bytes each."""
    end = Metrics("f", "to", Stopped())
    for number in numbers:
        end.took(200)
        end.arrived(number)
    return end


def drops(app: str, sent: int, numbers: list[int], changes: Sequence[str] = (), **known: Any) -> Any:
    """What the summary says of datagrams or echoes of which these came."""
    scenario = load(TEXT.replace("APP", app), changes).plan().runs[0].scenario
    ends = {"to": reader(numbers), "from": Metrics("f", "from", Stopped(), opened_ns=0)}
    if app == "ping":
        ends = {"from": reader(numbers)}
        ends["from"].opened_ns = 0
    ends["from"].sent_in_window = sent
    carried = PathReport([], [], {"f": known} if known else {})
    observed = summary.Observed(scenario, pl.DataFrame(), pl.DataFrame(), carried)
    observed.reports = {("f", role): end.as_json() for role, end in ends.items()}
    observed.starts = {"f": 0}
    (flow,) = summary.summary(observed)["flows"]
    return flow["drops"]


@pytest.mark.parametrize("app", ["voip", "{kind: udp-cbr, rate: 1mbit}", "ping"])
def test_datagrams_and_echoes_that_did_not_come_are_drops(app: str) -> None:
    # The last two may still be on their way.
    assert drops(app, 8, [0, 1, 4, 5]) == 2
    assert drops(app, 4, [0, 1, 2, 3]) == 0
    # One late, one twice, one not at all.
    assert drops(app, 5, [0, 2, 1, 4, 4]) == 1
    assert drops(app, 4, []) == 4


def test_drops_that_the_path_counted_are_its_own() -> None:
    assert drops("voip", 8, [0, 1, 4, 5], drops=7) == 7
    # It sees nothing of what a rule drops behind it, which passes echoes.
    rule = ["hosts.b.ingress={after_gro: {loss: {random: 1%}}}"]
    assert drops("voip", 8, [0, 1, 4, 5], rule, drops=1) == 2
    assert drops("ping", 8, [0, 1, 4, 5], rule, drops=1) == 1


def test_what_is_missed_before_the_window_is_not_of_it() -> None:
    end = Metrics("f", "to", Stopped())
    assert isinstance(end.clock, Stopped)
    end.clock.at = SECOND - 1
    end.arrived(3)
    end.clock.at = SECOND
    end.arrived(5)
    assert end.as_json()["missing_in_window"] == 1


@pytest.mark.parametrize("counts", [[0, 0, 1, 3, 3, 4], [None] * 6])
def test_recoveries_that_follow_each_other_are_counted_where_the_kernel_counts(
    counts: list[int | None],
) -> None:
    states = ["slow-start", "avoidance", "recovery", "recovery", "avoidance", "avoidance"]
    scenario = load(TEXT.replace("APP", "bulk"), ["measure={from: 0s, to: 2s}"]).plan().runs[0].scenario
    sent = pl.DataFrame(
        {"t_ns": range(0, 600, 100), "state": states, "recoveries": counts, "flow": ["f"] * 6},
        schema_overrides={"recoveries": pl.UInt64},
    )
    observed = summary.Observed(scenario, sent, pl.DataFrame(), PathReport([], [], {}))
    observed.starts = {"f": 0}
    seen = list(summary._Flow(observed, scenario["flows"][0]).transitions())
    began = [at for at, kind in seen if kind == "recovery-in"]
    # Two more within one sample, and one too short for the samples of the state.
    assert began == ([200] if counts[0] is None else [200, 300, 300, 500])
    assert sum(kind == "recovery-out" for _, kind in seen) == len(began)
