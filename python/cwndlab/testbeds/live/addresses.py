"""The network addresses of a Scenario's hosts, and the sockets of each flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cwndlab.contract.scenario import Host, Scenario
from cwndlab.experiment.scenario.queries import CLIENT_PORT
from cwndlab.testbeds.live import user_programs

SERVER_PORT = 5201
"""Port of the first flow that a host accepts; the next ones follow (iperf3's own default)."""
HEADERS = {"tcp": 32, "udp": 8}
"""Bytes of a packet between its IP header and its payload, by protocol that rules count: a TCP header with a
timestamp option (RFC 7323), or a UDP header. ICMP is not among them: the idle ping must not count.
"""


def family_of(address: str) -> str:
    """The IP version of an address, as the experiment file calls it."""
    return "ipv6" if ":" in address else "ipv4"


@dataclass(frozen=True)
class Ends:
    """The two sockets of a flow."""

    flow: str
    from_: str
    to: str
    source: str
    """Address of `from`."""
    target: str
    """Address of `to`."""
    source_port: int | None
    """Port of the sender. None where the program chooses that carries the flow out."""
    target_port: int


@dataclass(frozen=True)
class Addresses:
    """The hosts and flows of a run."""

    hosts: dict[str, str]
    """Address of each host."""
    flows: dict[str, Ends]


def sockets(scenario: Scenario, hosts: Mapping[str, str]) -> dict[str, Ends]:
    """The two sockets of each flow, by its name."""
    accepted: dict[str, int] = {}
    servers: dict[str, int] = {}
    told: Mapping[str, Any] = dict[str, Any](scenario).get("live", {}).get("flows", {})
    flows = {}
    for number, flow in enumerate(scenario["flows"]):
        from_, to, name = flow["from"], flow["to"], flow["name"]
        client, app = CLIENT_PORT + number, flow["app"]
        if app["kind"] == "loadlatency" and app["part"] != "pinger":
            # All connections of a loadlatency scenario go to the one port of its server, downloads as well.
            port = servers[app["group"]]
        else:
            port = accepted[to] = accepted.get(to, SERVER_PORT - 1) + 1
            servers[name] = port
        source, target = (port, client) if app.get("part") == "download" else (client, port)
        program = told.get(name, {}).get("program")
        bound = program is None or user_programs.binds_source(program["client"])
        flows[name] = Ends(name, from_, to, hosts[from_], hosts[to], source if bound else None, target)
    return flows


def flow_keys(scenario: Scenario, ends: Mapping[str, Ends]) -> list[dict[str, Any]]:
    """Make the emulator's keys that tell which packets are a flow's: those that have ports come first. Of
    background traffic any connection to its port, of echoes any between the hosts.
    """
    keys = []
    for flow in scenario["flows"]:
        own, kind = ends[flow["name"]], flow["app"]["kind"]
        key = {
            "flow": own.flow,
            "src": own.source,
            "dst": own.target,
            "sport": None if kind in ("background", "ping") else own.source_port,
            "dport": None if kind == "ping" else own.target_port,
        }
        keys.append(key)
    return sorted(keys, key=lambda key: key["dport"] is None)


def ports(host: Host, stage: Mapping[str, Any], addresses: Addresses) -> list[int]:
    """The ports at the host whose packets count; empty for all. The experiment's server port stands for those
    of all flows that the host accepts."""
    if stage["dport"] is None:
        return []
    found = {stage["dport"]}
    if stage["dport"] == SERVER_PORT:
        found |= {ends.target_port for ends in addresses.flows.values() if ends.to == host["name"]}
    return sorted(found)
