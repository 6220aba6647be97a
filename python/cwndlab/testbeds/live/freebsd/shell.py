"""The way into a FreeBSD machine that is reached by commands: sysctl, ifconfig, kldstat, ntpq."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cwndlab.testbeds.live.freebsd import commands
from cwndlab.testbeds.live.shell import ShellReach, chrony

PORTS = {"iperf3": "iperf3", "iperf": "iperf", "chronyc": "chrony"}
"""Packages of programs that are not a part of the system."""
OFFLOADS = ("TSO4", "TSO6", "LRO", "TXCSUM", "RXCSUM", "TXCSUM_IPV6", "RXCSUM_IPV6")
"""Options of an interface that are offloads (ifconfig(8))."""


class ByShell(ShellReach):
    """A FreeBSD machine behind a shell."""

    def clock(self) -> dict[str, Any]:
        """Readings of ntpd or chrony. Empty where neither runs."""
        told = self._shell.shell(commands.CLOCK)
        return ntp(told) if "=" in told else chrony(told)

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The interfaces by name, as ifconfig shows them."""
        return {
            name: {
                "mtu": int(mtu),
                "tx_queue": 0,
                "offloads": sorted(each.lower() for each in options if each in OFFLOADS),
                "qdiscs": [],
            }
            for name, mtu, options, _ in interfaces(self._shell.run(commands.INTERFACES))
        }

    def package(self, name: str) -> str:
        """Command that installs a program."""
        return f"FreeBSD: pkg install {PORTS[name]}" if name in PORTS else "a part of FreeBSD"

    def loaded(self, module: str) -> bool:
        """Whether a module is loaded, or a part of the kernel."""
        return self._shell.shell(commands.LOADED, module).strip() == "yes"

    def has(self, sysctl: str) -> bool:
        """Whether there is a sysctl."""
        return bool(self._shell.run(commands.known(sysctl)).strip())

    def value(self, sysctl: str) -> str:
        """A sysctl's value; raises OSError."""
        return self.run(commands.read(sysctl)).strip()

    def set(self, sysctl: str, value: str) -> None:
        """Set a sysctl, which is set back after the run; raises OSError."""
        before = self.value(sysctl)
        if before != value:
            self.run(commands.setting(sysctl, value), undo=commands.setting(sysctl, before))

    def set_offloads(self, interface: str, *, tso: bool, gro: bool) -> None:
        """Switch segmentation and LRO of an interface, where they are otherwise and can be switched."""
        shown = {name: each for name, *each in interfaces(self._shell.run(commands.INTERFACES))}
        if interface not in shown:
            raise OSError(f"no interface {interface}; {', '.join(shown)}")
        _, options, able = shown[interface]
        words, back = [], []
        wanted = [("tso", "TSO4", tso), ("lro", "LRO", gro)]
        if tso:
            # Segments are cut only where checksums are made by the interface.
            wanted.insert(0, ("txcsum", "TXCSUM", True))
        for word, option, on in wanted:
            if option in able and (option in options) != on:
                words.append(word if on else f"-{word}")
                back.append(f"-{word}" if on else word)
        if words:
            undo = commands.offloads(interface, back[::-1])
            self.run(commands.offloads(interface, words), undo=undo)


def interfaces(text: str) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Name, MTU, options that are on, and what it is able to, of each interface of `ifconfig -a -m`."""
    for part in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        head = re.match(r"([^\s:]+): flags=\S* .*?mtu (\d+)", part)
        if head:
            yield head[1], head[2], _listed("options", part), _listed("capabilities", part)


def _listed(word: str, text: str) -> list[str]:
    found = re.search(rf"^\s+{word}=\w+<(.*)>", text, re.MULTILINE)
    return found[1].split(",") if found else []


def ntp(text: str) -> dict[str, Any]:
    """Read the output of `ntpq -c rv` about the clock (ntpq(8), system variables)."""
    found = dict(re.findall(r"(\w+)=(\"[^\"]*\"|[^,\s]+)", text))
    if "offset" not in found:
        return {}
    return {
        "synchronised": "leap_alarm" not in text and "sync_unspec" not in text,
        "offset_ns": round(float(found["offset"]) * 1e6),
        "frequency_ppm": float(found.get("frequency", 0)),
        "estimated_error_us": round(float(found.get("rootdisp", 0)) * 1e3),
    }
