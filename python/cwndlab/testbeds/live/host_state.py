"""What a real host is set to: its kernel's and its machine's settings, read before and after a run.

Changes in between are told apart from what a kernel counts.

A `Reach` is the way into a host: `local.py` reads this machine; a testbed of real machines brings its own.
Keys of sysctls that the kernel keeps secret are never read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SECRETS = ("_key", "_secret", "_password")
"""Ends of the names of sysctls that hold secrets: of TCP Fast Open, of IPv6's stable addresses, of the hash
that spreads packets over queues (net.ipv4.tcp_fastopen_key, net.ipv6.conf.NAME.stable_secret,
net.core.netdev_rss_key)."""

CPUS = "/sys/devices/system/cpu"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

READINGS = ("frequency_mhz", "offset_ns", "frequency_ppm", "max_error_us", "estimated_error_us")
"""Facts of a machine that move by themselves: their changes say nothing."""

MAX_WARNINGS = 5
"""Changes that get a warning each."""


class Reach(Protocol):
    """A way into a host, or into one of its network namespaces."""

    def files(self, *patterns: str) -> dict[str, str]:
        """The text, by path, of each readable file that a shell's pattern stands for.

        A pattern that ends with a slash stands for everything below. What `is_secret` is not read.
        """

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file: a setting, not something that the kernel counts."""

    def uname(self) -> str:
        """What `uname -a` says."""

    def clock(self) -> dict[str, Any]:
        """What adjtimex(2) tells of the clock: `synchronised`, and readings of how well."""

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """By name: `mtu`, `tx_queue`, the `offloads` that are on, and the `qdiscs`."""


@dataclass(frozen=True)
class Change:
    """A setting that was another after the run than before."""

    where: str
    """The namespace's node, or `machine`."""
    what: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """A warning: what changed, from what to what."""
        whose = "this machine" if self.where == "machine" else self.where
        values = f"{_shown(self.before)} before, {_shown(self.after)} after"
        return f"{self.what} of {whose} changed during the run: {values}"


def is_secret(path: str) -> bool:
    """Whether a file below /proc/sys holds a secret."""
    return path.endswith(SECRETS)


def namespace(reach: Reach) -> dict[str, Any]:
    """The settings of a network namespace: `sysctls` (net.*, but secrets) by name, and `interfaces`."""
    return {"sysctls": _sysctls(reach, "/proc/sys/net/"), "interfaces": reach.interfaces()}


def machine(reach: Reach, namespaced: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a machine that its namespaces share.

    `sysctls` are those of net.* that are not among those of a namespace (`namespaced`), nor of an interface;
    `modules` the parameters of TCP's modules; `cpu`, `clock` and `uname` are what they say.
    """
    shared = _sysctls(reach, "/proc/sys/net/*/*")
    parameters = reach.files("/sys/module/tcp_*/parameters/*")
    return {
        "uname": reach.uname(),
        "cpu": _cpu(reach),
        "clock": {**reach.clock(), "source": _read(reach, CLOCK_SOURCE)},
        "modules": {
            ".".join(path.split("/")[-3::2]): text.strip() for path, text in sorted(parameters.items())
        },
        "sysctls": {name: text for name, text in shared.items() if name not in namespaced},
    }


def compact(namespaces: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of namespaces with what is the same in all said once: `common` sysctls, and each one's."""
    every = [state["sysctls"] for state in namespaces.values()]
    common = {
        name: text
        for name, text in (every[0] if every else {}).items()
        if all(sysctls.get(name) == text for sysctls in every)
    }
    own = {
        node: {**state, "sysctls": {n: text for n, text in state["sysctls"].items() if n not in common}}
        for node, state in namespaces.items()
    }
    return {"common": common, "namespaces": own}


def changes(where: str, before: Mapping[str, Any], after: Mapping[str, Any], reach: Reach) -> list[Change]:
    """What is set otherwise than before; sysctls that nobody can set are counters, and do not count."""
    found = []
    for what, old, new in _differing("", before, after):
        name = what.removeprefix("sysctls ")
        if name == what or reach.writable(f"/proc/sys/{name.replace('.', '/')}"):
            found.append(Change(where, name, old, new))
    return found


def warnings(found: Sequence[Change], file: str) -> list[str]:
    """A sentence for each change; of many, the first ones and where the others are."""
    said = [str(change) for change in found[:MAX_WARNINGS]]
    if len(found) > MAX_WARNINGS:
        said.append(f"{len(found) - MAX_WARNINGS} more settings changed during the run: {file} has them")
    return said


def _differing(
    prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or name in READINGS:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differing(f"{prefix}{name} ", old, new)
        else:
            yield f"{prefix}{name}", old, new


def _sysctls(reach: Reach, pattern: str) -> dict[str, str]:
    return {
        path.removeprefix("/proc/sys/").replace("/", "."): " ".join(text.split())
        for path, text in sorted(reach.files(pattern).items())
    }


def _cpu(reach: Reach) -> dict[str, Any]:
    described = dict(re.findall(r"^([^\t:]+)\t*: (.*)$", _read(reach, "/proc/cpuinfo"), re.MULTILINE))
    governors = sorted(
        {text.strip() for text in reach.files(f"{CPUS}/cpu*/cpufreq/scaling_governor").values()}
    )
    khz = [int(text) for text in reach.files(f"{CPUS}/cpu*/cpufreq/scaling_cur_freq").values()]
    mhz = max(khz) / 1000 if khz else float(described.get("cpu MHz", 0)) or None
    return {
        "model": described.get("model name") or described.get("Processor") or described.get("CPU part"),
        "online": _read(reach, f"{CPUS}/online"),
        "governor": ", ".join(governors) or None,
        "frequency_mhz": mhz,
    }


def _read(reach: Reach, path: str) -> str:
    return reach.files(path).get(path, "").strip()


def _shown(value: Any) -> str:
    return "not there" if value is None else repr(value)
