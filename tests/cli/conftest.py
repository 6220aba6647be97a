"""Fixtures of the command line, and results that several tests look at."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import SWEEP, CommandLine, Ran
from cwndlab.cli import main


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
