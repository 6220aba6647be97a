"""The way into a Linux machine that is reached by commands: find, grep, tee, ip, tc, ethtool."""

from __future__ import annotations

import re
from typing import Any

from cwndlab.testbeds.live.shell import WRITABLE, Shell, ShellReach, chrony, parsed
from cwndlab.testbeds.programs import PACKAGES

BUSY_LOOP = 'while :; do grep "^cpu" /proc/stat >&2; sleep 1; done'
"""Print the processors' times once a second."""

_TSO = ("tso", "gso", "sg", "tx")
_GRO = ("gro", "rx")
_FEATURES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "sg": "scatter-gather",
    "tx": "tx-checksumming",
    "gro": "generic-receive-offload",
    "rx": "rx-checksumming",
    "lro": "large-receive-offload",
}
"""ethtool(8)'s words for setting features, and for showing them."""


class ByShell(ShellReach):
    """A Linux machine behind a shell."""

    def __init__(self, shell: Shell) -> None:
        """The machine of that shell."""
        super().__init__(shell)
        self._writable: set[str] | None = None

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file; of sysctls, all are asked for once."""
        if path.startswith("/proc/sys/net/"):
            if self._writable is None:
                script = f"find /proc/sys/net -type f {WRITABLE} 2>/dev/null; exit 0"
                self._writable = set(self._shell.shell(script).splitlines())
            return path in self._writable
        return super().writable(path)

    def clock(self) -> dict[str, Any]:
        """Readings of chrony or systemd. Empty where neither runs."""
        script = "chronyc -c tracking 2>/dev/null || timedatectl show -p NTPSynchronized 2>/dev/null; exit 0"
        told = self._shell.shell(script).strip()
        if "=" in told:
            return {"synchronised": told.endswith("=yes")}
        return chrony(told)

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The interfaces by name, as ip, tc and ethtool show them."""
        script = (
            "PATH=$PATH:/usr/sbin:/sbin; ip -j link show; echo =; tc -j qdisc show; echo =\n"
            "for i in $(ip -o link show | cut -d: -f2 | cut -d@ -f1)\n"
            'do echo "= $i"; ethtool -k "$i" 2>/dev/null; done; exit 0\n'
        )
        links, disciplines, features = self._shell.shell(script).split("=\n", 2)
        offloads = _features(features)
        found = {}
        for link in parsed(links, "ip -j link show"):
            name = link["ifname"]
            own = [each for each in parsed(disciplines, "tc -j qdisc show") if each["dev"] == name]
            found[name] = {
                "mtu": link.get("mtu"),
                "tx_queue": link.get("txqlen", 0),
                "offloads": offloads.get(name),
                "qdiscs": [_qdisc(each) for each in own],
            }
        return found

    def package(self, name: str) -> str:
        """Command that installs a program."""
        return f"Debian: apt install {PACKAGES.get(name, name)}"

    def set_offloads(self, interface: str, *, tso: bool, gro: bool) -> None:
        """Switch offloads with ethtool, those that are otherwise and can be switched."""
        tool = self.program("ethtool", f"the offloads of {interface}")
        shown = self._shell.run([tool, "-k", interface])
        now = dict(re.findall(r"^([a-z-]+): (on|off)$", shown, re.MULTILINE))
        wanted = {**dict.fromkeys(_TSO, tso), **dict.fromkeys(_GRO, gro), "lro": False}
        if not tso:
            # Scattered buffers and checksums harm nothing by themselves.
            del wanted["sg"], wanted["tx"]
        if not gro:
            del wanted["rx"]
        words, back = [], []
        for name, on in wanted.items():
            text = "on" if on else "off"
            if now.get(_FEATURES[name], text) != text:
                words += [name, text]
                back += [name, now[_FEATURES[name]]]
        if words:
            undo = [tool, "-K", interface, *back]
            self.run([tool, "-K", interface, *words], undo=undo)


def _features(text: str) -> dict[str, list[str]]:
    """Read the features that `ethtool -k` shows as on, by interface."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("= "):
            found[line[2:]] = own = []
        elif match := re.match(r"\s*([a-z0-9-]+): on\b", line):
            own.append(match[1])
    return {name: sorted(own) for name, own in found.items()}


def _qdisc(shown: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": shown["kind"],
        "handle": shown.get("handle", "0:"),
        "parent": shown.get("parent", "root"),
        "options": shown.get("options", {}),
    }
