"""`emulator: kernel`: links as queue disciplines of the kernel at the interfaces themselves.

A link is HTB with one class at the link's rate and the link's queue below it, at the sending end. Delay,
random loss and duplicates are netem's above it, so that they come before the queue; what else a link may do
is left to `emulator: own`. The kernel counts packets with their Ethernet header, as `overhead: 14` says.
"""

import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.contract.summary import LinkSummary
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario.path_state import ETHERNET_HEADER
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.netns import machine, namespaces
from cwndlab.testbeds.netns.layout import Layout
from cwndlab.testbeds.netns.network import Network, netlink
from cwndlab.testbeds.tables import SCHEMAS

plugins.setdefault(
    "bfifo", sched_pfifo
)  # the same parameter, counted in bytes (struct tc_fifo_qopt); pyroute2 knows one

_ROOT, _CLASS, _LEAF = 0x10000, 0x10001, 0x20000
"""Handles 1:, 1:1 and 2:."""
_NETEM, _BELOW_NETEM = 0x30000, 0x30001
"""Handle 3: of a netem at the top, and 3:1, below which the rest is then."""
NETEM_LIMIT = 1_000_000
"""Packets that netem holds at most: more than are ever on their way; the queue is below HTB."""
UNTOLD = {"fq_codel": ("memory_limit", "drop_batch")}
"""Parameters of queues that pyroute2 has no way to tell the kernel."""
QUANTUM_MIN = 256
"""Bytes; fq_codel takes this for anything less (sch_fq_codel.c, fq_codel_change)."""
UNLIMITED_BYTES = 125_000_000_000
"""Rate of a class whose link has none, bytes per second."""
JOIN_S = 2.0
"""Seconds within which the poll ends."""


def troubles(scenario: Scenario) -> Iterator[str]:
    """Yield the properties of links that this kernel's queue disciplines lack, a line each; every link is
    tried.
    """
    if scenario["schedule"]:
        yield "emulator: kernel changes no link while a run goes on; leave `schedule` out, or use own"
    if scenario["record"]["pcap"]:
        yield "emulator: kernel takes no captures; leave `record.pcap` out, or use own"
    if scenario["record"]["queue"]["kind"] == "per-ack":
        yield "record.queue: emulator kernel is asked at intervals; give one such as 10ms"
    for host in scenario["hosts"]:
        if host["egress"] is not None or host["ingress"]["before_gro"] is not None:
            yield f"host {host['name']}: egress and ingress.before_gro need emulator: own"
    for node in scenario["nodes"]:
        if node["switch"] is not None:
            yield f"node {node['name']}: a shared buffer needs emulator: own"
    for link in scenario["links"]:
        found = list(_of_link(link, machine.queue_kinds()))
        if not found and (reason := refusal(link)) is not None:
            found = [f"this kernel refuses it as queue disciplines ({reason}); use emulator: own"]
        yield from (f"link {link['name']}: {trouble}" for trouble in found)


def refusal(link: Link) -> str | None:
    """Reason why this kernel refuses a link, tried in a namespace that is thrown away. None if it
    does not.
    """

    def work() -> None:
        with IPRoute() as socket:
            put(socket, link, "lo")

    try:
        namespaces.in_scratch(work)
    except NetlinkError as error:
        return os.strerror(error.code)
    except struct.error:
        return "a number is larger than the kernel's"
    return None


def _of_link(link: Link, has: Sequence[str]) -> Iterator[str]:
    having = f"this kernel has {', '.join(has) or 'none of those cwndlab uses'}"
    loss = link["loss"]
    impaired = [
        name
        for name, value in (
            ("loss other than random", loss is not None and loss["kind"] != "random"),
            ("corruption", link["corrupt_ppb"]),
            ("jitter", link["jitter"]),
            ("a shaper", link["shaper"]),
        )
        if value
    ]
    yield from (f"{name} needs emulator: own; {having} for emulator: kernel" for name in impaired)
    for need in ["htb", link["queue"]["kind"], *(["netem"] if netem(link) else [])]:
        if need not in has:
            purpose = " for delay, loss and duplicates" if need == "netem" else ""
            yield (
                f"emulator kernel needs queue discipline {need}{purpose}; {having};"
                f" try modprobe sch_{need}, or use emulator: own"
            )
    queue = link["queue"]
    kind = queue["kind"]
    told: Mapping[str, object] = queue
    for param in catalogue().queues[kind].params:
        if param.name in UNTOLD.get(kind, ()) and told[param.field] != param.default:
            yield (
                f"emulator kernel leaves {param.name} of {kind} at the kernel's own {param.default};"
                " leave it out, or use emulator: own"
            )
    if queue["kind"] == "fq_codel" and queue["quantum_bytes"] < QUANTUM_MIN:
        found = queue["quantum_bytes"]
        yield f"the kernel's quantum of fq_codel is at least {QUANTUM_MIN} bytes, not {found}"
    if link["overhead"] != ETHERNET_HEADER and link["rate_bps"] is not None:
        yield f"the kernel counts {ETHERNET_HEADER} bytes of overhead, not {link['overhead']}"


class KernelPath:
    """Queue disciplines in place, and asked at an interval how they are."""

    def __init__(self, run_id: int, scenario: Scenario, layout: Layout, network: Network) -> None:
        """Put nothing in place yet."""
        self._run_id, self._scenario = run_id, scenario
        self._places: dict[str, tuple[str, str]] = {}
        for cable in layout.cables:
            for link, port in ((cable.forward, cable.near), (cable.reverse, cable.far)):
                if link is not None:
                    self._places[link["name"]] = (network.namespaces[port.node], port.interface)
        self._links = {link["name"]: link for link in scenario["links"]}
        recorded = scenario["record"]["queue"]
        self._interval = recorded["interval_ns"] if recorded["kind"] == "interval" else 10_000_000
        self._zero: int | None = None
        self._stop = threading.Event()
        self._rows: list[tuple[int, str, int, int, int]] = []
        self._polls = [
            threading.Thread(target=self._poll, args=(name,), daemon=True) for name in self._observed()
        ]

    def start(self) -> None:
        """Put the queue disciplines in place."""
        for name, (namespace, interface) in self._places.items():
            netlink(namespace, partial(put, link=self._links[name], interface=interface))
        for poll in self._polls:
            poll.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins: what was counted before is not of it."""
        self._before = {name: self._counters(name) for name in self._places}
        self._zero = zero_ns

    def stop(self) -> PathReport:
        """Take the counters; the queue disciplines go with the namespaces."""
        self._stop.set()
        for poll in self._polls:
            if poll.is_alive():
                poll.join(JOIN_S)
        links = [self._grown(name) for name in self._places] if self._zero is not None else []
        rows = sorted(self._rows)
        schema = SCHEMAS["queue"]
        columns = [
            pa.array([self._run_id] * len(rows), pa.uint32()),
            pa.array([row[0] for row in rows], pa.uint64()),
            pa.array([row[1] for row in rows], pa.utf8()).dictionary_encode(),
            pa.array([row[2] for row in rows], pa.uint64()),
            pa.array([row[3] for row in rows], pa.uint32()),
            pa.array([row[4] for row in rows], pa.uint64()),
            pa.nulls(len(rows), pa.uint64()),
        ]
        return PathReport([("queue", pa.record_batch(columns, names=schema.names))], links)

    def _observed(self) -> list[str]:
        return [name for name in self._places if self._links[name]["observe"]]

    def _poll(self, name: str) -> None:
        """Ask a queue at the interval until told to stop, over one socket."""
        namespace, _ = self._places[name]

        def ask(socket: Any) -> None:
            while not self._stop.is_set():
                zero = self._zero
                now = time.monotonic_ns()
                if zero is not None and now >= zero:
                    drops, backlog, packets, _, _ = self._read(socket, name)
                    self._rows.append(
                        (now - zero, name, backlog, packets, max(0, drops - self._before[name][0]))
                    )
                time.sleep(self._interval / 1e9 - (now % self._interval) / 1e9)

        netlink(namespace, ask)

    def _counters(self, name: str) -> tuple[int, int, int, int, int]:
        return netlink(self._places[name][0], lambda socket: self._read(socket, name))

    def _read(self, socket: Any, name: str) -> tuple[int, int, int, int, int]:
        """Drops so far, backlog in bytes and packets, bytes and packets sent so far."""
        (index,) = socket.link_lookup(ifname=self._places[name][1])
        for queue in socket.get_qdiscs(index=index):
            if queue["handle"] == _LEAF:
                stats = queue.get_attr("TCA_STATS2")
                held, sent = stats.get_attr("TCA_STATS_QUEUE"), stats.get_attr("TCA_STATS_BASIC")
                return held["drops"], held["backlog"], held["qlen"], sent["bytes"], sent["packets"]
        raise OSError(f"link {name}: its queue discipline is gone")

    def _grown(self, name: str) -> LinkSummary:
        before, now = self._before[name], self._counters(name)
        return {
            "link": name,
            "packets": now[4] - before[4],
            "bytes": now[3] - before[3],
            "drops": now[0] - before[0],
            "ce_marks": None,
            "busy_ns": None,
        }


def put(socket: Any, link: Link, interface: str) -> None:
    """Make an interface's queue disciplines a link, by a netlink socket; raises NetlinkError."""
    rate = UNLIMITED_BYTES if link["rate_bps"] is None else link["rate_bps"] // 8
    kind, parameters = _queue(link["queue"])
    packet = link["mtu"] + ETHERNET_HEADER
    (index,) = socket.link_lookup(ifname=interface)
    above = {}
    if impairments := netem(link):
        socket.tc("add", "netem", index, _NETEM, **impairments)
        above = {"parent": _BELOW_NETEM}
    socket.tc("add", "htb", index, _ROOT, default=0x10000 | 1, **above)
    burst = max(packet, rate // 1000)
    limits = {"rate": f"{rate * 8}bit", "burst": burst, "cburst": burst, "quantum": packet}
    socket.tc("add-class", "htb", index, _CLASS, parent=_ROOT, **limits)
    socket.tc("add", kind, index, _LEAF, parent=_CLASS, **parameters)


def netem(link: Link) -> dict[str, Any]:
    """The parameters of the netem a link needs, as pyroute2 takes them, empty if it needs none: delay in
    microseconds, loss and duplicates in per cent."""
    loss, duplicate = link["loss"], link["duplicate_ppb"]
    if not (link["delay_ns"] or loss or duplicate):
        return {}
    return {
        "limit": NETEM_LIMIT,
        "delay": link["delay_ns"] // 1000,
        "loss": loss["probability_ppb"] / 1e7 if loss and loss["kind"] == "random" else 0,
        "duplicate": duplicate / 1e7,
    }


def _queue(queue: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind and parameters of a queue as pyroute2 takes them; times in microseconds.

    What is null in the Scenario is left out: the kernel then does the same as the model.
    """
    kind = queue["kind"]
    match kind:
        case "pfifo":
            return kind, {"limit": queue["limit_packets"]}
        case "bfifo":
            return kind, {"limit": queue["limit_bytes"]}
        case "codel":
            told = {
                "cdl_limit": queue["limit_packets"],
                "cdl_target": queue["target_ns"] // 1000,
                "cdl_interval": queue["interval_ns"] // 1000,
                "cdl_ecn": int(queue["ecn"]),
                "cdl_ce_threshold": _microseconds(queue["ce_threshold_ns"]),
            }
        case "fq_codel":
            told = {
                "fqc_limit": queue["limit_packets"],
                "fqc_flows": queue["flows"],
                "fqc_quantum": queue["quantum_bytes"],
                "fqc_target": queue["target_ns"] // 1000,
                "fqc_interval": queue["interval_ns"] // 1000,
                "fqc_ecn": int(queue["ecn"]),
                "fqc_ce_threshold": _microseconds(queue["ce_threshold_ns"]),
            }
        case _:
            raise ValueError(f"queue {kind} is not one that emulator kernel makes")
    return kind, {name: value for name, value in told.items() if value is not None}


def _microseconds(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1000
