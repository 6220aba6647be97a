"""Hosts that run Linux: sysctls, congestion controls, offloads, rules and settings."""

from collections.abc import Iterable, Mapping
from typing import Any

from cwndlab.contract.scenario import Flow, Host
from cwndlab.experiment.scenario.queries import is_datagrams
from cwndlab.testbeds.live import guests
from cwndlab.testbeds.live.addresses import Addresses
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux import kernel, rules, settings
from cwndlab.testbeds.live.linux.kernel import Kernel

PLAIN_CC = "reno"
"""A congestion control that every Linux has, that every namespace may choose, and that leaves nothing behind
(Documentation/networking/ip-sysctl.rst, tcp_congestion_control)."""

NEED_ECN = frozenset({"dctcp", "prague"})
"""Congestion controls that tell of marks in their own way (TCP_CONG_NEEDS_ECN): a host that accepts a flow of
them needs the same."""

_ECN = {
    **{"off": "0", "on": "1", "accept": "2"},
    **{"accurate": "3", "on-accept-accurate": "4", "accept-accurate": "5"},
}
"""net.ipv4.tcp_ecn (Documentation/networking/ip-sysctl.rst)."""


class Linux:
    """Hosts of one kernel."""

    def __init__(self, here: Kernel) -> None:
        """Hosts of this kernel."""
        self._kernel = here

    def sysctls(self, host: Host, flows: Iterable[Flow]) -> dict[str, str]:
        """A host's sysctls as text, in the order they are set; three parts become one value again."""
        values: dict[str, str] = {
            **kernel.HOST,
            "net.ipv4.tcp_ecn": _ECN[host["ecn"]],
            "net.ipv4.tcp_congestion_control": self._first_cc(host, flows),
        }
        triples: dict[str, dict[str, int]] = {}
        for name, value in host["sysctl"].items():
            base, _, part = name.rpartition(".")
            if part in ("min", "default", "max") and name not in self._kernel.sysctls:
                triples.setdefault(base, {})[part] = value
            else:
                values[name] = str(value)
        for base, parts in triples.items():
            present = dict(zip(("min", "default", "max"), self._kernel.sysctls[base].split(), strict=True))
            values[base] = " ".join(str(parts.get(part, present[part])) for part in present)
        return values

    def _first_cc(self, host: Host, flows: Iterable[Flow]) -> str:
        """The congestion control with which connections of a host open, until their own is set.

        iperf3 sets a connection's own (`-C`) once it is open. What BBR has switched on by then, pacing, stays
        on for whatever follows (tcp_bbr.c and Linux's tcp_set_congestion_control), and many kernels begin
        with BBR. So it is that of all flows the host sends, or Reno, where they differ or a namespace may
        not choose theirs (net.ipv4.tcp_allowed_congestion_control): it switches nothing on, and every Linux
        has it. One that needs ECN comes first: a listener of another refuses it ECN.
        """
        used = _used(host, flows)
        accepted = used & NEED_ECN & {flow["cc"] for flow in flows if flow.get("to") == host["name"]}
        common = min(accepted) if accepted else used.pop() if len(used) == 1 else PLAIN_CC
        return common if common in self._kernel.allowed_congestion_controls else PLAIN_CC

    def load(self, reach: Reach, host: Host, flows: Iterable[Flow]) -> None:
        """Load the modules of congestion controls before settings are looked at, which come with them.

        They stay: one that a connection still uses cannot go.
        """
        used = _used(host, flows)
        for cc in sorted(cc for cc in used.difference(kernel.available(reach)) if cc):
            reach.run(["modprobe", f"tcp_{cc}"])

    def configure(self, reach: Reach, sysctls: Mapping[str, str]) -> None:
        """Set sysctls of a host, in order; raises ValueError, one line, where one is refused."""
        for name, value in sysctls.items():
            try:
                reach.write(kernel.path(name), value)
            except OSError as error:
                problem = error.strerror or str(error)
                raise ValueError(f"this kernel refuses {name} = {value} ({problem})") from None

    def set_interface(self, reach: Reach, interface: str, nic: Mapping[str, Any]) -> None:
        """Set which packets an interface cuts and merges, and how long it is polled; raises OSError."""
        reach.set_offloads(interface, tso=nic["tso"], gro=nic["gro"])
        coalesce = nic["coalesce"]
        if coalesce is None or not (coalesce["gro_flush_timeout_ns"] or coalesce["napi_defer_hard_irqs"]):
            return
        for name, value in (
            ("gro_flush_timeout", coalesce["gro_flush_timeout_ns"]),
            ("napi_defer_hard_irqs", coalesce["napi_defer_hard_irqs"]),
        ):
            try:
                reach.write(f"/sys/class/net/{interface}/{name}", str(value))
            except OSError as error:
                raise OSError(f"polling of {interface}: {error}") from None

    def set_rules(self, reach: Reach, host: Host, addresses: Addresses) -> None:
        """Put the rules of a host's `ingress.after_gro` into place; raises OSError with nft's own words."""
        script = rules.script(host, addresses)
        if script:
            rules.load(reach, script)

    def settings(self, reach: Reach) -> dict[str, Any]:
        """Settings of a host: `sysctls` by name, and `interfaces`."""
        return settings.namespace(reach)

    def machine(self, reach: Reach, namespaced: Mapping[str, str]) -> dict[str, Any]:
        """Settings of a machine that its hosts share."""
        return settings.machine(reach, namespaced)

    def is_setting(self, reach: Reach, sysctl: str) -> bool:
        """Whether anybody can set a sysctl; others are counters."""
        return settings.is_setting(reach, sysctl)


def _used(host: Host, flows: Iterable[Flow]) -> set[str]:
    """Congestion controls of the flows that a host's kernel sends, and of those that it accepts if they need
    ECN.
    """
    if guests.is_guest(host):
        return set()
    return {
        flow["cc"]
        for flow in flows
        if not is_datagrams(flow)
        and (flow["from"] == host["name"] or (flow["cc"] in NEED_ECN and flow["to"] == host["name"]))
    }
