"""A machine of the lab: taken for a run, changed with a journal, programs started on it, given back."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import IO

from cwndlab.errors import CwndlabError, RunError
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.shell import NOW
from cwndlab.testbeds.ssh import lab_file
from cwndlab.testbeds.ssh.machines import scripts
from cwndlab.testbeds.ssh.machines.connection import (
    COMMAND_S,
    Connection,
    Conversation,
    Done,
    LostError,
    Pipe,
)

TOKEN = secrets.token_hex(8)
"""Mark of this process, by which it knows the locks it took itself."""
HELD = 7
"""Exit status of scripts where somebody else has the machine."""
ASKS = 8
"""Times that a machine is asked for its clock; the quickest answer counts."""

CLOCK = (
    NOW
    + """
clock=; trap 'rm -f "$clock"' EXIT
while read -r _; do now; done
"""
)
"""Prints the time whenever it is asked."""

ADDRESSES = r"""
PATH=$PATH:/usr/sbin:/sbin
ip -o address show 2>/dev/null || ifconfig -a | awk '
    /^[^ \t]/ { name = $1; sub(/:.*/, "", name) }
    $1 == "inet" || $1 == "inet6" { print "0: " name "    " $1 " " $2 "/" }'
"""
"""Prints the addresses of interfaces, by `ip` or in its form."""
PUT = 'umask 077; cat > "$1"'

GET_S = 600.0
"""Seconds that a file may take."""

MOST_OF_A_LOG = 1 << 30
"""Size in bytes of a file that is read whole."""

MOST_OF_A_CAPTURE = 16 << 30
"""Size in bytes of a file that is kept as it is."""

KEPT_FREE = 1 << 30
"""Number of bytes of this machine's disk that files of machines leave free."""

BOOT = (
    "cat /proc/sys/kernel/random/boot_id 2>/dev/null"
    " || sysctl -n kern.boot_id 2>/dev/null || sysctl -n kern.boottime\n"
)
"""Prints what is another after a restart."""
RESTART = "( trap '' HUP; sleep 1; exec sh -c \"$1\" ) </dev/null >/dev/null 2>&1 &\n"
"""Restart the machine, a second after the connection has had its answer; argument: the command."""
BOOT_S = 900.0
"""Seconds that a machine has to come back."""
RETRY_S = 2.0
"""Seconds between two looks at whether it has."""


class _Arriving:
    """A file on its way: a line with its SHA-256, then its bytes, which go into a file of this machine."""

    def __init__(self, name: str, into: IO[bytes], most: int) -> None:
        self._name, self._into, self._most = name, into, most
        self._line: bytes | None = None
        self._count = 0
        self._hash = hashlib.sha256()

    def take(self, data: bytes) -> None:
        """Take the next bytes; raises RunError when there are too many."""
        if self._line is None:
            self._line, _, data = data.partition(b"\n")
        self._count += len(data)
        if self._count > self._most:
            raise RunError(f"{self._name}: is larger than {self._most >> 20} MiB, and was not fetched")
        self._hash.update(data)
        self._into.write(data)

    def check(self) -> None:
        """Raises OSError unless the file has come as it was sent."""
        if self._hash.hexdigest().encode() != self._line:
            raise OSError(f"{self._name}: was damaged on its way (SHA-256)")


@dataclass(frozen=True)
class Clock:
    """Distance of a machine's clock from this one's."""

    offset_ns: int
    """Time by which the machine's clock (since 1970) is ahead of this process's CLOCK_MONOTONIC, in ns."""
    error_ns: int
    """Uncertainty of the distance, in ns: half of the quickest exchange's time."""

    def may_be_off(self, later: Clock) -> int:
        """Uncertainty of this distance until a later look at the same clock, in ns."""
        return max(self.error_ns, later.error_ns + abs(later.offset_ns - self.offset_ns))


class Machine:
    """A machine reached by its own connection."""

    def __init__(self, name: str, described: lab_file.Machine, known_hosts: str | None) -> None:
        """Ask nothing yet."""
        self.name, self.described = name, described
        self.connection = Connection(name, described, known_hosts)
        self._guard: Pipe | None = None
        self._interface: str | None = None
        self._jobs = 0
        self._undo: list[str] = []
        """Commands that take back what was changed, should the machine lose its journal."""

    def interface(self) -> str:
        """A host's interface on the test network; raises OSError where none has its address."""
        described = self.described
        assert isinstance(described, lab_file.Host)  # asked of hosts alone
        if described.interface is not None:
            return described.interface
        if self._interface is None:
            self._interface = self.interface_of(described.address)
        return self._interface

    def interface_of(self, address: str) -> str:
        """The interface that has an address; raises OSError where none has."""
        at = re.escape(address)
        found = re.search(rf"^\d+: ([^\s@]+)\S*\s+inet6? {at}/", self.shell(ADDRESSES), re.MULTILINE)
        if found is None:
            raise OSError(f"{self.name}: no interface has the address {address}")
        return found[1]

    def take(self, experiment: str) -> None:
        """Have the machine to ourselves, if we do not yet; what a crash left is taken back first.

        Raises CwndlabError, one line, where somebody else has it, LostError where it cannot be reached.
        """
        held = self._guard is not None and self.connection.is_open
        if held and self._script(scripts.AGAIN, TOKEN, _holder(experiment)).status == 0:
            return
        self._guard = None
        self.connection.open()
        done = self._script(scripts.TAKE, TOKEN, _holder(experiment), str(scripts.SILENT_S))
        if done.status == HELD:
            raise CwndlabError(f"{self.name}: in use by {done.said}")
        if done.status:
            raise LostError(f"{self.name}: {done.said}")
        kept = {"guard": scripts.GUARD, "change": scripts.CHANGE, "converse": scripts.CONVERSE}
        for name, script in kept.items():
            self.run(["sh", "-c", PUT, "sh", self.path(f"{name}.sh")], script)
        self._guard = self.connection.begin(
            ["sh", self.path("guard.sh"), scripts.BASE, str(scripts.SILENT_S)]
        )
        if (told := self._guard.line(COMMAND_S)) != "ready":
            raise LostError(f"{self.name}: the guard of the run does not start{told and f': {told}'}")

    def free(self) -> None:
        """Raises CwndlabError where somebody else has the machine."""
        holder = self._script(scripts.HOLDER, str(scripts.SILENT_S), TOKEN).out.strip()
        if holder:
            raise CwndlabError(f"{self.name}: in use by {holder}")

    def beat(self) -> None:
        """Say that we are there."""
        if self._guard is not None and self.connection.is_open:
            self._guard.write(b"beat\n")

    def restore(self) -> list[str]:
        """Take back what was changed, and keep the machine; returns what could not be."""
        if self._guard is None or not self.connection.is_open:
            return []  # the guard there takes it back, or the next contact
        return self._taken_back(scripts.RESTORE)

    def release(self) -> list[str]:
        """Take back what was changed, and let others have the machine; returns what could not be."""
        if self._guard is None:
            return []
        guard, self._guard = self._guard, None
        if not self.connection.is_open:
            return []  # the guard there takes it back, or the next contact
        troubles = self._taken_back(scripts.RELEASE)
        guard.close()
        return troubles

    def _taken_back(self, script: str) -> list[str]:
        """Have a script take back what was changed; returns what could not be."""
        done = self._script(script, TOKEN, *reversed(self._undo))
        self._undo.clear()
        return [f"{self.name}: {line}" for line in done.out.splitlines()]

    def clean(self) -> str | None:
        """Take back what a crash left; returns whose it was. Raises CwndlabError where it is in use."""
        self.connection.open()
        done = self._script(scripts.CLEAN, str(scripts.SILENT_S))
        if done.status == HELD:
            raise CwndlabError(f"{self.name}: in use by {done.said}")
        return f"{self.name}: {done.out.strip()}" if done.out.strip() else None

    def restart(self, command: str, limit_s: float = BOOT_S) -> None:
        """Restart the machine by a command, and wait until it is back; raises LostError where it is not."""
        before = self.shell(BOOT)
        self.shell(RESTART, command)
        deadline = time.monotonic() + limit_s
        while True:
            self.connection.close()
            time.sleep(RETRY_S)
            with suppress(LostError, OSError):
                self.connection.open()
                if self.shell(BOOT) != before:
                    return
            if time.monotonic() > deadline:
                raise LostError(f"{self.name}: has not restarted within {limit_s:g} s of `{command}`")

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = COMMAND_S, name: str = "") -> str:
        """Run a command and return its output. Raises OSError with its complaint, under its `name` if
        given.
        """
        done = self.connection.run(argv, text, limit_s)
        if done.status:
            raise OSError(f"{self.name}: {name or argv[0]}: {done.said}")
        return done.out

    def shell(self, script: str, *words: str, limit_s: float = COMMAND_S) -> str:
        """Run a script of POSIX's shell, with these words as its arguments, and return its output; raises as
        `run`.
        """
        return self.run(["sh", "-s", "--", *words], script, limit_s)

    def hook(self, key: str, command: str, values: RunValues | None = None) -> None:
        """Carry out a command of the lab file, which is told of its run; raises OSError with its key where it
        fails."""
        given = {} if values is None else values.environment
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in given.items())
        script = command if values is None else values.in_shell(command)
        done = self.connection.run(["sh", "-s"], f"{exports}{script}\n")
        if done.status:
            raise OSError(f"{self.name}: {key}: `{command}`: {done.said}")

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        """Run a command that changes something, with what takes it back in the journal; raises as `run`."""
        # The script is a file, as standard input is the command's.
        self._undo.append(shlex.join(undo))
        words = ["sh", self.path("change.sh"), scripts.BASE, self._undo[-1], *argv]
        return self.run(words, text, name=argv[0])

    def write(self, path: str, text: str) -> None:
        """Write a file of settings; raises OSError with the system's reason."""
        done = self._script(scripts.WRITE, path, text)
        self._undo += done.out.splitlines()
        if done.status:
            raise OSError(done.said)

    def put(self, name: str, data: bytes) -> None:
        """Put a file into the run's directory."""
        done = self.connection.send(["sh", "-c", PUT, "sh", self.path(name)], data)
        if done.status:
            raise OSError(f"{self.name}: {name}: {done.said}")

    def get(self, name: str) -> bytes:
        """A file of the run's directory, as it is now.

        Raises OSError, also where it came damaged, and RunError where it is too large.
        """
        with tempfile.TemporaryFile() as kept:
            self._fetch(name, kept, MOST_OF_A_LOG)
            kept.seek(0)
            return kept.read()

    def save(self, name: str, into: Path) -> None:
        """Put a file of the run's directory into a file of this machine; raises as `get`."""
        with into.open("wb") as kept:
            self._fetch(name, kept, MOST_OF_A_CAPTURE)

    def _fetch(self, name: str, into: IO[bytes], most: int) -> None:
        file = f"{self.name}: {name}"
        free = shutil.disk_usage(tempfile.gettempdir()).free - KEPT_FREE
        arriving = _Arriving(file, into, max(0, min(most, free)))
        words = ["sh", "-c", scripts.GET, "sh", self.path(name)]
        done = self.connection.fetch(words, arriving.take, GET_S)
        if done.status:
            raise OSError(f"{file}: {done.said}")
        arriving.check()

    def path(self, name: str) -> str:
        """Path of a run's file on the machine."""
        return f"{scripts.BASE}/run/{name}"

    def start(self, argv: Sequence[str], limit_s: float, at_ns: int = 0) -> str:
        """Start a program, now or at a time of the machine's clock; returns the name of its job."""
        self._jobs += 1
        job = f"job{self._jobs}"
        at = f"{at_ns // 10**9}.{at_ns % 10**9:09d}" if at_ns else "0"
        done = self._script(scripts.JOB, job, f"{limit_s:.0f}", at, *argv)
        if done.status:
            raise OSError(f"{self.name}: {argv[0]}: {done.said}")
        return job

    def converse(self, argv: Sequence[str], limit_s: float) -> Conversation:
        """Start a program whose input and output are pipes here."""
        self._jobs += 1
        words = [scripts.BASE, f"job{self._jobs}", f"{limit_s:.0f}", *argv]
        return self.connection.converse(["sh", self.path("converse.sh"), *words])

    def signal(self, jobs: Iterable[str], signal: str) -> None:
        """Send programs a signal, as far as they are there."""
        self._script(scripts.SIGNAL, signal, *jobs)

    def wait(self, jobs: Sequence[str], limit_s: float) -> bool:
        """Wait for programs to end; whether they did."""
        done = self._script(scripts.AWAIT, str(round(limit_s * 1000)), *jobs, limit_s=2 * limit_s + COMMAND_S)
        return done.status == 0

    def said(self, job: str) -> str:
        """Output of a program so far."""
        return self.get(f"{job}.out").decode(errors="replace")

    def complained(self, job: str) -> str:
        """Standard error of a program so far."""
        return self.get(f"{job}.err").decode(errors="replace")

    def clock(self) -> Clock:
        """Measure the distance of the machine's clock by an exchange over the kept connection."""
        pipe = self.connection.begin(["sh", "-c", CLOCK])
        best: Clock | None = None
        for _ in range(ASKS):
            sent = time.monotonic_ns()
            pipe.write(b"\n")
            told = pipe.line(COMMAND_S)
            back = time.monotonic_ns()
            if not re.fullmatch("[0-9]{19}", told):
                raise OSError(f"{self.name}: its clock says {told!r}, no time in nanoseconds")
            found = Clock(int(told) - (sent + back) // 2, (back - sent) // 2)
            best = found if best is None or found.error_ns < best.error_ns else best
        pipe.close()
        assert best is not None  # it was asked
        return best

    def _script(self, script: str, *words: str, limit_s: float = COMMAND_S) -> Done:
        return self.connection.run(["sh", "-s", "--", scripts.BASE, *words], script, limit_s)


def _holder(experiment: str) -> str:
    """Describe this process for whoever finds a machine in use."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"{getuser()} on {socket.gethostname()} (process {os.getpid()}), {experiment}, since {since}"
