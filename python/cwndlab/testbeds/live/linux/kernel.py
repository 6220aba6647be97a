"""The congestion controls and sysctls of a Linux kernel, and the stack that it is in an experiment."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from cwndlab.experiment import catalogue
from cwndlab.experiment.catalogue import PARTS, Catalogue, Machine, Stack, Sysctl
from cwndlab.testbeds.live.lab import Reach

SYSCTLS = "/proc/sys/"
FAMILY = "linux"

CHOSEN = "net.ipv4.tcp_congestion_control"
AVAILABLE = "net.ipv4.tcp_available_congestion_control"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
HOST = {"net.ipv4.tcp_no_metrics_save": "1"}
"""Sysctls of hosts where the experiment does not set them: no connection learns from earlier ones."""

ACCURATE_ECN = (7, 0)
"""First version whose net.ipv4.tcp_ecn goes up to 5."""

CLOCK_MONOTONIC_COARSE = 6
"""linux/time.h; module time has no name for it."""

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True)
class Kernel:
    """The running kernel, as a fresh namespace shows it."""

    release: str
    """Release of the kernel, as `uname -r` says."""
    congestion_controls: tuple[str, ...]
    allowed_congestion_controls: tuple[str, ...]
    """Congestion controls that a namespace may make its default."""
    sysctls: Mapping[str, str]
    """Sysctls that belong to a namespace and can be written there, by dotted name, with their values."""

    @property
    def stack(self) -> str:
        """The name of its stack, such as `linux-6.18`."""
        return f"{FAMILY}-" + ".".join(self.release.split(".")[:2])

    @property
    def stacks(self) -> tuple[str, ...]:
        """Every name that an experiment file may have for it."""
        return (self.stack, FAMILY)

    def has(self, sysctl: str) -> bool:
        """Whether it has a sysctl."""
        return sysctl in self.sysctls


def read(reach: Reach, *, load: bool = True) -> Kernel:
    """The kernel of a host, as a namespace of it shows it.

    `load`: modules of congestion controls that the models know are loaded, to find out which there are. That
    sets the namespace's default, which is fine for one that is thrown away; elsewhere those count whose files
    are there.
    """
    files = reach.files(f"{SYSCTLS}net/")
    found = {name(path): " ".join(text.split()) for path, text in files.items() if reach.writable(path)}
    release = reach.uname().split()[2]
    if load:
        _load_congestion_controls(reach)
    modules = () if load else _modules(reach, release)
    return Kernel(
        release=release,
        congestion_controls=tuple(dict.fromkeys((*available(reach), *modules))),
        allowed_congestion_controls=_words(reach, ALLOWED),
        sysctls=dict(sorted(found.items())),
    )


def known(here: Kernel, ticks_per_second: int) -> Catalogue:
    """The catalogue of an experiment on hosts with a kernel: one stack, with what that has.

    Queue disciplines, losses and apps are the engine's: its path carries the packets, and our own sender
    follows its models. The default congestion control is that of the model, too, so that a file means the
    same on both.
    """
    engine = catalogue.of_machines()
    model = engine.stacks[engine.newest["linux"]]
    own = {**here.sysctls, **{name: value for name, value in HOST.items() if here.has(name)}}
    sysctls = {name: sysctl for name, text in own.items() for name, sysctl in _sysctls(name, text)}
    stack = Stack(
        name=here.stack,
        family="linux",
        inferred=False,
        default_cc=engine.stacks.get(here.stack, model).default_cc,
        cc=here.congestion_controls,
        cc_alias={"newreno": "reno"},
        hz=ticks_per_second,
        ecn={"0": "off", "1": "on"}.get(here.sysctls["net.ipv4.tcp_ecn"], "accept"),
        accurate_ecn=_version(here.release) >= ACCURATE_ECN,
        sysctls=sysctls,
        machine=Machine(model.name, here.sysctls["net.ipv4.tcp_congestion_control"]),
    )
    return replace(engine, stacks={stack.name: stack}, newest={"linux": stack.name})


def available(reach: Reach) -> tuple[str, ...]:
    """The congestion controls that are loaded."""
    return _words(reach, AVAILABLE)


def _version(release: str) -> tuple[int, ...]:
    """The version in a release, such as (7, 3) of 7.3.4+."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def path(sysctl: str) -> str:
    """The file of a sysctl."""
    return SYSCTLS + sysctl.replace(".", "/")


def name(path: str) -> str:
    """The sysctl of a file."""
    return path.removeprefix(SYSCTLS).replace("/", ".")


def ticks_per_second() -> int:
    """The kernel's clock ticks per second (CONFIG_HZ), by which its TCP keeps timers and CUBIC its time.

    The coarse clocks advance once a tick, and say so as their resolution (clock_getres(2)).
    """
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE))


def _words(reach: Reach, sysctl: str) -> tuple[str, ...]:
    return tuple(reach.files(path(sysctl))[path(sysctl)].split())


def _modules(reach: Reach, release: str) -> tuple[str, ...]:
    """Congestion controls that modules of the kernel have, loaded or not."""
    known_to_models = {
        cc for stack in catalogue.catalogue().stacks.values() if stack.family == "linux" for cc in stack.cc
    }
    text = reach.files(f"/lib/modules/{release}/modules.dep").get(f"/lib/modules/{release}/modules.dep", "")
    return tuple(sorted(known_to_models.intersection(re.findall(r"/tcp_([a-z0-9_]+)\.ko", text))))


def _load_congestion_controls(reach: Reach) -> None:
    """Have the kernel load those that the models know and its list does not have yet, as it lists no module
    that is not loaded.

    It loads one when somebody with the rights chooses it (tcp_cong.c, tcp_ca_find_autoload), also where a
    namespace may not have it as its default.
    """
    stacks = catalogue.catalogue().stacks.values()
    known_to_models = {cc for stack in stacks if stack.family == "linux" for cc in stack.cc}
    for cc in sorted(known_to_models.difference(available(reach))):
        with suppress(OSError):
            reach.write(path(CHOSEN), cc)


def _sysctls(name: str, text: str) -> Iterator[tuple[str, Sysctl]]:
    """A sysctl of one or three numbers as the catalogue has it; what it accepts the kernel says when it is
    set."""
    words = text.split()
    if not all(_INTEGER.fullmatch(word) for word in words) or len(words) not in (1, 3):
        return
    names = [name] if len(words) == 1 else [f"{name}.{part}" for part in PARTS]
    for own, word in zip(names, words, strict=True):
        yield own, Sysctl(own, int(word), -(1 << 63), (1 << 63) - 1, "of this kernel")
