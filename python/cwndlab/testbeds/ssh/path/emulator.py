"""Links that cwndlab's emulator makes at a Linux router: the cables that lead there, and what it saw.

    to a ── forwarding ── cwl1a ═ cwl1x ── emulator ── cwl1y ═ cwl1b ── forwarding ── to b

Whatever would leave by a link's interface is routed into `a` first, one end of a veth pair. The emulator
takes it from the other end through the link, and hands it to `b`, from where it is routed as ever.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import ip_of, of_engine
from cwndlab.testbeds.live.addresses import Ends, flow_keys
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux import kernel
from cwndlab.testbeds.live.observation.batches import batches
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.live.shell import parsed, unless_gone
from cwndlab.testbeds.ssh.machines.machine import Clock
from cwndlab.testbeds.ssh.path.backend import MadeLink
from cwndlab.testbeds.ssh.traffic.agents import AgentTraffic

TABLE = 7700
"""Number of the routing table that leads into the emulator; its rules have the numbers from here on."""
LAST = TABLE + 99
"""Number of the rule that looks there."""
GATEWAYS = {"ipv4": "169.254.77.1", "ipv6": "fe80::77:1"}
"""Address of the other end of every cable (RFC 3927, RFC 4291: of this link only)."""
FORWARDING = {"ipv4": "net.ipv4.ip_forward", "ipv6": "net.ipv6.conf.all.forwarding"}
VERSION = {"ipv4": "-4", "ipv6": "-6"}
"""Option of `ip` for an IP version (ip(8))."""
LINK_ONLY = ("fe80::/64", "ff00::/8")
"""Destinations that every interface of IPv6 has for itself."""
ROWS = "emulated"
"""File of the emulator's records at the router."""


def families(scenario: Scenario) -> list[str]:
    """The IP versions of a Scenario's packets."""
    return sorted({ip_of(host) for host in scenario["hosts"]})


def refusal(reach: Reach, interface: str, used: Iterable[str]) -> str | None:
    """Reason why cwndlab's emulator can make no link here for these IP versions. None where it can."""
    for family in used:
        path = kernel.path(FORWARDING[family])
        if reach.files(path).get(path, "").strip() != "1":
            return f"forwards no packets ({FORWARDING[family]})"
        if not _routes(reach, interface, family):
            return f"has no route of {family} over {interface}"
    return None


def lay(reach: Reach, made: MadeLink, mtu: int, used: Iterable[str]) -> dict[str, str | None]:
    """Lead what would leave by a link's interface through a cable of the emulator; returns its ends.

    Raises OSError. Every step is taken back by the machine's journal.
    """
    stem = f"cwl{made.number}"
    into, taken, given, out = (f"{stem}{end}" for end in "axyb")
    hardware = f"02:63:77:6c:{made.number:02x}:0b"
    for near, far, address in ((into, taken, ()), (out, given, ("address", hardware))):
        pair = ["name", near, "mtu", str(mtu), *address, "type", "veth", "peer", "name", far, "mtu", str(mtu)]
        undo = unless_gone(["ip", "link", "del", near], f"ip link show {near}")
        reach.run(["ip", "link", "add", *pair], undo=undo)
        for end in (near, far):
            reach.run(["ip", "link", "set", end, "addrgenmode", "none", "up"])
            # Whatever was put together on its way in comes apart before the link.
            reach.set_offloads(end, tso=False, gro=False)
    # Sources that are elsewhere by this machine's routes come out of here.
    for interface in ("all", out):
        reach.write(f"/proc/sys/net/ipv4/conf/{interface}/rp_filter", "0")
    for family in used:
        version, gateway = VERSION[family], GATEWAYS[family]
        reach.run(["ip", "neigh", "add", gateway, "lladdr", hardware, "dev", into, "nud", "permanent"])
        for route in _routes(reach, made.interface, family):
            way = ["via", gateway, "dev", into, "onlink", "table", str(TABLE)]
            reach.run(["ip", version, "route", "add", route, *way])
        _add_rule(reach, family, ["pref", str(TABLE + made.number), "iif", out, "lookup", "main"])
    return {"a": taken, "b": given}


def _add_rule(reach: Reach, family: str, rule: list[str]) -> None:
    command = ["ip", VERSION[family], "rule"]
    look = f"{shlex.join(command)} show pref {rule[1]} | grep -q ."
    reach.run([*command, "add", *rule], undo=unless_gone([*command, "del", *rule], look))


def _routes(reach: Reach, interface: str, family: str) -> list[str]:
    """List the destinations of packets that leave by an interface, besides those of the link alone."""
    told = reach.run(["ip", VERSION[family], "-j", "route", "show", "table", "main", "dev", interface])
    found = [route["dst"] for route in parsed(told or "[]", "ip route")]
    return [to for to in found if to not in LINK_ONLY]


class EmulatedLinks:
    """The links of one router, in cwndlab's agent's emulator there."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        *,
        router: str,
        made: Mapping[str, MadeLink],
        ends: Mapping[str, Ends],
        clocks: Mapping[str, Clock],
        agent: Callable[[], AgentTraffic],
    ) -> None:
        """Put nothing in place; `agent` starts the emulator there, `clocks` are known when the run begins."""
        self._run_id, self._scenario, self._router = run_id, scenario, router
        self._made, self._ends, self._clocks = made, ends, clocks
        self._begin = agent
        self._agent: AgentTraffic | None = None

    def start(self) -> None:
        """Lay the cables, start the emulator, and then lead packets there; raises OSError."""
        cables = []
        for name, made in self._made.items():
            mtu = made.at.reach.interfaces()[made.interface]["mtu"]
            ends = lay(made.at.reach, made, mtu, families(self._scenario))
            cables.append({**ends, "forward": name, "reverse": None})
        config = {
            "run_id": self._run_id,
            "netns": None,
            "scenario": of_engine(self._scenario),
            "cables": cables,
            "flows": flow_keys(self._scenario, self._ends),
            "captures": [],
            "threads": 1,
            "real_time": True,
        }
        self._agent = self._begin()
        self._agent.ask({self._router: {"do": "emulate", "config": config}})
        reach = next(iter(self._made.values())).at.reach
        for family in families(self._scenario):
            _add_rule(reach, family, ["pref", str(LAST), "lookup", str(TABLE)])

    def mark_start(self, zero_ns: int) -> None:
        """The run begins."""
        assert self._agent is not None  # it was started
        zero = zero_ns + self._clocks[self._router].offset_ns
        self._agent.ask({self._router: {"do": "start", "zero_ns": zero}})

    def stop(self) -> PathReport:
        """End it; what leads there goes with the run."""
        if self._agent is None:
            return PathReport([], [])
        agent, self._agent = self._agent, None
        made = next(iter(self._made.values()))
        with agent:
            file = made.at.machine.path(ROWS)
            answer = agent.ask({self._router: {"do": "emulated", "file": file}})[self._router]
            found = batches(made.at.machine.get(ROWS))
        report: dict[str, Any] = answer["report"]
        return PathReport(
            batches=[(name, batch) for name, table in found for batch in table.to_batches()],
            links=[link for link in report["links"] if link["link"] in self._made],
            flows={flow["flow"]: flow for flow in report["flows"]},
            health=report["health"],
        )
