"""Samples of hosts on which nothing of cwndlab is: `ss` and the load of processors, every 50 ms.

`ss` does not print the state of congestion control. It is told from what it does print: a timeout that is
backed off, retransmissions or losses outstanding, the window below its threshold.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.lab import Sampler
from cwndlab.testbeds.live.observation import samples
from cwndlab.testbeds.logs import ss
from cwndlab.testbeds.ssh.machines.machine import Clock
from cwndlab.testbeds.ssh.machines.platforms import Driven

INTERVAL_S = 0.05
"""Between two looks."""
INFINITE = 0x7FFF_FFFF
"""A slow start threshold that was never set (TCP_INFINITE_SSTHRESH)."""
BUSY = 0.9
"""Share of a processor's time from which the run measures the host."""
LATEST_NS = 1 << 62
"""Times of the transcript up to here are believed."""

LOOP = 'PATH=$PATH:/usr/sbin:/sbin; while :; do date +%s.%N; ss -tinmOH "$1"; sleep "$2"; done'
"""Print the time and all sockets that match, again and again."""

_MEMORY = re.compile(r"skmem:\(r\d+,rb(\d+),t\d+,tb(\d+)")


class Samplers:
    """Several samplers as one, and the load of all hosts' processors."""

    def __init__(self, each: Sequence[Sampler], hosts: Mapping[str, Driven], limit_s: float) -> None:
        """Samplers that do not run yet."""
        self._each, self._hosts, self._limit_s = each, hosts, limit_s
        self._busy: dict[str, str] = {}
        self.troubles: list[str] = []
        self.at_acks: pa.Table | None = None
        self.busiest: dict[str, float] = {}
        """The largest share of a processor's time that was taken in a second, by host."""

    def start(self) -> None:
        """Start all of them."""
        for sampler in self._each:
            sampler.start()
        for name, host in self._hosts.items():
            self._busy[name] = host.machine.start(["sh", "-c", host.busy], self._limit_s)

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time of this process."""
        for sampler in self._each:
            sampler.mark_start(zero_ns)

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End them: rows of the senders, and of the receivers."""
        found = [sampler.stop() for sampler in self._each]
        self.troubles = [trouble for sampler in self._each for trouble in sampler.troubles]
        for name, job in self._busy.items():
            self._hosts[name].machine.signal([job], "TERM")
            self.busiest[name] = busiest(self._hosts[name].machine.complained(job))
        return samples.together([rows for rows, _ in found]), samples.together([rows for _, rows in found])


class Owners:
    """Owners of the connections at a host."""

    def __init__(self, flows: Sequence[Ends], host: str) -> None:
        """Flows that begin or end there are known by their ports."""
        self._by_ports: dict[tuple[int | None, int | None], tuple[str, bool]] = {}
        for flow in flows:
            if flow.from_ == host:
                self._by_ports[(flow.source_port, flow.target_port)] = (flow.flow, True)
            if flow.to == host:
                self._by_ports[(flow.target_port, flow.source_port)] = (flow.flow, False)

    def of(self, local: int, remote: int) -> tuple[str, bool] | None:
        """The flow of a connection, and whether it is the sending end."""
        found = self._by_ports
        return found.get((local, remote)) or found.get((None, remote)) or found.get((local, None))


class SsSampler:
    """Sampler of both ends of every connection of a run, as `ss` shows them."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        ends: Mapping[str, Ends],
        *,
        hosts: Mapping[str, Driven],
        clocks: Mapping[str, Clock],
        limit_s: float,
    ) -> None:
        """Run nothing yet; `clocks` are known when the sampler stops."""
        self._run_id, self._hosts, self._clocks, self._limit_s = run_id, hosts, clocks, limit_s
        self._flows = [ends[flow["name"]] for flow in scenario["flows"] if not is_datagrams(flow)]
        self._jobs: dict[str, str] = {}
        self._zero = 0
        self._end_ns: int = scenario["duration_ns"]
        self.troubles: list[str] = []
        self.at_acks: pa.Table | None = None

    def start(self) -> None:
        """Start sampling at all hosts."""
        for name, host in self._hosts.items():
            ports = [_port(flow, name) for flow in self._flows if name in (flow.from_, flow.to)]
            if ports:
                told = " or ".join(f"{side} = :{port}" for side, port in ports)
                words = ["sh", "-c", LOOP, "sh", told, str(INTERVAL_S)]
                self._jobs[name] = host.machine.start(words, self._limit_s)

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time of this process."""
        self._zero = zero_ns

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""
        senders: list[dict[str, Any]] = []
        receivers: list[dict[str, Any]] = []
        time.sleep(2 * INTERVAL_S)  # for a look behind the end
        for name, job in self._jobs.items():
            self._hosts[name].machine.signal([job], "TERM")
        for name, job in self._jobs.items():
            text = self._hosts[name].machine.said(job)
            here, there = self._rows(name, text)
            senders += here
            receivers += there
            if not here and not there:
                self.troubles.append(f"host {name}: ss showed no connection of the run")
        return samples.table(senders), samples.table(receivers)

    def _rows(self, host: str, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        offset = self._clocks[host].offset_ns + self._zero
        whose = Owners(self._flows, host)
        found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for time_ns, sockets, details in ss.samples([text], LATEST_NS):
            if sockets is None or not all(map(_is_port, (sockets[1], sockets[3]))):
                continue
            ports = (int(sockets[1]), int(sockets[3]))
            values = ss.values(details)
            owner = whose.of(*ports)
            if time_ns is None or time_ns < offset or owner is None or "mss" not in values:
                continue
            name, sends = owner
            own = {"run_id": self._run_id, "t_ns": time_ns - offset, "flow": name}
            row = {**own, "local_port": ports[0], "remote_port": ports[1], **columns(values, details)}
            found[0 if sends else 1].append(row)
        return (
            found[0] + at_end(found[0], self._end_ns),
            found[1] + at_end(found[1], self._end_ns),
        )


def columns(values: Mapping[str, float], details: str) -> dict[str, Any]:
    """Turn a connection's values by `ss` into the columns of the tables; null is what `ss` does not say."""
    mss = values["mss"]
    threshold = values.get("ssthresh", INFINITE)
    memory = _MEMORY.search(details)
    cwnd = values.get("cwnd", 0)
    return {
        "cwnd_bytes": round(cwnd * mss),
        "ssthresh_bytes": round(threshold * mss) if threshold < INFINITE else None,
        "srtt_ns": _scaled(values, "rtt", 1e6),
        "inflight_bytes": round(values.get("unacked", 0) * mss),
        "delivered_bytes": round(values.get("bytes_acked", 0)),
        "retransmits": round(values.get("retrans/", 0)),
        "pacing_bps": _scaled(values, "pacing_rate", 1),
        "rto_ns": _scaled(values, "rto", 1e6),
        "send_window_bytes": _scaled(values, "snd_wnd", 1),
        "receive_window_bytes": _scaled(values, "rcv_wnd", 1),
        "send_buffer_bytes": int(memory[2]) if memory else None,
        "receive_buffer_bytes": int(memory[1]) if memory else None,
        "state": _state(values, cwnd, threshold),
        "mss_bytes": round(mss),
        "rttvar_ns": _scaled(values, "rtt/", 1e6),
        "min_rtt_ns": _scaled(values, "minrtt", 1e6),
        "delivery_bps": _scaled(values, "delivery_rate", 1),
        "busy_ns": round(values.get("busy_ms", 0) * 1e6),
        "rwnd_limited_ns": round(values.get("rwnd_limited_ms", 0) * 1e6),
        "sndbuf_limited_ns": round(values.get("sndbuf_limited_ms", 0) * 1e6),
        "lost_packets": round(values.get("lost", 0)),
        "reordering_packets": _scaled(values, "reordering", 1),
        "sent_bytes": round(values.get("bytes_sent", 0)),
        "sent_segments": round(values.get("data_segs_out", 0)),
        "retransmitted_bytes": round(values.get("bytes_retrans", 0)),
        "notsent_bytes": round(values.get("notsent", 0)),
        "received_bytes": round(values.get("bytes_received", 0)),
        "received_segments": round(values.get("data_segs_in", 0)),
        "delivered_ce_packets": round(values.get("delivered_ce", 0)),
    }


COUNTED = (
    "delivered_bytes",
    "retransmits",
    "busy_ns",
    "rwnd_limited_ns",
    "sndbuf_limited_ns",
    "sent_bytes",
    "sent_segments",
    "retransmitted_bytes",
    "received_bytes",
    "received_segments",
    "delivered_ce_packets",
)
"""Columns that only grow."""


def at_end(rows: Sequence[dict[str, Any]], end_ns: int) -> list[dict[str, Any]]:
    """A row of each connection for the end of the run: what it counted is on the line between its last look
    before that and its first one after."""
    before: dict[tuple[int, int], dict[str, Any]] = {}
    after: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        ports = row["local_port"], row["remote_port"]
        if row["t_ns"] < end_ns:
            before[ports] = row
        else:
            after.setdefault(ports, row)
    made = []
    for ports, last in before.items():
        if ports in after and last["t_ns"] < end_ns - 1:
            following = after[ports]
            share = (end_ns - last["t_ns"]) / (following["t_ns"] - last["t_ns"])
            grown = {name: last[name] + round(share * (following[name] - last[name])) for name in COUNTED}
            made.append({**last, **grown, "t_ns": end_ns - 1})
    return made


def busiest(text: str) -> float:
    """The largest share of a processor's time that was taken between two looks at /proc/stat."""
    before: dict[str, tuple[int, int]] = {}
    largest = 0.0
    for name, numbers in re.findall(r"^(cpu\d+) ((?:\d{1,18} +){4,11}\d{1,18}) *$", text, re.MULTILINE):
        ticks = [int(word) for word in numbers.split()]
        total, idle = sum(ticks[:8]), ticks[3] + ticks[4]
        if name in before and total > before[name][0]:
            passed = total - before[name][0]
            largest = max(largest, 1 - (idle - before[name][1]) / passed)
        before[name] = (total, idle)
    return largest


def _state(values: Mapping[str, float], cwnd: float, threshold: float) -> str:
    if values.get("backoff", 0):
        return "loss"
    if values.get("retrans", 0) or values.get("lost", 0):
        return "recovery"
    return "slow-start" if cwnd < threshold else "avoidance"


def _scaled(values: Mapping[str, float], name: str, scale: float) -> int | None:
    return round(values[name] * scale) if name in values else None


def _is_port(text: str) -> bool:
    return text.isdecimal() and int(text) < 1 << 16


def _port(flow: Ends, host: str) -> tuple[str, int]:
    """Port that distinguishes a flow's sockets at a host: that of the side that accepts."""
    return ("sport" if flow.to == host else "dport", flow.target_port)
