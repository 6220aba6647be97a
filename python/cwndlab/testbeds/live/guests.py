"""Flows of guests on live hosts, which the agent carries out (crates/agent/src/stack.rs)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cwndlab.contract.scenario import Flow, Host, Scenario
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.observation import samples

DEFAULT_NS = 10_000_000
"""Interval of samples where the experiment records no series: the summary needs some."""

LONGER_HEADERS = 12
"""Bytes by which the headers of TCP are longer than those of UDP."""


def interval_ns(scenario: Scenario) -> int:
    """Interval at which the ends of connections are looked at, in ns."""
    recorded = scenario["record"]["tcp"]
    return recorded["interval_ns"] if recorded["kind"] == "interval" else DEFAULT_NS


def is_guest(host: Host) -> bool:
    """Whether connections of a host are those of a guest, and not of its kernel."""
    stack = catalogue().stacks.get(host["stack"])
    return stack is not None and stack.guest


def carries(scenario: Scenario, flow: Flow) -> bool:
    """Whether a guest carries a flow out."""
    return not is_datagrams(flow) and is_guest(_host(scenario, flow["from"]))


def connections(scenario: Scenario) -> list[Flow]:
    """List the flows over the TCP of kernels."""
    return [flow for flow in scenario["flows"] if not is_datagrams(flow) and not carries(scenario, flow)]


def orders(scenario: Scenario, flow: Flow) -> dict[str, Any]:
    """Make the orders of both ends of a guest's flow."""
    hosts = [_host(scenario, flow["from"]), _host(scenario, flow["to"])]
    return {
        "stack": hosts[0]["stack"],
        "payload": [host["mss"] + LONGER_HEADERS for host in hosts],
        "marks": [host["ecn"] != "off" for host in hosts],
        "interval_ns": interval_ns(scenario),
    }


def rows(
    run_id: int, ends: Mapping[str, Ends], reports: Mapping[tuple[str, str], Mapping[str, Any]]
) -> pa.Table:
    """Collect what guests that send said of themselves, in the columns of samples.

    Delivered is what the other end had read when it was last looked at.
    """
    made = []
    for (flow, role), report in reports.items():
        if role != "from" or report.get("guest") is None:
            continue
        there = reports[flow, "to"].get("guest") or {"rows": []}
        times = [row["t_ns"] for row in there["rows"]]
        read = [0, *(row["delivered_bytes"] for row in there["rows"])]
        ports = {"local_port": ends[flow].source_port, "remote_port": ends[flow].target_port}
        for row in report["guest"]["rows"]:
            delivered = read[bisect_right(times, row["t_ns"])]
            made.append({**row, **ports, "run_id": run_id, "flow": flow, "delivered_bytes": delivered})
    return samples.table(made)


def _host(scenario: Scenario, name: str) -> Host:
    return next(host for host in scenario["hosts"] if host["name"] == name)
