"""Links that cwndlab's emulator makes at a Linux router: the cables that lead there, and what it saw.

    to a ── forwarding ── cwl1a ═ cwl1x ── emulator ── cwl1y ═ cwl1b ── forwarding ── to b

Whatever would leave by a link's interface is routed into `a` first, one end of a veth pair. The emulator
takes it from the other end through the link, and hands it to `b`, from where it is routed as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import of_engine
from cwndlab.testbeds.live.addresses import Ends, flow_keys
from cwndlab.testbeds.live.lab import Reach
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
GATEWAY = "169.254.77.1"
"""Address of the other end of every cable (RFC 3927: of this link only)."""
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
ROWS = "emulated"
"""File of the emulator's records at the router."""


def refusal(reach: Reach, interface: str) -> str | None:
    """Reason why cwndlab's emulator can make no link here. None where it can."""
    if reach.files(FORWARDING).get(FORWARDING, "").strip() != "1":
        return "forwards no packets (net.ipv4.ip_forward)"
    if not _routes(reach, interface):
        return f"has no route over {interface}"
    return None


def lay(reach: Reach, made: MadeLink, mtu: int) -> dict[str, str | None]:
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
    reach.run(["ip", "neigh", "add", GATEWAY, "lladdr", hardware, "dev", into, "nud", "permanent"])
    for route in _routes(reach, made.interface):
        way = ["via", GATEWAY, "dev", into, "onlink", "table", str(TABLE)]
        reach.run(["ip", "route", "add", route, *way])
    rule = ["pref", str(TABLE + made.number), "iif", out, "lookup", "main"]
    _add_rule(reach, rule)
    return {"a": taken, "b": given}


def _add_rule(reach: Reach, rule: list[str]) -> None:
    look = f"ip rule show pref {rule[1]} | grep -q ."
    reach.run(["ip", "rule", "add", *rule], undo=unless_gone(["ip", "rule", "del", *rule], look))


def _routes(reach: Reach, interface: str) -> list[str]:
    """List the destinations of packets that leave by an interface."""
    told = reach.run(["ip", "-4", "-j", "route", "show", "table", "main", "dev", interface])
    return [route["dst"] for route in parsed(told or "[]", "ip route")]


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
            cables.append({**lay(made.at.reach, made, mtu), "forward": name, "reverse": None})
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
        rule = ["pref", str(LAST), "lookup", str(TABLE)]
        _add_rule(reach, rule)

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
