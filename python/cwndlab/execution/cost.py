"""The estimated cost of a run before it is carried out: packets, rows, disk, memory and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from operator import is_
from typing import Any

from cwndlab.contract.scenario import Flow, Host, Link, Loss, Sampling, Scenario
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.scenario.queries import app_of, is_datagrams
from cwndlab.experiment.scenario.routes import Routed, Ways
from cwndlab.testbeds.tables import ROWS_PER_GROUP, row_memory

PACKETS_PER_S = 4_000_000
"""Data packets a second and core the simulator handles (docs/evidence/performance.md has measurements)."""
GUEST_PACKETS_PER_S = 500_000
"""Data packets a second and core of a guest (docs/evidence/guests.md has a measurement)."""
GUEST_WINDOW = 1_250_000
"""Bytes of a stream that a guest lets be on their way at most: quinn's default."""
WRITTEN_PER_S = 5_000_000
"""Rows of tables, or packets of captures, that are written in a second."""
RUN_S = 0.005
"""Fixed time of every run, in s."""
ROW_BYTES: Mapping[tuple[str, str], float] = {
    ("tcp", "interval"): 13.0,
    ("tcp", "per-ack"): 5.0,
    ("queue", "interval"): 4.0,
    ("queue", "per-ack"): 0.5,
}
"""Bytes of a row on the disk, by table and how often one is written: what follows each other is alike."""
LOSS_BYTES = 6.0
"""Bytes that the loss of a packet takes in the table of events."""
RUN_BYTES, FLOW_BYTES = 12_000, 3_000
"""Bytes of a run on the disk besides: its record, and what is kept of each flow."""
SECOND_BYTES = 12
"""Bytes of a flow's samples for each second."""
PACKET_MEMORY = 250
"""Bytes that a packet on its way takes in the simulator."""
FLOW_MEMORY = 12_000
"""Bytes that a flow takes."""
PROCESS_MEMORY = 125_000_000
"""Bytes of a process of cwndlab that does nothing yet."""
ROW_MEMORY = 3
"""Number of copies of a row in memory while its table is written: as it came, as one piece, and encoded."""
VBR_BPS = 1e6
"""Assumed rate of datagrams of drawn sizes and intervals, in bit/s."""
UNLIMITED_BPS = 10**10
"""Assumed rate of a way that nothing limits, in bit/s."""
INITIAL_WINDOW = 10
"""Segments of the first flight (RFC 6928)."""
RECORD_HEADER, ACK = 16, 52
"""Bytes of a packet's header in a capture, and of an acknowledgement."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a run."""

    packets: int
    """Data packets sent."""
    series: Mapping[str, int]
    """Bytes on the disk by what is recorded: `tcp`, `queue`, `pcap` and `the rest`."""
    memory: int
    """Bytes of the process that carries it out."""
    seconds: float
    """Time on a processor of its own, in s; for real time it is the run's length."""

    @property
    def disk(self) -> int:
        """Bytes on the disk."""
        return sum(self.series.values())


class Costs:
    """Finds the costs of Scenarios; of repeats of a cell, which follow each other, once."""

    def __init__(self, catalogue: Catalogue) -> None:
        """`catalogue` knows the defaults of sysctls."""
        self._catalogue = catalogue
        self._ways = Ways()
        self._last: tuple[list[object], Cost] | None = None

    def of(self, scenario: Scenario, limit: int) -> Cost:
        """The cost of a run of which no capture and no table gets larger than `limit` bytes.

        A Scenario is taken to be a repeat of the last where hosts, links, flows and the rest are one object.
        """
        parts = [limit, *(value for key, value in scenario.items() if key != "repeat")]
        if self._last is None or not _are_one(parts, self._last[0]):
            run = _Priced(scenario, self._catalogue, self._ways.of(scenario["links"]))
            self._last = parts, _cost(run, limit)
        return self._last[1]


def _are_one(parts: Sequence[object], others: Sequence[object]) -> bool:
    return len(parts) == len(others) and all(map(is_, parts, others))


class _Priced(Routed):
    """A Scenario with what is asked of each link many times, by its name."""

    @cached_property
    def rate(self) -> dict[str, int | None]:
        """The highest rate that a link ever has."""
        return {name: self.highest_rate(link) for name, link in self.links.items()}

    @cached_property
    def wire(self) -> dict[str, int]:
        """Bytes that a full packet takes on a link, by the flows that cross it."""
        return {name: self._wire(link) for name, link in self.links.items()}

    def _wire(self, link: Link) -> int:
        sizes = [_payload(self, flow) + ACK for flow in self.crossing.get(link["name"], ())]
        return max(sizes, default=link["mtu"]) + link["overhead"]


def _cost(run: _Priced, limit: int) -> Cost:
    scenario = run.scenario
    alone = {flow["name"]: _alone(run, flow) for flow in run.flows}
    sent = _packets(run, alone)
    # Datagrams leave their sender whether or not a link takes them.
    dropped = {
        flow["name"]: alone[flow["name"]] - sent[flow["name"]] for flow in run.flows if is_datagrams(flow)
    }
    acks = {flow["name"]: _acks(run, flow, sent[flow["name"]]) for flow in run.flows}
    rows = {"tcp": 0.0, "queue": 0.0}
    for flow in run.flows:
        rows["tcp"] += (
            0
            if is_datagrams(flow)
            else _rows(scenario["record"]["tcp"], _lasts(run, flow), acks[flow["name"]])
        )
    for link in scenario["links"]:
        if link["observe"]:
            through = 2 * sum(sent[flow["name"]] for flow in run.crossing.get(link["name"], ()))
            rows["queue"] += _rows(scenario["record"]["queue"], scenario["duration_ns"] / 1e9, through)
    series = {}
    for table, count in rows.items():
        rows[table] = min(count, limit / row_memory(table))
        kind = scenario["record"]["tcp" if table == "tcp" else "queue"]["kind"]
        series[table] = int(rows[table] * ROW_BYTES.get((table, kind), 0))
    captured = list(_captured(run, sent, dropped, acks, limit))
    packets = sum(sent.values()) + sum(dropped.values())
    lost = sum(sent[flow["name"]] * _loss(run, flow) for flow in run.flows) + sum(dropped.values())
    rows["events"] = min(lost, limit / row_memory("events"))
    seconds = sum(_lasts(run, flow) for flow in run.flows)
    series["pcap"] = int(sum(count for _, count in captured))
    series["the rest"] = int(
        RUN_BYTES + FLOW_BYTES * len(run.flows) + SECOND_BYTES * seconds + LOSS_BYTES * rows["events"]
    )
    written = sum(rows.values()) + sum(count for count, _ in captured)
    memory = PROCESS_MEMORY + FLOW_MEMORY * len(run.flows) + PACKET_MEMORY * _on_their_way(run, packets)
    memory += sum(
        min(count, ROWS_PER_GROUP) * row_memory(table) * ROW_MEMORY for table, count in rows.items()
    )
    of_guests = sum(sent[flow["name"]] for flow in run.flows if run.is_of_guests(flow))
    carried = (packets - of_guests) / PACKETS_PER_S + of_guests / GUEST_PACKETS_PER_S
    return Cost(int(packets), series, int(memory), RUN_S + carried + written / WRITTEN_PER_S)


def _rows(sampling: Sampling, seconds: float, changes: float) -> float:
    if sampling["kind"] == "interval":
        return seconds * 1e9 / sampling["interval_ns"]
    return changes if sampling["kind"] == "per-ack" else 0


def _packets(run: _Priced, alone: Mapping[str, float]) -> dict[str, float]:
    """Data packets of each flow that links take: what it would send by itself, less where they do not fit."""
    wanted = dict(alone)
    for link in run.scenario["links"]:
        rates = [rate for rate in run.rates(link) if rate is not None]
        through = run.crossing.get(link["name"], [])
        most = max(rates, default=0) * run.scenario["duration_ns"] / 8e9 / run.wire[link["name"]]
        asked = sum(wanted[flow["name"]] for flow in through)
        if rates and asked > most:
            wanted |= {flow["name"]: wanted[flow["name"]] * most / asked for flow in through}
    return wanted


def _alone(run: _Priced, flow: Flow) -> float:
    """Packets that a flow would send if it were alone."""
    app, lasts, size = app_of(flow), _lasts(run, flow), _payload(run, flow)
    if lasts <= 0:
        return 0
    rates = [rate for link in run.forward(flow) for rate in [run.rate[link["name"]]] if rate is not None]
    own_pace = is_datagrams(flow) and _app_rate(app) is not None
    rates = [] if own_pace else rates
    egress = run.hosts[flow["from"]]["egress"]
    rates += [egress["rate_bps"]] if egress is not None and egress["rate_bps"] is not None else []
    packets = min(rates, default=inf if own_pace else UNLIMITED_BPS) * lasts / 8 / (size + 52)
    packets = min([packets, *(lasts * 1e9 / each for each in _processing(run, flow))])
    if (rate := _app_rate(app)) is not None:
        packets = min(packets, rate * lasts / 8 / size)
    if app.get("bytes") is not None:
        packets = min(packets, app["bytes"] / size + 1)
    if app.get("kind") in ("fixed", "incast"):
        packets = min(packets, app["size_bytes"] * (app.get("rounds") or 1) / size + 1)
    if app.get("kind") == "request-response" and app.get("requests"):
        packets = min(packets, app["requests"] * (app["response_bytes"] / size + 1))
    rtt = run.base_rtt_ns(flow) / 1e9
    if not is_datagrams(flow) and rtt > 0:
        rounds = lasts / rtt
        packets = min(packets, _window(run, flow) / size * rounds)
        packets = min(packets, INITIAL_WINDOW * 2.0 ** min(rounds, 60))
        packets = min(packets, _window_of_losses(flow, _loss(run, flow), rtt) * rounds)
        packets = min(packets, _window_of_queues(run, flow, rtt, lasts) * rounds)
    return packets


def _app_rate(app: Mapping[str, Any]) -> float | None:
    """The rate of an application that has one, bit/s."""
    kind = app.get("kind")
    if kind in ("voip", "ping"):
        return float(app["payload_bytes"] * 8e9 / app["frame_ns" if kind == "voip" else "interval_ns"])
    if kind == "media":
        return float(app["max_bps"])
    rate: float | None = app.get("load_bps" if kind == "background" else "rate_bps")
    if kind == "on-off" and rate is not None:
        return rate * float(app["on_ns"]) / float(app["on_ns"] + app["off_ns"])
    return VBR_BPS if kind == "udp-vbr" else rate


def _processing(run: _Priced, flow: Flow) -> Iterator[int]:
    """The time of a packet at each end, ns, where a host takes time."""
    for name in (flow["from"], flow["to"]):
        noise = run.hosts[name]["noise"]
        if noise is not None and noise["processing"] is not None and noise["processing"]["mean_ns"]:
            yield noise["processing"]["mean_ns"]


def _window(run: _Priced, flow: Flow) -> float:
    """Bytes that the buffers let a flow have on its way at most."""
    if run.is_of_guests(flow):
        return GUEST_WINDOW
    ends = (
        (run.hosts[flow["from"]], flow["sndbuf"], _SNDBUF),
        (run.hosts[flow["to"]], flow["rcvbuf"], _RCVBUF),
    )
    return min(_buffer(run, host, size, grows) for host, size, grows in ends)


_SNDBUF = ("net.ipv4.tcp_wmem.max", "net.inet.tcp.sendbuf_max")
_RCVBUF = ("net.ipv4.tcp_rmem.max", "net.inet.tcp.recvbuf_max")
"""Sysctls to which buffers grow, of Linux and of FreeBSD."""


def _buffer(run: _Priced, host: Host, size: int | None, grows: tuple[str, str]) -> float:
    if size is not None:
        return size
    most = [run.sysctl(host, name) for name in grows]
    size = next((known for known in most if known is not None), None)
    # Of a receive buffer, Linux offers half as window (tcp_adv_win_scale).
    return (
        inf if size is None else size / 2 if grows == _RCVBUF and host["stack"].startswith("linux") else size
    )


def _window_of_losses(flow: Flow, share: float, rtt: float) -> float:
    """Segments that random loss leaves of the window: RFC 9438, sections 5.1 and 5.2; none of BBR's."""
    if share <= 0 or flow["cc"].startswith("bbr"):
        return inf
    reno = 1.22 / math.sqrt(share)
    return max(reno, 1.054 * math.pow(rtt / share, 0.75)) if flow["cc"] == "cubic" else reno


def _window_of_queues(run: _Priced, flow: Flow, rtt: float, lasts: float) -> float:
    """Segments of the window on average that queues too short for slow start leave; none of BBR's.

    In slow start packets come at twice the rate of the slowest link, so that half of the window stands in a
    queue before the first link that is slower than that. After the overflow the window grows by a segment a
    round trip, or as CUBIC's (RFC 9438, section 4.2).
    """
    if flow["cc"] not in ("cubic", "reno", "newreno"):
        return inf
    links = [(run.rate[link["name"]] or inf, link) for link in run.forward(flow)]
    start, before = inf, 2 * min((rate for rate, _ in links), default=inf)
    for rate, link in links:
        queue = dict(link["queue"])
        if rate >= before:
            continue
        before, wire = rate, run.wire[link["name"]]
        size: Any = queue.get("limit_bytes")
        room: Any = queue.get("limit_packets") if size is None else size / wire
        start = min(start, inf if room is None else min(2 * room, rate * rtt / 8 / wire + room))
    if flow["cc"] == "cubic" and start < inf:
        return start + 0.4 * max(0.0, lasts - math.pow(0.75 * start, 1 / 3)) ** 3 / 4
    return start + lasts / rtt / 2


def _loss(run: _Priced, flow: Flow) -> float:
    """The share of a flow's packets that is lost on purpose on its way."""
    kept = 1.0
    for link in run.forward(flow):
        kept *= (1 - _share(link["loss"])) * (1 - link["corrupt_ppb"] / 1e9)
    egress, ingress = run.hosts[flow["from"]]["egress"], run.hosts[flow["to"]]["ingress"]
    for stage in (egress, ingress["before_gro"], ingress["after_gro"]):
        kept *= 1.0 if stage is None else 1 - _share(stage["loss"])
    return 1 - kept


def _share(loss: Loss | None) -> float:
    """The share of packets that a loss takes."""
    if loss is None or loss["kind"] == "list":
        return 0.0
    if loss["kind"] == "nth":
        return 1 / loss["every"]
    if loss["kind"] == "random":
        return loss["probability_ppb"] / 1e9
    p, r = loss["p_ppb"], loss["r_ppb"]
    return (p * loss["loss_bad_ppb"] + r * loss["loss_good_ppb"]) / 1e9 / max(p + r, 1)


def _acks(run: _Priced, flow: Flow, packets: float) -> float:
    """Acknowledgements of so many packets: one for two, or for what a receiver hands up at once."""
    if is_datagrams(flow):
        return packets if app_of(flow).get("kind") == "ping" else 0
    return packets / max(2, run.hosts[flow["to"]]["ack_every"] or 0)


def _captured(
    run: _Priced,
    sent: Mapping[str, float],
    dropped: Mapping[str, float],
    acks: Mapping[str, float],
    limit: int,
) -> Iterator[tuple[float, float]]:
    """Packets and bytes of each capture."""
    for capture in run.scenario["record"]["pcap"]:
        packets = size = 0.0
        for flow in run.flows:
            ends = (flow["from"], flow["to"])
            data = capture["at"] in ends or any(link["name"] == capture["at"] for link in run.forward(flow))
            back = capture["at"] in ends or any(link["name"] == capture["at"] for link in run.back(flow))
            full = _payload(run, flow) + (28 if is_datagrams(flow) else ACK)
            for counts, count, length in ((data, sent, full), (back, acks, ACK)):
                here = counts * count[flow["name"]]
                here += dropped.get(flow["name"], 0) * (count is sent and capture["at"] == flow["from"])
                packets += here
                size += here * (RECORD_HEADER + min(length, capture["snaplen"]))
        yield packets * min(1.0, limit / max(size, 1.0)), min(size, limit)


def _on_their_way(run: _Priced, packets: float) -> float:
    """Packets that are on links and in queues at the same time, at most."""
    held = 0.0
    for link in run.scenario["links"]:
        if link["name"] in run.crossing:
            rate = run.rate[link["name"]] or UNLIMITED_BPS
            held += rate * link["delay_ns"] / 8e9 / run.wire[link["name"]] + _room(run, link)
    connections = [flow for flow in run.flows if not is_datagrams(flow)]
    windows = sum(_window(run, flow) / _payload(run, flow) for flow in connections)
    clocked = _clocked(run, connections) if len(connections) == len(run.flows) else inf
    return min(held, windows + 1000, clocked, packets)


def _clocked(run: _Priced, connections: Sequence[Flow]) -> float:
    """Packets that the congestion windows of connections let be on their way, at most.

    Acknowledgements come at the rate of the slowest link on the way, so that windows grow to what fills its
    path and its queue, to twice that before the loss is known, and with BBR to three times.
    """
    full: dict[str, float] = {}
    for flow in connections:
        rates = [(rate, link) for link in run.forward(flow) if (rate := run.rate[link["name"]]) is not None]
        if not rates:
            return inf
        rate, link = min(rates, key=lambda each: each[0])
        path = rate * run.base_rtt_ns(flow) / 8e9 / run.wire[link["name"]]
        full[link["name"]] = max(full.get(link["name"], 0), path + _room(run, link))
    return 3 * sum(full.values()) + INITIAL_WINDOW * len(connections)


def _room(run: _Priced, link: Link) -> float:
    """Packets that fit into the queue of a link; a usual one's where it says nothing."""
    queue: Mapping[str, Any] = link["queue"]
    size = queue.get("limit_bytes")
    return float(queue.get("limit_packets", 1000)) if size is None else size / run.wire[link["name"]]


def _payload(run: _Priced, flow: Flow) -> int:
    """Payload of a full packet of a flow."""
    if is_datagrams(flow):
        return max(1, int(app_of(flow).get("payload_bytes") or 500))
    return max(1, min(run.hosts[flow["from"]]["mss"], run.hosts[flow["to"]]["mss"]) - 12)


def _lasts(run: _Priced, flow: Flow) -> float:
    """Time for which a flow sends, in s."""
    return max(0, min(run.end_ns(flow), run.scenario["duration_ns"]) - flow["start_ns"]) / 1e9
