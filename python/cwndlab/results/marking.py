"""Figures of a run in which packets were marked that its summary has not: deliveries, goodput against RTT."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import FlowSummary, Summary
from cwndlab.experiment.scenario.queries import app_of, base_rtt_ns, is_datagrams

LEAST_RATIO = 1.5
"""Ratio of base RTTs from which on they count as different: below, a tenth more goodput moves the exponent by
over a quarter (ln 1.1 / ln 1.5)."""


def delivered(summary: Summary) -> dict[str, int]:
    """Data segments of each flow that arrived: those sent less those dropped. Without flows of which that is
    not known.
    """
    return {
        flow["flow"]: max(0, flow["segments_sent"] - flow["drops"])
        for flow in summary["flows"]
        if flow["segments_sent"] is not None and flow["drops"] is not None
    }


def rtt_exponent(scenario: Scenario, summary: Summary) -> float | None:
    """The e of goodput ~ RTT^-e over connections that differ in their base RTT and in nothing else.

    The least-squares slope of ln goodput against ln base RTT, its sign turned, with a level of its own for
    each application, stack and congestion control. Of two flows that is ln(ratio of goodputs) / ln(ratio of
    base RTTs). None without such flows whose base RTTs differ by `LEAST_RATIO`, where a delay is scheduled,
    and where a flow got nothing, which no exponent tells.
    """
    if len(summary["flows"]) < 2 or any(change["delay_ns"] is not None for change in scenario["schedule"]):
        return None
    counted = {flow["flow"]: flow for flow in summary["flows"] if flow["active_ns"]}
    stacks = {host["name"]: host["stack"] for host in scenario["hosts"]}
    rtts: dict[tuple[str, str], int] = {}
    alike: dict[object, list[tuple[int, FlowSummary]]] = {}
    for flow in scenario["flows"]:
        ends = flow["from"], flow["to"]
        if flow["name"] in counted and not is_datagrams(flow):
            if ends not in rtts:
                rtts[ends] = base_rtt_ns(scenario, *ends)
            kind = app_of(flow).get("kind"), stacks[flow["from"]], flow["cc"]
            alike.setdefault(kind, []).append((rtts[ends], counted[flow["name"]]))
    apart = [group for group in alike.values() if _differ(rtt for rtt, _ in group)]
    if not apart or not all(flow["goodput_bytes"] for group in apart for _, flow in group):
        return None
    return _exponent(apart)


def _differ(rtts: Iterable[int]) -> bool:
    known = sorted(rtts)
    return known[0] > 0 and known[-1] >= LEAST_RATIO * known[0]


def _exponent(groups: Iterable[list[tuple[int, FlowSummary]]]) -> float:
    both = squares = 0.0
    for group in groups:
        x = [math.log(rtt) for rtt, _ in group]
        y = [math.log(flow["goodput_bytes"] / flow["active_ns"]) for _, flow in group]
        middle, level = sum(x) / len(x), sum(y) / len(y)
        both += sum((one - middle) * (other - level) for one, other in zip(x, y, strict=True))
        squares += sum((one - middle) ** 2 for one in x)
    return -both / squares
