"""Signals that end a sweep, and moments in which none of them may."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a sweep as Ctrl-C does: asked to by another program, or the terminal is gone."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end; a process started meanwhile does not see it before it unblocks it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *STOPPING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
