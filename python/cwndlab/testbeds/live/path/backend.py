"""The carrier of packets between hosts as a Scenario says, and its report of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cwndlab.contract.summary import LinkSummary

Batches = list[tuple[str, pa.RecordBatch]]


@dataclass(frozen=True)
class PathReport:
    """Report of a path about a run."""

    batches: Batches
    """Rows of `queue` and `events`, by table."""
    links: list[LinkSummary]
    """Links, as in the simulator's summary."""
    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counters of flows, by name: drops, ce_marks, wire_bytes, queue_delay. Empty where the path does not
    know flows.
    """
    health: dict[str, Any] = field(default_factory=dict)
    captures: dict[str, Path] = field(default_factory=dict)
    """pcap files by capture point."""
    attachments: dict[str, bytes] = field(default_factory=dict)
    """Files to keep beside the run's tables, by name."""

    @property
    def unreliable(self) -> str | None:
        """Reason why the metrics are not those of the path described, with the metrics. None if they are."""
        if not self.health.get("unreliable"):
            return None
        late = self.health["late"]
        metrics = (
            f"late p99 {late.get('p99_ns', 0) / 1e6:.3f} ms, max {late.get('max_ns', 0) / 1e6:.3f} ms,"
            f" {self.health['late_over_1ms']} of {late['count']} packets over 1 ms,"
            f" {self.health['socket_drops']} lost in sockets, {self.health['unintended_drops']} elsewhere"
        )
        return f"{self.health.get('reason') or 'the emulator fell behind'} ({metrics})"


class PathBackend(Protocol):
    """Between `start` and `stop` packets cross the links."""

    def start(self) -> None:
        """Let packets through; raises OSError with one line."""

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time: counters and loss rules start there."""

    def stop(self) -> PathReport:
        """End it."""
