"""Runs the command line as a user does: another process, its own directory, plain text out."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cwndlab.cli import main
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
    """What a command left."""

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


@pytest.fixture
def cwndlab(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def inside(
    cwndlab: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Runs a command in this process, which is quicker where nothing is started."""
    monkeypatch.chdir(cwndlab.directory)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    def run(*arguments: str | Path) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of SMALL, run by one worker; not to be written to."""
    command = CommandLine(tmp_path_factory.mktemp("small"))
    command.file("small.yaml")
    ran = command("run", "small.yaml", "-o", "results", "--jobs", "1", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    return command.directory / "results"


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of SWEEP, run undisturbed by one worker; not to be written to."""
    command = CommandLine(tmp_path_factory.mktemp("sweep"))
    command.file("sweep.yaml", SWEEP)
    ran = command("run", "sweep.yaml", "-o", "results", "--jobs", "1", "-q", "--no-report")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    return command.directory / "results"


@pytest.fixture
def results_of() -> Callable[[Path], dict[str, bytes]]:
    """The files of a directory that are results: not the page, nor clock times and facts of the machine, nor
    the digests of those."""

    def read(directory: Path) -> dict[str, bytes]:
        return dict(_files(directory))

    return read


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        own = path.parent == directory
        if path.is_file() and path.name not in ("runs.jsonl", "report.html", "" if own else "SHA256SUMS"):
            yield str(path.relative_to(directory)), path.read_bytes()
