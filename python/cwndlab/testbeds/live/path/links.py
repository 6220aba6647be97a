"""Links of an experiment that machines make, each system by its own means, and what these count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cwndlab.contract.scenario import Link
from cwndlab.testbeds.live.lab import Reach


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
