"""Where hosts and flows of a Scenario are on the network: addresses, and the sockets of each flow."""

from collections.abc import Mapping
from dataclasses import dataclass

from cwndlab.contract.scenario import Scenario
from cwndlab.scenario.queries import CLIENT_PORT

SERVER_PORT = 5201
"""Port of the first flow that a host accepts; the next ones follow (iperf3's own default)."""


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
    source_port: int
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
        ports = (port, client) if app.get("part") == "download" else (client, port)
        flows[name] = Ends(name, from_, to, hosts[from_], hosts[to], *ports)
    return flows
