"""The way into a network namespace of this machine."""

import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

from cwndlab import _native
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.netns.namespaces import NAMESPACES, inside

_INTERFACES = "/sys/class/net/"
_WRITE = 'mount -t sysfs sysfs /sys && printf %s "$2" > "$1"'
"""Script for a mount namespace of its own, as sysfs shows the interfaces of the namespace in which it was
mounted (Documentation/networking/napi.rst: the interface's settings).
"""


class Namespace:
    """A namespace by its name: what this machine's own ways find from a thread that is in it."""

    def __init__(self, name: str) -> None:
        """The namespace of that name."""
        self.namespace = name
        self._here = ThisMachine()

    def files(self, *patterns: str) -> dict[str, str]:
        """The text of each readable file by path."""
        return inside(self.namespace, lambda: self._here.files(*patterns))

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file."""
        return inside(self.namespace, lambda: self._here.writable(path))

    def uname(self) -> str:
        """System, name, release, version and architecture."""
        return self._here.uname()

    def clock(self) -> dict[str, Any]:
        """Readings of the clock by adjtimex(2)."""
        return self._here.clock()

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """The interfaces of the namespace by name."""
        return inside(self.namespace, self._here.interfaces)

    def write(self, path: str, text: str) -> None:
        """Write a file; raises OSError with the kernel's reason."""
        if not path.startswith(_INTERFACES):
            inside(self.namespace, partial(self._here.write, path, text))
            return
        enter = ["nsenter", f"--net={NAMESPACES / self.namespace}", "unshare", "--mount"]
        command = [*enter, "sh", "-c", _WRITE, "sh", path, text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(" ".join(done.stderr.split()))

    def program(self, name: str, purpose: str) -> str:
        """Path of a program."""
        return self._here.program(name, purpose)

    def run(self, command: Sequence[str], text: str = "", undo: Sequence[str] = ()) -> str:
        """Run a command and return its output."""
        return inside(self.namespace, lambda: self._here.run(command, text))

    def set_offloads(self, interface: str, *, tso: bool, gro: bool) -> None:
        """Switch offloads of an interface."""
        _native.set_offloads(self.namespace, interface, tso=tso, gro=gro)
