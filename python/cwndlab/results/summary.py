"""The row of metrics that stands for a flow of a run, from what the testbed counted.

The counters are the summary of docs/architecture.md: they cover the measurement window of the run only.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from cwndlab.contract.scenario import Flow, Scenario
from cwndlab.contract.summary import FlowSummary, Summary
from cwndlab.experiment.scenario import rate_check
from cwndlab.experiment.scenario.capacity import narrowest
from cwndlab.experiment.scenario.queries import app_of, is_datagrams
from cwndlab.results import call, dynamics, limits, metrics
from cwndlab.results.metrics import Value

CARRIED_OUT = ("complete", "unreliable")
"""Statuses of flows that did what they were asked to.

`unreliable`: over a path that was not quite the one described, as a real-time emulator finds of itself; the
run's warnings say by how much."""

RAN = (*CARRIED_OUT, "unfinished")
"""Statuses of flows that have series: those too that had not done all when the run ended."""

_OF_TCP = metrics.names(lambda metric: metric.of == "tcp")


def flow_metrics(scenario: Scenario, summary: Summary) -> dict[str, dict[str, Value]]:
    """The metrics of each flow of a run, by flow name in the scenario's order.

    Rates are megabits (10^6) per second over the time the flow was active inside the window, so that a flow
    that starts late is not diluted; goodput counts payload the receiving application read, throughput what
    the packets occupied at the bottleneck, retransmissions and overhead included. `utilisation` is the flow's
    part (0 to 1) of what the narrowest bottleneck on its way could carry in the window; the parts of all
    flows add up to the link's, and there is none where machines carried more than that (`scenario.exceeded`).
    `retransmit_rate` and `drop_rate` are per data segment sent. `cycle_s` is the
    mean time between entries of loss recovery, the period of the congestion-avoidance sawtooth; it needs two
    entries. `completion_s` is from opening to the last byte read; `completion_*_ms`, `response_*_ms`,
    `round_*_ms` and `one_way_*_ms` are percentiles of what the application saw (each transfer of background
    traffic completes), `mos` is the opinion score of a call (`results.call`), `mos_error` how far two clocks
    may have it off, `stalled_s` is how long a player had nothing to show. Of datagrams, `drop_rate` is the
    loss.
    `limited_*_pct` are shares of the active time, and `limited_by` is the main one (`results.limits`).
    `power` is Kleinrock's: goodput in Mbit/s over the mean RTT in s (Kleinrock 1979).
    `slow_start_exit_s` is from the flow's start to the first end of slow start, wherever the window lies.
    `jain` is Jain's index over the goodputs of the run's flows of the same application (Jain, Chiu, Hawe:
    DEC-TR-301, 1984), only where there are several; `results.dynamics` has the metrics over single seconds.
    Datagrams take no part in either, but for media with a congestion control; nor do pingers of loadlatency
    scenarios, in whose rows the metrics of the scenario are (docs/loadlatency.md). Datagrams have None of
    what only a TCP connection has.
    """
    counted = {flow["flow"]: flow for flow in summary["flows"]}
    rows = {
        flow["name"]: _metrics(scenario, flow, counted[flow["name"]])
        for flow in scenario["flows"]
        if flow["name"] in counted
    }
    alike = _alike([flow for flow in scenario["flows"] if flow["name"] in rows])
    for names in alike:
        fairness = six_digits(jain([rows[name]["goodput_mbps"] for name in names]))
        for name in names:
            rows[name]["jain"] = fairness
    totals = _totals(scenario, [counted[name] for name in rows])
    for row in rows.values():
        row.update(totals)
    faster = rate_check.links(scenario, summary)
    pingers = {flow["name"] for flow in scenario["flows"] if _is_pinger(flow)}
    bottlenecks = {name: narrowest(scenario, name) for name in rows if name not in pingers}
    for name, found in bottlenecks.items():
        if found is not None and found[0] in faster:
            rows[name]["utilisation"] = None
    for name, shared in dynamics.of_run(scenario, summary, bottlenecks, alike).items():
        rows[name].update({metric: six_digits(value) for metric, value in shared.items()})
    return rows


def no_metrics(scenario: Scenario, status: str) -> dict[str, dict[str, Value]]:
    """Rows of a run that gave no metrics: what is known beforehand, and the status."""
    rows: dict[str, dict[str, Value]] = {}
    for flow in scenario["flows"]:
        row: dict[str, Value] = dict.fromkeys(metrics.NAMES)
        row.update(_words(scenario, flow), status=status)
        rows[flow["name"]] = row
    return rows


def jain(rates: Sequence[Value]) -> float | None:
    """Jain's fairness index (sum x)^2 / (n sum x^2), from 1/n to 1. None for fewer than two known rates."""
    known = [float(rate) for rate in rates if rate is not None]
    squares = sum(rate * rate for rate in known)
    if len(known) < 2 or squares == 0:
        return None
    return sum(known) ** 2 / (len(known) * squares)


def cycle_ns(entries: Sequence[int]) -> float | None:
    """Mean time in ns between consecutive recovery entries. None for fewer than two."""
    return (entries[-1] - entries[0]) / (len(entries) - 1) if len(entries) > 1 else None


def six_digits(value: float | None) -> float | None:
    """The value with six significant digits, the resolution of every float in a summary."""
    return None if value is None else float(f"{value:.6g}")


def _metrics(scenario: Scenario, flow: Flow, counted: FlowSummary) -> dict[str, Value]:
    active, sent = counted["active_ns"], counted["segments_sent"]
    rtt, queueing = counted["rtt"], counted["queue_delay"]
    # Datagrams wait for nothing, and a connection that never opened did not wait either.
    held: Mapping[str, Any] = counted["limited_ns"]
    limited = held if any(held.values()) else {}
    floats: dict[str, float | None] = {
        "goodput_mbps": _ratio(counted["goodput_bytes"] * 8e3, active),
        "sender_mbps": _sender(counted),
        "throughput_mbps": _ratio(_times(counted["wire_bytes"], 8e3), active),
        "utilisation": _utilisation(scenario, flow, counted["wire_bytes"]),
        "retransmit_rate": _ratio(counted["retransmits"], sent),
        "drop_rate": _ratio(counted["drops"], sent),
        "cycle_s": _ratio(cycle_ns(counted["recovery_entries_ns"]), 1e9),
        "rtt_min_ms": _ratio(rtt.get("min_ns"), 1e6),
        "rtt_mean_ms": _ratio(rtt.get("mean_ns"), 1e6),
        "rtt_p50_ms": _ratio(rtt.get("p50_ns"), 1e6),
        "rtt_p95_ms": _ratio(rtt.get("p95_ns"), 1e6),
        "rtt_max_ms": _ratio(rtt.get("max_ns"), 1e6),
        "queue_delay_p50_ms": _ratio(queueing.get("p50_ns"), 1e6),
        "queue_delay_p95_ms": _ratio(queueing.get("p95_ns"), 1e6),
        "queue_delay_max_ms": _ratio(queueing.get("max_ns"), 1e6),
        "power": _power(counted),
        "slow_start_exit_s": _since_start(counted, counted.get("slow_start_exit_ns")),
        "srtt_mean_ms": _ratio(counted.get("srtt_mean_ns"), 1e6),
        **{f"limited_{name}_pct": _ratio(_times(limited.get(name), 100), active) for name in limits.KINDS},
        "completion_s": _ratio(counted["completion_ns"], 1e9),
        "stalled_s": _ratio(counted.get("stalled_ns"), 1e9) if app_of(flow).get("kind") == "video" else None,
    }
    by_name: Mapping[str, Any] = counted
    for kind in ("completion", "response", "round", "one_way"):
        for share in ("p50", "p95"):
            floats[f"{kind}_{share}_ms"] = _ratio(by_name.get(kind, {}).get(f"{share}_ns"), 1e6)
    floats["one_way_error_ms"] = _ratio(counted.get("one_way_error_ns"), 1e6)
    if "frame_ns" in app_of(flow):  # of a call
        late = by_name.get("one_way", {}).get("p95_ns")
        of_call = app_of(flow)["frame_ns"], late, floats["drop_rate"]
        floats["mos"] = call.of_flow(*of_call)
        floats["mos_error"] = call.error(*of_call, counted.get("one_way_error_ns"))
    load: Mapping[str, Any] = counted.get("load") or {}
    if "observed" in load:
        floats |= of_load(load["metrics"] if "metrics" in load else load["figures"])  # as 0.2 wrote it
    elif load:
        floats["smoothness_hz"] = smoothness_hz(load)
    known: dict[str, Value] = {name: six_digits(value) for name, value in floats.items()}
    known.update({name: by_name[name] for name in metrics.COUNTS if name in by_name})
    known["load_scenario"] = load["observed"]["number"] if "observed" in load else None
    known.update(_words(scenario, flow), status=counted["status"], limited_by=limits.main(known))
    known.update(limits.buffer(limits.main(known), counted))
    if is_datagrams(flow):
        known.update(dict.fromkeys(_OF_TCP))
    return {name: known.get(name) for name in metrics.NAMES}


def of_load(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Metrics of a loadlatency scenario (docs/loadlatency.md), which stand in its pinger's row."""
    return {
        "upload_kib_s": metrics["up_kib_s"],
        "download_kib_s": metrics["down_kib_s"],
        "responsiveness_hz": metrics["responsiveness_hz"],
        "smoothness_hz": metrics["smoothness_hz"],
        "rpm": metrics["rpm"]["rpm"] if metrics["rpm"] else None,
        "one_way_error_ms": (metrics["one_way"] or {}).get("off_ms"),
    }


def smoothness_hz(transfer: Mapping[str, Any]) -> float:
    """Smoothness of one flow of a loadlatency scenario: one over its longest gap, in Hz; 0 if the stack
    killed it.
    """
    return 0.0 if transfer["killed"] else 1e9 / max(transfer["longest_gap_ns"], 1)


def _totals(scenario: Scenario, flows: Sequence[FlowSummary]) -> dict[str, Value]:
    """The metrics of all flows of a run together, over the measurement window."""
    window_ns = scenario["measure"]["to_ns"] - scenario["measure"]["from_ns"]
    timed = [flow["rtt"] for flow in flows if flow["rtt"].get("count")]
    tcp = {flow["name"] for flow in scenario["flows"] if not is_datagrams(flow)}
    connections = [flow for flow in flows if flow["flow"] in tcp]
    floats = {
        "total_goodput_mbps": _ratio(sum(flow["goodput_bytes"] for flow in flows) * 8e3, window_ns),
        "total_rtt_mean_ms": _ratio(
            sum(rtt["count"] * rtt["mean_ns"] / 1e6 for rtt in timed), sum(rtt["count"] for rtt in timed)
        ),
        "total_retransmit_rate": _share(connections, "retransmits"),
        "total_drop_rate": _share(flows, "drops"),
    }
    return {name: six_digits(value) for name, value in floats.items()}


def _share(flows: Sequence[FlowSummary], what: Literal["retransmits", "drops"]) -> float | None:
    """Return the part of all segments sent that something happened to. None unless known of every flow."""
    known = [(part, flow["segments_sent"]) for flow in flows if (part := flow[what]) is not None]
    sent = [count for _, count in known if count is not None]
    return _ratio(sum(part for part, _ in known), sum(sent)) if len(sent) == len(flows) else None


def _sender(counted: FlowSummary) -> float | None:
    """The rate in Mbit/s at which the sending application got rid of its data, as iperf3's sender prints it.

    What was read, and what the sender's socket still held at the end. None where that is not known.
    """
    held = counted.get("unacknowledged_bytes")
    return None if held is None else _ratio((counted["goodput_bytes"] + held) * 8e3, counted["active_ns"])


def _power(counted: FlowSummary) -> float | None:
    """Goodput over mean RTT, Mbit/s per s. None without an RTT."""
    goodput_mbps = _ratio(counted["goodput_bytes"] * 8e3, counted["active_ns"])
    mean_ns = counted["rtt"].get("mean_ns")
    return goodput_mbps / (mean_ns / 1e9) if goodput_mbps is not None and mean_ns else None


def _since_start(counted: FlowSummary, at_ns: int | None) -> float | None:
    start_ns = counted.get("start_ns")
    return None if at_ns is None or start_ns is None else (at_ns - start_ns) / 1e9


def _is_pinger(flow: Flow) -> bool:
    return app_of(flow).get("part") == "pinger"


def _alike(flows: Iterable[Flow]) -> list[list[str]]:
    """The names of the flows whose shares can be compared: connections of the same application, and media
    with the same congestion control.
    """
    kinds: dict[object, list[str]] = {}
    for flow in flows:
        app = app_of(flow)
        if ("controller" in app or not is_datagrams(flow)) and not _is_pinger(flow):
            kinds.setdefault((app.get("kind"), app.get("controller")), []).append(flow["name"])
    return list(kinds.values())


def _words(scenario: Scenario, flow: Flow) -> dict[str, Value]:
    """Words that describe a flow: its sender's stack, its congestion control and its application, with its
    part in one of several parts.
    """
    app = app_of(flow)
    kind = " ".join(str(app[name]) for name in ("kind", "part", "controller") if name in app)
    cc = None if is_datagrams(flow) else flow["cc"]
    return {"stack": _stack(scenario, flow), "cc": cc, "app": kind or None}


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _stack(scenario: Scenario, flow: Flow) -> str:
    return next(str(host["stack"]) for host in scenario["hosts"] if host["name"] == flow["from"])


def _utilisation(scenario: Scenario, flow: Flow, wire_bytes: int | None) -> float | None:
    found = narrowest(scenario, flow["name"])
    return None if found is None or wire_bytes is None else wire_bytes * 8 / found[1]
