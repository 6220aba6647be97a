"""Set-up of all tests: programs can be ended as from a terminal, and compiled modules are kept."""

import os
import signal
import sys
from pathlib import Path

import pytest

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Nothing beside the sources, as the environment wants it; but each process, and there are hundreds, would
    # compile the package again, and pytest the tests: over half of the time that loading them takes.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / "target/pycache")


@pytest.fixture(autouse=True)
def signals_end_programs() -> None:
    """Undo that ending signals are ignored, which programs would inherit.

    A command's `main` in this process ignores them as it ends, and so does a background job of a shell.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of compiled modules that all tests of a run share, in all processes."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled"
