"""A guest: a kernel as a process of this machine, in virtual time, whose first process is cwndlab's agent.

Its root is a folder of this machine (hostfs), in which it finds its plan and leaves what it saw. That costs
no virtual time, needs no device in the kernel, and leaves nothing to be parsed out of a console.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError, RunError
from cwndlab.testbeds.kernel import machine, store
from cwndlab.testbeds.kernel.store import Kernel
from cwndlab.testbeds.live import program

MEMORY_MB = 512
"""Memory of a guest; what of it is used takes memory of this machine. It is the same for all runs, as the
kernel makes tables by it."""
START_NS = 1_000_000_000 * 10**9
"""Time that the guest's clock shows when it starts, in ns since 1970."""
SILENCE_S = 120.0
"""Seconds of real time within which a guest says how far it is. One that does not, and used a processor for
half of them, spins in virtual time."""
STUCK = 10
"""Number of times `SILENCE_S` of real time after which a guest is given up that got none."""
LOOK_S = 0.05
"""Seconds between two looks at how far a guest is."""
CONSOLE, ROOT = "console.txt", "root"
PREFIX = "cwndlab-guest-"
"""Prefix of the folders of guests; the process that made one follows."""
PROGRAMS = ("setpriv", "setarch")
"""Programs that start a guest, of Debian's package util-linux."""
_MOUNT_POINTS = ("proc", "sys", "dev", "tmp")
OUTPUTS = ("report.json", "inventory.json", "error")
MOST_BYTES = 1 << 30
"""The largest file that is read of what a guest left."""


class KernelFailedError(RunError):
    """A kernel that failed, with all that it said."""

    def __init__(self, console: bytes) -> None:
        """Take the kernel's first complaint as the message."""
        super().__init__(f"the kernel failed: {failure(console.decode(errors='replace'))}")
        self.console = console


def ready() -> str | None:
    """Say in one line which requirement of guests this machine does not meet. None where it meets all."""
    if sys.platform != "linux":
        return f"testbed kernel needs Linux; this is {sys.platform}"
    if os.uname().machine != "x86_64":
        return f"testbed kernel needs an x86-64 processor; this is {os.uname().machine}"
    for name in PROGRAMS:
        if shutil.which(name) is None:
            return f"testbed kernel needs {name} (Debian: apt install util-linux)"
    if _agent() is None:
        return "testbed kernel needs the agent as a static program: make agent, or CWNDLAB_AGENT=FILE"
    return None


def boot(
    kernel: Kernel,
    plan: Mapping[str, Any],
    *,
    seed: int,
    memory_mb: int = MEMORY_MB,
    look: Callable[[], None] = lambda: None,
    progress: Callable[[int], None] = lambda now_ns: None,
) -> dict[str, bytes]:
    """Have a kernel carry out a plan; returns the files that it left, by name.

    `look` is asked every few milliseconds and raises where the run is to be given up; `progress` is told how
    much of it is done, in ns. Raises RunError, one line, with the end of the console in it where the kernel
    fails, what the agent says where it refuses, or that nothing more happens.
    """
    agent = _agent()
    if agent is None:
        raise InputError(ready() or "testbed kernel is not ready")
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=_memory()) as scratch:
        place = Path(scratch)
        root = place / ROOT
        for name in _MOUNT_POINTS:
            (root / name).mkdir(parents=True)
        _give(agent, root / "init")
        (root / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        process = _start(kernel, place, seed, memory_mb)
        try:
            _wait(process, root, look, progress)
        finally:
            _end(process)
        return _left(process.returncode, root, place)


def left_behind() -> list[Path]:
    """Folders of guests whose process is gone: it was killed."""
    found = []
    for place in sorted(Path(_memory() or tempfile.gettempdir()).glob(f"{PREFIX}*")):
        maker = place.name.removeprefix(PREFIX).partition("-")[0]
        if maker.isdigit() and not Path(f"/proc/{maker}").exists() and _is_own_folder(place):
            found.append(place)
    return found


def _is_own_folder(place: Path) -> bool:
    """Whether a folder is there that nobody else has made; others may put links beside it, and its maker may
    remove it.
    """
    try:
        state = place.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()


def _start(kernel: Kernel, place: Path, seed: int, memory_mb: int) -> subprocess.Popen[bytes]:
    """Start a kernel: with the same addresses in every run, and such that it ends when we do."""
    command = [
        *("setpriv", "--pdeathsig", "KILL", "setarch", "-R", str(kernel.program)),
        *(f"mem={memory_mb}M", "time-travel=inf-cpu", f"time-travel-start={START_NS}"),
        # By a name that is the same for all runs: what the kernel is told takes memory of it.
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/proc/self/cwd/.", "rw", "init=/init"),
        *("con=null", "con0=null,fd:1", "console=tty0", "uml_dir=..", "umid=uml", "oops=panic"),
        *cheaper(kernel.program),
        *("--", "--guest"),
    ]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LD_PRELOAD": str(kernel.folder / store.SEED),
        "CWNDLAB_GUEST_SEED": str(seed),
        "TMPDIR": str(place),
        "HOME": "/",
    }
    try:
        with (place / CONSOLE).open("wb") as console:
            return subprocess.Popen(
                command,
                cwd=place / ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise RunError(f"{command[0]}: {error.strerror}") from None


@functools.cache
def cheaper(program: Path) -> tuple[str, ...]:
    """Arguments by which a kernel takes less of a processor.

    System calls of a guest's processes come to it by a signal of seccomp(2) instead of by ptrace(2), from
    Linux 6.16 on and where the machine lets it; they do the same.
    """
    told = subprocess.run([program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return ("seccomp=auto",) if b"\nseccomp=" in told.stdout + told.stderr else ()


def _wait(
    process: subprocess.Popen[bytes], root: Path, look: Callable[[], None], progress: Callable[[int], None]
) -> None:
    told, heard, spent, ended = 0, time.monotonic(), -1.0, threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    # To wait with a limit, subprocess looks every few milliseconds: as often as that costs by itself.
    threading.Thread(target=wait, daemon=True).start()
    while not ended.wait(LOOK_S):
        look()
        said = root / "progress"
        size = said.stat().st_size if said.is_file() else 0
        if size > told:
            told, heard, spent = size, time.monotonic(), -1.0
            lines = said.read_bytes().split()
            progress(int(lines[-1]) if lines and lines[-1].isdigit() else 0)
            continue
        silent = time.monotonic() - heard
        if silent > SILENCE_S / 100 and spent < 0:
            spent = _processor_s(process.pid)
        if silent > SILENCE_S and (
            silent > STUCK * SILENCE_S or _processor_s(process.pid) - spent > SILENCE_S / 2
        ):
            raise RunError(
                f"the guest has not gone on for {silent:.0f} s: something in it works without end, which"
                " stops virtual time"
            )


def _processor_s(group: int) -> float:
    """Return the processor time, in s, of the processes of a group that are there."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that has ended meanwhile
            fields = process.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:13])) if int(fields[2]) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process that the kernel is, with those that its own processes are."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _left(code: int, root: Path, place: Path) -> dict[str, bytes]:
    console = (place / CONSOLE).read_bytes()
    error = root / "error"
    if error.is_file():
        raise RunError(error.read_text(encoding="utf-8", errors="replace")[:2000])
    names = [name for name in OUTPUTS if (root / name).is_file()]
    if code or not names:
        raise KernelFailedError(console)
    names += sorted(path.name for kind in ("samples-*", "capture-*") for path in root.glob(kind))
    found = {CONSOLE: console}
    for name in names:
        if (root / name).stat().st_size > MOST_BYTES:
            raise RunError(f"the guest left more than {MOST_BYTES >> 30} GiB in {name}")
        found[name] = (root / name).read_bytes()
    return found


def failure(console: str) -> str:
    """Find the first complaint of a kernel that failed, and join it to what follows, in one line."""
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    signs = (
        "BUG:",
        "kernel BUG",
        "Oops",
        "WARNING:",
        "Kernel panic",
        "Unable to handle",
        "Segfault",
        "divide error",
        "panicked at",
    )
    first = next((place for place, line in enumerate(lines) if any(sign in line for sign in signs)), -5)
    said = "; ".join(lines[first:][:8])[:1000] or "it said nothing"
    if "Attempted to kill init" in said and "panicked" not in said:
        said += " (the agent is not of this version of cwndlab? make agent)"
    return said


def _agent() -> Path | None:
    own = os.environ.get("CWNDLAB_AGENT")
    return Path(own) if own else program.find("linux-x86_64", None)


def _give(agent: Path, to: Path) -> None:
    try:
        os.link(agent, to)
    except OSError:
        shutil.copy(agent, to)
        to.chmod(0o755)


def _memory() -> str | None:
    """A folder in memory, where there is one: the guest's memory is a file, and executable."""
    usable = machine.executable() and os.access(machine.MEMORY, os.W_OK | os.X_OK)
    return str(machine.MEMORY) if usable else None
