"""The lab file of a TEACUP configuration: its machines, for testbed ssh."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

import yaml

from cwndlab.errors import printable
from cwndlab_teacup.reader import safe
from cwndlab_teacup.source import Source
from cwndlab_teacup.values import as_text

UNKNOWN = "unknown"
"""Stands for the name of an interface of the router."""
HEADER = """\
# The machines of the TEACUP configuration {file}.
# Put the router's interfaces in for {unknown}: a link leaves by the one towards the right hosts, its reverse
# by the one towards the left ones.
# Check it with: cwndlab lab check FILE
"""


def of(source: Source, name: str, hosts: Sequence[str], ways: Sequence[str]) -> str | None:
    """The text of the lab file for the hosts of an experiment. None where one of them has no address.

    `ways` are the keys of its routers' links: `network.dumbbell.bottleneck`, or `network.links.ROUTER`.
    """
    known = {safe(str(host)): str(host) for host in source.get("TPCONF_hosts", [])}
    described = {host: _host(source, known.get(host, host)) for host in hosts}
    if not all("address" in host for host in described.values()):
        return None
    tree: dict[str, Any] = {
        "lab": name,
        "path": f"the lab of TEACUP's {source.file.name}",
        "hosts": described,
    }
    routers = [str(router) for router in source.get("TPCONF_router", [])]
    links = [way.rpartition(".")[2] for way in ways]
    if routers:
        tree["routers"] = {
            safe(router): {
                **_way_in(source, router),
                "links": {link: UNKNOWN, f"{link}.reverse": UNKNOWN},
            }
            for link in links
            for router in ([each for each in routers if safe(each) == link] or routers[:1])
        }
    text = yaml.safe_dump(tree, sort_keys=False, width=120, allow_unicode=True)
    return HEADER.format(file=printable(source.file.name), unknown=UNKNOWN) + text + _commands(source)


def _host(source: Source, host: str) -> dict[str, Any]:
    internal = source.get("TPCONF_host_internal_ip", {})
    found = internal.get(host, []) if isinstance(internal, dict) else []
    addresses = [str(address) for address in (found if isinstance(found, list | tuple) else [found])]
    described = _way_in(source, host)
    if addresses and _is_ipv4(addresses[0]):
        described |= {"address": addresses[0]}
    return described


def _commands(source: Source) -> str:
    """Return what TEACUP ran on hosts as comments: a stranger's commands run only once the reader says so."""
    commands = source.get("TPCONF_host_init_custom_cmds", {})
    if not isinstance(commands, dict) or not any(commands.values()):
        return ""
    lines = [
        "# Commands that TEACUP ran as root before each experiment (TPCONF_host_init_custom_cmds). None",
        "# runs unless you put it under its host, as before_run: [...]. V_NAME is a value of TEACUP's run.",
    ]
    for host, wanted in commands.items():
        for command in wanted if isinstance(wanted, list | tuple) else [wanted]:
            lines.append(f"#   {printable(as_text(host))}: {printable(as_text(command))}")
    return "\n".join(lines) + "\n"


def _way_in(source: Source, host: str) -> dict[str, Any]:
    """Way of Fabric to a host, without passwords, which stand in no file that is written here."""
    user = source.get("env.user")
    key = source.get("env.key_filename")
    found: dict[str, Any] = {"ssh": f"{as_text(user)}@{host}" if user else host}
    return found | ({"key": as_text(key)} if key else {})


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
