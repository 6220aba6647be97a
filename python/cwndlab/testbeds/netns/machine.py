"""What this machine's kernel has: congestion controls, sysctls of a namespace, queue disciplines; rights and
tools."""

import errno
import functools
import os
import platform
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.experiment import catalogue
from cwndlab.experiment.catalogue import PARTS, Catalogue, Machine, Stack, Sysctl
from cwndlab.testbeds.netns import namespaces

SYSCTLS = Path("/proc/sys")

QUEUES = ("pfifo", "bfifo", "codel", "fq_codel", "tbf", "htb", "netem")
"""Queue disciplines that are asked after: those that `emulator: kernel` makes use of."""

CLOCK_MONOTONIC_COARSE = 6
"""linux/time.h; module time has no name for it."""

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True)
class Kernel:
    """The running kernel, as a fresh namespace shows it."""

    release: str
    """As `uname -r` says."""
    congestion_controls: tuple[str, ...]
    allowed_congestion_controls: tuple[str, ...]
    """Those that a namespace may make its default."""
    sysctls: Mapping[str, str]
    """Those that belong to a namespace and can be written there, with their values; dotted names."""

    @property
    def stack(self) -> str:
        """The name of its stack, such as `linux-6.18`."""
        return "linux-" + ".".join(self.release.split(".")[:2])


def trouble() -> str | None:
    """Why this machine cannot make network namespaces with what runs need in them, in one line; None if it
    can."""
    try:
        reason = namespaces.in_scratch(_lacking)
    except OSError as error:
        return (
            "testbed netns needs root, or the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN"
            f" ({error.strerror}); try sudo"
        )
    if reason is not None:
        return f"testbed netns needs {reason}"
    for directory in (namespaces.OWNERS, namespaces.NAMESPACES):
        place = directory if directory.exists() else directory.parent
        if not os.access(place, os.W_OK):
            return f"testbed netns needs root: {place} cannot be written; try sudo"
    return None


@functools.cache
def kernel() -> Kernel:
    """The running kernel; raises InputError, one line, where this machine cannot say."""
    reason = trouble()
    if reason is not None:
        raise InputError(reason)
    return namespaces.in_scratch(_kernel)


@functools.cache
def known() -> Catalogue:
    """The catalogue of an experiment on this machine: one stack, with what its kernel has.

    Queue disciplines, losses and apps are the engine's: its path carries the packets, and our own sender
    follows its models. The default congestion control is that of the model, too, so that a file means the
    same on both. Raises InputError where this machine cannot carry out anything.
    """
    engine, here = catalogue.catalogue(), kernel()
    model = engine.stacks[engine.newest["linux"]]
    sysctls = {name: sysctl for name, text in here.sysctls.items() for name, sysctl in _sysctls(name, text)}
    otherwise = {
        name: modelled.default
        for name, modelled in model.sysctls.items()
        if name in sysctls and sysctls[name].default != modelled.default
    }
    stack = Stack(
        name=here.stack,
        family="linux",
        inferred=False,
        default_cc=engine.stacks.get(here.stack, model).default_cc,
        cc=here.congestion_controls,
        cc_alias={"newreno": "reno"},
        hz=ticks_per_second(),
        ecn={"0": "off", "1": "on"}.get(here.sysctls["net.ipv4.tcp_ecn"], "accept"),
        sysctls=sysctls,
        machine=Machine(model.name, here.sysctls["net.ipv4.tcp_congestion_control"], otherwise),
    )
    return replace(engine, stacks={stack.name: stack}, newest={"linux": stack.name})


@functools.cache
def queue_kinds() -> tuple[str, ...]:
    """The queue disciplines of `QUEUES` that the kernel has, found by putting them in place."""
    return namespaces.in_scratch(lambda: tuple(kind for kind in QUEUES if _has_queue(kind)))


def ticks_per_second() -> int:
    """The kernel's clock ticks per second (CONFIG_HZ), by which its TCP keeps timers and CUBIC its time.

    The coarse clocks advance once a tick, and say so as their resolution (clock_getres(2)).
    """
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE))


def write_sysctls(values: Mapping[str, str]) -> None:
    """Set sysctls of the namespace this thread is in, in order; raises ValueError, one line, where one is
    refused."""
    for name, value in values.items():
        try:
            path(name).write_text(value, encoding="ascii")
        except OSError as error:
            problem = error.strerror or str(error)
            raise ValueError(f"this kernel refuses {name} = {value} ({problem})") from None


def path(sysctl: str) -> Path:
    """The file of a sysctl."""
    return SYSCTLS / sysctl.replace(".", "/")


def _lacking() -> str | None:
    """What the kernel lacks of cables and of the emulator's sockets, tried in this namespace; raises
    PermissionError without the rights."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as route:
        try:
            route.link("add", ifname="near", kind="veth", peer={"ifname": "far"})
        except NetlinkError as error:
            why = os.strerror(error.code)
            if error.code in (errno.EPERM, errno.EACCES):
                raise PermissionError(error.code, why) from None
            return f"veth interfaces, which this kernel does not make ({why}); try modprobe veth"
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except PermissionError:
        raise
    except OSError as error:
        return f"packet sockets, which this kernel has not ({error.strerror}); try modprobe af_packet"
    return None


def _kernel() -> Kernel:
    found = dict(_readable(SYSCTLS / "net"))
    _load_congestion_controls()
    return Kernel(
        release=platform.release(),
        congestion_controls=tuple(path("net.ipv4.tcp_available_congestion_control").read_text().split()),
        allowed_congestion_controls=tuple(
            path("net.ipv4.tcp_allowed_congestion_control").read_text().split()
        ),
        sysctls=dict(sorted(found.items())),
    )


def _load_congestion_controls() -> None:
    """Have the kernel load those that the models know and its list does not have yet, as it lists no module
    that is not loaded.

    It loads one when somebody with the rights chooses it (tcp_cong.c, tcp_ca_find_autoload), also where a
    namespace may not have it as its default.
    """
    listed = path("net.ipv4.tcp_available_congestion_control").read_text().split()
    stacks = catalogue.catalogue().stacks.values()
    known_to_models = {cc for stack in stacks if stack.family == "linux" for cc in stack.cc}
    for name in sorted(known_to_models.difference(listed)):
        with suppress(OSError):
            path("net.ipv4.tcp_congestion_control").write_text(name, encoding="ascii")


def _readable(directory: Path) -> Iterator[tuple[str, str]]:
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            yield from _readable(Path(entry.path))
        elif entry.stat().st_mode & 0o200:
            with suppress(OSError, UnicodeDecodeError):
                text = Path(entry.path).read_text(encoding="ascii")
                yield ".".join(Path(entry.path).relative_to(SYSCTLS).parts), " ".join(text.split())


def _sysctls(name: str, text: str) -> Iterator[tuple[str, Sysctl]]:
    """A sysctl of one or three numbers as the catalogue has it; what it accepts the kernel says when it is
    set."""
    words = text.split()
    if not all(_INTEGER.fullmatch(word) for word in words) or len(words) not in (1, 3):
        return
    names = [name] if len(words) == 1 else [f"{name}.{part}" for part in PARTS]
    for own, word in zip(names, words, strict=True):
        yield own, Sysctl(own, int(word), -(1 << 63), (1 << 63) - 1, "of this kernel")


def _has_queue(kind: str) -> bool:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    parameters = {"rate": 125_000, "burst": 10_000, "limit": 10_000} if kind == "tbf" else {}
    with IPRoute() as route:
        try:
            route.tc("add", kind, 1, 0x10000, **parameters)
        except NetlinkError:
            return False
        route.tc("del", index=1, root=True)
    return True
