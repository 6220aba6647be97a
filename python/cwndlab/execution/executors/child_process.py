"""Carries parts out in a process apart, for who may neither die of a congestion control nor have children.

A worker of Dask is a daemon of its nanny: multiprocessing gives it no children. So this is a program of its
own, which is told of its task on stdin, and itself has workers that may die.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from cwndlab.errors import CwndlabError
from cwndlab.execution import executor
from cwndlab.execution.executor import Arrivals, Nobody
from cwndlab.execution.executors.processes import Processes
from cwndlab.execution.task import Site
from cwndlab.results.parts import Part
from cwndlab.testbeds.base import CancelledError

LOOK_S = 0.05
"""Seconds between two looks whether the task is still wanted."""


def carry_out(parts: Sequence[Part], site: Site, cancelled: Callable[[], bool]) -> None:
    """Have parts carried out into `site.runs`; raises CancelledError when they are not wanted any more, and
    CwndlabError, one line, when a worker could not go on.
    """
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None  # as pipes
        process.stdin.write(pickle.dumps((tuple(parts), site)))
        process.stdin.flush()  # it stays open: its end is ours
        while process.poll() is None:
            if cancelled():
                process.kill()
                raise CancelledError
            time.sleep(LOOK_S)
        if process.returncode:
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise CwndlabError(said[-1] if said else f"the process ended with {process.returncode}")


def main() -> None:
    """Carry out what stdin says; the end of stdin is the end of whoever asked."""
    parts, site = pickle.load(sys.stdin.buffer)  # of our own parent
    threading.Thread(target=_die_with_parent, daemon=True).start()
    arrivals = Arrivals(site, Nobody())
    try:
        executor.carry_out(parts, Processes(1, arrivals), arrivals)
    except CwndlabError as error:
        sys.exit(str(error))


def _die_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
