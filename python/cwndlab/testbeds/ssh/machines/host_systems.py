"""The systems of a lab's machines, each driven in its own way (`lab.HostSystem` of all of them)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cwndlab.contract.scenario import Flow, Host, Scenario
from cwndlab.testbeds.live.addresses import Addresses, Ends
from cwndlab.testbeds.live.lab import HostSettings, Reach, Sampler

MakeSampler = Callable[[int, Scenario, Mapping[str, Ends]], Sampler]


class Systems:
    """The system of each machine."""

    def __init__(self, machines: Mapping[str, tuple[HostSettings, Reach]]) -> None:
        """Systems and ways in, by machine."""
        self._of_host = {name: system for name, (system, _) in machines.items()}
        self._of_reach = {id(reach): system for system, reach in machines.values()}
        self.make_sampler: MakeSampler | None = None
        """Makes the sampler of a run."""

    def sysctls(self, host: Host, flows: Iterable[Flow]) -> dict[str, str]:
        """A host's sysctls as text."""
        return self._of_host[host["name"]].sysctls(host, flows)

    def load(self, reach: Reach, host: Host, flows: Iterable[Flow]) -> None:
        """Load what a host needs."""
        self._of(reach).load(reach, host, flows)

    def configure(self, reach: Reach, sysctls: Mapping[str, str]) -> None:
        """Set sysctls of a host."""
        self._of(reach).configure(reach, sysctls)

    def set_interface(self, reach: Reach, interface: str, nic: Mapping[str, Any]) -> None:
        """Set offloads of a host's interface."""
        self._of(reach).set_interface(reach, interface, nic)

    def set_rules(self, reach: Reach, host: Host, addresses: Addresses) -> None:
        """Put the rules of a host's `ingress` into place."""
        self._of(reach).set_rules(reach, host, addresses)

    def sampler(
        self, run_id: int, scenario: Scenario, ends: Mapping[str, Ends], hosts: Mapping[str, Reach]
    ) -> Sampler:
        """The sampler that the lab makes."""
        assert self.make_sampler is not None  # the lab sets it
        return self.make_sampler(run_id, scenario, ends)

    def settings(self, reach: Reach) -> dict[str, Any]:
        """Settings of a host."""
        return self._of(reach).settings(reach)

    def machine(self, reach: Reach, namespaced: Mapping[str, str]) -> dict[str, Any]:
        """Settings of a machine besides those of its hosts."""
        return self._of(reach).machine(reach, namespaced)

    def is_setting(self, reach: Reach, sysctl: str) -> bool:
        """Whether anybody can set a sysctl."""
        return self._of(reach).is_setting(reach, sysctl)

    def _of(self, reach: Reach) -> HostSettings:
        return self._of_reach[id(reach)]
