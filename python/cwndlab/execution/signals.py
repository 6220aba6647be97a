"""Signals that end a sweep, and moments in which none of them may."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a sweep as Ctrl-C does: asked to by another program, or the terminal is gone."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end; a process started meanwhile does not see it before it unblocks it.

    The mask is for such a process. It does not keep a signal from a library's thread, after which Python
    would call the handler in this one, so the handlers wait as well.
    """
    numbers = {signal.SIGINT, *STOPPING}
    came: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in numbers}
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, lambda which, _frame: came.append(which))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
