"""The congestion controls, TCP function blocks, sysctls and stacks of a FreeBSD kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cwndlab.experiment import catalogue
from cwndlab.experiment.catalogue import Catalogue, Machine, Stack, Sysctl
from cwndlab.testbeds.live.freebsd import commands
from cwndlab.testbeds.live.shell import SECRETS, Shell

CHOSEN = "net.inet.tcp.cc.algorithm"
FUNCTIONS = "net.inet.tcp.functions_default"
ECN = "net.inet.tcp.ecn.enable"

BASE_BLOCK = "freebsd"
"""The function block that is a part of every kernel."""
FAMILY = "freebsd"
HOST_CACHE = (
    {"net.inet.tcp.hostcache.enable": "0"},
    {"net.inet.tcp.hostcache.expire": "1", "net.inet.tcp.hostcache.prune": "1"},
)
"""Settings by which no connection learns from earlier ones: the first of these that a kernel has. Before
FreeBSD 13 the host cache cannot be switched off: an entry goes when it has not been used for two seconds,
once the search for old ones is over that was set for up to five minutes later (tcp_hc_purge).
"""
CUBIC_SINCE = 14
"""The first release whose default is CUBIC; NewReno before."""

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NAME = re.compile(r"^([a-z][a-z0-9_.%-]*)=(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Kernel:
    """The running kernel."""

    release: str
    """Release of the kernel, as `uname -r` says."""
    hz: int
    congestion_controls: tuple[str, ...]
    """Congestion controls that are loaded, and those that a module has."""
    loaded: tuple[str, ...]
    """Congestion controls that are loaded."""
    functions: tuple[str, ...]
    """TCP function blocks, loaded or in a module; the base block first."""
    loaded_functions: tuple[str, ...]
    modules: tuple[str, ...]
    """Files of modules that can be loaded, without `.ko`."""
    sysctls: Mapping[str, str]
    """Sysctls that can be set, with their values."""

    @property
    def stack(self) -> str:
        """The name of its stack: `freebsd-14.1`, or `freebsd-15-current`."""
        version, _, branch = self.release.partition("-")
        if branch.startswith("CURRENT"):
            return f"{FAMILY}-{version.partition('.')[0]}-current"
        return f"{FAMILY}-{version}"

    @property
    def stacks(self) -> tuple[str, ...]:
        """Every name that an experiment file may have for its stacks: with the whole version, and with its
        first number; with another function block behind a slash."""
        names = dict.fromkeys((self.stack, self.stack.partition(".")[0]))
        blocks = ("", *(f"/{each}" for each in self.functions if each != BASE_BLOCK))
        return (*(f"{name}{block}" for name in names for block in blocks), FAMILY)

    def has(self, sysctl: str) -> bool:
        """Whether it has a sysctl, now or once its congestion control is loaded."""
        found = re.match(r"net\.inet\.tcp\.cc\.([a-z0-9]+)\.", sysctl)
        return sysctl in self.sysctls or (found is not None and found[1] in self._loadable)

    @property
    def _loadable(self) -> set[str]:
        return set(self.congestion_controls) - set(self.loaded)


def read(shell: Shell, release: str) -> Kernel:
    """The kernel of a machine."""
    told = parts(shell.shell(commands.KERNEL))
    modules = tuple(dict.fromkeys(re.findall(r"^(\w+)\.ko$", told["modules"], re.MULTILINE)))
    loaded = words(told["net.inet.tcp.cc.available"])
    functions = words(told["net.inet.tcp.functions_available"]) or (BASE_BLOCK,)
    more = [name[3:] for name in modules if name.startswith("cc_")]
    blocks = [name[4:] for name in modules if name in ("tcp_rack", "tcp_bbr")]
    return Kernel(
        release=release,
        hz=int(told["kern.hz"] or 1000),
        congestion_controls=tuple(dict.fromkeys((*loaded, *sorted(more)))),
        loaded=loaded,
        functions=tuple(dict.fromkeys((*functions, *blocks))),
        loaded_functions=functions,
        modules=modules,
        sysctls=settings(told["settings"]),
    )


def parts(text: str) -> dict[str, str]:
    """Split a text into the parts after each line `= NAME`, by name."""
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in text.splitlines():
        if line.startswith("= "):
            own = found.setdefault(line[2:], [])
        else:
            own.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def words(text: str) -> tuple[str, ...]:
    """The names that `cc.available` and `functions_available` list: a table with a header, or `a, b`."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if lines and lines[0][0] in ("CCmod", "Stack"):
        return tuple(line[0] for line in lines[1:])
    return tuple(word.strip() for word in text.split(",") if word.strip())


def settings(text: str) -> dict[str, str]:
    """Sysctls by name of `sysctl -e`; a value of several lines becomes one."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if match := _NAME.match(line):
            name = match[1]
            found[name] = match[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in sorted(found.items()) if not name.endswith(SECRETS)}


def host(sysctls: Mapping[str, str]) -> Mapping[str, str]:
    """Sysctls of hosts where the experiment does not set them: no connection learns from earlier ones."""
    return next((each for each in HOST_CACHE if set(each) <= set(sysctls)), {})


def known(here: Kernel) -> Catalogue:
    """The catalogue of an experiment on this kernel: a stack for each function block, by all their names."""
    engine = catalogue.of_machines()
    major = int(here.stack.removeprefix(f"{FAMILY}-").partition(".")[0].partition("-")[0])
    model = engine.stacks.get(here.stack) or engine.stacks.get(f"{FAMILY}-{major}")
    model = model or engine.stacks[engine.newest[FAMILY]]
    sysctls = {
        name: Sysctl(name, int(text), -(1 << 63), (1 << 63) - 1, "of this kernel")
        for name, text in {**here.sysctls, **host(here.sysctls)}.items()
        if _INTEGER.fullmatch(text)
    }
    # Those of a module that is not loaded yet are as the model has them.
    later = {name: own for name, own in model.sysctls.items() if name not in sysctls and here.has(name)}
    default = "cubic" if major >= CUBIC_SINCE else "newreno"
    stack = Stack(
        name=here.stack,
        family=FAMILY,
        inferred=False,
        default_cc=model.default_cc if model.default_cc in here.congestion_controls else default,
        cc=here.congestion_controls,
        cc_alias={"reno": "newreno"},
        hz=here.hz,
        ecn={"0": "off", "1": "on"}.get(here.sysctls.get(ECN, "2"), "accept"),
        sysctls={**sysctls, **later},
        machine=Machine(model.name, here.sysctls.get(CHOSEN, default)),
    )
    stacks = {name: replace(stack, name=name) for name in here.stacks if name != FAMILY}
    return replace(engine, stacks=stacks, newest={FAMILY: here.stack})


def block(stack: str) -> str:
    """The function block of a stack's name."""
    return stack.partition("/")[2] or BASE_BLOCK
