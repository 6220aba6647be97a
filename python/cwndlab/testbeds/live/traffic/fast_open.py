"""TCP Fast Open of flows on live hosts, by the sysctls of both of their hosts."""

from cwndlab.contract.scenario import Host

SYSCTL = "net.ipv4.tcp_fastopen"
CLIENT, SERVER = 1, 2
"""Bits of the sysctl: connections may be opened with it, and listeners may take it."""


def asked(opener: Host, accepter: Host) -> bool:
    """Whether connections between two hosts of a Scenario are opened with it, as on the models."""
    allowed, taken = (int(host["sysctl"].get(SYSCTL, CLIENT)) for host in (opener, accepter))
    return bool(allowed & CLIENT and taken & SERVER)
