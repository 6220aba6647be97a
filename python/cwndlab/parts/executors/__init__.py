"""The executors there are, and which one carries a sweep out."""

import os

from cwndlab.parts.executor import Arrivals, Executor
from cwndlab.parts.executors.here import Here
from cwndlab.parts.executors.processes import Processes


def choose(jobs: int, parts: int, arrivals: Arrivals) -> Executor:
    """The executor for so many parts on up to `jobs` processes; one job needs no other process."""
    places = min(jobs, parts)
    return Processes(places, arrivals) if places > 1 else Here(arrivals)


def processors() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
