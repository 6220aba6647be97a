"""Programs that live runs call or that help otherwise: where they are, and what installs them."""

import shutil

PACKAGES = {
    "iperf3": "iperf3",
    "iperf": "iperf",
    "nft": "nftables",
    "tc": "iproute2",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "tshark": "tshark",
    "tcptrace": "tcptrace",
    "ssh": "openssh-client",
    "ping": "iputils-ping",
    "ss": "iproute2",
    "timeout": "coreutils",
    "awk": "mawk",
    "tee": "coreutils",
}
"""Debian packages of programs."""


def need(name: str, purpose: str) -> str:
    """The path of a program; raises ValueError, one line, with what installs it if it is not there."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise ValueError(
            f"{name} is not installed, which {purpose} needs (Debian: apt install {PACKAGES.get(name, name)})"
        )
    return found
