"""Where hosts and flows of a Scenario are on the network: addresses, and the sockets of each flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.scenario.queries import CLIENT_PORT
from cwndlab.testbeds.live import user_programs

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
    source_port: int | None
    """None: whichever the program chooses that carries the flow out."""
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
