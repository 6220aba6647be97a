"""The means of this machine for cwndlab: testbeds, tools, kernel features and rights."""

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cwndlab import testbeds
from cwndlab.errors import InputError
from cwndlab.results import software
from cwndlab.testbeds.programs import PACKAGES

TOOLS = {
    "iperf3": "bulk transfers on live hosts",
    "iperf": "bulk transfers of iperf 2 on live hosts",
    "nft": "rules at the ingress of live hosts",
    "tc": "shaping and queue disciplines of Linux",
    "ip": "network namespaces of Linux",
    "ethtool": "offloads of a network interface",
    "tcpdump": "captures on live hosts",
    "tshark": "reading captures",
    "tcptrace": "reading captures",
    "ssh": "real machines",
}
"""Programs that help, and for what. None is needed by the simulator."""

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
"""Bits of /proc/self/status CapEff (capabilities(7)): to set up networks, packet sockets, new namespaces."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    section: str
    what: str
    there: bool | None
    """Whether the thing is there. None where it is neither good nor bad, or not to be known."""
    detail: str


def examine(lab: Path | None = None) -> Iterator[Finding]:
    """Look at everything, also at the machines of a lab file; changes nothing and needs no rights."""
    yield Finding("cwndlab", "version", None, software.release())
    yield Finding("cwndlab", "engine", None, testbeds.find(testbeds.MODEL).versions()["engine"])
    yield Finding(
        "cwndlab", "python", None, f"{platform.python_version()} on {platform.system()} {platform.release()}"
    )
    for name in testbeds.names():
        yield _testbed(name, lab)
    yield from _guests()
    yield from _tools()
    yield from _kernel()
    yield from _rights()


def clean(lab: Path | None = None) -> list[str]:
    """Remove what live runs left whose process is gone, and nothing else; returns the names removed.

    Of a lab file's machines, what was changed there is taken back.

    Raises InputError, one line, without the rights to.
    """
    own = (name for name in testbeds.names() if testbeds.kind(name).is_here)
    here = own if lab is None else [testbeds.DISTANT]
    return [left for name in here for left in testbeds.find(name, lab).clean()]


def as_text(lab: Path | None = None) -> str:
    """The findings for people, a line each."""
    lines: list[str] = []
    section = None
    for finding in examine(lab):
        if finding.section != section:
            section = finding.section
            lines += ["", section] if lines else [section]
        mark = {True: "+", False: "-", None: " "}[finding.there]
        lines.append(f"  {mark} {finding.what:<20} {finding.detail}".rstrip())
    return "\n".join(lines)


def as_json(lab: Path | None = None) -> str:
    """The findings for programs: a list of objects."""
    return json.dumps([asdict(finding) for finding in examine(lab)], indent=2)


def _testbed(name: str, lab: Path | None) -> Finding:
    try:
        bed = testbeds.find(name, lab)
        bed.ready()
    except (InputError, ImportError) as error:
        return Finding("testbeds", name, False, str(error))
    return Finding("testbeds", name, True, "; ".join(["ready", *bed.remarks()]))


def _guests() -> Iterator[Finding]:
    """Yield the needs of testbed kernel: kernels that were built, and what builds them."""
    from cwndlab.testbeds import kernels

    reason = kernels.ready()
    yield Finding("testbed kernel", "guests", reason is None, reason or "ready")
    missing = kernels.missing()
    detail = (
        f"needs {', '.join(missing)}" if missing else "compiler, flex, bison and what else it takes are here"
    )
    yield Finding("testbed kernel", "building kernels", not missing, detail)
    if platform.system() == "Linux":
        yield Finding("testbed kernel", "ptrace", *kernels.tracing())
        yield Finding("testbed kernel", "/dev/shm", *kernels.memory())
    try:
        built = ", ".join(kernel.name for kernel in kernels.kernels())
    except InputError as error:
        built = str(error)
    yield Finding("testbed kernel", "kernels", None, built or "none was built (cwndlab kernel build TREE)")


def _tools() -> Iterator[Finding]:
    for name, purpose in TOOLS.items():
        found = shutil.which(name)
        absent = f"not found ({purpose}; Debian: apt install {PACKAGES[name]})"
        yield Finding("tools", name, found is not None, found or absent)


def _kernel() -> Iterator[Finding]:
    controls = _congestion_controls()
    yield Finding(
        "kernel", "congestion control", bool(controls) or None, ", ".join(controls) or "not known here"
    )
    kinds = _queue_kinds()
    if kinds is not None:
        yield Finding("kernel", "queue disciplines", bool(kinds), ", ".join(kinds) or "none")


def _congestion_controls() -> list[str]:
    if platform.system() == "FreeBSD":
        listed = subprocess.run(
            ["/sbin/sysctl", "-n", "net.inet.tcp.cc.available"], capture_output=True, text=True, check=False
        ).stdout
        return re.findall(r"^\W*([a-z]\w*)", listed, re.MULTILINE)
    return _text(Path("/proc/sys/net/ipv4/tcp_available_congestion_control")).split()


def _queue_kinds() -> list[str] | None:
    """Queue disciplines the running Linux kernel has, built in or as modules. None where nothing says."""
    release = platform.release()
    config = _config(release)
    built = {name.lower() for name in re.findall(r"^CONFIG_NET_SCH_([A-Z0-9_]+)=[ym]$", config, re.MULTILINE)}
    folder = Path("/lib/modules") / release / "kernel/net/sched"
    built |= {path.name.split(".", maxsplit=1)[0].removeprefix("sch_") for path in folder.glob("sch_*.ko*")}
    if not config and not folder.is_dir():
        return None
    return sorted(built - {"fifo", "default", "ingress"})


def _config(release: str) -> str:
    try:
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(errors="replace")
    except OSError:
        return _text(Path(f"/boot/config-{release}"))


def _rights() -> Iterator[Finding]:
    root = os.geteuid() == 0
    yield Finding("rights", "root", root, "yes" if root else "no")
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", _text(Path("/proc/self/status")), re.MULTILINE)
    if effective is not None:
        held = int(effective[1], 16)
        missing = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
        detail = f"needs {' and '.join(missing)}" if missing else "yes"
        yield Finding("rights", "network namespaces", not missing, detail)
    tun = Path("/dev/net/tun")
    if platform.system() == "Linux":
        yield Finding("rights", "TUN devices", os.access(tun, os.R_OK | os.W_OK), str(tun))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
