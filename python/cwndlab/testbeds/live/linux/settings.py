"""The settings of a Linux host: those of its kernel and of its machine.

Keys of sysctls that the kernel keeps secret are never read (`lab.Reach.files`).
"""

import re
from collections.abc import Mapping
from typing import Any

from cwndlab.testbeds.live.lab import Reach

CPU_INFO = "/proc/cpuinfo"
CPUS = "/sys/devices/system/cpu"
ONLINE = f"{CPUS}/online"
GOVERNORS, FREQUENCIES = f"{CPUS}/cpu*/cpufreq/scaling_governor", f"{CPUS}/cpu*/cpufreq/scaling_cur_freq"
PARAMETERS = "/sys/module/tcp_*/parameters/*"
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
    # Asked at once, as each question is a conversation with a machine that is far away.
    files = reach.files(CPU_INFO, ONLINE, GOVERNORS, FREQUENCIES, CLOCK_SOURCE, PARAMETERS)
    parameters = {path: text for path, text in files.items() if path.startswith("/sys/module/")}
    return {
        "uname": reach.uname(),
        "cpu": _cpu(files),
        "clock": {**reach.clock(), "source": files.get(CLOCK_SOURCE, "").strip()},
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


def _cpu(files: Mapping[str, str]) -> dict[str, Any]:
    described = dict(re.findall(r"^([^\t:]+)\t*: (.*)$", files.get(CPU_INFO, "").strip(), re.MULTILINE))
    governors = sorted({text.strip() for path, text in files.items() if path.endswith("/scaling_governor")})
    khz = [int(text) for path, text in files.items() if path.endswith("/scaling_cur_freq")]
    mhz = max(khz) / 1000 if khz else float(described.get("cpu MHz", 0)) or None
    return {
        "model": described.get("model name") or described.get("Processor") or described.get("CPU part"),
        "online": files.get(ONLINE, "").strip(),
        "governor": ", ".join(governors) or None,
        "frequency_mhz": mhz,
    }
