"""Watches workers that run congestion controls from outside: these may hang, print, and close files."""

import fcntl
import os
import resource
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from cwndlab import _native

LOOK_S = 0.5
"""Time between two looks at a worker."""

LOOKS = 10
"""A hook that so many looks found at one call has run for that long; a look that came late counts once."""

OVERDUE = f"took more than {LOOK_S * LOOKS:g} s"

STOPPED = f"was stopped for {LOOK_S * LOOKS:g} s"

MORE_FILES = 64
"""Number of files that may be open after a run and were not before; cwndlab's own are fewer."""

CLOSED, FILLED, CHANGED = 81, 82, 83
"""Exit codes of a worker that lacks what it needs."""

CAUSES = {
    CLOSED: "files of its process were closed",
    FILLED: f"more than {MORE_FILES} files were left open",
    CHANGED: "user, limits, timer, umask, tracer or blocked signals of its process were changed",
}

WRITTEN = "files of its process were written to"

OUTPUT_BYTES = 1 << 20
"""Longest log of what hooks print."""


class Watch:
    """Looks at what a worker writes about its hooks, and whether anybody has stopped it."""

    def __init__(self, witness: Path, pid: int | None) -> None:
        """The file that the worker writes, and its process."""
        self._witness = witness
        self._state = Path(f"/proc/{pid}/stat")
        self._call = 0
        self._looks = 0
        self._next = 0.0
        self.overdue: str | None = None
        """How long a hook did not return, or the process was stopped."""

    def look(self) -> bool:
        """Whether a hook has become overdue by now, or the process was stopped for as long."""
        now = time.monotonic()
        if self.overdue or now < self._next:
            return False
        self._next = now + LOOK_S
        seen = _native.watched_module(self._witness)
        call = seen[0] if seen and (seen[1] or self._is_stopped()) else 0
        self._looks = self._looks + 1 if call and call == self._call else 0
        self._call = call
        if seen and self._looks >= LOOKS:
            self.overdue = OVERDUE if seen[1] else STOPPED
        return self.overdue is not None

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped the process, or one that traces it; False where the system does not
        tell.
        """
        try:
            return self._state.read_text().rpartition(")")[2].split()[0] in "Tt"
        except OSError:
            return False

    def last(self) -> str | None:
        """Place where the worker is or was last, as the end of a sentence. None where nothing is known."""
        seen = _native.watched_module(self._witness)
        return None if seen is None else f"{' in' if seen[1] else '; the last call was'} {seen[2]}"

    def forget(self) -> None:
        """Remove what the worker wrote."""
        self._witness.unlink(missing_ok=True)


@contextmanager
def belongings() -> Iterator[None]:
    """Ends the process where a run has left it without what it had before, or with far too many files."""
    before, settings = _open_files(), _settings()
    try:
        yield
    finally:
        _await_taken()
        now = _open_files()
        if any(now.get(number) != file for number, file in before.items()):
            _end(CLOSED)
        if len(now) - len(before) > MORE_FILES:
            _end(FILLED)
        if _settings() != settings:
            _end(CHANGED)


def _await_taken() -> None:
    """Wait until all that was printed is taken, and so counts as this run's."""
    with suppress(OSError):  # closed
        while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))):
            time.sleep(0.001)


def _end(code: int) -> NoReturn:
    # Nothing is written any more: whatever is open may be somebody else's file by now.
    os._exit(code)


def _settings() -> tuple[object, ...]:
    """Users and limits of the process, who traces it, modes of files that it makes, and whether a timer is to
    end it.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    kinds = (getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
    users = os.getuid(), os.geteuid(), os.getgid(), os.getegid()
    timed = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    return (
        *users,
        _tracer(),
        timed,
        umask,
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        *map(resource.getrlimit, kinds),
    )


def _tracer() -> str:
    """Line of Linux that says who traces this process."""
    with suppress(OSError), Path("/proc/self/status").open(encoding="utf-8", errors="replace") as status:
        return next((line for line in status if line.startswith("TracerPid:")), "")
    return ""


def _open_files() -> dict[int, tuple[int, int]]:
    found = {}
    for number in range(os.sysconf("SC_OPEN_MAX")) if sys.platform != "linux" else _listed():
        with suppress(OSError):
            state = os.fstat(number)
            found[number] = (state.st_dev, state.st_ino)
    return found


def _listed() -> list[int]:
    try:
        return [int(file.name) for file in Path("/proc/self/fd").iterdir()]
    except OSError:  # there is no file left to look with
        return list(range(os.sysconf("SC_OPEN_MAX")))


def own_output(output: "Connection[Any, Any]") -> None:
    """Send what this process prints there from now on."""
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    # A program of the parent listens there, and workers have nothing for it.
    if (tracker := resource_tracker.getfd()) is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, tracker)
        os.close(nowhere)


class Log:
    """Output of hooks, by run, as far as it has room."""

    def __init__(self, file: Path) -> None:
        """The file, which is there from the first word on; without its folder there is none."""
        self._file = file
        self._run: int | None = None

    def take(self, output: "Connection[Any, Any]", run: int | None) -> bool:
        """Read what a worker has printed, at that run; False: it prints nothing any more."""
        try:
            data = os.read(output.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        if data and self._file.parent.is_dir():
            self._write(data, run)
        return bool(data)

    def _write(self, data: bytes, run: int | None) -> None:
        size = self._file.stat().st_size if self._file.exists() else 0
        if size >= OUTPUT_BYTES:
            return
        head = f"run {run}:\n".encode() if run != self._run else b""
        self._run = run
        room = OUTPUT_BYTES - size
        text = (head + data)[:room] if len(head + data) < room else (head + data)[:room] + b"\nand more\n"
        with self._file.open("ab") as log:
            log.write(text)
