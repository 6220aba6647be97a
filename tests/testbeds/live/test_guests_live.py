"""quinn, a guest, over real sockets in namespaces, beside the same quinn in virtual time.

Machines that run tests are busy: how close both are is asked where the path kept time, elsewhere what physics
says.
"""

from pathlib import Path

import polars as pl
import pytest
from dumbbell import DUMBBELL

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.results.resultset import ResultSet

pytestmark = pytest.mark.live

QUINN = DUMBBELL.replace("stack: linux", "stack: quinn")
CLOSE = 0.03
"""Share by which goodput may differ."""
OF_THE_MODEL = {"rtt_ms", "arrived_bytes"}
"""Columns that only the model's path knows."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultSet, ResultSet]:
    """On the model's path, and over this kernel's sockets."""
    place = tmp_path_factory.mktemp("guests")
    modelled = api.load(QUINN, (), "sim").run("sim", place / "sim")
    return modelled, api.load(QUINN, (), "netns").run("netns", place / "netns")


def test_goodput_is_the_models(both: tuple[ResultSet, ResultSet]) -> None:
    (modelled,), (real,) = (results.summary.to_dicts() for results in both)
    assert real["stack"] == modelled["stack"]
    assert real["status"] in ("complete", "unreliable")
    assert 0 < real["goodput_mbps"] < real["throughput_mbps"] <= 10.3
    # A round trip has twice 5 ms of delay.
    assert real["rtt_min_ms"] >= 10
    if real["status"] == "complete":
        assert real["goodput_mbps"] == pytest.approx(modelled["goodput_mbps"], rel=CLOSE)


def test_a_guest_says_of_itself_the_same_as_in_virtual_time(both: tuple[ResultSet, ResultSet]) -> None:
    modelled, real = (results.series(0, flow="f1") for results in both)
    told = [
        {name for name in rows.columns if rows[name].null_count() < rows.height} for rows in (modelled, real)
    ]
    assert told[1] == told[0] - OF_THE_MODEL
    assert real["delivered_bytes"].diff().drop_nulls().min() >= 0
    assert real["delivered_bytes"][-1] <= both[1].record(0).summary["flows"][0]["goodput_bytes"]
    assert both[1].series(0, table="tcp_info").height == 0
    (ours,), (theirs,) = (results.record(0).summary["flows"] for results in both)
    assert ours.keys() == theirs.keys()
    unknown = [{key for key, value in flow.items() if value is None} for flow in (ours, theirs)]
    assert unknown[0] == unknown[1]
    # What it took for lost when its window shrank first was dropped by then.
    events = both[1].series(0, table="events")
    first = events.filter(pl.col("kind") == "recovery-in")["t_s"].min()
    assert first is None or events.filter((pl.col("kind") == "drop") & (pl.col("t_s") < first)).height > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("hosts.a.stack=smoltcp", "expected one of"),
        ("flows.f1.app={kind: bulk, tool: iperf3}", "expected own"),
        (
            "flows.f1.app={kind: request-response, response: 5KB}",
            "expected bulk, fixed, rate-limited or on-off",
        ),
    ],
)
def test_what_the_agent_does_not_carry_out_is_refused(change: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as refused:
        api.load(QUINN, [change], "netns").run("netns", tmp_path / "out")
    assert "\n" not in str(refused.value)
