"""IPv4 and IPv6 in a network namespace: who is at the other end, and how nobody speaks unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import ip_of

GATEWAYS = {"ipv4": "169.254.0.1", "ipv6": "fe80::1"}
"""Address by which every node calls whoever is at the other end of any of its interfaces (RFC 3927, RFC 4291:
of this link only).
"""
PREFIXES = {"ipv4": 32, "ipv6": 128}
"""Bits of the prefix that is one address."""
NO_DETECTION = {"ipv4": 0, "ipv6": 0x2}
"""Flags of an address that is used as soon as it is there (IFA_F_NODAD, linux/if_addr.h): until the kernel
has looked for duplicates, even on `lo`, no route may have it as source."""
LEAST_MTU = 1280
"""The smallest MTU of a link that carries IPv6 (RFC 8200 section 5)."""

FORWARDING = {"ipv4": "net.ipv4.ip_forward", "ipv6": "net.ipv6.conf.all.forwarding"}
"""Sysctl by which packets are passed on. That of IPv6 comes when interfaces are up, without multicast: one
that is made while it is on joins the group of routers, and reports that (RFC 3810).
"""
UP, MULTICAST = 0x1, 0x1000
"""IFF_UP and IFF_MULTICAST (linux/if.h)."""

ANY_SOURCE = {"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"}
"""Sysctls where routes may differ by direction; IPv6 looks at no source."""
_WITHOUT_V6 = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
_WITH_V6 = {
    "net.ipv6.conf.all.disable_ipv6": "0",
    **{
        f"net.ipv6.conf.default.{name}": value
        for name, value in {
            "accept_dad": "0",
            "accept_ra": "0",
            "addr_gen_mode": "1",
            "autoconf": "0",
            "dad_transmits": "0",
            "router_solicitations": "0",
        }.items()
    },
}
"""IPv6 with the addresses that it is given: no autoconfiguration, no duplicate address detection."""


def troubles(scenario: Scenario, lacks: str, *, v6: bool) -> Iterator[str]:
    """Yield why a kernel cannot carry a Scenario's IPv6: it `lacks` that, or a link is too small."""
    hosts = [host["name"] for host in scenario["hosts"] if ip_of(host) == "ipv6"]
    if hosts and not v6:
        yield f"host {hosts[0]}: family ipv6, and {lacks}"
    for link in scenario["links"] if hosts else ():
        if link["mtu"] < LEAST_MTU:
            found, least = link["mtu"], f"IPv6 needs {LEAST_MTU} at least (RFC 8200 section 5)"
            yield f"link {link['name']}: MTU {found}, and {least}"


def has_v6(sysctls: Iterable[str]) -> bool:
    """Whether a kernel has IPv6, by the names of its sysctls."""
    return "net.ipv6.conf.all.disable_ipv6" in sysctls


def sysctls(families: Iterable[str], *, v6: bool) -> Mapping[str, str]:
    """The settings of a namespace with packets of these families, before it has interfaces.

    `v6`: the kernel has IPv6, which is off where no packet is of it.
    """
    if not v6:
        return {}
    return _WITH_V6 if "ipv6" in families else _WITHOUT_V6
