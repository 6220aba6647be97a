"""Links of an experiment that machines make, each system by its own means, and what these count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cwndlab.contract.scenario import Link
from cwndlab.contract.summary import LinkSummary
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.tables import SCHEMAS


@dataclass(frozen=True)
class Look:
    """Counters of a link at a time."""

    packets: int
    """Number of packets that have left."""
    bytes: int
    drops: int
    backlog_bytes: int
    """Size of the packets that wait, in bytes."""
    backlog_packets: int


class LinkMaker(Protocol):
    """Makes links of an experiment on machines of one system."""

    def check(self, link: Link) -> None:
        """Raises ValueError, one line, for a link that it cannot make."""

    def trials(self, link: Link) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands by which each queue discipline of a link can be tried before it is needed
        (`linux/trial.py`)."""

    def refusal(self, reach: Reach, interface: str) -> str | None:
        """Reason why a machine may make no link at an interface. None where it may."""

    def make(self, reach: Reach, link: Link, interface: str, number: int) -> None:
        """Make a link, the machine's `number`-th from 1, of packets that leave by an interface; raises
        OSError."""

    def watch(self, link: Link, interface: str, number: int, interval_s: float) -> list[str]:
        """The words of a command that prints the time and a link's counters again and again."""

    def looks(self, text: str) -> list[tuple[int, Look]]:
        """Read the output of the sampling: times of the machine's clock, in ns since 1970, with the link's
        counters.
        """


Row = tuple[int, str, int, int, int]
"""Time of a run in ns, link, bytes and packets that wait, drops so far."""


def row(t_ns: int, link: str, now: Look, first: Look) -> Row:
    """A row of a link's queue at a time of the run, of the counters then and at its beginning."""
    return t_ns, link, now.backlog_bytes, now.backlog_packets, max(0, now.drops - first.drops)


def queue_rows(run_id: int, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows of the table `queue`, in order of time."""
    columns = list(zip(*sorted(rows), strict=True)) or [()] * 5
    arrays = [
        pa.array([run_id] * len(rows), pa.uint32()),
        pa.array(columns[0], pa.uint64()),
        pa.array(columns[1], pa.utf8()).dictionary_encode(),
        pa.array(columns[2], pa.uint64()),
        pa.array(columns[3], pa.uint32()),
        pa.array(columns[4], pa.uint64()),
        pa.nulls(len(rows), pa.uint64()),
    ]
    return pa.record_batch(arrays, names=SCHEMAS["queue"].names)


def grown(link: str, first: Look, last: Look) -> LinkSummary:
    """The summary of a link, of its counters at the beginning and at the end of a run."""
    return {
        "link": link,
        "packets": last.packets - first.packets,
        "bytes": last.bytes - first.bytes,
        "drops": last.drops - first.drops,
        "ce_marks": None,
        "busy_ns": None,
    }
