"""The executors there are, and which one carries a sweep out."""

import importlib.util
import os

from cwndlab.errors import InputError
from cwndlab.execution.executor import Arrivals, Executor
from cwndlab.execution.executors.processes import Processes
from cwndlab.execution.executors.single_process import Here


def choose(arrivals: Arrivals, parts: int, jobs: int, cluster: str | None) -> Executor:
    """The executor for so many parts: a cluster, or up to `jobs` processes; one job needs no other process,
    unless congestion controls from outside run in it.

    Raises InputError for a cluster that cannot be used, CwndlabError for one that does not answer.
    """
    if cluster is not None:
        if arrivals.site.sequence is not None:
            raise InputError(f"--cluster: testbed {arrivals.site.testbed} runs on this machine only")
        return _cluster(cluster, arrivals)
    places = min(jobs, parts)
    outside = places > 0 and arrivals.site.modules
    return Processes(places, arrivals) if places > 1 or outside else Here(arrivals)


def _cluster(address: str, arrivals: Arrivals) -> Executor:
    if importlib.util.find_spec("distributed") is None:
        raise InputError("--cluster needs Dask, which is not here: pip install 'cwndlab[cluster]'")
    from cwndlab.execution.executors.cluster import Cluster  # Dask is an extra, and takes long to import

    return Cluster(address, arrivals)


def processors() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
