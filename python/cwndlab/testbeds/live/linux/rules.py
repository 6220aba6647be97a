"""A host's `ingress.after_gro` as rules of nftables in its INPUT chain, behind receive aggregation."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from cwndlab.contract.scenario import Host
from cwndlab.experiment.scenario.queries import IP_HEADERS
from cwndlab.testbeds.live.addresses import HEADERS, Addresses, family_of, ports
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux.trial import Trials
from cwndlab.testbeds.live.shell import unless_gone

_BILLION = 10**9
"""Unit of probabilities (parts per billion), and range of the random numbers drawn."""
GILBERT = "rules of the kernel drop random, nth or listed packets, not by gilbert"
"""Message that refuses losses in bursts."""
TRIAL = "rules of nft"
"""Name of the trial of a host's rules."""
TABLE = "cwndlab"
"""The rules' table."""
_MATCHES = {"ipv4": ("ip", "ip protocol", IP_HEADERS["ipv4"]), "ipv6": ("ip6", "meta l4proto", 0)}
"""Words of nft for a packet of an IP version and for its protocol, and the bytes of the IP header that its
length counts: of IPv6 none (RFC 8200 section 3).
"""
_COUNTS = 1 << 31
"""Modulus of a counter that is not to come round."""


def check(host: Host, addresses: Addresses, trial: Callable[[Callable[[Reach], None]], None]) -> None:
    """Raises ValueError, one line, for an impairment that rules cannot make, where nft is missing, or where
    the kernel does not take the host's rules: they are loaded where `trial` lets work be done for nothing."""
    stage = host["ingress"]["after_gro"]
    if stage is None:
        return
    place = f"host {host['name']}: ingress.after_gro"
    trial(_has_program)
    for key in ("duplicate_ppb", "corrupt_ppb"):
        if stage[key]:
            raise ValueError(f"{place}: rules of the kernel cannot {key.removesuffix('_ppb')} packets")
    if stage["loss"] is not None and stage["loss"]["kind"] == "gilbert":
        raise ValueError(f"{place}: {GILBERT}")
    text = script(host, addresses)
    if not text:
        return
    try:
        trial(lambda reach: load(reach, text))
    except OSError as error:
        problem = "this kernel does not take rules of nf_tables with numgen (modprobe nft_numgen)"
        raise ValueError(f"{place}: {problem}: {error}") from None


def trials(host: Host, addresses: Addresses) -> Trials:
    """The command by which a host's kernel looks at its rules and loads none; raises ValueError for what
    rules cannot make."""
    text = script(host, addresses)
    return {TRIAL: [["nft", "-c", text]]} if text else {}


def script(host: Host, addresses: Addresses) -> str:
    """The rules of a host in nft's language, empty if it has none."""
    stage = host["ingress"]["after_gro"]
    if stage is None or stage["loss"] is None:
        return ""
    loss = stage["loss"]
    match loss["kind"]:
        case "random":
            chosen = f"numgen random mod {_BILLION} < {loss['probability_ppb']}"
        case "nth":
            chosen = f"numgen inc mod {loss['every']} == {loss['packet']}"
        case "list":
            listed = ", ".join(str(packet) for packet in loss["packets"])
            chosen = f"numgen inc mod {_COUNTS} {{ {listed} }}" if listed else ""
        case "gilbert":
            raise ValueError("nft has no chain of states")
    if not chosen:
        return ""
    payload = max(stage["min_payload"], loss["min_payload"] if loss["kind"] == "nth" else 0)
    counted, own = [], addresses.hosts[host["name"]]
    ip, named, before = _MATCHES[family_of(own)]
    for protocol, headers in HEADERS.items():
        to = f"{ip} daddr {own} {named} {protocol}"
        matches = [to, *_ports(protocol, host, stage, addresses)]
        matches += [f"{ip} length >= {payload + headers + before}"] if payload else []
        counted.append(" ".join([*matches, "jump chosen"]))
    # One counter for both protocols.
    drop = f"chain chosen {{\n{chosen} counter drop\n}}"
    chain = "\n".join(["chain input {", "type filter hook input priority 0", *counted, "}"])
    return f"table {ip} {TABLE} {{\n{drop}\n{chain}\n}}\n"


def load(reach: Reach, text: str) -> None:
    """Put rules into a host; raises OSError with nft's own words."""
    try:
        nft = reach.program("nft", "ingress.after_gro")
        family = text.split()[1]
        look = f"{shlex.quote(nft)} list table {family} {TABLE}"
        undo = unless_gone([nft, "delete", "table", family, TABLE], look)
        reach.run([nft, "-f", "-"], text, undo=undo)
    except OSError as error:
        raise OSError(f"nft: {error}") from None


def _has_program(reach: Reach) -> None:
    reach.program("nft", "ingress.after_gro")


def _ports(protocol: str, host: Host, stage: Mapping[str, Any], addresses: Addresses) -> list[str]:
    """Matches of ports."""
    matches = []
    if accepted := ports(host, stage, addresses):
        matches.append(f"{protocol} dport {{ {', '.join(map(str, accepted))} }}")
    if stage["sport"] is not None:
        matches.append(f"{protocol} sport {stage['sport']}")
    return matches
