"""The protocol of a testbed, which the simulator, the namespaces and the real machines all follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cwndlab.contract.scenario import Scenario
from cwndlab.contract.summary import Summary

if TYPE_CHECKING:
    import pyarrow as pa  # what runs beside the traffic imports this package and has no time to lose


class Testbed(Protocol):
    """Carries out planned runs one after the other, in the process that made it."""

    @property
    def name(self) -> str:
        """The word for `--testbed` and the `testbed` column, such as `sim`."""

    def ready(self) -> None:
        """Raises InputError, with one line, if this machine lacks what every run needs: what, and how to get
        it."""

    def remarks(self) -> list[str]:
        """Remarks about a testbed that is ready, such as one about what a crash left, a line each."""

    def clean(self) -> list[str]:
        """Remove what runs left whose process is gone, and nothing else; returns the names of what it was.

        Raises InputError, one line, without the rights to.
        """

    def versions(self) -> dict[str, str]:
        """Versions of what carries the packets, by component, such as the engine with its build profile or
        the kernel.

        Results of different versions are never mixed in one directory.
        """

    def preflight(self, scenario: Scenario, cell: Mapping[str, str]) -> list[str]:
        """Return why this testbed would refuse the Scenario of a cell, a line each; empty if it would not."""

    def run(self, run_id: int, scenario: Scenario, writer: RunWriter, control: Control) -> Outcome:
        """Carry out one run and write its rows; the only call that takes long.

        Raises CancelledError soon after `control.cancelled()` became true, leaving nothing running; any other
        exception means that this run failed, and says why in one line.
        """


class RunWriter(Protocol):
    """Takes what one run records."""

    def rows(self, table: str, batch: pa.RecordBatch) -> None:
        """Append rows to a table, in the columns of `cwndlab.testbeds.tables.SCHEMAS`, in order of time.

        Raises ValueError for an unknown table or other columns, OSError when the disk does.
        """

    def capture(self, point: str, data: bytes) -> None:
        """Append bytes to the pcap file of a capture point, a host's or a link's name."""

    def attach(self, name: str, data: bytes) -> None:
        """Keep a file beside the run's tables, such as what a tool reported; `name` ends with its kind."""


@dataclass(frozen=True)
class Control:
    """Callbacks of a run to its caller."""

    cancelled: Callable[[], bool]
    """Asked every few tens of milliseconds; True: stop and raise CancelledError."""
    progress: Callable[[int], None]
    """Told how much of the run is done, in ns of the run's own time, as often as it likes."""
    waiting: Callable[[str], None] = lambda what: None
    """Told what is waited for that takes long, such as a host; an empty text: nothing any more."""
    cell: Mapping[str, str] = field(default_factory=dict)
    """The value of each swept key in this run, as text."""


@dataclass(frozen=True)
class Outcome:
    """Data that a completed run leaves besides its rows."""

    summary: Summary
    """The summary of a run as docs/architecture.md gives it."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Host facts worth keeping with the run, such as the sysctls as they were in force."""
    warnings: list[str] = field(default_factory=list)
    """Warnings to check before the run is trusted, a line each."""


class CancelledError(Exception):
    """The run was stopped on request; nothing of it counts."""
