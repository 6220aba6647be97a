"""A host's `ingress.after_gro` as rules of ipfw(8) that drop what comes in at random, behind LRO."""

from __future__ import annotations

from collections.abc import Iterator

from cwndlab.contract.scenario import Host
from cwndlab.experiment.scenario.queries import IP_HEADERS
from cwndlab.testbeds.live.addresses import HEADERS, Addresses, ports
from cwndlab.testbeds.live.freebsd import commands
from cwndlab.testbeds.live.freebsd.commands import Change
from cwndlab.testbeds.live.freebsd.shell import ByShell

FIRST = 11
"""Number of the first rule: links have those from 100 on."""
LONGEST = 65_535
"""Bytes of an IP packet at most."""


def check(host: Host) -> None:
    """Raises ValueError, one line, for an impairment that ipfw cannot make."""
    stage = host["ingress"]["after_gro"]
    if stage is None:
        return
    place = f"host {host['name']}: ingress.after_gro"
    for key in ("duplicate_ppb", "corrupt_ppb"):
        if stage[key]:
            raise ValueError(f"{place}: ipfw cannot {key.removesuffix('_ppb')} packets")
    if stage["loss"] is not None and stage["loss"]["kind"] != "random":
        kind = stage["loss"]["kind"]
        raise ValueError(f"{place}: ipfw drops at random and counts nothing: loss is random, not {kind}")


def refusal(reach: ByShell) -> str | None:
    """Reason why a machine may get no further rules: it has its own, which packets would meet as well. None
    where it has none.
    """
    if not reach.loaded("ipfw"):
        return None
    rules = [line for line in reach.run(commands.RULES).splitlines() if not line.startswith("65535 ")]
    return f"ipfw has rules already ({rules[0].strip()})" if rules else None


def changes(reach: ByShell, host: Host, addresses: Addresses) -> Iterator[Change]:
    """Yield the changes that make the rules, in order; each is to be done before the next is asked for."""
    stage = host["ingress"]["after_gro"]
    if stage is None or stage["loss"] is None:
        return
    loss = stage["loss"]
    assert loss["kind"] == "random"  # as it was checked
    yield from modules(reach, "ipfw")
    for number, (protocol, headers) in enumerate(HEADERS.items(), FIRST):
        source = [] if stage["sport"] is None else [str(stage["sport"])]
        asked = ports(host, stage, addresses)
        target = [",".join(map(str, asked))] if asked else []
        least = stage["min_payload"] + headers + IP_HEADERS["ipv4"]
        length = ["iplen", f"{least}-{LONGEST}"] if stage["min_payload"] else []
        to = addresses.hosts[host["name"]]
        words = [protocol, "from", "any", *source, "to", to, *target, "in", *length]
        yield commands.dropping(number, loss["probability_ppb"], words)


def modules(reach: ByShell, *names: str) -> Iterator[Change]:
    """Load modules, ipfw so that it accepts what no rule says anything of."""
    if not reach.loaded("ipfw"):
        yield commands.default_to_accept()
    for module in names:
        if not reach.loaded(module):
            yield Change(commands.load(module), commands.unload(module))
