"""The sharing of flows over time: metrics made of their goodput in each second."""

import math
from collections.abc import Mapping, Sequence

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import FlowSummary, Summary

NS_PER_S = 10**9

FAIR = 0.95
"""Jain's index from which flows count as converged: of two, the larger has at most 1.6 times the other."""

FAIR_WINDOW_S = 5
"""Seconds over which goodput is averaged for that, so that a sawtooth is not taken for unfairness."""

FULL = 0.9
"""Share of the bottleneck from which it counts as filled."""

Metrics = dict[str, float | None]


def of_run(
    scenario: Scenario,
    summary: Summary,
    bottlenecks: Mapping[str, tuple[str, float] | None],
    alike: Sequence[Sequence[str]],
) -> dict[str, Metrics]:
    """The metrics of each flow, by flow name; those that do not exist are None.

    `alike` has the names of the flows whose shares are compared with each other, group by group; the first
    three metrics are of each group. `jain_1s_mean` and `jain_1s_min`: Jain's index in each whole second of
    the measurement window in which at least two flows are active. `convergence_s`: from the start of the
    last flow to the end of the first `FAIR_WINDOW_S` seconds over which the index of the goodputs of those
    active is at least `FAIR`. `time_to_90_s`: from the start of the first flow over a bottleneck to the
    end of the first second in which all over it together fill `FULL` of its rate (their goodputs, scaled by
    what their packets occupied there per byte of payload in the window). `time_to_rate_s`: from the flow's
    start to the end of the first second in which its goodput is the rate that `measure.time_to` asks for.
    All are multiples of a second, plus what is left of the second a flow started in.
    `bottlenecks` names each flow's narrowest link and the bits it can carry in the measurement window.
    """
    flows = {flow["flow"]: _Seconds(flow) for flow in summary["flows"] if flow["flow"] in bottlenecks}
    window = scenario["measure"]["from_ns"], scenario["measure"]["to_ns"]
    filled = _filled(scenario, flows, bottlenecks)
    rate = scenario["measure"].get("time_to_bps")
    found: dict[str, Metrics] = {
        name: {"time_to_90_s": filled.get(name), "time_to_rate_s": flows[name].time_to(rate)}
        for name in bottlenecks
    }
    for names in alike:
        group = [flows[name] for name in names]
        shared = {**_fairness(group, window), "convergence_s": _convergence(group)}
        for name in names:
            found[name].update(shared)
    return found


class _Seconds:
    """A flow's goodput in the whole seconds of its life: payload bytes by number of the second in the run."""

    def __init__(self, counted: FlowSummary) -> None:
        sampled = counted.get("goodput_seconds") or {"from_ns": 0, "bytes": []}
        self.start_ns = counted["start_ns"] or 0  # null: never opened, and nothing below matters
        self.goodput_bytes: int = counted["goodput_bytes"]
        self.wire_bytes: int | None = counted["wire_bytes"]
        first = sampled["from_ns"] // NS_PER_S
        took = counted.get("completion_ns")
        # The second in which it ended is not whole any more.
        end = None if took is None else (self.start_ns + took) // NS_PER_S
        self.bytes: dict[int, int] = {
            first + place: amount
            for place, amount in enumerate(sampled["bytes"])
            if (first + place) * NS_PER_S >= self.start_ns and (end is None or first + place < end)
        }

    def mean(self, seconds: Sequence[int]) -> float | None:
        """Mean over these seconds. None unless it was active in all of them."""
        if not all(second in self.bytes for second in seconds):
            return None
        return float(sum(self.bytes[second] for second in seconds) / len(seconds))

    def time_to(self, rate_bps: int | None) -> float | None:
        """Seconds from its start to the end of the first one with that goodput. None where there is none."""
        reached = (second for second, amount in self.bytes.items() if amount * 8 >= (rate_bps or math.inf))
        second = next(reached, None)
        return None if second is None else ((second + 1) * NS_PER_S - self.start_ns) / NS_PER_S


def _fairness(flows: Sequence[_Seconds], window: tuple[int, int]) -> Metrics:
    first, last = -(-window[0] // NS_PER_S), window[1] // NS_PER_S
    indices = []
    for second in range(first, last):
        index = _jain([flow.bytes[second] for flow in flows if second in flow.bytes])
        if index is not None:
            indices.append(index)
    if not indices:
        return {"jain_1s_mean": None, "jain_1s_min": None}
    return {"jain_1s_mean": sum(indices) / len(indices), "jain_1s_min": min(indices)}


def _convergence(flows: Sequence[_Seconds]) -> float | None:
    active = [flow for flow in flows if flow.bytes]
    if len(active) < 2:
        return None
    start_ns = max(flow.start_ns for flow in active)
    first, last = -(-start_ns // NS_PER_S), max(max(flow.bytes) for flow in active)
    for second in range(first, last - FAIR_WINDOW_S + 2):
        means = [flow.mean(range(second, second + FAIR_WINDOW_S)) for flow in active]
        # A flow that has ended has no share any more.
        index = _jain([mean for mean in means if mean is not None])
        if index is not None and index >= FAIR:
            return ((second + FAIR_WINDOW_S) * NS_PER_S - start_ns) / NS_PER_S
    return None


def _filled(
    scenario: Scenario,
    flows: Mapping[str, _Seconds],
    bottlenecks: Mapping[str, tuple[str, float] | None],
) -> dict[str, float]:
    """`time_to_90_s` by flow, of those whose bottleneck has one rate all the time and is filled at some."""
    measured_s = (scenario["measure"]["to_ns"] - scenario["measure"]["from_ns"]) / NS_PER_S
    changed = {change["link"] for change in scenario["schedule"]}
    filled: dict[str, float] = {}
    for link, bits in {known for known in bottlenecks.values() if known is not None}:
        over = {
            name: flow for name, flow in flows.items() if bottlenecks[name] == (link, bits) and flow.bytes
        }
        payload = sum(flow.goodput_bytes for flow in over.values())
        if link in changed or not payload:
            continue
        occupied = [flow.wire_bytes for flow in over.values() if flow.wire_bytes is not None]
        if len(occupied) < len(over):
            continue  # nobody counted what some of them put on the wire
        per_byte = sum(occupied) / payload
        wanted = FULL * bits / 8 / measured_s / per_byte
        start_ns = min(flow.start_ns for flow in over.values())
        seconds = sorted({second for flow in over.values() for second in flow.bytes})
        for second in seconds:
            if sum(flow.bytes.get(second, 0) for flow in over.values()) >= wanted:
                filled |= dict.fromkeys(over, ((second + 1) * NS_PER_S - start_ns) / NS_PER_S)
                break
    return filled


def _jain(amounts: Sequence[float]) -> float | None:
    """Jain's index. None for fewer than two amounts, or where all are 0."""
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if len(amounts) > 1 and squares else None
