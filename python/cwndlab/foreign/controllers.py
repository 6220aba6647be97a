"""The limit of processor time for each method of controllers in Python.

A worker's main thread gets a signal every 50 ms of processor time. Its handler runs between two steps of
Python code, so it can end a method that loops; a single call into C that never returns it cannot.
"""

from __future__ import annotations

import atexit
import signal
import threading
from types import FrameType

from cwndlab import _native

QUANTUM_S = 0.05
QUANTA = 5
"""A method that was seen running at so many looks has run for at least one quantum less."""

LIMIT = f"used more than {QUANTUM_S * (QUANTA - 1):g} s of processor time"


class TooLongError(BaseException):
    """Ends a method; no `except Exception` of its own holds it up."""


class _Looks:
    """The method that the last looks found, by its number, and how often."""

    call = 0
    count = 0


def watch() -> None:
    """Limit the methods of controllers from now on; nothing where this is not the process's main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGPROF) is not _look:
        signal.signal(signal.SIGPROF, _look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, QUANTUM_S, QUANTUM_S)
        # The handler is gone before the process is.
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)


def _look(number: int, frame: FrameType | None) -> None:
    call = _native.controller_inside()
    _Looks.count = _Looks.count + 1 if call and call == _Looks.call else 0
    _Looks.call = call
    if _Looks.count >= QUANTA:
        _Looks.count = 0
        raise TooLongError(LIMIT)
