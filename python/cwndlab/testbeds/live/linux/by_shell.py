"""The way into a Linux machine that is reached by commands: find, grep, tee, ip, tc, ethtool."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

from cwndlab.testbeds.live.linux.this_machine import SECRETS
from cwndlab.testbeds.programs import PACKAGES

_WRITABLE = r"\( -perm -200 -o -perm -020 -o -perm -002 \)"
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


class Shell(Protocol):
    """Carries commands out on a machine."""

    def run(self, argv: Sequence[str], text: str = "") -> str:
        """What a command prints; raises OSError with what it said."""

    def shell(self, script: str, *words: str) -> str:
        """What a script prints; raises OSError."""

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        """Run a command that changes something, having written down what takes it back; raises OSError."""

    def write(self, path: str, text: str) -> None:
        """Write a file of settings, having written down what was in it; raises OSError."""


class ByShell:
    """A Linux machine behind a shell."""

    namespace = ""

    def __init__(self, shell: Shell) -> None:
        """The machine of that shell."""
        self._shell = shell
        self._writable: set[str] | None = None

    def files(self, *patterns: str) -> dict[str, str]:
        """The text of each readable file by path; what the shell's `grep` finds no line in is left out."""
        secret = " ".join(f"! -name '*{end}'" for end in SECRETS)
        look = f"-type f {secret} -exec grep -s '' /dev/null {{}} +"
        script = "".join(
            f"find {pattern} {look} 2>/dev/null\n"
            if pattern.endswith("/")
            else f"find -L {pattern} -prune {look} 2>/dev/null\n"
            for pattern in patterns
        )
        found: dict[str, list[str]] = {}
        for line in self._shell.shell(f"{script}exit 0\n").splitlines():
            path, _, text = line.partition(":")
            found.setdefault(path, []).append(text)
        return {path: "\n".join([*lines, ""]) for path, lines in found.items()}

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file; of sysctls, all are asked for once."""
        if path.startswith("/proc/sys/net/"):
            if self._writable is None:
                script = f"find /proc/sys/net -type f {_WRITABLE} 2>/dev/null; exit 0"
                self._writable = set(self._shell.shell(script).splitlines())
            return path in self._writable
        return bool(self._shell.shell(f'find "$1" -prune {_WRITABLE} 2>/dev/null; exit 0', path).strip())

    def uname(self) -> str:
        """What `uname -a` says."""
        return self._shell.run(["uname", "-snrvm"]).strip()

    def clock(self) -> dict[str, Any]:
        """What chrony or systemd says of the clock; empty where neither is there."""
        script = "chronyc -c tracking 2>/dev/null || timedatectl show -p NTPSynchronized 2>/dev/null; exit 0"
        told = self._shell.shell(script).strip()
        if "=" in told:
            return {"synchronised": told.endswith("=yes")}
        words = told.split(",")  # chronyc(1): fields of `tracking` in its order, with -c
        if len(words) < 14:
            return {}
        return {
            "synchronised": words[13] != "Not synchronised",
            "offset_ns": round(float(words[4]) * 1e9),
            "frequency_ppm": float(words[7]),
            "estimated_error_us": round(float(words[11]) * 1e6),
        }

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
        for link in json.loads(links):
            name = link["ifname"]
            own = [each for each in json.loads(disciplines) if each["dev"] == name]
            found[name] = {
                "mtu": link.get("mtu"),
                "tx_queue": link.get("txqlen", 0),
                "offloads": offloads.get(name),
                "qdiscs": [_qdisc(each) for each in own],
            }
        return found

    def write(self, path: str, text: str) -> None:
        """Write a file that is there."""
        self._shell.write(path, text)

    def program(self, name: str, purpose: str) -> str:
        """Where a program is."""
        script = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; command -v "$1" || true'
        found = self._shell.shell(script, name).strip()
        if not found:
            package = PACKAGES.get(name, name)
            raise ValueError(
                f"{name} is not installed, which {purpose} needs (Debian: apt install {package})"
            )
        return found

    def run(self, command: Sequence[str], text: str = "", undo: Sequence[str] = ()) -> str:
        """What a command prints."""
        return self._shell.change(command, text, undo) if undo else self._shell.run(command, text)

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
    """By interface, the features that ethtool -k shows as on."""
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
