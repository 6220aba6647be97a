"""Says of a run in real time where more passed a link than the rate that is declared for it."""

from collections.abc import Iterator

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Summary
from cwndlab.experiment.scenario.graph import Routes
from cwndlab.experiment.scenario.queries import least_rate
from cwndlab.experiment.units import format_rate

TOLERANCE = 1.1
"""Ratio of what passes to the declared rate above which it is said: bursts, and clocks that differ."""


def links(scenario: Scenario, summary: Summary) -> dict[str, tuple[int, float]]:
    """Return each bottleneck that carried more in the window than its rate allows: both, in bit/s, by its
    name; of a model there is none."""
    if "live" not in scenario:
        return {}
    routes = Routes((link["name"], link["from"], link["to"]) for link in scenario["links"])
    carried: dict[str, int] = {}
    counted = {flow["flow"]: flow["wire_bytes"] or 0 for flow in summary["flows"]}
    for flow in scenario["flows"]:
        for name in routes.way(flow["from"], flow["to"]) or ():
            carried[name] = carried.get(name, 0) + counted.get(flow["name"], 0)
    seconds = (scenario["measure"]["to_ns"] - scenario["measure"]["from_ns"]) / 1e9
    changed = {change["link"] for change in scenario["schedule"]}
    found = {}
    for link in scenario["links"]:
        rate = least_rate(link["rate_bps"], link["shaper"] or {}, link["queue"])
        if not link["bottleneck"] or rate is None or link["name"] in changed or seconds <= 0:
            continue
        passed = carried.get(link["name"], 0) * 8 / seconds
        if passed > TOLERANCE * rate:
            found[link["name"]] = rate, passed
    return found


def warnings(scenario: Scenario, summary: Summary) -> Iterator[str]:
    """Yield a sentence for each of these bottlenecks."""
    for name, (rate, passed) in links(scenario, summary).items():
        yield (
            f"{name} is declared with {format_rate(rate)} and carried {passed / 1e6:.4g} Mbit/s: the path of"
            " the machines is faster than the file says, so that there is no utilisation"
        )
