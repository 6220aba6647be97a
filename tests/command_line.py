"""Runs the command line as a user does: another process, its own directory, plain text out."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from experiments import dumbbell
from patience import PATIENCE

SMALL = dumbbell(
    "small",
    duration="2s",
    a="stack: freebsd-9.2, cc: newreno",
    b="stack: freebsd-9.2",
    bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 30p}",
    more="""\
sweep:
  - {hosts.a.cc: [newreno, cubic]}
repeat: 5
seed: 1
record: {tcp: per-ack, queue: 10ms}
""",
)

SWEEP = dumbbell(
    "sweep",
    duration="100ms",
    a="stack: freebsd-13",
    bottleneck="rate: 100mbit, delay: 1ms, queue: {kind: pfifo, limit: 30p}",
    more="sweep:\n  - {hosts.a.cc: [newreno, cubic]}\nrepeat: 640\n",
)
"""So many runs that they make several parts of results."""


@dataclass(frozen=True)
class Ran:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs `cwndlab` in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *arguments: str | Path, **environment: str) -> Ran:
        process = self._start([], arguments, environment)
        out, err = process.communicate(timeout=PATIENCE)
        return Ran(process.returncode, out, err)

    def start(self, *arguments: str | Path, **environment: str) -> "subprocess.Popen[str]":
        """Start a command in a process group of its own.

        It yields to the test, which is to see what happens while the command runs, on a busy machine too.
        """
        return self._start(["nice", "-n", "10"], arguments, environment)

    def _start(
        self, prefix: list[str], arguments: tuple[str | Path, ...], environment: dict[str, str]
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "cwndlab", *map(str, arguments)],
            cwd=self.directory,
            env={**os.environ, "COLUMNS": "80", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def file(self, name: str, text: str = SMALL) -> Path:
        """Write a file into the directory."""
        file = self.directory / name
        file.write_text(text, encoding="utf-8")
        return file
