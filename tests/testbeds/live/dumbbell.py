"""The experiment that live tests run: seconds at a low rate."""

import subprocess
from collections.abc import Callable

from experiments import dumbbell

DUMBBELL = dumbbell(
    "live",
    duration="3s",
    a="stack: linux, cc: cubic",
    access="100mbit",
    bottleneck="rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 30p}",
    more="seed: 1\n",
)

Command = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs the command line in a process of its own."""
