"""Loads foreign code for the first time, in a process apart, which may crash, hang and print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from cwndlab.errors import InputError
from cwndlab.foreign import option
from cwndlab.foreign.store import Compiled

LIMIT_S = 30.0
"""Time that loading may take."""

ANSWER_BYTES = 4 << 20
"""Longest answer that is read, and of what is printed the end that is looked at."""

PRINTED_BYTES = 64 << 20
"""Longest file that it may write, besides a copy of what it loads."""

BEGIN = """\
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
answer = os.dup(1)
os.dup2(2, 1)
"""
"""Beginning of the program, which keeps what is printed apart from the answer."""

DESCRIBE = """\
from cwndlab import _native
def mapped():
    try:
        lines = open("/proc/self/maps", encoding="utf-8", errors="replace").read().splitlines()
    except OSError:
        return set()
    return {line.split(None, 5)[5] for line in lines if line.count(" /")}
before = mapped()
told = _native.describe_module(*sys.argv[1:])
for path in sorted(mapped() - before):
    if not path.startswith(("/usr/", "/lib")) and not path.endswith(" (deleted)"):
        sys.exit(f"needs {path}, whose statics all hosts would share: link it in")
os.write(answer, told.encode())
"""
"""Loads a module, and says what it found."""


def describe(name: str, compiled: Compiled) -> dict[str, Any]:
    """Family and knobs of a compiled module; raises InputError, one line."""
    what = option(name)
    size = compiled.file.stat().st_size
    answer = tried(what, DESCRIBE, [str(compiled.file), compiled.sha256], size)
    try:
        described: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise InputError(f"{what}: its process ended without an answer while it was loaded") from None
    return described


def tried(what: str, program: str, arguments: Sequence[str], copies: int = 0) -> bytes:
    """Return what a text of Python writes to `answer`, at most copies of so many bytes. Raises InputError."""
    command = [sys.executable, "-c", BEGIN + program, str(PRINTED_BYTES + copies), *arguments]
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=answer, stderr=printed, start_new_session=True
        )
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise InputError(f"{what}: is not loaded after {LIMIT_S:.0f} s") from None
        finally:
            # Whatever it has started goes with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code:
            lines = _end(printed).decode(errors="replace").strip().splitlines()
            raise InputError(f"{what}: {_why(lines, code)}")
        answer.seek(0)
        return answer.read(ANSWER_BYTES)


def _end(printed: Any) -> bytes:
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - ANSWER_BYTES))
    return bytes(printed.read())


def _why(lines: Sequence[str], code: int) -> str:
    if code < 0:
        return f"the process that loaded it died ({signal.Signals(-code).name})"
    return lines[-1].removeprefix("ValueError: ") if lines else f"the process ended with {code}"
