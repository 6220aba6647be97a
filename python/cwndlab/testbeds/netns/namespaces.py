"""Network namespaces that carry a run's name: made, entered, and removed again, also those of a run that
crashed.

Everything here works through file names and system calls, without a process of its own, and imports little:
the reaper, which outlives a killed run, is made of it.

A run owns its name, eight hexadecimal digits, by holding the file of that name below `OWNERS` locked. The
kernel gives a lock back whenever its process ends, so that a name nobody holds belongs to nobody.
"""

import ctypes
import fcntl
import os
import re
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cwndlab.errors import CwndlabError

_T = TypeVar("_T")

NAMESPACES = Path("/run/netns")
"""Folder in which iproute2 keeps the names of network namespaces (ip-netns(8))."""
OWNERS = Path("/run/cwndlab")
"""A file for each run that is under way, held locked by its process."""
PREFIX = "cwndlab-"
"""Prefix of the names of all cwndlab's namespaces; the run's name and the node's follow."""

_NAME = re.compile(r"cwndlab-([0-9a-f]{8})-[A-Za-z0-9._-]+", re.ASCII)
_RUN = re.compile(r"[0-9a-f]{8}", re.ASCII)

CLONE_NEWNET = 0x40000000
"""Network namespace, of unshare(2) and setns(2) (linux/sched.h)."""
_MS_BIND, _MNT_DETACH = 4096, 2
"""mount(2) and umount2(2)."""
CONNECTION_TABLE, CONNECTION_ENTRIES = Path("/proc/sys/net/ipv4/tcp_child_ehash_entries"), "4096"
"""Entries of the table of connections of namespaces that are made in this one (ip-sysctl.rst, Linux 6.2)."""
KILL_S = 5.0
"""Seconds that killed processes have to be gone."""


class Owner:
    """A run's name and its namespaces; closing it removes them with everything inside."""

    def __init__(self) -> None:
        """Take a name that nobody has; raises OSError without the rights to."""
        OWNERS.mkdir(mode=0o755, exist_ok=True)
        NAMESPACES.mkdir(mode=0o755, exist_ok=True)
        while True:
            self.name = secrets.token_hex(4)
            lock = _locked(self.name, os.O_CREAT | os.O_EXCL)
            if lock is not None:
                self._lock = lock
                break
        self._made: list[str] = []
        self.directory = directory(self.name)
        """Folder for files of the run while it goes on."""
        self.directory.mkdir(mode=0o700)

    def create(self, node: str) -> str:
        """Make a namespace for a node of the network, and return its name; it has nothing but a `lo` that is
        down."""
        name = f"{PREFIX}{self.name}-{node}"
        path = NAMESPACES / name
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
        self._made.append(name)
        in_scratch(lambda: _born_here(path))
        return name

    def close(self) -> None:
        """End all processes in the namespaces, remove these, and give the name back."""
        if self._lock >= 0:
            remove(self._made)
            shutil.rmtree(self.directory, ignore_errors=True)
            (OWNERS / self.name).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def left_behind() -> dict[str, list[str]]:
    """The namespaces of runs whose process is gone, by run; those of runs under way are not among them."""
    runs: dict[str, list[str]] = {}
    for name in _ours():
        runs.setdefault(name[len(PREFIX) : len(PREFIX) + 8], []).append(name)
    for file in sorted(OWNERS.glob("*")) if OWNERS.is_dir() else ():
        if _RUN.fullmatch(file.name):
            runs.setdefault(file.name, [])
    return {run: names for run, names in runs.items() if not is_owned(run)}


def is_owned(run: str) -> bool:
    """Whether the process of a run is alive."""
    try:
        lock = _locked(run, 0)
    except FileNotFoundError:
        return False
    if lock is None:
        return True
    os.close(lock)
    return False


def clean(run: str) -> list[str]:
    """Remove what a run left, unless its process is alive; returns the namespaces that were there.

    Raises CwndlabError for one that stays.
    """
    if not _RUN.fullmatch(run) or is_owned(run):
        return []
    names = [name for name in _ours() if name.startswith(f"{PREFIX}{run}-")]
    remove(names)
    for name in names:
        if (NAMESPACES / name).exists():
            raise CwndlabError(
                f"{NAMESPACES / name}: cannot be removed;"
                f" if {NAMESPACES} is mounted twice, umount the upper one first"
            )
    shutil.rmtree(directory(run), ignore_errors=True)  # follows no symbolic link
    (OWNERS / run).unlink(missing_ok=True)
    return names


def directory(run: str) -> Path:
    """Folder in which a run keeps files while it goes on."""
    return Path(tempfile.gettempdir()) / f"{PREFIX}{run}"


def remove(names: list[str]) -> None:
    """End all processes in namespaces and remove their names; those that are gone already are passed over.

    With the last process of a namespace go its interfaces, queue disciplines and rules.
    """
    inodes = set()
    for name in names:
        with suppress(OSError):
            inodes.add((NAMESPACES / name).stat().st_ino)
    _end_processes(inodes)
    for name in names:
        _libc().umount2(os.fsencode(NAMESPACES / name), _MNT_DETACH)
        with suppress(OSError):
            (NAMESPACES / name).unlink()


def inside(namespace: str, work: Callable[[], _T]) -> _T:
    """Call `work` in a thread that is in a namespace; sockets made there stay there."""
    return _in_thread(lambda: enter(namespace), work)


def in_scratch(work: Callable[[], _T]) -> _T:
    """Call `work` in a thread with a new network namespace, which goes with the thread.

    Raises PermissionError without the rights for one.
    """
    return _in_thread(lambda: _check(_libc().unshare(CLONE_NEWNET)), work)


def enter(namespace: str) -> None:
    """Move this thread, and all threads it starts, into a namespace for good."""
    handle = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc().setns(handle, CLONE_NEWNET))
    finally:
        os.close(handle)


def _in_thread(prepare: Callable[[], None], work: Callable[[], _T]) -> _T:
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            prepare()
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="cwndlab namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _ours() -> Iterator[str]:
    if NAMESPACES.is_dir():
        yield from sorted(path.name for path in NAMESPACES.iterdir() if _NAME.fullmatch(path.name))


def _locked(run: str, flags: int) -> int | None:
    """A handle that holds a run's name locked, or None where somebody else does or it exists against the
    flags."""
    try:
        handle = os.open(OWNERS / run, os.O_RDONLY | os.O_CLOEXEC | flags, 0o644)
    except FileExistsError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _end_processes(inodes: set[int]) -> None:
    """Kill every process in these namespaces and wait until they are gone."""
    deadline = time.monotonic() + KILL_S
    while inodes and time.monotonic() < deadline:
        found = [pid for pid in _processes() if _namespace(pid) in inodes and pid != os.getpid()]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> Iterator[int]:
    yield from (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _namespace(pid: int) -> int | None:
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return None  # waits for its parent only
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None


def _born_here(path: Path) -> None:
    """Give a new namespace a name; its table of connections is its own, and small, to be walked quickly."""
    with suppress(OSError):  # before Linux 6.2 all namespaces share one
        CONNECTION_TABLE.write_text(CONNECTION_ENTRIES, encoding="ascii")
    _check(_libc().unshare(CLONE_NEWNET))
    _mount(f"/proc/self/task/{threading.get_native_id()}/ns/net", path)


def _mount(source: str, target: Path) -> None:
    _check(_libc().mount(source.encode(), os.fsencode(target), None, _MS_BIND, None))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
