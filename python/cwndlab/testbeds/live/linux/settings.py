"""What a Linux host is set to: its kernel's and its machine's settings.

Keys of sysctls that the kernel keeps secret are never read (`lab.Reach.files`).
"""

import re
from collections.abc import Mapping
from typing import Any

from cwndlab.testbeds.live.lab import Reach

CPUS = "/sys/devices/system/cpu"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


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


def is_setting(reach: Reach, sysctl: str) -> bool:
    """Whether anybody can set a sysctl: what nobody can is counted by the kernel."""
    return reach.writable(f"/proc/sys/{sysctl.replace('.', '/')}")


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
