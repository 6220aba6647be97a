"""The means of this machine for network namespaces: its kernel, and the rights to make them."""

import errno
import functools
import os
import socket
from dataclasses import replace

from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.testbeds.live.linux import kernel as linux
from cwndlab.testbeds.live.linux.kernel import Kernel
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.netns import ip, namespaces


def trouble() -> str | None:
    """Reason in one line why this machine cannot make network namespaces with what runs need in them. None if
    it can.
    """
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
    return namespaces.in_scratch(lambda: linux.read(ThisMachine()))


@functools.cache
def known() -> Catalogue:
    """The catalogue of an experiment on this machine, with the guests that send datagrams; raises InputError
    where it can carry out nothing.
    """
    here, engine = linux.known(kernel(), linux.ticks_per_second()), catalogue()
    guests = {name: stack for name, stack in engine.stacks.items() if stack.guest and not stack.packets}
    families = {family: name for family, name in engine.newest.items() if name in guests}
    return replace(here, stacks={**here.stacks, **guests}, newest={**here.newest, **families})


def system() -> Linux:
    """System of the hosts on this machine."""
    return Linux(kernel())


@functools.cache
def has_v6() -> bool:
    """Whether this kernel has IPv6."""
    return ip.has_v6(kernel().sysctls)


def _lacking() -> str | None:
    """Try cables and the emulator's sockets in this namespace, and say what the kernel lacks of them. None
    where it lacks nothing. Raises PermissionError without the rights.
    """
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
