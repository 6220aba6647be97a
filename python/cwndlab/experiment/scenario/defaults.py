"""Says which defaults were taken for hosts that name none, and where a real machine's are not the model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cwndlab.experiment import catalogue as catalogues
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.schema import Host

MAX_NAMES = 6
"""Hosts that a sentence names."""


def notes(unnamed: Mapping[str, Sequence[str]], catalogue: Catalogue) -> Iterator[str]:
    """Yield a sentence for each stack on the congestion control of its senders that name none.

    `unnamed` has the names of these hosts by their stack's.
    """
    for name, hosts in unnamed.items():
        verb = "names" if len(hosts) == 1 else "name"
        default = catalogue.stacks[name].default_cc
        yield f"{_some(hosts)} {verb} no cc: {default}, the default of {name}, was taken"


def warnings(
    unnamed: Mapping[str, Sequence[str]], hosts: Mapping[str, Host], catalogue: Catalogue
) -> Iterator[str]:
    """Yield a sentence for each way in which this machine differs from the model that stands for it."""
    for name, senders in unnamed.items():
        stack = catalogue.stacks[name]
        if stack.machine is not None and stack.machine.cc != stack.default_cc:
            own = f"{stack.machine.called}'s own default congestion control is {stack.machine.cc}"
            yield f"{own}; {_some(senders)} got {stack.default_cc}, the default of {name}"
    for host in hosts.values():
        here = catalogue.stack(host.stack)
        if here is None or here.machine is None:
            continue
        engine = catalogues.catalogue()
        model = engine.stack(host.stack) or engine.stacks[here.machine.model]
        if host.stack in catalogue.newest and model.name != here.name:
            real = f"{here.name} on {here.machine.called}"
            yield f"stack {host.stack} is {real}, and {model.name} on testbed sim"
        for name, modelled in model.sysctls.items():
            found = here.sysctls.get(name)
            if found is None or found.default == modelled.default:
                continue
            if name not in host.sysctl and here.real_name(name) not in host.sysctl:
                values = f"{found.default} on {here.machine.called}, and {modelled.default}"
                yield f"{name} is {values} in the model {model.name}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
