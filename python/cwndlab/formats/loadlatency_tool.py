"""The loadlatency tool: the engine's two ends, and a run's document as a directory of results."""

import ipaddress
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cwndlab import _native
from cwndlab.errors import CwndlabError, InputError, shown
from cwndlab.formats import directory
from cwndlab.formats import loadlatency as document_format
from cwndlab.results import checksums, directories
from cwndlab.results.loadlatency import DOCUMENTS, TOOL
from cwndlab.results.resultset import ResultSet


@dataclass(frozen=True)
class Server:
    """Options of a server: the keys of the engine's `server::Options`."""

    bind: tuple[str, ...]
    port: int
    secret: str
    cc: str | None
    once: bool
    idle_timeout_s: int
    session_timeout_s: int


@dataclass(frozen=True)
class Measurement:
    """Measurement to make: the keys of the engine's `client::Options`."""

    host: str
    port: int
    secret: str
    scenarios: tuple[int, ...] | None
    duration_s: float | None
    at_most_s: float
    staircase: bool
    cc: str | None
    ip: int | None
    idle_timeout_s: int


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run."""

    document: str
    """The JSON document (docs/loadlatency.md)."""
    text: str
    """Today's metrics as text."""
    error: str | None
    """Reason why the run was cut short. None if it was not."""

    @cached_property
    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self.document))

    @property
    def interrupted(self) -> bool:
        """Whether its user ended it."""
        return bool(self._read["conditions"]["status"] == "interrupted")

    @property
    def scenarios(self) -> int:
        """Number of scenarios that were measured, the staircase among them."""
        return len(self._read["metrics"])


def scenarios(text: str | None) -> tuple[int, ...] | None:
    """Numbers from a list such as `1,3-5`; raises InputError."""
    try:
        return None if text is None else tuple(_native.loadlatency_scenarios(text))
    except ValueError as error:
        raise InputError(str(error)) from None


def serve(server: Server) -> None:
    """Serve until interrupted, or after one client if `once`, with a line on stdout for whatever happens.

    Raises InputError for wrong options, CwndlabError if an address cannot be listened on.
    """
    for address in server.bind:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise InputError(
                f"--bind: found {shown(address)}; expected an address, such as 192.0.2.1 or ::1"
            ) from None
    with _refusals():
        _native.loadlatency_serve(json.dumps(asdict(server)), lambda line: _print(f"{line}\n"))


def check_places(json_file: Path | None, out: Path | None) -> None:
    """Refuse what could not be written to, before minutes or hours are measured for it; raises InputError.

    Makes the directory `out` if it is not there.
    """
    if json_file is not None and (json_file.is_dir() or not json_file.parent.is_dir()):
        raise InputError(
            f"--json: found {shown(str(json_file))}; expected a file in a directory that is there"
        )
    if out is not None:
        directories.choose(TOOL, out)


def measure(measurement: Measurement) -> Outcome:
    """Run against a server, printing the classic output as it comes to be.

    Raises InputError for wrong options, CwndlabError if the server cannot be reached or refuses.
    """
    with _refusals():
        return Outcome(*_native.loadlatency_run(json.dumps(asdict(measurement)), _print))


def keep(outcome: Outcome, out: Path | None) -> ResultSet:
    """Write a run as a directory of results, each scenario a run of it, with the document beside them."""
    runs = document_format.runs(outcome.document, Path(DOCUMENTS))
    results = directory.write(runs, "loadlatency", out, testbed=TOOL)
    checksums.replace(results.path, {DOCUMENTS: (outcome.document + "\n").encode()})
    return results


def _print(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise the engine's ValueError for options as InputError, and its OSError as CwndlabError."""
    try:
        yield
    except ValueError as error:
        # Without the place in the JSON it was handed.
        raise InputError(str(error).partition(" at line ")[0]) from None
    except OSError as error:
        if error.errno is not None:
            raise  # of stdout, where a line was printed
        raise CwndlabError(str(error)) from None
