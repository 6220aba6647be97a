"""What all tests share: programs they start can be ended as from a terminal."""

import signal

import pytest


@pytest.fixture(autouse=True)
def signals_end_programs() -> None:
    """Undo that ending signals are ignored, which programs would inherit.

    A command's `main` in this process ignores them as it ends, and so does a background job of a shell.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
