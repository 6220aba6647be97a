"""`emulator: kernel`: links as queue disciplines of the kernel at the interfaces themselves, made with tc.

The kernel counts packets with their Ethernet header, as `overhead: 14` says.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.experiment.scenario.path_state import ETHERNET_HEADER
from cwndlab.testbeds import programs
from cwndlab.testbeds.live.linux import tc, trial
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.live.path import links
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.live.path.links import Look
from cwndlab.testbeds.netns.layout import Layout
from cwndlab.testbeds.netns.network import Network, netlink
from cwndlab.testbeds.netns.reach import Namespace

plugins.setdefault(
    "bfifo", sched_pfifo
)  # the same parameter, counted in bytes (struct tc_fifo_qopt); pyroute2 knows one

_LEAF = 0x20000
"""Handle 2:, of the link's queue."""
JOIN_S = 2.0
"""Seconds within which the poll ends."""

_tried = trial.Tried(ThisMachine().run)


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
    try:
        programs.need("tc", "emulator: kernel")
    except ValueError as error:
        yield str(error)
        return
    for link in scenario["links"]:
        yield from _of_link(link)


def _of_link(link: Link) -> Iterator[str]:
    try:
        tc.check(link)
    except ValueError as error:
        yield f"{error}, or use emulator: own"
        return
    if reason := tc.in_one_kernel(link["queue"]):
        yield f"link {link['name']}: {reason}; use emulator: own"
    for kind, said in _tried.refused(tc.trials(link)).items():
        hint = f"try modprobe sch_{kind}, or " if "unknown" in said else ""
        refused = f"this kernel refuses queue discipline {kind} ({said})"
        yield f"link {link['name']}: {refused}; {hint}use emulator: own"
    if link["overhead"] != ETHERNET_HEADER and link["rate_bps"] is not None:
        counted = f"{ETHERNET_HEADER} bytes of overhead, not {link['overhead']}"
        yield f"link {link['name']}: the kernel counts {counted}"


class KernelPath:
    """Queue disciplines in place, and asked at an interval how they are."""

    def __init__(self, run_id: int, scenario: Scenario, layout: Layout, network: Network) -> None:
        """Put nothing in place yet."""
        self._run_id = run_id
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
        self._rows: list[links.Row] = []
        self._polls = [
            threading.Thread(target=self._poll, args=(name,), daemon=True)
            for name in self._places
            if self._links[name]["observe"]
        ]

    def start(self) -> None:
        """Put the queue disciplines in place."""
        for name, (namespace, interface) in self._places.items():
            tc.make(Namespace(namespace), self._links[name], interface, 1)
        for poll in self._polls:
            poll.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins: what was counted before is not of it."""
        self._before = {name: self._look(name) for name in self._places}
        self._zero = zero_ns

    def stop(self) -> PathReport:
        """Take the counters; the queue disciplines go with the namespaces."""
        self._stop.set()
        for poll in self._polls:
            if poll.is_alive():
                poll.join(JOIN_S)
        counted = [] if self._zero is None else self._places
        return PathReport(
            [("queue", links.queue_rows(self._run_id, self._rows))],
            [links.grown(name, self._before[name], self._look(name)) for name in counted],
        )

    def _poll(self, name: str) -> None:
        """Ask a queue at the interval until told to stop, over one socket."""

        def ask(socket: Any) -> None:
            while not self._stop.is_set():
                zero = self._zero
                now = time.monotonic_ns()
                if zero is not None and now >= zero:
                    look = self._read(socket, name)
                    self._rows.append(links.row(now - zero, name, look, self._before[name]))
                time.sleep(self._interval / 1e9 - (now % self._interval) / 1e9)

        netlink(self._places[name][0], ask)

    def _look(self, name: str) -> Look:
        return netlink(self._places[name][0], lambda socket: self._read(socket, name))

    def _read(self, socket: Any, name: str) -> Look:
        (index,) = socket.link_lookup(ifname=self._places[name][1])
        for queue in socket.get_qdiscs(index=index):
            if queue["handle"] == _LEAF:
                stats = queue.get_attr("TCA_STATS2")
                held, sent = stats.get_attr("TCA_STATS_QUEUE"), stats.get_attr("TCA_STATS_BASIC")
                return Look(sent["packets"], sent["bytes"], held["drops"], held["backlog"], held["qlen"])
        raise OSError(f"link {name}: its queue discipline is gone")
