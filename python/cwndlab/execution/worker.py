"""The permissions of a cluster's worker: `dask worker ... --preload cwndlab.execution.worker
--allow-foreign`.

Congestion controls from outside are native code. They come with a task as sources and hash, and a worker
whose owner has not said so compiles and runs none.
"""

from weakref import WeakSet

import click
from distributed import Worker

from cwndlab.errors import InputError

_ALLOWED: WeakSet[Worker] = WeakSet()
"""The workers of this process that may."""


@click.command()
@click.option("--allow-foreign", is_flag=True, help="Run congestion controls that come with a sweep.")
def dask_setup(worker: Worker, allow_foreign: bool) -> None:
    """Tell a worker that starts what it may do (Dask calls this)."""
    if allow_foreign:
        _ALLOWED.add(worker)


def check(worker: Worker) -> None:
    """Raises InputError unless the worker may run congestion controls from outside."""
    if worker not in _ALLOWED:
        how = "dask worker ... --preload cwndlab.execution.worker --allow-foreign"
        raise InputError(f"it was not started to run congestion controls from outside ({how})")
