"""Features of this machine without which no guest runs: tracing of processes, and executable memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MEMORY = Path("/dev/shm")
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
"""Says who may trace whom; with 3 nobody may, until the machine is started again."""
GUEST_MB = 25
"""Memory that a guest takes, in MiB, more with much data on its way."""
TRACEE = """\
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0, 0, None, None):  # PTRACE_TRACEME
    raise SystemExit(os.strerror(ctypes.get_errno()))
"""
"""Program of Python that has itself be traced, as the processes of a guest do."""


def tracing() -> tuple[bool, str]:
    """Whether a process may have itself traced here, and in words: what to do if not."""
    child = subprocess.run([sys.executable, "-c", TRACEE], capture_output=True, text=True, check=False)
    if not child.returncode:
        return True, "a guest may trace its processes"
    said = (child.stderr.strip().splitlines() or [f"the child ended with {child.returncode}"])[-1]
    try:
        forbidden = YAMA.read_text(encoding="utf-8").strip() == "3"
    except OSError:
        forbidden = False
    way = (
        f"{YAMA} is 3: set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and start the machine again"
        if forbidden
        else "allow it, of a container by --cap-add SYS_PTRACE"
    )
    return False, f"refused ({said}), and kernels before 6.16 need it; {way}"


def executable() -> bool:
    """Whether there is a folder in memory whose files may be executed."""
    return MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC


def memory() -> tuple[bool, str]:
    """Whether a guest's memory has a place here, and in words: what to do if not."""
    if not MEMORY.is_dir():
        return False, f"is not there: mount -t tmpfs tmpfs {MEMORY}"
    if not executable():
        return (
            False,
            f"is mounted noexec, and a guest executes what is there: mount -o remount,exec {MEMORY}",
        )
    state = os.statvfs(MEMORY)
    free = state.f_bavail * state.f_frsize >> 20
    takes = f"{free} MiB free; a guest takes some {GUEST_MB} MiB there, more with much data on its way"
    if free >= GUEST_MB:
        return True, takes
    return False, f"{takes}: mount -o remount,size=1g {MEMORY}, or a container with --shm-size 1g"
