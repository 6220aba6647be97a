"""What arrived of each flow, and the exponent of goodput against base RTT, by hand."""

import math
from typing import Any

import pytest

from cwndlab.results import marking


def run(*flows: tuple[str, int, int], cc: dict[str, str] | None = None, **scenario: Any) -> float | None:
    """The exponent of flows of which each has a host, a base RTT in ms and a goodput, over one link."""
    hosts = [
        {"name": name, "stack": "linux-7.3", "egress": {"delay_ns": rtt * 10**6}} for name, rtt, _ in flows
    ]
    described = {
        "hosts": [*hosts, {"name": "r", "stack": "linux-7.3", "egress": None}],
        "links": [
            {"name": f"{start}-{end}", "from": start, "to": end, "delay_ns": 0}
            for name, _, _ in flows
            for start, end in ((name, "r"), ("r", name))
        ],
        "flows": [
            {
                "name": name,
                "from": name,
                "to": "r",
                "cc": (cc or {}).get(name, "prague"),
                "app": {"kind": "bulk"},
            }
            for name, _, _ in flows
        ],
        "schedule": [],
        **scenario,
    }
    counted = [{"flow": name, "goodput_bytes": got, "active_ns": 10**9} for name, _, got in flows]
    return marking.rtt_exponent(described, {"flows": counted})  # type: ignore[arg-type,typeddict-item]


def test_of_two_flows_it_is_the_ratio_of_logarithms():
    assert run(("near", 10, 4000), ("far", 40, 1000)) == pytest.approx(1)
    assert run(("near", 10, 2000), ("far", 40, 1000)) == pytest.approx(0.5)
    assert run(("near", 10, 1000), ("far", 40, 1000)) == pytest.approx(0)
    assert run(("near", 10, 1000), ("far", 40, 2000)) == pytest.approx(-0.5)


def test_of_more_it_is_the_slope_of_all():
    # In units of ln 2 from the first RTT and the last goodput: (0, 2), (1, 2), (2, 0), whose slope is -1.
    assert run(("a", 10, 4000), ("b", 20, 4000), ("c", 40, 1000)) == pytest.approx(1)


def test_each_congestion_control_has_a_level_of_its_own():
    """One that gets more in all is not taken for one that depends on its round trip."""
    flows = ("a", 10, 9000), ("b", 40, 9000), ("c", 20, 100), ("d", 80, 100)
    cc = {"c": "cubic", "d": "cubic"}
    assert run(*flows, cc=cc) == pytest.approx(0)
    assert abs(run(*flows) or 0) > 1


@pytest.mark.parametrize(
    ("flows", "more"),
    [
        ([("a", 10, 1000)], {}),
        ([("a", 10, 1000), ("b", 10, 2000)], {}),
        ([("a", 10, 1000), ("b", 14, 2000)], {}),
        ([("a", 10, 1000), ("b", 40, 0)], {}),
        ([("a", 0, 1000), ("b", 40, 1000)], {}),
        ([("a", 10, 1000), ("b", 40, 2000)], {"cc": {"b": "cubic"}}),
        ([("a", 10, 1000), ("b", 40, 2000)], {"schedule": [{"delay_ns": 10**7}]}),
    ],
    ids=["alone", "alike", "nearly alike", "got nothing", "no delay", "other control", "delay changes"],
)
def test_where_it_says_nothing_there_is_none(flows: list[tuple[str, int, int]], more: dict[str, Any]):
    assert run(*flows, **more) is None


def test_from_the_least_ratio_on_there_is_one():
    assert run(("a", 10, 1500), ("b", 15, 1000)) == pytest.approx(1)
    assert math.isclose(marking.LEAST_RATIO, 1.5)


def test_what_arrived_is_what_was_sent_and_not_dropped():
    flows = [
        {"flow": "a", "segments_sent": 100, "drops": 3},
        {"flow": "b", "segments_sent": 100, "drops": None},
        {"flow": "c", "segments_sent": None, "drops": 0},
    ]
    assert marking.delivered({"flows": flows}) == {"a": 97}  # type: ignore[typeddict-item]
