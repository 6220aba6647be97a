"""The experiment that live tests run: seconds at a low rate."""

import subprocess
from collections.abc import Callable

DUMBBELL = """\
experiment: live
duration: 3s
hosts:
  a: {stack: linux, cc: cubic}
  b: {stack: linux, cc: cubic}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 100mbit}
    bottleneck: {rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 30p}}
flows:
  - {name: f1, from: a, to: b, app: bulk}
seed: 1
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs the command line in a process of its own."""
